//! Cores in force and demand → the plan of each stage. A plan is made of what *is* actuated, never of
//! what was asked: capacity that is not there is not promised.
//!
//! Shares go to a stage's most accurate variants first, each up to its capacity; in proportion to the
//! capacities where the demand is unknown or exceeds them all. Batches are the policy's to say
//! ([`batches`]), or those that servers have been told. What comes after a stage needs the time of the slowest variant with a share at each later
//! stage, and that of its batch's filling: q = (b − 1)/λ (IPA, Eq. 7).

mod run;

use weir_api::plan::HOUR_MS;
use weir_api::{Cores, Rps, VariantPlan};

use crate::capacity::Allocation;
use crate::policy::batches;
use crate::service::{Inputs, Service, Variant};
use crate::solve::infadapter::quota;
use run::Run;

/// A share that moved by less is no reason to publish a new plan: arrivals are noisy, and half a
/// point of traffic is within what capacity holds in reserve.
pub const SHARE_CHANGE_MIN: f64 = 0.005;
/// A time of the later stages that moved by less, in ms, is none either: filters count whole ms.
pub const REST_CHANGE_MIN_MS: f64 = 1.0;
/// Shares are rounded to one in so many.
const SHARE_STEPS: f64 = 10_000.0;

/// What a stage's filters are to be told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    /// The stage's variants.
    pub variants: Vec<VariantPlan>,
    /// What the stages after it still need, in ms.
    pub rest_ms: f64,
}

/// What is known besides of variants, in their order; nothing where a list is shorter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions<'a> {
    /// Those that fail: their capacity counts for nothing, if another of the stage has any. They keep their slots, by
    /// which proxies try whether they are well again.
    pub failing: &'a [bool],
    /// Greatest batches that servers have been told to make: they are planned with these.
    pub told: &'a [Option<u32>],
}

/// One for each stage; `None` where one of them has no core to run anything on.
pub fn drafts(
    service: &Service,
    there: &[Allocation],
    inputs: Option<Inputs>,
) -> Option<Vec<Draft>> {
    drafts_under(service, there, inputs, Conditions::default())
}

/// The same under these conditions.
pub fn drafts_under(
    service: &Service,
    there: &[Allocation],
    inputs: Option<Inputs>,
    Conditions { failing, told }: Conditions<'_>,
) -> Option<Vec<Draft>> {
    let demand = inputs.map(|inputs| inputs.forecast.present);
    let runs = runs(service, there, inputs, told);
    let mut drafts = Vec::with_capacity(service.stages.len());
    let mut needs = Vec::with_capacity(service.stages.len());
    for stage in &service.stages {
        let failing = failing.get(stage.variants.clone()).unwrap_or_default();
        let runs = runs.get(stage.variants.clone())?;
        let variants = of_stage(service, runs, failing, demand)?;
        needs.push(needs_ms(runs, &variants, demand));
        drafts.push(Draft {
            variants,
            rest_ms: 0.0,
        });
    }
    let mut rest_ms = service.rest_ms;
    let most_ms = service.slo.as_secs_f64() * 1e3 - 1.0;
    for (draft, needs_ms) in drafts.iter_mut().zip(needs).rev() {
        draft.rest_ms = rest_ms.min(most_ms);
        rest_ms += needs_ms;
    }
    Some(drafts)
}

/// The entry's, which is the only one of a service without stages.
pub fn draft(service: &Service, there: &[Allocation], inputs: Option<Inputs>) -> Option<Draft> {
    drafts(service, there, inputs)?.into_iter().next()
}

/// What each variant sustains with what is there, in requests/s, where servers have been told these batches.
pub fn capacities(
    service: &Service,
    there: &[Allocation],
    inputs: Option<Inputs>,
    told: &[Option<u32>],
) -> Vec<f64> {
    let runs = runs(service, there, inputs, told);
    runs.iter().map(|run| run.capacity_rps(service)).collect()
}

/// How long a request takes at a variant, from dispatch to answer, by its profile, in ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceTime {
    /// As the filters are told.
    pub sent_ms: f64,
    /// Mean of one alone.
    pub least_ms: f64,
    /// High percentile in the greatest batch, its delay included.
    pub most_ms: f64,
}

