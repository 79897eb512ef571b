//! Ties the path together: what the shell tells of a stream goes in, verdicts come out.
//!
//! A request is held or in flight until it ends, and every end is told exactly once. Slots are
//! claimed on the [`board`](crate::board), which all workers of the proxy share: whoever frees one that
//! another worker's request should have rings that worker, whose shell then asks for
//! [`Engine::release`].

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use weir_api::Plan;
use weir_api::metrics::Metric;

use crate::board::{Member, Standing, Store};
use crate::config::Config;
use crate::deadline::{self, Deadline, Field, Wire};
use crate::gate::VariantId;
use crate::plan::{Rule, Source};
use crate::queue::Place;
use crate::route::Router;
use crate::stats::{Label, Stats};
use crate::time::{Mono, Now};
use crate::verdict::{Reason, Verdict};

mod claim;
mod flow;
mod gauge;
mod variants;

pub use gauge::Gauge;
use variants::Variants;

/// How long a lost ring can go unnoticed: a worker that holds requests looks at the board this often.
pub const LOOK: Duration = Duration::from_millis(10);

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
    member: Member,
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
    /// Counts arrivals, so that equal deadlines keep their order.
    arrival: u64,
    variant: VariantId,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Held,
    InFlight { sent: Mono },
}

impl Request {
    /// Its place in its variant's queue.
    fn place(&self) -> Place {
        Place {
            deadline: self.deadline.at,
            arrival: self.arrival,
        }
    }
}

impl Engine {
    /// An engine that goes by the configuration's static plan, if there is one. It meets the proxy's
    /// other workers in `store` as `incarnation`, which no other VM's start has.
    #[must_use]
    pub fn new(config: Config, store: Box<dyn Store>, incarnation: u64) -> Engine {
        let mut engine = Engine {
            source: Source::None,
            variants: Variants::default(),
            member: Member::new(store, incarnation, config.scope),
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
            arrival: self.arrivals,
            state: State::Held,
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

    /// A stream has ended; whoever waits here for what it leaves goes next. Told twice, the second
    /// time counts for nothing.
    pub fn on_end(
        &mut self,
        stream: StreamId,
        end: End,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let Some(request) = self.requests.remove(&stream) else {
            return;
        };
        match request.state {
            State::Held => {
                self.leave_queue(&request);
                self.stats.count(Metric::Gone, Label::None);
            }
            State::InFlight { sent } => self.land(stream, &request, sent, end, now),
        }
        self.hand_over(request.variant, false, now, verdicts);
    }

    /// Time has passed, or this worker was rung: verdicts for those that were held.
    pub fn release(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        self.retire_stale_plan(now, verdicts);
        for index in 0..self.variants.len() {
            self.hand_over(VariantId(index), true, now, verdicts);
        }
    }

    /// When [`Engine::release`] should be asked at the latest; `None`: there is nothing to wait for.
    #[must_use]
    pub fn next_wake(&self, now: Mono) -> Option<Mono> {
        let variants = self.variants.iter();
        let wakes = variants.filter_map(|variant| variant.next_wake(now));
        wakes.min()
    }

    /// The planner gives this proxy no slot: until a plan says otherwise everything is refused.
    pub fn on_no_part(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        self.variants.close();
        self.route_anew(now, verdicts);
    }

    /// Renews the lease on the board; `polls`: this VM can poll the planner. `None` where the board is
    /// full or contended.
    pub fn renew(&mut self, polls: bool, now: Mono) -> Option<Standing> {
        self.member.hold(self.held);
        let (standing, outcome) = self.member.renew(polls, now);
        self.count(&outcome);
        if let Some(standing) = &standing {
            self.gauge(standing, now);
        }
        standing
    }

    /// Renews the lease as one that has had requests.
    pub fn serve(&mut self, now: Mono) {
        self.member.serve();
        self.renew(false, now);
    }

    /// Rings the proxy's other VMs: there is something new for all.
    pub fn ring_others(&mut self, now: Mono) {
        self.member.ring_others(now);
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
        self.stats
            .set(Metric::PlanRevision, Label::None, plan.revision.0);
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
}

#[cfg(test)]
mod tests;
