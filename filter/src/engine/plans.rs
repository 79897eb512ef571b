//! The plan in force: taken over, given up, and what that means for those who are held.

use std::time::Duration;

use weir_api::Plan;
use weir_api::metrics::Metric;

use super::{Engine, StreamId};
use crate::config::OnStale;
use crate::plan::Source;
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::verdict::Verdict;

impl Engine {
    /// The planner gives this proxy no slot: until a plan says otherwise everything is refused.
    pub fn on_no_part(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        self.variants.close();
        self.route_anew(now, verdicts);
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

    /// Takes over a plan: who is held is routed anew, then the slots are.
    pub(super) fn put_in_force(
        &mut self,
        plan: &Plan,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        self.follow(plan);
        self.route_anew(now, verdicts);
    }

    fn follow(&mut self, plan: &Plan) {
        self.variants.adopt(plan);
        self.rest = Duration::from_secs_f64(plan.rest_ms / 1e3);
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
                Err(reason) => verdicts.push((stream, self.turn_away(&request, reason))),
            }
        }
        self.hand_over_all(now, verdicts);
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
        if let Some(plan) = self.config.static_plan.clone() {
            self.follow(&plan);
            self.source = Source::Static;
        }
    }
}
