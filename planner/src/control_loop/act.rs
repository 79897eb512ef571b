//! Second half of a cycle: resizes and plans in the steps of the [`Transition`].

use std::time::Duration;

use weir_api::{Revision, Share, VariantPlan};

use super::{Planner, Ports};
use crate::backends::{Actuate, Blocker};
use crate::capacity::{Allocation, Resize, Target};
use crate::clock::Now;
use crate::distribution::Publish;
use crate::forecast::Forecast;
use crate::plan::{Conditions, Draft, capacities, drafts_under};
use crate::rollout::carried_part;
use crate::rollout::{SERVES_AT_ALL, STEPS_MAX, Shapes, Step, Transition};
use crate::service::{Inputs, Stage, Variant};

/// Longest wait before a shrink for the proxies to adopt the plan without the removed capacity. Every worker has a
/// plan within 100 ms.
pub const TAKE_OVER_MAX: Duration = Duration::from_millis(100);
/// Longest further wait before a shrink for executions on the cores to be removed. Longer executions may be slowed
/// down.
pub const DRAIN_MAX: Duration = Duration::from_millis(250);
/// Result of the second half of a cycle.
#[derive(Debug, Default)]
pub(super) struct Acted {
    pub(super) revision: Option<Revision>,
    pub(super) plan: Vec<VariantPlan>,
    pub(super) published: u32,
    pub(super) rejected: u32,
    pub(super) confirmed: u32,
    pub(super) failed: u32,
    pub(super) actuate: Duration,
    pub(super) publish: Duration,
    pub(super) confirm: Duration,
}

/// Time within a cycle.
struct Timing<'a> {
    stopwatch: &'a (dyn Fn() -> Duration + Sync),
    begin: Duration,
    now: Now,
    /// Time at which the first plan had been published.
    first_out: Option<Duration>,
}

/// Longest execution of the variants that shrink, up to [`DRAIN_MAX`].
fn longest_of(plan: &[VariantPlan], changes: &[Resize]) -> Duration {
    let shrinking = changes.iter().filter(|change| change.shrinks());
    longest(plan, shrinking.map(|change| change.variant))
}

/// Longest execution of these variants, up to [`DRAIN_MAX`].
pub(super) fn longest(plan: &[VariantPlan], variants: impl Iterator<Item = usize>) -> Duration {
    let each = variants.filter_map(|variant| Some(plan.get(variant)?.service_ms));
    let longest_s = each.fold(0.0, f64::max) / 1e3;
    Duration::from_secs_f64(longest_s.clamp(0.0, DRAIN_MAX.as_secs_f64()))
}

/// Allocations allowed for a variant.
fn shapes(variant: &Variant) -> Shapes {
    Shapes {
        replicas: (variant.replicas.min, variant.replicas.max),
        each: (variant.min, variant.max),
        step: variant.step,
    }
}

impl Timing<'_> {
    fn elapsed(&self) -> Duration {
        (self.stopwatch)().saturating_sub(self.begin)
    }
}

