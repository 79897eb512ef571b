//! Scale-down stabilization: targets → targets that keep replicas for a while after demand fell. Pure.
//!
//! A replica takes long to start, cores do not. Replicas are removed once the target has been lower for the whole
//! stabilization window. Until then the target's cores apply to all of them. Kept replicas never cost others anything:
//! they are removed at once if the budget has no capacity for them beside the targets.
//!
//! Themis is exempt: it has two speeds of its own, and removes replicas to give the others more cores. With IPA one
//! variant serves a stage: a second one that is kept would receive a share, and its batches would not fill.

use std::collections::VecDeque;
use std::time::Duration;

use weir_api::Cores;

use crate::capacity::{Actual, Allocation, Target};
use crate::service::{ScaleDown, Service, Variant};

/// Monotonic queue of (since, target replicas) for each variant. The counts fall, so that the front is the maximum over
/// the stabilization window. The maximum replicas bound the length.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScaleDownStabilizer(Vec<VecDeque<(Duration, u32)>>);

impl ScaleDownStabilizer {
    /// Creates an empty history.
    pub(crate) fn new(variants: usize) -> ScaleDownStabilizer {
        ScaleDownStabilizer(vec![VecDeque::new(); variants])
    }

    /// Returns the stabilized targets, given the policy's `targets` at `at`.
    pub(crate) fn stabilize(
        &mut self,
        at: Duration,
        service: &Service,
        actual: &[Actual],
        targets: &[Target],
    ) -> Vec<Target> {
        let mut stabilized = targets.to_vec();
        let rule = service.policy.scale_down();
        if rule == ScaleDown::Immediate {
            return stabilized;
        }
        let lists = service.variants.iter().zip(actual).zip(&mut self.0);
        for ((target, new_target), ((variant, actual), desired)) in
            stabilized.iter_mut().zip(targets).zip(lists)
        {
            if desired.is_empty() {
                // The age of the actual replicas is unknown.
                desired.push_back((at, actual.replicas()));
            }
            let mut since = at;
            while let Some((before, _)) =
                desired.pop_back_if(|(_, few)| *few <= new_target.replicas)
            {
                since = before;
            }
            desired.push_back((since, new_target.replicas));
            while desired.len() > 1
                && desired
                    .get(1)
                    .is_some_and(|(since, _)| *since + service.scale_down_after <= at)
            {
                desired.pop_front();
            }
            let recent = desired.front().map_or(0, |(_, replicas)| *replicas);
            let stay = recent.min(actual.replicas());
            let ends_at_once = rule == ScaleDown::StabilizedAboveZero && new_target.replicas == 0;
            let is_stabilized = variant.has_pods() && !ends_at_once;
            if is_stabilized && stay > new_target.replicas {
                *target = more(variant, *actual, *new_target, stay);
            }
        }
        while !fits_limits(service, actual, &stabilized) {
            let costs = |index: &usize| {
                let at = |targets: &[Target]| targets.get(*index).copied().unwrap_or_default();
                let ready = actual.get(*index).map_or(Allocation::NONE, |one| one.ready);
                at(&stabilized)
                    .cores(ready)
                    .saturating_sub(at(targets).cores(ready))
            };
            let held_back =
                (0..stabilized.len()).filter(|index| stabilized.get(*index) != targets.get(*index));
            let Some(most_expensive) = held_back.max_by_key(costs) else {
                break;
            };
            if let (Some(target), Some(desired)) = (
                stabilized.get_mut(most_expensive),
                targets.get(most_expensive),
            ) {
                *target = *desired;
            }
        }
        stabilized
    }
}

/// `desired` with more replicas. If it has none, those that are kept have the minimum cores.
fn more(variant: &Variant, actual: Actual, desired: Target, replicas: u32) -> Target {
    let min = variant.cores(variant.min.max(1));
    let has = actual.target();
    match desired.replicas {
        0 => Target {
            replicas,
            each: min.min(has.each),
            start: min.min(has.start),
        },
        _ => Target {
            replicas,
            ..desired
        },
    }
}

