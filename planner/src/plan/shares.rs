//! Shares of the variants of a stage, by their capacities and the demand. Pure.
//!
//! Where a variant has no profile, those of one accuracy share in proportion to their capacities: each is measured then,
//! and none gets all because its capacity is the first that was found. One of which nothing is measured counts as the mean
//! of the others.

use weir_api::Rps;

use super::run::{Run, slow_capacities};
use crate::service::Service;
use crate::solve::infadapter::quota;

/// Steps per unit that shares are rounded to.
const SHARE_STEPS: f64 = 10_000.0;

/// Shares of the variants of a stage; `None` without slots.
pub(super) fn shares(
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
    let by_accuracy = match runs.iter().all(|run| run.variant.has_profile()) {
        true => quota::by_accuracy,
        false => {
            assume_unknown(runs, &mut capacities);
            by_accuracy_in_proportion
        }
    };
    let carried = demand.and_then(|demand| by_accuracy(&capacities, &accuracies, demand.0));
    let with_slow = || {
        let slow = slow_capacities(service, runs, failing);
        let left = demand?.0 - capacities.iter().sum::<f64>();
        let part = (left / slow.iter().sum::<f64>()).min(1.0);
        let each = capacities.iter().zip(&slow);
        let all: Vec<f64> = each.map(|(one, slow)| one + part * slow).collect();
        quota::by_capacity(&all).filter(|_| part > 0.0)
    };
    let in_proportion = || quota::by_capacity(&capacities);
    // Too slow for the latency budget, but the only cores there are.
    let by_slots = || quota::by_capacity(&slots.iter().map(|n| f64::from(*n)).collect::<Vec<_>>());
    carried
        .or_else(with_slow)
        .or_else(in_proportion)
        .or_else(by_slots)
        .map(rounded)
}

/// Rounds shares to one in [`SHARE_STEPS`]. The largest share takes the rest, so that they sum to 1.
fn rounded(shares: Vec<f64>) -> Vec<f64> {
    let mut steps: Vec<f64> = shares
        .into_iter()
        .map(|share| (share * SHARE_STEPS).round())
        .collect();
    let rest = SHARE_STEPS - steps.iter().sum::<f64>();
    if let Some(max) = steps.iter_mut().max_by(|a, b| a.total_cmp(b)) {
        *max += rest;
    }
    steps.into_iter().map(|steps| steps / SHARE_STEPS).collect()
}

/// Gives the variants of which nothing is known the mean capacity of a replica of the others; nothing to do if it is so
/// with all.
fn assume_unknown(runs: &[Run], capacities: &mut [f64]) {
    let known = runs.iter().zip(capacities.iter());
    let known = known.filter(|(run, capacity)| !run.is_unknown() && **capacity > 0.0);
    let (replicas, sum) = known.fold((0.0, 0.0), |(replicas, sum), (run, capacity)| {
        (replicas + run.replicas(), sum + capacity)
    });
    if replicas <= 0.0 {
        return;
    }
    let unknown = runs.iter().zip(capacities);
    for (run, capacity) in unknown.filter(|(run, capacity)| run.is_unknown() && **capacity > 0.0) {
        *capacity = run.replicas() * sum / replicas;
    }
}

/// As [`quota::by_accuracy`], with equally accurate variants filled together, in proportion to their capacities.
fn by_accuracy_in_proportion(
    capacities: &[f64],
    accuracies: &[f64],
    demand_rps: f64,
) -> Option<Vec<f64>> {
    let mut tiers = accuracies.to_vec();
    tiers.sort_by(f64::total_cmp);
    tiers.dedup();
    let of_tier = |tier: &f64| {
        let each = accuracies.iter().zip(capacities);
        each.filter(|(accuracy, _)| *accuracy == tier)
            .map(|(_, capacity)| capacity)
            .sum::<f64>()
    };
    let sums: Vec<f64> = tiers.iter().map(of_tier).collect();
    let shares = quota::by_accuracy(&sums, &tiers, demand_rps)?;
    let each = accuracies.iter().zip(capacities);
    let share = |(accuracy, capacity): (&f64, &f64)| {
        let mut all = tiers.iter().zip(sums.iter().zip(&shares));
        let tier = all.find(|(tier, _)| *tier == accuracy);
        tier.map_or(0.0, |(_, (sum, share))| match *sum > 0.0 {
            true => share * capacity / sum,
            false => 0.0,
        })
    };
    Some(each.map(share).collect())
}

