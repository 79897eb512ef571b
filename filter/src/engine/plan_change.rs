//! The plan in force: taken over, given up, and what that means for those who are held.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_api::Plan;
use weir_api::metrics::Metric;

use super::variants::RoutingState;
use super::{Engine, State, StreamId};
use crate::config::OnStale;
use crate::plan::PlanSource;
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::variant::VariantId;
use crate::verdict::Verdict;
use crate::waiting::queue::Place;
use crate::waiting::wait_queue::{SchedulerState, WaitQueue};

impl Engine {
    /// The planner gives this proxy no slot: until a plan says otherwise everything is refused.
    pub fn on_no_slots(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        self.variants.withdraw_slots();
        self.reroute_waiting(now, verdicts);
    }

    /// A planner's plan, received at `received`, replaces the one in force.
    pub fn on_plan(
        &mut self,
        plan: &Plan,
        received: Mono,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        self.source = PlanSource::planner(plan, received);
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
        self.apply_plan(plan, now, verdicts);
    }

    /// Takes over a plan. Where it changes what variants are for, those who are held are routed anew; most
    /// plans change less.
    pub(super) fn apply_plan(
        &mut self,
        plan: &Plan,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let before: Vec<RoutingState> = self.variants.routing_states().collect();
        self.adopt_plan(plan);
        if self.variants.routing_states().eq(before) {
            self.dispatch_all(now, verdicts);
        } else {
            self.reroute_waiting(now, verdicts);
        }
    }

    fn adopt_plan(&mut self, plan: &Plan) {
        let referred = self.referred(plan);
        self.variants.adopt(plan, |id| referred.contains(&id));
        self.downstream = Duration::from_secs_f64(plan.rest_ms / 1e3);
    }

    /// The variants that requests refer to, held or in flight or named by a router, where the plan brings any
    /// that needs a number.
    fn referred(&self, plan: &Plan) -> BTreeSet<VariantId> {
        let mut planned = plan.variants.iter();
        if planned.all(|planned| self.variants.named(&planned.name).is_some()) {
            return BTreeSet::new();
        }
        let requests = self.requests.values();
        let named = requests.clone().filter_map(|request| request.named);
        requests
            .map(|request| request.variant)
            .chain(named)
            .collect()
    }

    /// Routes who is held by the variants as they are now, the earliest deadline first. RefusalContext stays where it
    /// was keeps its turn there, and whoever moves takes its class's with it: however often plans come, a
    /// class that waits gets its share.
    pub(super) fn reroute_waiting(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        let queues = self.variants.iter().map(|variant| &variant.slots.queue);
        let turns: Vec<SchedulerState> = queues.map(WaitQueue::scheduler_state).collect();
        for stream in self.held_by_deadline() {
            let Some(mut request) = self.requests.get(&stream).copied() else {
                continue;
            };
            let from = request.variant;
            match self.choose(&request, false, now) {
                Ok(to) if to == from => {}
                Ok(to) => {
                    self.leave_queue(&request);
                    request.variant = to;
                    self.enter_queue(stream, &request, turns.get(usize::from(from.0)));
                    self.held.enter(request.class);
                    self.requests.insert(stream, request);
                }
                Err(reason) => verdicts.push((stream, self.refuse_held(stream, reason, now.mono))),
            }
        }
        self.variants.reset_batch_windows();
        self.dispatch_all(now, verdicts);
    }

    fn held_by_deadline(&self) -> Vec<StreamId> {
        let held = self.requests.iter();
        let held = held.filter(|(_, request)| matches!(request.state, State::Held));
        let mut held: Vec<(Place, StreamId)> = held
            .map(|(stream, request)| (request.place(), *stream))
            .collect();
        held.sort_unstable();
        held.into_iter().map(|(_, stream)| stream).collect()
    }

    pub(super) fn retire_stale_plan(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        if self.config.on_stale != OnStale::Static || !self.source.is_stale(now.mono) {
            return;
        }
        if let Some(plan) = self.config.static_plan.clone() {
            self.source = PlanSource::Static;
            self.apply_plan(&plan, now, verdicts);
        }
    }

    pub(super) fn fall_back_to_static(&mut self) {
        if let Some(plan) = self.config.static_plan.clone() {
            self.adopt_plan(&plan);
            self.source = PlanSource::Static;
        }
    }
}