impl Planner {
    /// Moves the actual state towards `targets` as far as possible, and publishes plans on the way.
    pub(super) async fn act<O, A, P, S>(
        &mut self,
        ports: &Ports<'_, O, A, P, S>,
        targets: &[Target],
        inputs: Option<Inputs>,
        now: Now,
    ) -> Acted
    where
        A: Actuate,
        P: Publish,
    {
        let mut acted = Acted::default();
        let mut timing = Timing {
            stopwatch: ports.stopwatch,
            begin: (ports.stopwatch)(),
            now,
            first_out: None,
        };
        let budget = self.service.budget_cores();
        let desired = targets;
        let mut detour = std::mem::take(&mut self.rollout.detour);
        let arriving = inputs.map_or(0.0, |inputs| self.arriving(inputs.forecast));
        let carried = |allocations: &[Allocation]| self.carried(allocations, inputs);
        let by = detour.next(&self.rollout.actual, desired, (&carried, arriving));
        let (targets, min) = by.unwrap_or((desired.to_vec(), f64::INFINITY));
        let targets = self
            .rollout
            .under_way
            .keep(&self.rollout.actual, &targets, budget);
        self.tell_batches(ports.actuate, &targets, inputs).await;
        let transition =
            Transition::new(&self.rollout.actual, &targets, budget, &self.service.limits);
        let transition = transition.after(&self.rollout.out).down_to(min);
        let mut transition = transition.serving(arriving);
        self.go(ports, &mut transition, inputs, &mut timing, &mut acted)
            .await;
        self.rollout.actual = transition.actual();
        let shapes: Vec<Shapes> = self.service.variants.iter().map(shapes).collect();
        let carried = |allocations: &[Allocation]| self.carried(allocations, inputs);
        // While the load rises, capacity becomes free step by step. A detour carries less just as more requests arrive.
        let rises = inputs.is_some_and(|inputs| inputs.forecast.rises);
        let can_wait = rises && carried(&self.rollout.ready()) >= arriving;
        if !can_wait {
            detour.see(&transition, desired, &shapes, &carried);
        }
        self.rollout.detour = detour;
        self.blocked(&transition);
        self.replace(
            ports,
            inputs,
            timing.now.after(timing.elapsed()),
            &mut acted,
        )
        .await;
        acted.confirm = timing.elapsed() - timing.first_out.unwrap_or_default();
        acted
    }

    /// Runs the steps of the transition until it is done or blocked.
    async fn go<O, A, P, S>(
        &mut self,
        ports: &Ports<'_, O, A, P, S>,
        transition: &mut Transition,
        inputs: Option<Inputs>,
        timing: &mut Timing<'_>,
        acted: &mut Acted,
    ) where
        A: Actuate,
        P: Publish,
    {
        let mut awaited = None;
        for _ in 0..STEPS_MAX {
            transition.hold(&|allocations| self.carried(allocations, inputs));
            match transition.next() {
                Step::Resize(changes) => {
                    // Once per plan: further shrinks under the same plan need not wait again.
                    if let Some(revision) = acted.revision.filter(|out| awaited != Some(*out)) {
                        ports.publish.wait_adopted(revision, TAKE_OVER_MAX).await;
                        let under_way = longest_of(&acted.plan, &changes);
                        ports.publish.wait_drained(under_way).await;
                        awaited = Some(revision);
                    }
                    let at = timing.now.after(timing.elapsed()).at;
                    changes
                        .iter()
                        .for_each(|one| self.measured.requested(one, at));
                    self.resize(ports.actuate, transition, &changes, acted)
                        .await;
                    let at = timing.now.after(timing.elapsed()).at;
                    self.measured.horizon.see(&transition.actual(), at);
                }
                Step::Publish(allocations) => {
                    let publishing = timing.elapsed();
                    let now = timing.now.after(publishing);
                    let out = self.publish(ports.publish, &allocations, inputs, now, acted);
                    if timing.first_out.is_none() {
                        timing.first_out = Some(timing.elapsed());
                        acted.actuate = publishing;
                        acted.publish = timing.elapsed() - publishing;
                    }
                    // A stage without capacity has no valid plan; the transition then goes on.
                    let ready: Vec<_> = transition.actual().iter().map(|v| v.ready).collect();
                    if !out && self.carried(&ready, inputs) >= SERVES_AT_ALL {
                        break;
                    }
                    transition.published(allocations);
                }
                Step::Done => break,
            }
        }
    }

    /// Part of the demand that an allocation carries ([`carried_part`]), in the batches that this demand would fill.
    pub(super) fn carried(&self, allocations: &[Allocation], inputs: Option<Inputs>) -> f64 {
        let busy = inputs.map(Inputs::as_if_present);
        let mut capacities = capacities(
            &self.service,
            allocations,
            busy,
            self.rollout.batches.confirmed(),
        );
        for (capacity, since) in capacities.iter_mut().zip(self.observations.failing_since()) {
            *capacity = if since.is_some() { 0.0 } else { *capacity };
        }
        let stages = self
            .service
            .stages
            .iter()
            .map(|stage| stage.variants.clone());
        let demand = inputs.map(|inputs| self.service.policy.to_carry(&self.service, inputs));
        let demand = demand.map(|demand| demand.0);
        carried_part(stages, &capacities, allocations, demand)
    }