fn fits_limits(service: &Service, actual: &[Actual], targets: &[Target]) -> bool {
    let each = actual.iter().zip(targets);
    let cores: Cores = each
        .map(|(actual, target)| target.cores(actual.ready))
        .sum();
    let replicas: Vec<u32> = targets.iter().map(|target| target.replicas).collect();
    cores <= service.budget_cores() && service.limits.fit(&replicas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Ipa;
    use crate::service::{SharedPolicy, Workload, WorkloadKind};
    use crate::spec::tests::service;

    const AFTER: u64 = 30;

    /// A service of a and b, each 1 to 4 replicas, on 8 cores.
    fn replicated() -> Service {
        let mut service = service(8);
        service.scale_down_after = Duration::from_secs(AFTER);
        for variant in &mut service.variants {
            variant.replicas.max = 4;
            variant.workload = Some(Workload {
                kind: WorkloadKind::Deployment,
                name: variant.name.clone(),
                container: None,
                reconfigure: None,
            });
        }
        service
    }

    fn allocation(replicas: u32, each: u32) -> Allocation {
        Allocation::new(replicas, Cores::whole(each))
    }

    /// Replicas and cores of each replica, by variant.
    type ReplicaSizes = [(u32, u32); 2];

    /// Cycles: second, targets, and stabilized targets, which become the actual state.
    fn check(service: &Service, cycles: &[(u64, ReplicaSizes, ReplicaSizes)]) {
        let mut stabilizer = ScaleDownStabilizer::new(2);
        let mut actual = vec![Actual::default(); 2];
        for (second, desired, expected) in cycles {
            let of = |(replicas, each): (u32, u32)| Target::of(allocation(replicas, each));
            let at = Duration::from_secs(*second);
            let stabilized = stabilizer.stabilize(at, service, &actual, &desired.map(of));
            let got: Vec<(u32, Cores)> = stabilized.iter().map(|g| (g.replicas, g.each)).collect();
            let expected = expected.map(|(replicas, each)| (replicas, Cores::whole(each)));
            assert_eq!(got, expected, "at {second} s");
            let now =
                |target: &Target| Actual::certain(Allocation::new(target.replicas, target.each));
            actual = stabilized.iter().map(now).collect();
        }
    }

    #[test]
    fn replicas_are_removed_after_the_stabilization_window() {
        check(
            &replicated(),
            &[
                (0, [(4, 1), (0, 0)], [(4, 1), (0, 0)]),
                (10, [(2, 1), (0, 0)], [(4, 1), (0, 0)]),
                // More than before, but below the maximum.
                (20, [(3, 1), (0, 0)], [(4, 1), (0, 0)]),
                (39, [(1, 1), (0, 0)], [(4, 1), (0, 0)]),
                (40, [(1, 1), (0, 0)], [(3, 1), (0, 0)]),
                (68, [(1, 1), (0, 0)], [(3, 1), (0, 0)]),
                (69, [(1, 1), (0, 0)], [(1, 1), (0, 0)]),
            ],
        );
    }

    #[test]
    fn cores_change_at_once_and_kept_replicas_have_the_minimum() {
        check(
            &replicated(),
            &[
                (0, [(2, 3), (0, 0)], [(2, 3), (0, 0)]),
                (1, [(2, 1), (0, 0)], [(2, 1), (0, 0)]),
                (2, [(2, 4), (0, 0)], [(2, 4), (0, 0)]),
                (3, [(0, 0), (2, 2)], [(2, 1), (2, 2)]),
                (32, [(0, 0), (2, 2)], [(2, 1), (2, 2)]),
                (33, [(0, 0), (2, 2)], [(0, 0), (2, 2)]),
            ],
        );
    }

    #[test]
    fn ipa_removes_other_variants_of_a_stage_at_once() {
        let mut service = replicated();
        service.policy = SharedPolicy::new(Ipa {
            alpha: 1.0,
            beta: 0.1,
            delta: 0.0,
            tolerance: 0.0,
        });
        check(
            &service,
            &[
                (0, [(3, 1), (0, 0)], [(3, 1), (0, 0)]),
                (1, [(2, 1), (0, 0)], [(3, 1), (0, 0)]),
                (2, [(0, 0), (2, 2)], [(0, 0), (2, 2)]),
            ],
        );
    }

    #[test]
    fn kept_replicas_yield_to_other_targets() {
        check(
            &replicated(),
            &[
                (0, [(2, 1), (2, 1)], [(2, 1), (2, 1)]),
                // Seven cores and one kept replica make eight; two kept replicas exceed the budget.
                (1, [(1, 1), (2, 3)], [(2, 1), (2, 3)]),
                (2, [(1, 2), (2, 3)], [(1, 2), (2, 3)]),
                (3, [(0, 0), (2, 4)], [(0, 0), (2, 4)]),
            ],
        );
    }

    #[test]
    fn single_server_behind_an_address_is_not_stabilized() {
        let mut service = replicated();
        for variant in &mut service.variants {
            variant.workload = None;
            variant.replicas.max = 1;
        }
        check(
            &service,
            &[
                (0, [(1, 4), (1, 1)], [(1, 4), (1, 1)]),
                (1, [(1, 4), (0, 0)], [(1, 4), (0, 0)]),
            ],
        );
    }

    #[test]
    fn replicas_of_a_replay_are_stabilized_without_a_workload() {
        let mut service = replicated();
        for variant in &mut service.variants {
            variant.workload = None;
        }
        check(
            &service,
            &[
                (0, [(3, 1), (1, 1)], [(3, 1), (1, 1)]),
                (1, [(2, 1), (1, 1)], [(3, 1), (1, 1)]),
                (AFTER, [(2, 1), (1, 1)], [(3, 1), (1, 1)]),
                (AFTER + 1, [(2, 1), (1, 1)], [(2, 1), (1, 1)]),
            ],
        );
    }
}
