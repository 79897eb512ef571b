//! Replicas that are no longer wanted → those that stay for a while. A replica takes long to start, cores do not: so
//! replicas are taken away once so few have been wanted for a time, and meanwhile have the cores that fewer would
//! have. They never cost others anything: what the budget does not bear beside all that is wanted goes at once.
//! Themis is left to itself: it knows two speeds of its own, and takes replicas away to give the others more. IPA has
//! one variant of a stage: another one that stayed would be given a share, and its batches would not fill. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use weir_api::Cores;

use crate::capacity::{Actual, Allocation, Target};
use crate::service::{ScaleDown, Service, Variant};

/// By variant: since when nobody has wanted more replicas than so many. Falling, so that the first is the most of
/// the time remembered; bounded by the most replicas there may be.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScaleDownStabilizer(Vec<VecDeque<(Duration, u32)>>);

impl ScaleDownStabilizer {
    /// Nothing was wanted yet.
    pub(crate) fn new(variants: usize) -> ScaleDownStabilizer {
        ScaleDownStabilizer(vec![VecDeque::new(); variants])
    }

    /// What to go to, where `targets` are wanted `at` that time.
    pub(crate) fn stabilize(
        &mut self,
        at: Duration,
        service: &Service,
        actual: &[Actual],
        targets: &[Target],
    ) -> Vec<Target> {
        let mut held = targets.to_vec();
        let rule = service.policy.scale_down();
        if rule == ScaleDown::Immediate {
            return held;
        }
        let lists = service.variants.iter().zip(actual).zip(&mut self.0);
        for ((target, wish), ((variant, there), wanted)) in held.iter_mut().zip(targets).zip(lists)
        {
            if wanted.is_empty() {
                // Who wanted those that are there, and when, is not known.
                wanted.push_back((at, there.replicas()));
            }
            let mut since = at;
            while let Some((before, _)) = wanted.pop_back_if(|(_, few)| *few <= wish.replicas) {
                since = before;
            }
            wanted.push_back((since, wish.replicas));
            while wanted.len() > 1
                && wanted
                    .get(1)
                    .is_some_and(|(since, _)| *since + service.scale_down_after <= at)
            {
                wanted.pop_front();
            }
            let recent = wanted.front().map_or(0, |(_, replicas)| *replicas);
            let stay = recent.min(there.replicas());
            let ends_at_once = rule == ScaleDown::StabilizedAboveZero && wish.replicas == 0;
            let is_stabilized = is_scaled(variant) && !ends_at_once;
            if is_stabilized && stay > wish.replicas {
                *target = more(variant, *there, *wish, stay);
            }
        }
        while !is_borne(service, actual, &held) {
            let costs = |index: &usize| {
                let at = |targets: &[Target]| targets.get(*index).copied().unwrap_or_default();
                let ready = actual.get(*index).map_or(Allocation::NONE, |one| one.ready);
                at(&held)
                    .cores(ready)
                    .saturating_sub(at(targets).cores(ready))
            };
            let held_back = (0..held.len()).filter(|index| held.get(*index) != targets.get(*index));
            let Some(most_expensive) = held_back.max_by_key(costs) else {
                break;
            };
            if let (Some(target), Some(wanted)) =
                (held.get_mut(most_expensive), targets.get(most_expensive))
            {
                *target = *wanted;
            }
        }
        held
    }
}

/// Whether its replicas are pods, which take long to start: of what is behind an address nothing is known.
fn is_scaled(variant: &Variant) -> bool {
    variant.workload.is_some()
}

/// `wanted` on more replicas: those that are to go have no more cores than they must.
fn more(variant: &Variant, there: Actual, wanted: Target, replicas: u32) -> Target {
    let least = Cores::whole(variant.least.max(1));
    let has = there.target();
    match wanted.replicas {
        0 => Target {
            replicas,
            each: least.min(has.each),
            start: least.min(has.start),
        },
        _ => Target { replicas, ..wanted },
    }
}