    /// Part of the demand that already arrives, relative to what fully used servers sustain.
    fn arriving(&self, forecast: Forecast) -> f64 {
        let most = self.service.utilisation_max();
        most * forecast.arriving.0 / forecast.planned(most).0.max(f64::MIN_POSITIVE)
    }

    async fn resize<A: Actuate>(
        &mut self,
        actuate: &A,
        transition: &mut Transition,
        changes: &[Resize],
        acted: &mut Acted,
    ) {
        let answers = actuate.resize(changes).await;
        for (change, answer) in changes.iter().zip(answers) {
            let name = self
                .service
                .variants
                .get(change.variant)
                .map_or("", |variant| &variant.name);
            let who = format!("resize of {name}");
            match answer {
                Ok(actual) => {
                    acted.confirmed += 1;
                    self.troubles.went_well(&who);
                    transition.confirmed(*change, actual);
                }
                Err(error) => {
                    acted.failed += 1;
                    let requested = format!(
                        "it keeps its cores instead of {}; tried again every cycle",
                        change.cores()
                    );
                    self.troubles.failed(&who, &error, &requested);
                    self.obstructed(change.variant, Blocker::of(&error));
                    // Changing the cores of a pod does not restart its server. Several replicas are pods, whose sizes
                    // may differ for long: what was requested would keep the cores of the larger ones.
                    let variant = self.service.variants.get(change.variant);
                    let is_pod = variant.is_some_and(Variant::has_pods);
                    if error.may_have_applied() && !is_pod {
                        self.rollout.under_way.requested(change);
                    }
                    if !error.may_have_applied() {
                        self.measured.refused(change.variant);
                    }
                    transition.failed(*change, error.may_have_applied());
                }
            }
        }
    }

    /// Records a blocker for each variant that cannot start.
    fn blocked(&mut self, transition: &Transition) {
        if !transition.is_blocked() {
            return;
        }
        for variant in transition.waiting() {
            self.obstructed(variant, Blocker::rollout_blocked());
        }
    }

    fn obstructed(&mut self, variant: usize, blocker: Blocker) {
        self.rollout
            .obstructed(&self.service, variant, blocker, self.now);
    }

    pub(super) fn publish<P: Publish>(
        &mut self,
        publish: &P,
        allocations: &[Allocation],
        inputs: Option<Inputs>,
        now: Now,
        acted: &mut Acted,
    ) -> bool {
        let failing: Vec<bool> = self
            .observations
            .failing_since()
            .iter()
            .map(Option::is_some)
            .collect();
        let conditions = Conditions {
            failing: &failing,
            confirmed: self.rollout.batches.confirmed(),
            batches: None,
        };
        let offer = drafts_under(&self.service, allocations, inputs, conditions);
        let offer = offer.ok_or_else(|| "no variant has a core".to_owned());
        let offer = offer.and_then(|mut drafts| {
            for draft in &mut drafts {
                self.tell_group_times(&mut draft.variants);
            }
            let parts = |draft: &Draft| draft.variants.clone();
            acted.plan = drafts.iter().flat_map(parts).collect();
            publish
                .publish(drafts, now)
                .map_err(|error| error.to_string())
        });
        match offer {
            Ok(receipt) => {
                self.troubles.went_well("plan");
                acted.published += receipt.new;
                acted.revision = Some(receipt.revision);
                self.rollout.out = allocations.to_vec();
                let shares = |stage: &Stage| -> Vec<Share> {
                    let parts = acted.plan.get(stage.variants.clone());
                    parts.into_iter().flatten().map(|part| part.share).collect()
                };
                self.observations.quotas = self.service.stages.iter().map(shares).collect();
                true
            }
            Err(error) => {
                self.troubles.failed("plan", &error, "the last one stays");
                acted.rejected += 1;
                false
            }
        }
    }
}
