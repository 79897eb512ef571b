//! Cores in force and demand → the plan's variants. The plan is made of what *is* actuated, never of
//! what was asked: capacity that is not there is not promised.
//!
//! Shares go to the most accurate variants first, each up to its capacity; in proportion to the
//! capacities where the demand is unknown or exceeds them all.

use weir_api::plan::HOUR_MS;
use weir_api::{Cores, Rps, Share, VariantPlan};

use crate::config::{Policy, Service, Variant};
use crate::decide::sponge;
use crate::forecast::Forecast;
use crate::profile::Profile;
use crate::solve::infadapter::quota;

/// A share that moved by less is no reason to publish a new plan: arrivals are noisy, and half a
/// point of traffic is within what capacity holds in reserve.
pub const SHARE_CHANGE_MIN: f64 = 0.005;
/// Shares are rounded to one in so many.
const SHARE_STEPS: f64 = 10_000.0;

/// The variants' parts of a plan; `None` where no core is there to run anything on.
pub fn draft(
    service: &Service,
    cores: &[Cores],
    forecast: Option<Forecast>,
) -> Option<Vec<VariantPlan>> {
    let each = || service.variants.iter().zip(cores);
    let profiles: Vec<Profile> = each()
        .map(|(variant, cores)| profile(service, variant, *cores, forecast))
        .collect();
    let slots: Vec<u32> = each()
        .zip(&profiles)
        .map(|((_, cores), profile)| profile.slots(*cores))
        .collect();
    let demand = forecast.map(|forecast| forecast.demand);
    let shares = shares(service, cores, &slots, demand)?;
    let parts = each().zip(&profiles).zip(slots.iter().zip(shares));
    Some(
        parts
            .map(|(((variant, cores), profile), (slots, share))| {
                part(variant, profile, *cores, *slots, share)
            })
            .collect(),
    )
}

/// The variant's, with the batch that the policy gives it on those cores.
fn profile(
    service: &Service,
    variant: &Variant,
    cores: Cores,
    forecast: Option<Forecast>,
) -> Profile {
    let batch = match service.policy {
        Policy::Infadapter => variant.profile.batch,
        Policy::Sponge(rule) => sponge::batch(service, rule, variant, cores, forecast),
    };
    Profile {
        batch,
        ..variant.profile
    }
}

/// Whether proxies should hear of `new` where `old` is what they have.
pub fn differs(old: &[VariantPlan], new: &[VariantPlan]) -> bool {
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

fn part(variant: &Variant, profile: &Profile, cores: Cores, slots: u32, share: f64) -> VariantPlan {
    let service_ms = profile.service_ms(cores);
    VariantPlan {
        name: variant.name.clone(),
        cluster: variant.cluster.clone(),
        share: Share(share),
        slots,
        batch: profile.batch,
        service_ms: if service_ms.is_finite() {
            service_ms.min(HOUR_MS as f64)
        } else {
            0.0
        },
        accuracy: variant.accuracy,
        cancels: variant.cancels,
    }
}

fn shares(
    service: &Service,
    cores: &[Cores],
    slots: &[u32],
    demand: Option<Rps>,
) -> Option<Vec<f64>> {
    let capacities = service.capacities(cores);
    let carried =
        demand.and_then(|demand| quota::by_accuracy(&capacities, &service.accuracies(), demand.0));
    let in_proportion = || quota::by_capacity(&capacities);
    // Cores that cannot keep the promise are still the only ones there are.
    let by_slots = || {
        quota::by_capacity(
            &slots
                .iter()
                .map(|slots| f64::from(*slots))
                .collect::<Vec<_>>(),
        )
    };
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
    use crate::config::tests::service;

    fn expected(demand_rps: f64) -> Forecast {
        Forecast {
            demand: Rps(demand_rps),
            settled: true,
            communication_ms: None,
        }
    }

    /// Cores and demand → shares and slots of a (0.8·(20·n − 2), 70 %, one at a time on each core)
    /// and b (0.8·(10·n − 2), 80 %, two at a time).
    fn check(cores: [u32; 2], demand: Option<f64>, shares: [f64; 2], slots: [u32; 2]) {
        let plan = draft(&service(8), &cores.map(Cores::whole), demand.map(expected)).unwrap();
        let got: Vec<_> = plan.iter().map(|part| (part.share.0, part.slots)).collect();
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
    fn without_capacity_slots_share_and_without_slots_there_is_no_plan() {
        let mut service = service(8);
        service.latency_max_ms = 1.0;
        let plan = draft(
            &service,
            &[Cores::whole(3), Cores::whole(1)],
            Some(expected(10.0)),
        )
        .unwrap();
        assert_eq!([plan[0].share.0, plan[1].share.0], [0.6, 0.4]);
        assert_eq!(
            draft(&service, &[Cores::ZERO; 2], Some(expected(10.0))),
            None
        );
    }

    proptest::proptest! {
        #[test]
        fn every_draft_passes_the_plans_own_check(
            millis in proptest::array::uniform2(0u32..9000),
            demand in proptest::option::of(0.0..500.0f64),
        ) {
            let service = service(8);
            let cores = millis.map(Cores::from_millis);
            let Some(variants) = draft(&service, &cores, demand.map(expected)) else {
                proptest::prop_assert_eq!(millis, [0, 0]);
                return Ok(());
            };
            for (part, capacity) in variants.iter().zip(service.capacities(&cores)) {
                let load = demand.unwrap_or(0.0) * part.share.0;
                let carried = service.capacities(&cores).iter().sum::<f64>() >= demand.unwrap_or(0.0);
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
        let plan = draft(
            &service(8),
            &[Cores::whole(4), Cores::whole(2)],
            Some(expected(57.6)),
        )
        .unwrap();
        type Change = fn(&mut Vec<VariantPlan>);
        let table: &[(&str, bool, Change)] = &[
            ("nothing", false, |_| {}),
            ("a little share", false, |p| p[0].share.0 += 0.004),
            ("share", true, |p| p[0].share.0 += 0.006),
            ("the last share", true, |p| p[1].share.0 = 0.0),
            ("slots", true, |p| p[0].slots += 1),
            ("service time", true, |p| p[0].service_ms += 1.0),
            ("cluster", true, |p| p[0].cluster = "other".into()),
            ("a variant", true, |p| p.truncate(1)),
        ];
        for (what, news, change) in table {
            let mut new = plan.clone();
            change(&mut new);
            assert_eq!(differs(&plan, &new), *news, "{what}");
        }
    }
}
