//! Ties the path together: what the shell tells of a stream goes in, verdicts come out.
//!
//! A request is held or in flight until it ends, and every end is told exactly once. Freed slots
//! are not handed over by themselves: the shell asks for [`Engine::release`] when
//! [`Engine::can_release`] says that somebody could go.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use weir_api::Plan;
use weir_api::metrics::Metric;

use crate::config::{Config, OnStale};
use crate::deadline::{self, Deadline, Field, Wire};
use crate::gate::VariantId;
use crate::members::Part;
use crate::plan::{Rule, Source};
use crate::queue::Place;
use crate::route::{NoRoute, Router, Wish};
use crate::stats::{Label, Stats};
use crate::time::{Mono, Now};
use crate::verdict::{Dispatch, Reason, Refusal, Verdict};

mod variants;

use variants::Variants;

/// A stream, by the number its VM gave it.
pub type StreamId = u32;

/// How a request that was sent upstream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Upstream answered, whatever the status.
    Answered,
    /// It never reached a server, or the server broke off: nothing is being executed.
    Failed,
    /// Its time was up before upstream answered: the server goes on.
    TimedOut,
    /// The client left: the server goes on.
    Gone,
}

/// What an answer from upstream is tagged with.
#[derive(Debug, Clone, PartialEq)]
pub struct Tags {
    /// The variant that answered (`x-slo-variant`).
    pub variant: Rc<str>,
    /// Time left (`x-slo-remaining-ms`).
    pub remaining: Duration,
    /// Time held (`server-timing: queue;dur=…`).
    pub waited: Duration,
}

/// The filter's state in one VM.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    source: Source,
    variants: Variants,
    part: Part,
    router: Router,
    requests: HashMap<StreamId, Request>,
    held: usize,
    arrivals: u64,
    /// What happened since the shell last looked.
    pub stats: Stats,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    deadline: Deadline,
    arrived: Mono,
    min_accuracy: f64,
    grpc: bool,
    variant: VariantId,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Held { arrival: u64 },
    InFlight { sent: Mono },
}

impl Engine {
    /// An engine that goes by the configuration's static plan, if there is one.
    #[must_use]
    pub fn new(config: Config) -> Engine {
        let mut engine = Engine {
            source: Source::None,
            variants: Variants::default(),
            part: Part::WHOLE,
            router: Router::default(),
            requests: HashMap::new(),
            held: 0,
            arrivals: 0,
            stats: Stats::default(),
            config,
        };
        engine.fall_back_to_static();
        engine
    }

    /// What it was configured with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where the plan in force came from.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// The public name of a variant.
    #[must_use]
    pub fn variant_name(&self, variant: VariantId) -> Option<Rc<str>> {
        self.variants.get(variant).map(|known| known.name.clone())
    }

    /// A request has arrived.
    pub fn on_request(&mut self, stream: StreamId, wire: &Wire<'_>, now: Now) -> Verdict {
        self.arrivals += 1;
        self.stats.count(Metric::Arrivals, Label::None);
        match self.source.rule(self.config.on_stale, now.mono) {
            Rule::Pass => return Verdict::Pass,
            Rule::Refuse => return self.refuse(Reason::NoPlan),
            Rule::Plan => {}
        }
        let reading = deadline::read(&self.config.deadline, wire, now);
        for field in reading.disbelieved.iter() {
            self.stats.count(Metric::Disbelieved, Label::Header(field));
        }
        let Ok(deadline) = reading.deadline else {
            return self.refuse(Reason::Expired);
        };
        let min_accuracy = wire.min_accuracy().unwrap_or_else(|| {
            self.stats
                .count(Metric::Disbelieved, Label::Header(Field::MinAccuracy));
            0.0
        });
        let grpc = wire.get(Field::GrpcTimeout).is_some();
        let request = Request {
            deadline,
            arrived: now.mono,
            min_accuracy,
            grpc,
            variant: VariantId(0),
            state: State::Held {
                arrival: self.arrivals,
            },
        };
        self.admit(stream, request, now)
    }

    /// The answer's headers have come from upstream: what to tag them with.
    #[must_use]
    pub fn on_answer(&self, stream: StreamId, now: Now) -> Option<Tags> {
        let request = self.requests.get(&stream)?;
        let State::InFlight { sent } = request.state else {
            return None;
        };
        Some(Tags {
            variant: self.variant_name(request.variant)?,
            remaining: request.deadline.client_at.since(now.mono),
            waited: sent.since(request.arrived),
        })
    }

