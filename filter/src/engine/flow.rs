//! What moves a request along: admitted, held, dispatched, landed; and everybody held, when the
//! plan changes.

use weir_api::Plan;
use weir_api::metrics::Metric;

use super::{End, Engine, Request, State, StreamId};
use crate::config::OnStale;
use crate::gate::VariantId;
use crate::plan::Source;
use crate::queue::Queue;
use crate::route::{NoRoute, Wish};
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::verdict::{Dispatch, Reason, Refusal, Verdict};

impl Engine {
    /// Routes a request and sends it upstream, or holds it where no slot is its to take.
    pub(super) fn admit(&mut self, stream: StreamId, mut request: Request, now: Now) -> Verdict {
        request.variant = match self.choose(&request, now) {
            Ok(variant) => variant,
            Err(reason) => return self.refuse(reason),
        };
        let place = request.place();
        if self.claim(&request, place, now.mono) {
            return self.dispatch(stream, request, now);
        }
        if self.held >= self.config.held_max {
            let variant = self.variants.get(request.variant);
            if variant.is_some_and(|known| known.gate.posted_head == Some(place.deadline)) {
                // What the board was told of it is not so.
                self.settle(request.variant, None, 0, false, now.mono);
            }
            return self.refuse(Reason::QueueFull);
        }
        self.park(stream, request);
        Verdict::Park
    }

    fn choose(&mut self, request: &Request, now: Now) -> Result<VariantId, Reason> {
        let wish = Wish {
            left: request.deadline.at.since(now.mono),
            min_accuracy: request.min_accuracy,
        };
        match self.router.choose(self.variants.candidates(), wish) {
            Ok(index) => Ok(VariantId(index as u16)),
            Err(NoRoute::NoCapacity) => Err(Reason::NoCapacity),
            Err(NoRoute::Infeasible) => Err(Reason::Infeasible),
        }
    }

    fn park(&mut self, stream: StreamId, request: Request) {
        if let Some(queue) = self.queue_of(request.variant) {
            queue.push(request.place(), stream);
        }
        self.held += 1;
        self.requests.insert(stream, request);
    }

    pub(super) fn dispatch(&mut self, stream: StreamId, mut request: Request, now: Now) -> Verdict {
        let label = Label::Variant(request.variant);
        let Some(variant) = self.variants.get_mut(request.variant) else {
            return self.refuse(Reason::NoCapacity);
        };
        variant.gate.take(now.mono + variant.service);
        let (name, cluster) = (variant.name.clone(), variant.cluster.clone());
        let remaining = request.deadline.at.since(now.mono);
        self.stats.count(Metric::Dispatched, label);
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
                End::TimedOut | End::Gone if variant.cancels => variant.gate.give_back(),
                End::TimedOut | End::Gone => {
                    let predicted = sent + variant.service;
                    variant.gate.abandon(now.mono, predicted, u64::from(stream));
                }
            }
        }
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

    /// Takes over a plan: who is held is routed anew, then the slots are.
    pub(super) fn put_in_force(
        &mut self,
        plan: &Plan,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        self.variants.adopt(plan);
        self.route_anew(now, verdicts);
    }

    /// Routes who is held by the variants as they are now.
    pub(super) fn route_anew(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        for stream in self.variants.take_waiting() {
            let Some(mut request) = self.forget_held(stream) else {
                continue;
            };
            match self.choose(&request, now) {
                Ok(variant) => {
                    request.variant = variant;
                    self.park(stream, request);
                }
                Err(reason) => verdicts.push((stream, self.refuse(reason))),
            }
        }
        for index in 0..self.variants.len() {
            self.hand_over(VariantId(index), true, now, verdicts);
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
            self.variants.adopt(plan);
            self.source = Source::Static;
        }
    }

    pub(super) fn queue_of(&mut self, id: VariantId) -> Option<&mut Queue> {
        self.variants
            .get_mut(id)
            .map(|variant| &mut variant.gate.queue)
    }

    pub(super) fn leave_queue(&mut self, request: &Request) {
        let place = request.place();
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
    }

    pub(super) fn refuse(&mut self, reason: Reason) -> Verdict {
        self.stats.count(Metric::Refused, Label::Reason(reason));
        Verdict::Reject(Refusal::from(reason))
    }
}