#[cfg(test)]
mod tests {
    use weir_api::{Cores, Rps};

    use super::by_accuracy_in_proportion;
    use crate::capacity::Allocation;
    use crate::plan::draft;
    use crate::profile::{Correction, Ratio};
    use crate::service::{Inputs, Service};

    /// Shares of two variants without a profile, of a start value of 1 ms, whose times were measured or not.
    fn shares(percents: [Option<u32>; 2], demand_rps: f64) -> [f64; 2] {
        let text = "service: demo\nlisten: 127.0.0.1:0\nkeyEnv: K\nslo: 1s\n\
                    proxies: {stats: ['http://127.0.0.1:1/stats']}\n\
                    variants: [{name: a, cluster: a}, {name: b, cluster: b}]\n";
        let mut service = Service::from_yaml(text).unwrap();
        for (variant, percent) in service.variants.iter_mut().zip(percents) {
            let ratio = percent.map(|percent| Ratio {
                millis: 1000,
                percent,
            });
            variant.profile.correction = Correction::of(ratio);
        }
        let one = Allocation::one(Cores::whole(1));
        let inputs = Inputs::steady(Rps(demand_rps));
        let draft = draft(&service, &[one, one], Some(inputs)).unwrap();
        for part in &draft.variants {
            assert_eq!(
                (part.slots, part.service_ms, part.service_min_ms),
                (1, 1.0, 0.0)
            );
        }
        [0, 1].map(|index: usize| draft.variants[index].share.0)
    }

    #[test]
    fn shares_are_equal_until_rates_are_measured() {
        for demand_rps in [1.0, 20.0, 1e5] {
            assert_eq!(shares([None, None], demand_rps), [0.5, 0.5]);
            // 40 and 160 ms.
            assert_eq!(shares([Some(4000), Some(16_000)], demand_rps), [0.8, 0.2]);
            // One is measured: the other counts as much, and not by its start value.
            assert_eq!(shares([Some(4000), None], demand_rps), [0.5, 0.5]);
            // Beyond the objective, but the only one.
            let [fast, slow] = shares([Some(100_000), Some(100_000)], demand_rps);
            assert_eq!([fast, slow], [0.5, 0.5]);
        }
    }

    #[test]
    fn equally_accurate_variants_share_in_proportion() {
        for (capacities, accuracies, demand, expected) in [
            (
                [40.0, 10.0, 5.0],
                [0.0; 3],
                20.0,
                Some([0.727, 0.182, 0.091]),
            ),
            (
                [40.0, 10.0, 5.0],
                [0.7, 0.7, 0.8],
                20.0,
                Some([0.6, 0.15, 0.25]),
            ),
            (
                [40.0, 10.0, 0.0],
                [0.7, 0.8, 0.8],
                20.0,
                Some([0.5, 0.5, 0.0]),
            ),
            ([40.0, 10.0, 5.0], [0.0; 3], 56.0, None),
            ([0.0; 3], [0.0; 3], 1.0, None),
        ] {
            let got = by_accuracy_in_proportion(&capacities, &accuracies, demand);
            let got = got.map(|got| got.iter().map(|one| (one * 1e3).round() / 1e3).collect());
            let expected: Option<Vec<f64>> = expected.map(Into::into);
            assert_eq!(got, expected, "{capacities:?} {accuracies:?} {demand}");
        }
    }
}