    /// A stream has ended. Told twice, the second time counts for nothing.
    pub fn on_end(&mut self, stream: StreamId, end: End, now: Now) {
        let Some(request) = self.requests.remove(&stream) else {
            return;
        };
        match request.state {
            State::Held { arrival } => {
                self.leave_queue(&request, arrival);
                self.stats.count(Metric::Gone, Label::None);
            }
            State::InFlight { sent } => self.land(stream, &request, sent, end, now),
        }
    }

    /// Whether [`Engine::release`] would have something to say.
    #[must_use]
    pub fn can_release(&self) -> bool {
        self.variants
            .iter()
            .any(|variant| variant.gate.can_hand_over())
    }

    /// Time has passed, or slots are free: verdicts for those that were held.
    pub fn release(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        self.retire_stale_plan(now, verdicts);
        for index in 0..self.variants.len() {
            self.release_variant(VariantId(index), now, verdicts);
        }
    }

    /// When [`Engine::release`] should be asked at the latest, while anybody is held.
    #[must_use]
    pub fn next_wake(&self) -> Option<Mono> {
        self.variants
            .iter()
            .filter_map(|variant| variant.gate.next_wake())
            .min()
    }

    /// A planner's plan, received at `received`, replaces the one in force: who is held is
    /// routed anew.
    pub fn on_plan(
        &mut self,
        plan: &Plan,
        received: Mono,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        self.source = Source::planner(plan, received);
        self.stats.count(Metric::PlanAccepted, Label::None);
        self.stats.set(Metric::PlanRevision, plan.revision.0);
        if plan.published_ms > 0 {
            let visible = now.wall.as_ms().saturating_sub(plan.published_ms);
            self.stats.time(
                Metric::PlanVisibleMs,
                Label::None,
                Duration::from_millis(visible),
            );
        }
        self.put_in_force(plan, now, verdicts);
    }

    /// The workers have come to another division of the slots.
    pub fn set_part(&mut self, part: Part) {
        if self.part != part {
            self.part = part;
            self.variants.divide(part);
        }
    }

    fn admit(&mut self, stream: StreamId, mut request: Request, now: Now) -> Verdict {
        let wish = Wish {
            left: request.deadline.at.since(now.mono),
            min_accuracy: request.min_accuracy,
        };
        let index = match self.router.choose(self.variants.candidates(), wish) {
            Ok(index) => index,
            Err(NoRoute::NoCapacity) => return self.refuse(Reason::NoCapacity),
            Err(NoRoute::Infeasible) => return self.refuse(Reason::Infeasible),
        };
        request.variant = VariantId(index as u16);
        let Some(variant) = self.variants.get_mut(request.variant) else {
            return self.refuse(Reason::NoCapacity);
        };
        variant.gate.lay_ghosts(now.mono);
        if variant.gate.is_open() {
            return self.dispatch(stream, request, now);
        }
        if self.held >= self.config.held_max {
            return self.refuse(Reason::QueueFull);
        }
        let State::Held { arrival } = request.state else {
            return Verdict::Park;
        };
        variant.gate.queue.push(
            Place {
                deadline: request.deadline.at,
                arrival,
            },
            stream,
        );
        self.held += 1;
        self.stats.by(Metric::Held, Label::None, 1);
        self.requests.insert(stream, request);
        Verdict::Park
    }

    fn dispatch(&mut self, stream: StreamId, mut request: Request, now: Now) -> Verdict {
        let label = Label::Variant(request.variant);
        let Some(variant) = self.variants.get_mut(request.variant) else {
            return self.refuse(Reason::NoCapacity);
        };
        variant.gate.take();
        let (name, cluster) = (variant.name.clone(), variant.cluster.clone());
        let remaining = request.deadline.at.since(now.mono);
        self.stats.count(Metric::Dispatched, label);
        self.stats.by(Metric::InFlight, label, 1);
        self.stats
            .time(Metric::WaitMs, Label::None, now.mono.since(request.arrived));
        self.stats.time(Metric::SlackMs, Label::None, remaining);
        request.state = State::InFlight { sent: now.mono };
        self.requests.insert(stream, request);
        Verdict::Forward(Dispatch {
            variant: request.variant,
            name,
            cluster,
            remaining,
            timeout: request.deadline.client_at.since(now.mono),
            deadline: request.deadline.client_wall,
            grpc: request.grpc,
        })
    }

