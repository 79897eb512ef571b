//! What moves a request along: admitted, held, dispatched, landed; and everybody held, when the
//! plan changes.

use weir_api::Plan;
use weir_api::metrics::Metric;

use super::{End, Engine, Request, State, StreamId};
use crate::config::OnStale;
use crate::gate::VariantId;
use crate::plan::Source;
use crate::queue::{Place, Queue};
use crate::route::{NoRoute, Wish};
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::verdict::{Dispatch, Reason, Refusal, Verdict};

impl Engine {
    pub(super) fn admit(&mut self, stream: StreamId, mut request: Request, now: Now) -> Verdict {
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

    pub(super) fn dispatch(&mut self, stream: StreamId, mut request: Request, now: Now) -> Verdict {
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

    pub(super) fn land(
        &mut self,
        stream: StreamId,
        request: &Request,
        sent: Mono,
        end: End,
        now: Now,
    ) {
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

    pub(super) fn release_variant(
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

    pub(super) fn put_in_force(
        &mut self,
        plan: &Plan,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
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

    pub(super) fn retire_stale_plan(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        if self.config.on_stale != OnStale::Static || !self.source.is_stale(now.mono) {
            return;
        }
        if let Some(plan) = self.config.static_plan.clone() {
            self.source = Source::Static;
            self.put_in_force(&plan, now, verdicts);
        }
    }

    pub(super) fn fall_back_to_static(&mut self) {
        if let Some(plan) = &self.config.static_plan {
            self.variants.adopt(plan, self.part);
            self.source = Source::Static;
        }
    }

    pub(super) fn queue_of(&mut self, id: VariantId) -> Option<&mut Queue> {
        self.variants
            .get_mut(id)
            .map(|variant| &mut variant.gate.queue)
    }

    pub(super) fn leave_queue(&mut self, request: &Request, arrival: u64) {
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

    pub(super) fn forget_held(&mut self, stream: StreamId) -> Option<Request> {
        self.count_out();
        self.requests.remove(&stream)
    }

    pub(super) fn count_out(&mut self) {
        self.held = self.held.saturating_sub(1);
        self.stats.by(Metric::Held, Label::None, -1);
    }

    pub(super) fn refuse(&mut self, reason: Reason) -> Verdict {
        self.stats.count(Metric::Refused, Label::Reason(reason));
        Verdict::Reject(Refusal::from(reason))
    }
}
