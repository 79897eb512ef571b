//! Changes of the plan in force, and their effect on waiting requests.

use std::collections::BTreeSet;

use weir_api::Plan;
use weir_api::metrics::Metric;

use super::variants::RoutingState;
use super::{Engine, State, StreamId};
use crate::config::OnStale;
use crate::plan::PlanSource;
use crate::stats::Label;
use crate::time::{Mono, Now, Span};
use crate::variant::VariantId;
use crate::verdict::Verdict;
use crate::waiting::queue::Place;
use crate::waiting::wait_queue::{SchedulerState, WaitQueue};

impl Engine {
    /// Handles an answer of the planner without slots for this proxy: all requests are refused until a plan
    /// gives some.
    pub fn on_no_slots(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        self.variants.withdraw_slots();
        self.reroute_waiting(now, verdicts);
    }

    /// Replaces the plan in force by a planner's plan, received at `received`.
    pub fn on_plan(
        &mut self,
        plan: &Plan,
        received: Mono,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        self.source = PlanSource::planner(plan, received);
        self.stats.count(Metric::PlansAccepted, Label::None);
        self.stats
            .set(Metric::PlanRevision, Label::None, plan.revision.0);
        if plan.published_ms > 0 {
            let visible = now.wall.as_ms().saturating_sub(plan.published_ms);
            self.stats
                .time(Metric::PlanDelayMs, Label::None, Span::from_millis(visible));
        }
        self.apply_plan(plan, now, verdicts);
    }

    /// Applies a plan. Waiting requests are routed again only if shares, slots or accuracies change.
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
        if self.config.correct {
            self.variants.observe_priors(plan);
        }
        self.downstream = Span::from_millis_f64(plan.downstream_ms);
    }

    /// Variants that requests refer to, held, in flight, chosen by a router or listed. Empty unless the plan adds a
    /// variant that needs an id.
    fn referred(&self, plan: &Plan) -> BTreeSet<VariantId> {
        let mut planned = plan.variants.iter();
        if planned.all(|planned| self.variants.named(&planned.name).is_some()) {
            return BTreeSet::new();
        }
        let requests = self.requests.values();
        let routed = requests.clone().filter_map(|request| request.routed_to);
        let listed = requests.clone();
        let listed = listed.flat_map(|request| request.list().variants());
        requests
            .map(|request| request.variant)
            .chain(routed)
            .chain(listed)
            .collect()
    }

    /// Routes waiting requests again, earliest deadline first. A request that stays keeps its place, and one
    /// that moves takes its class's scheduling state along: a waiting class gets its share however often
    /// plans come.
    pub(super) fn reroute_waiting(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        let queues = self.variants.iter().map(|variant| &variant.slots.queue);
        let scheduler_states: Vec<SchedulerState> =
            queues.map(WaitQueue::scheduler_state).collect();
        for stream in self.held_by_deadline() {
            let Some(mut request) = self.requests.get(&stream).cloned() else {
                continue;
            };
            let from = request.variant;
            let choice = self.choose(&mut request, false, now);
            if let Some(known) = self.requests.get_mut(&stream) {
                known.list.clone_from(&request.list);
            }
            match choice {
                Ok(to) if to == from => {}
                Ok(to) => {
                    self.leave_queue(stream, &request);
                    request.variant = to;
                    self.enter_queue(stream, &request, scheduler_states.get(usize::from(from.0)));
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
