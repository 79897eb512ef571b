//! Actual cores and demand → the plan of each stage. A plan is made from the *actual* capacity, never from the target:
//! it promises no capacity that is not there.
//!
//! Shares go to a stage's most accurate variants first, each up to its capacity. They are in proportion to the
//! capacities if demand is unknown or exceeds them all. What then exceeds them goes to the variants that take longer
//! than `latencyBudget` allows, but less than the objective: a filter sends only requests that can be in time. In a
//! pipeline they get none, for the later stages need the time. Batches are chosen by the policy ([`batches`]) and
//! limited to those that servers have been sent. The downstream time of a stage sums over the later stages: the time of
//! the slowest variant with a share, and the time in which its batch fills, (b − 1)/λ (IPA, Eq. 7).
//!
//! Capacities and downstream times are those of the corrected profiles. The service times sent to the filters are the
//! profiles' own: filters correct them by the ratios that they measure, and would do so twice.

mod downstream;
mod expected;
mod run;
mod shares;

use weir_api::plan::HOUR_MS;
use weir_api::{Rps, VariantPlan};

use crate::capacity::Allocation;
use crate::policy::batches;
use crate::service::{Inputs, Service, Variant};
use downstream::downstream_ms;
pub use expected::Expected;
use run::{Run, needs_of, shared_rate};
use shares::shares;

/// Smallest change of a share that is published. Arrivals are noisy, and half a point of traffic is within the reserve
/// of the capacities.
const SHARE_CHANGE_MIN: f64 = 0.005;
/// Smallest published change of the downstream time, in ms: filters count whole ms.
const REST_CHANGE_MIN_MS: f64 = 1.0;

/// Plan of a stage before it has a revision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    /// Variants of the stage.
    pub variants: Vec<VariantPlan>,
    /// Downstream time, in ms.
    pub downstream_ms: f64,
}

/// Conditions of variants in their order. A shorter list leaves the rest unknown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions<'a> {
    /// Failing variants: no capacity if another of the stage has some, but slots for the probes of the proxies.
    pub failing: &'a [bool],
    /// Largest batches that servers have been sent, which limit the planned ones.
    pub confirmed: &'a [Option<u32>],
    /// Batches in place of those that the policy chooses.
    pub batches: Option<&'a [u32]>,
}

/// One draft per stage; `None` if a stage has no cores.
pub fn drafts(
    service: &Service,
    allocations: &[Allocation],
    inputs: Option<Inputs>,
) -> Option<Vec<Draft>> {
    drafts_under(service, allocations, inputs, Conditions::default())
}

/// Drafts under the given conditions.
pub fn drafts_under(
    service: &Service,
    allocations: &[Allocation],
    inputs: Option<Inputs>,
    conditions: Conditions<'_>,
) -> Option<Vec<Draft>> {
    let (failing, given) = (conditions.failing, conditions.batches);
    let demand = inputs.map(|inputs| inputs.forecast.present);
    let chosen = || batches(service, allocations, inputs);
    let batches = given.map_or_else(chosen, <[u32]>::to_vec);
    let runs = runs(service, allocations, batches, conditions.confirmed);
    let mut drafts = Vec::with_capacity(service.stages.len());
    let mut needs = Vec::with_capacity(service.stages.len());
    for stage in &service.stages {
        let failing = failing.get(stage.variants.clone()).unwrap_or_default();
        let runs = runs.get(stage.variants.clone())?;
        let variants = of_stage(service, runs, failing, shared_rate(service, inputs))?;
        needs.push(needs_of(runs, &variants, demand));
        drafts.push(Draft {
            variants,
            downstream_ms: 0.0,
        });
    }
    let most_ms = service.slo.as_secs_f64() * 1e3 - 1.0;
    let each = downstream_ms(
        &needs,
        service.downstream_ms,
        service.latency_max_ms,
        most_ms,
    );
    for (draft, ms) in drafts.iter_mut().zip(each) {
        draft.downstream_ms = ms;
    }
    Some(drafts)
}

/// Draft of the entry stage, the only one of a service without stages.
pub fn draft(
    service: &Service,
    allocations: &[Allocation],
    inputs: Option<Inputs>,
) -> Option<Draft> {
    drafts(service, allocations, inputs)?.into_iter().next()
}

/// Capacity of each variant in requests/s on these allocations, with the batches that servers have been sent.
pub fn capacities(
    service: &Service,
    allocations: &[Allocation],
    inputs: Option<Inputs>,
    confirmed: &[Option<u32>],
) -> Vec<f64> {
    let batches = batches(service, allocations, inputs);
    let runs = runs(service, allocations, batches, confirmed);
    runs.iter().map(|run| run.capacity_rps(service)).collect()
}