/// The service times with what is there, where servers have been told these batches; `None` without cores.
pub fn service_times(
    service: &Service,
    there: &[Allocation],
    inputs: Option<Inputs>,
    told: &[Option<u32>],
) -> Vec<Option<ServiceTime>> {
    let runs = runs(service, there, inputs, told);
    runs.iter().map(Run::service_time).collect()
}

fn runs<'a>(
    service: &'a Service,
    there: &[Allocation],
    inputs: Option<Inputs>,
    told: &[Option<u32>],
) -> Vec<Run<'a>> {
    let batches = batches(service, there, inputs);
    let told = told.iter().copied().chain(std::iter::repeat(None));
    let each = service
        .variants
        .iter()
        .zip(there)
        .zip(batches.into_iter().zip(told));
    each.map(|((variant, there), (batch, told))| Run::new(variant, *there, batch, told))
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

/// How long a request takes at a stage, waiting for its batch included.
fn needs_ms(runs: &[Run], parts: &[VariantPlan], demand: Option<Rps>) -> f64 {
    let each = runs.iter().zip(parts);
    let serving = each.filter(|(_, part)| part.share.0 > 0.0);
    serving
        .map(|(run, _)| run.needs_ms(demand))
        .fold(0.0, f64::max)
}

/// Whether proxies should hear of `new` where `old` is what they have.
pub fn differs(old: &Draft, new: &Draft) -> bool {
    (old.rest_ms - new.rest_ms).abs() >= REST_CHANGE_MIN_MS || moved(&old.variants, &new.variants)
}