fn is_borne(service: &Service, actual: &[Actual], targets: &[Target]) -> bool {
    let each = actual.iter().zip(targets);
    let cores: Cores = each.map(|(there, target)| target.cores(there.ready)).sum();
    let replicas: Vec<u32> = targets.iter().map(|target| target.replicas).collect();
    cores <= Cores::whole(service.budget) && service.bounds.bear(&replicas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Ipa;
    use crate::service::{SharedPolicy, Workload, WorkloadKind};
    use crate::spec::tests::service;

    const AFTER: u64 = 30;

    /// Of a service of a and b, each 1 to 4 replicas, on 8 cores.
    fn replicated() -> Service {
        let mut service = service(8);
        service.scale_down_after = Duration::from_secs(AFTER);
        for variant in &mut service.variants {
            variant.replicas.greatest = 4;
            variant.workload = Some(Workload {
                kind: WorkloadKind::Deployment,
                name: variant.name.clone(),
                container: None,
                retune: None,
            });
        }
        service
    }

    fn allocation(replicas: u32, each: u32) -> Allocation {
        Allocation::new(replicas, Cores::whole(each))
    }

    /// Of each variant: replicas, and the cores of each.
    type Wanted = [(u32, u32); 2];

    /// Turns: when, what is wanted and what is to be gone to, which is in force then.
    fn check(service: &Service, turns: &[(u64, Wanted, Wanted)]) {
        let mut stabilizer = ScaleDownStabilizer::new(2);
        let mut actual = vec![Actual::default(); 2];
        for (second, wanted, expected) in turns {
            let of = |(replicas, each): (u32, u32)| Target::of(allocation(replicas, each));
            let at = Duration::from_secs(*second);
            let held = stabilizer.stabilize(at, service, &actual, &wanted.map(of));
            let got: Vec<(u32, Cores)> = held.iter().map(|g| (g.replicas, g.each)).collect();
            let expected = expected.map(|(replicas, each)| (replicas, Cores::whole(each)));
            assert_eq!(got, expected, "at {second} s");
            let now =
                |target: &Target| Actual::certain(Allocation::new(target.replicas, target.each));
            actual = held.iter().map(now).collect();
        }
    }

    #[test]
    fn replicas_go_once_so_few_have_been_wanted_for_a_while() {
        check(
            &replicated(),
            &[
                (0, [(4, 1), (0, 0)], [(4, 1), (0, 0)]),
                (10, [(2, 1), (0, 0)], [(4, 1), (0, 0)]),
                // More than before, and less than the most.
                (20, [(3, 1), (0, 0)], [(4, 1), (0, 0)]),
                (39, [(1, 1), (0, 0)], [(4, 1), (0, 0)]),
                (40, [(1, 1), (0, 0)], [(3, 1), (0, 0)]),
                (68, [(1, 1), (0, 0)], [(3, 1), (0, 0)]),
                (69, [(1, 1), (0, 0)], [(1, 1), (0, 0)]),
            ],
        );
    }

    #[test]
    fn cores_follow_at_once_and_who_is_to_go_has_the_least() {
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
    fn with_ipa_a_stages_other_variants_go_at_once() {
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
    fn what_others_want_is_theirs() {
        check(
            &replicated(),
            &[
                (0, [(2, 1), (2, 1)], [(2, 1), (2, 1)]),
                // Seven and one that stays are eight; two that stay are too many.
                (1, [(1, 1), (2, 3)], [(2, 1), (2, 3)]),
                (2, [(1, 2), (2, 3)], [(1, 2), (2, 3)]),
                (3, [(0, 0), (2, 4)], [(0, 0), (2, 4)]),
            ],
        );
    }

    #[test]
    fn one_that_is_not_scaled_is_as_it_is_wanted() {
        let mut service = replicated();
        for variant in &mut service.variants {
            variant.workload = None;
        }
        check(
            &service,
            &[
                (0, [(1, 4), (1, 1)], [(1, 4), (1, 1)]),
                (1, [(1, 4), (0, 0)], [(1, 4), (0, 0)]),
            ],
        );
    }
}