/// Executions on these allocations as the profiles have them, with the batches that servers have been sent; `None`
/// without cores.
pub fn expected(
    service: &Service,
    allocations: &[Allocation],
    inputs: Option<Inputs>,
    confirmed: &[Option<u32>],
) -> Vec<Option<Expected>> {
    let batches = batches(service, allocations, inputs);
    let runs = runs(service, allocations, batches, confirmed);
    runs.iter().map(Run::expected).collect()
}

fn runs<'a>(
    service: &'a Service,
    allocations: &[Allocation],
    batches: Vec<u32>,
    confirmed: &[Option<u32>],
) -> Vec<Run<'a>> {
    let confirmed = confirmed.iter().copied().chain(std::iter::repeat(None));
    let each = service
        .variants
        .iter()
        .zip(allocations)
        .zip(batches.into_iter().zip(confirmed));
    each.map(|((variant, allocation), (batch, confirmed))| {
        Run::new(variant, *allocation, batch, confirmed)
    })
    .collect()
}

fn of_stage(
    service: &Service,
    runs: &[Run],
    failing: &[bool],
    demand: Option<Rps>,
) -> Option<Vec<VariantPlan>> {
    let slots = runs.iter().map(|run| run.slots(service.latency_max_ms));
    let slots: Vec<u32> = slots.collect();
    let shares = shares(service, runs, &slots, failing, demand)?;
    let parts = runs.iter().zip(slots.iter().zip(shares));
    Some(
        parts
            .map(|(run, (slots, share))| run.part(*slots, share))
            .collect(),
    )
}

/// Whether `new` differs enough from the published `old` to be published.
pub fn differs(old: &Draft, new: &Draft) -> bool {
    (old.downstream_ms - new.downstream_ms).abs() >= REST_CHANGE_MIN_MS
        || moved(&old.variants, &new.variants)
}

fn moved(old: &[VariantPlan], new: &[VariantPlan]) -> bool {
    let same = |(old, new): (&VariantPlan, &VariantPlan)| {
        // A share that becomes or stops being 0 is published however small it is.
        let moved = (old.share.0 - new.share.0).abs() >= SHARE_CHANGE_MIN
            || (old.share.0 > 0.0) != (new.share.0 > 0.0);
        !moved
            && *old
                == VariantPlan {
                    share: old.share,
                    ..new.clone()
                }
    };
    old.len() != new.len() || !old.iter().zip(new).all(same)
}

/// Shortest time of a request at a variant on the most cores it may have, by its profile, in ms; 0 without one.
pub fn shortest_ms(variant: &Variant) -> f64 {
    if !variant.has_profile() {
        return 0.0;
    }
    let most = variant.cores(variant.max);
    let profile = variant.profile.uncorrected();
    profile.shortest_ms(most).min(HOUR_MS as f64)
}

#[cfg(test)]
mod tests {
    use weir_api::Cores;

    use super::*;
    use crate::spec::tests::service;

    fn whole(cores: [u32; 2]) -> [Allocation; 2] {
        cores.map(|cores| Allocation::one(Cores::whole(cores)))
    }

    #[test]
    fn slots_and_capacity_are_proportional_to_replicas() {
        let service = service(8);
        let each = Cores::whole(2);
        let one = [Allocation::one(each), Allocation::NONE];
        let three = [Allocation::new(3, each), Allocation::NONE];
        let [one, three] = [one, three].map(|allocations| {
            let part = draft(&service, &allocations, Some(steady(1.0))).unwrap();
            let capacities = capacities(&service, &allocations, None, &[]);
            (part.variants[0].clone(), capacities[0])
        });
        assert_eq!(three.0.slots, 3 * one.0.slots);
        assert_eq!(three.0.service_ms, one.0.service_ms);
        assert_eq!(three.1, 3.0 * one.1);
    }

    fn steady(demand_rps: f64) -> Inputs {
        Inputs::steady(Rps(demand_rps))
    }

    /// Cores and demand → shares and slots of a (0.8·(20·n − 2), 70 %, one at a time on each core)
    /// and b (0.8·(10·n − 2), 80 %, two at a time).
    fn check(cores: [u32; 2], demand: Option<f64>, shares: [f64; 2], slots: [u32; 2]) {
        let Draft { variants, .. } = draft(&service(8), &whole(cores), demand.map(steady)).unwrap();
        let got: Vec<_> = variants
            .iter()
            .map(|part| (part.share.0, part.slots))
            .collect();
        assert_eq!(
            got,
            [(shares[0], slots[0]), (shares[1], slots[1])],
            "{cores:?} {demand:?}"
        );
    }