fn moved(old: &[VariantPlan], new: &[VariantPlan]) -> bool {
    let same = |(old, new): (&VariantPlan, &VariantPlan)| {
        // A share that appears or vanishes is news however small.
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

/// Shortest that a request could take at a variant, whatever cores it has now, in ms.
pub fn shortest_ms(variant: &Variant) -> f64 {
    let most = Cores::whole(variant.greatest);
    variant.profile.shortest_ms(most).min(HOUR_MS as f64)
}

fn shares(
    service: &Service,
    runs: &[Run],
    slots: &[u32],
    failing: &[bool],
    demand: Option<Rps>,
) -> Option<Vec<f64>> {
    let mut capacities: Vec<f64> = runs.iter().map(|run| run.capacity_rps(service)).collect();
    let mut well = capacities.clone();
    for (capacity, _) in well.iter_mut().zip(failing).filter(|(_, fails)| **fails) {
        *capacity = 0.0;
    }
    if well.iter().any(|capacity| *capacity > 0.0) {
        capacities = well;
    }
    let accuracies: Vec<f64> = runs
        .iter()
        .map(|run| run.variant.accuracy / 100.0)
        .collect();
    let carried = demand.and_then(|demand| quota::by_accuracy(&capacities, &accuracies, demand.0));
    let in_proportion = || quota::by_capacity(&capacities);
    // Cores that cannot keep the promise are still the only ones there are.
    let by_slots = || quota::by_capacity(&slots.iter().map(|n| f64::from(*n)).collect::<Vec<_>>());
    carried
        .or_else(in_proportion)
        .or_else(by_slots)
        .map(rounded)
}

/// Rounded to one in [`SHARE_STEPS`], the greatest taking what is left over, so that they still sum
/// to 1 and read well.
fn rounded(shares: Vec<f64>) -> Vec<f64> {
    let mut steps: Vec<f64> = shares
        .into_iter()
        .map(|share| (share * SHARE_STEPS).round())
        .collect();
    let rest = SHARE_STEPS - steps.iter().sum::<f64>();
    if let Some(greatest) = steps.iter_mut().max_by(|a, b| a.total_cmp(b)) {
        *greatest += rest;
    }
    steps.into_iter().map(|steps| steps / SHARE_STEPS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::service;

    fn whole(cores: [u32; 2]) -> [Allocation; 2] {
        cores.map(|cores| Allocation::one(Cores::whole(cores)))
    }

    #[test]
    fn replicas_have_their_slots_and_capacity_each() {
        let service = service(8);
        let each = Cores::whole(2);
        let one = [Allocation::one(each), Allocation::NONE];
        let three = [Allocation::new(3, each), Allocation::NONE];
        let [one, three] = [one, three].map(|there| {
            let part = draft(&service, &there, Some(expected(1.0))).unwrap();
            let capacities = capacities(&service, &there, None, &[]);
            (part.variants[0].clone(), capacities[0])
        });
        assert_eq!(three.0.slots, 3 * one.0.slots);
        assert_eq!(three.0.service_ms, one.0.service_ms);
        assert_eq!(three.1, 3.0 * one.1);
    }

    fn expected(demand_rps: f64) -> Inputs {
        Inputs::steady(Rps(demand_rps))
    }

    /// Cores and demand → shares and slots of a (0.8·(20·n − 2), 70 %, one at a time on each core)
    /// and b (0.8·(10·n − 2), 80 %, two at a time).
    fn check(cores: [u32; 2], demand: Option<f64>, shares: [f64; 2], slots: [u32; 2]) {
        let Draft { variants, .. } =
            draft(&service(8), &whole(cores), demand.map(expected)).unwrap();
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
    fn shares_fill_the_most_accurate_and_never_exceed_what_is_there() {
        check([4, 2], Some(10.0), [0.0, 1.0], [4, 2]);
        check([4, 2], Some(57.6), [0.75, 0.25], [4, 2]);
        // More than there is, or unknown: in proportion, 62.4 to 14.4.
        check([4, 2], Some(500.0), [0.8125, 0.1875], [4, 2]);
        check([4, 2], None, [0.8125, 0.1875], [4, 2]);
        check([4, 0], Some(10.0), [1.0, 0.0], [4, 0]);
    }

    #[test]
    fn who_fails_has_no_share_and_keeps_its_slots() {
        for (cores, failing, shares) in [
            ([4, 2], [false, true], [1.0, 0.0]),
            ([4, 2], [true, false], [0.0, 1.0]),
            // Nobody else is there, or is well.
            ([0, 2], [false, true], [0.0, 1.0]),
            ([4, 2], [true, true], [0.75, 0.25]),
        ] {
            let there = whole(cores);
            let drafts = drafts_under(
                &service(8),
                &there,
                Some(expected(57.6)),
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
    fn without_capacity_slots_share_and_without_slots_there_is_no_plan() {
        let mut service = service(8);
        service.latency_max_ms = 1.0;
        let plan = draft(&service, &whole([3, 1]), Some(expected(10.0))).unwrap();
        assert_eq!([0, 1].map(|n: usize| plan.variants[n].share.0), [0.6, 0.4]);
        assert_eq!(draft(&service, &whole([0, 0]), Some(expected(10.0))), None);
    }

    proptest::proptest! {
        #[test]
        fn every_draft_passes_the_plans_own_check(
            millis in proptest::array::uniform2(0u32..9000),
            demand in proptest::option::of(0.0..500.0f64),
        ) {
            let service = service(8);
            let cores = millis.map(|millis| Allocation::one(Cores::from_millis(millis)));
            let forecast = demand.map(expected);
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
            let plan = weir_api::Plan { format, service, revision, published_ms: 0, max_age_ms: 1, rest_ms: 0.0, variants };
            proptest::prop_assert_eq!(plan.check(), Ok(()));
        }
    }

    #[test]
    fn small_moves_are_no_news_and_others_are() {
        let cores = whole([4, 2]);
        let drafts = drafts(&service(8), &cores, Some(expected(57.6))).unwrap();
        type Change = fn(&mut Draft);
        let table: &[(&str, bool, Change)] = &[
            ("nothing", false, |_| {}),
            ("a little share", false, |d| d.variants[0].share.0 += 0.004),
            ("share", true, |d| d.variants[0].share.0 += 0.006),
            ("the last share", true, |d| d.variants[1].share.0 = 0.0),
            ("slots", true, |d| d.variants[0].slots += 1),
            ("service time", true, |d| d.variants[0].service_ms += 1.0),
            ("cluster", true, |d| d.variants[0].cluster = "other".into()),
            ("a little time", false, |d| d.rest_ms += 0.9),
            ("time of the stages after", true, |d| d.rest_ms += 1.1),
            ("a variant", true, |d| d.variants.truncate(1)),
        ];
        for (what, news, change) in table {
            let mut new = drafts[0].clone();
            change(&mut new);
            assert_eq!(differs(&drafts[0], &new), *news, "{what}");
        }
    }
}