    fn land(&mut self, stream: StreamId, request: &Request, sent: Mono, end: End, now: Now) {
        let label = Label::Variant(request.variant);
        if let Some(variant) = self.variants.get_mut(request.variant) {
            match end {
                End::Answered | End::Failed => variant.gate.give_back(),
                End::TimedOut | End::Gone => {
                    let predicted = sent + variant.service;
                    variant.gate.abandon(now.mono, predicted, u64::from(stream));
                }
            }
        }
        self.stats.by(Metric::InFlight, label, -1);
        match end {
            End::Answered => {
                self.stats.count(Metric::Served, label);
                self.stats
                    .time(Metric::ServiceMs, label, now.mono.since(sent));
                if now.mono > request.deadline.client_at {
                    self.stats.count(Metric::Late, label);
                }
            }
            End::Failed => self
                .stats
                .count(Metric::Refused, Label::Reason(Reason::NoBackend)),
            End::TimedOut => self
                .stats
                .count(Metric::Refused, Label::Reason(Reason::Expired)),
            End::Gone => self.stats.count(Metric::Gone, Label::None),
        }
    }

    fn release_variant(
        &mut self,
        id: VariantId,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        if let Some(variant) = self.variants.get_mut(id) {
            variant.gate.lay_ghosts(now.mono);
        }
        while let Some((_, stream)) = self.queue_of(id).and_then(|queue| queue.expire(now.mono)) {
            self.forget_held(stream);
            verdicts.push((stream, self.refuse(Reason::Expired)));
        }
        while let Some(variant) = self.variants.get_mut(id) {
            if !variant.gate.can_hand_over() {
                break;
            }
            let Some((place, stream)) = variant.gate.queue.pop() else {
                break;
            };
            let in_time = now.mono + variant.service <= place.deadline;
            let Some(request) = self.forget_held(stream) else {
                continue;
            };
            let verdict = if in_time {
                self.dispatch(stream, request, now)
            } else {
                self.refuse(Reason::Infeasible)
            };
            verdicts.push((stream, verdict));
        }
    }

    fn put_in_force(&mut self, plan: &Plan, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        let waiting = self.variants.take_waiting();
        self.variants.adopt(plan, self.part);
        for stream in waiting {
            let Some(request) = self.forget_held(stream) else {
                continue;
            };
            let verdict = self.admit(stream, request, now);
            if verdict != Verdict::Park {
                verdicts.push((stream, verdict));
            }
        }
    }

    fn retire_stale_plan(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        if self.config.on_stale != OnStale::Static || !self.source.is_stale(now.mono) {
            return;
        }
        if let Some(plan) = self.config.static_plan.clone() {
            self.source = Source::Static;
            self.put_in_force(&plan, now, verdicts);
        }
    }

    fn fall_back_to_static(&mut self) {
        if let Some(plan) = &self.config.static_plan {
            self.variants.adopt(plan, self.part);
            self.source = Source::Static;
        }
    }

    fn queue_of(&mut self, id: VariantId) -> Option<&mut crate::queue::Queue> {
        self.variants
            .get_mut(id)
            .map(|variant| &mut variant.gate.queue)
    }

    fn leave_queue(&mut self, request: &Request, arrival: u64) {
        let place = Place {
            deadline: request.deadline.at,
            arrival,
        };
        let was_there = self
            .queue_of(request.variant)
            .is_some_and(|queue| queue.cancel(place));
        debug_assert!(was_there, "a held request that no queue knows");
        self.count_out();
    }

    fn forget_held(&mut self, stream: StreamId) -> Option<Request> {
        self.count_out();
        self.requests.remove(&stream)
    }

    fn count_out(&mut self) {
        self.held = self.held.saturating_sub(1);
        self.stats.by(Metric::Held, Label::None, -1);
    }

    fn refuse(&mut self, reason: Reason) -> Verdict {
        self.stats.count(Metric::Refused, Label::Reason(reason));
        Verdict::Reject(Refusal::from(reason))
    }
}

#[cfg(test)]
mod tests;