    #[test]
    fn shares_fill_most_accurate_variant_up_to_capacity() {
        check([4, 2], Some(10.0), [0.0, 1.0], [4, 2]);
        check([4, 2], Some(57.6), [0.75, 0.25], [4, 2]);
        // Demand above the capacity, or unknown: in proportion, 62.4 to 14.4.
        check([4, 2], Some(500.0), [0.8125, 0.1875], [4, 2]);
        check([4, 2], None, [0.8125, 0.1875], [4, 2]);
        check([4, 0], Some(10.0), [1.0, 0.0], [4, 0]);
    }

    #[test]
    fn failing_variant_has_no_share_and_keeps_its_slots() {
        for (cores, failing, shares) in [
            ([4, 2], [false, true], [1.0, 0.0]),
            ([4, 2], [true, false], [0.0, 1.0]),
            // No other variant has cores, or all fail.
            ([0, 2], [false, true], [0.0, 1.0]),
            ([4, 2], [true, true], [0.75, 0.25]),
        ] {
            let allocations = whole(cores);
            let drafts = drafts_under(
                &service(8),
                &allocations,
                Some(steady(57.6)),
                Conditions {
                    failing: &failing,
                    ..Conditions::default()
                },
            );
            let parts = &drafts.unwrap()[0].variants;
            assert_eq!([parts[0].share.0, parts[1].share.0], shares, "{failing:?}");
            assert_eq!([parts[0].slots, parts[1].slots], cores);
        }
    }

    #[test]
    fn no_capacity_shares_by_rate_or_slots_and_no_slots_gives_no_plan() {
        let mut service = service(8);
        service.latency_max_ms = 1.0;
        let shares = |service: &Service| {
            let plan = draft(service, &whole([3, 1]), Some(steady(10.0))).unwrap();
            [0, 1].map(|n: usize| plan.variants[n].share.0)
        };
        // 0.8·(20·3 − 2) to 0.8·(10·1 − 2).
        assert_eq!(shares(&service), [0.8788, 0.1212]);
        // Longer than the objective.
        service.slo = std::time::Duration::from_millis(2);
        assert_eq!(shares(&service), [0.6, 0.4]);
        assert_eq!(draft(&service, &whole([0, 0]), Some(steady(10.0))), None);
    }

    proptest::proptest! {
        #[test]
        fn every_draft_passes_plan_check(
            millis in proptest::array::uniform2(0u32..9000),
            demand in proptest::option::of(0.0..500.0f64),
        ) {
            let service = service(8);
            let cores = millis.map(|millis| Allocation::one(Cores::from_millis(millis)));
            let forecast = demand.map(steady);
            let Some(Draft { variants, .. }) = draft(&service, &cores, forecast) else {
                proptest::prop_assert_eq!(millis, [0, 0]);
                return Ok(());
            };
            for (part, capacity) in variants.iter().zip(capacities(&service, &cores, forecast, &[])) {
                let load = demand.unwrap_or(0.0) * part.share.0;
                let carried = capacities(&service, &cores, forecast, &[]).iter().sum::<f64>() >= demand.unwrap_or(0.0);
                proptest::prop_assert!(!carried || load <= capacity + 0.1, "{load} on {capacity}");
            }
            let (service, revision) = ("demo".to_owned(), weir_api::Revision(1));
            let format = weir_api::plan::FORMAT;
            let plan = weir_api::Plan { format, service, revision, published_ms: 0, max_age_ms: 1, downstream_ms: 0.0, variants };
            proptest::prop_assert_eq!(plan.check(), Ok(()));
        }
    }

    #[test]
    fn only_significant_changes_are_published() {
        let cores = whole([4, 2]);
        let drafts = drafts(&service(8), &cores, Some(steady(57.6))).unwrap();
        type Change = fn(&mut Draft);
        let table: &[(&str, bool, Change)] = &[
            ("nothing", false, |_| {}),
            ("a little share", false, |d| d.variants[0].share.0 += 0.004),
            ("share", true, |d| d.variants[0].share.0 += 0.006),
            ("the last share", true, |d| d.variants[1].share.0 = 0.0),
            ("slots", true, |d| d.variants[0].slots += 1),
            ("service time", true, |d| d.variants[0].service_ms += 1.0),
            ("cluster", true, |d| d.variants[0].cluster = "other".into()),
            ("model", true, |d| d.variants[0].model = Some("m".into())),
            ("path", true, |d| d.variants[0].path = Some("/m".into())),
            ("a little time", false, |d| d.downstream_ms += 0.9),
            ("time of the stages after", true, |d| d.downstream_ms += 1.1),
            ("a variant", true, |d| d.variants.truncate(1)),
        ];
        for (what, news, change) in table {
            let mut new = drafts[0].clone();
            change(&mut new);
            assert_eq!(differs(&drafts[0], &new), *news, "{what}");
        }
    }
}
