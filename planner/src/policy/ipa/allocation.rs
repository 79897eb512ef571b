//! Actual allocation → its batches, the variant that serves each stage, whether it carries the demand, and its
//! objective. Pure.

use weir_api::{Cores, Rps};

use super::super::{DEMAND_MIN, promised, promised_by_profile, replica, waits_ms};
use super::{Ipa, Reserve, of};
use crate::capacity::Allocation;
use crate::forecast::Forecast;
use crate::profile::Profile;
use crate::service::{Service, Stage, Variant};
use crate::solve::latency_model::LatencyModel;

/// Relative rounding error of the demand.
const ROUNDING: f64 = 1e-6;

/// Batches for an allocation: for each variant the smallest that carries the demand. If none does, or variants of a
/// stage share the demand, the batch with the highest rate within the variant's part of the time left by the stages. 1
/// if demand is unknown.
pub(in crate::policy) fn batches(
    service: &Service,
    allocations: &[Allocation],
    forecast: Option<Forecast>,
    reserve: impl Fn(Forecast) -> Reserve,
) -> Vec<u32> {
    let Some(forecast) = forecast else {
        return vec![1; service.variants.len()];
    };
    let demand_rps = forecast.demand.0.max(DEMAND_MIN.0);
    let reserve = reserve(forecast);
    let each = service.variants.iter().zip(allocations);
    let carriers: Vec<Option<u32>> = each
        .map(|(variant, allocation)| carrier(variant, *allocation, demand_rps, reserve))
        .collect();
    let by = |model: fn(&Variant) -> LatencyModel| {
        by_times(service, allocations, &carriers, demand_rps, model)
    };
    let (measured, is_in_time) = by(promised);
    if is_in_time {
        return measured;
    }
    let (profiled, is_in_time) = by(promised_by_profile);
    if is_in_time { profiled } else { measured }
}

/// Batches by the times of that model, and whether the smallest batches are within the latency budget.
fn by_times(
    service: &Service,
    allocations: &[Allocation],
    carriers: &[Option<u32>],
    demand_rps: f64,
    model: fn(&Variant) -> LatencyModel,
) -> (Vec<u32>, bool) {
    let one_ms = |index: usize, variant: &Variant, batch: u32| {
        let allocation = allocations.get(index).copied().unwrap_or_default();
        model(variant).service_ms(batch, cores_each(variant, allocation))
    };
    let takes_ms = |index: usize, variant: &Variant, batch: u32| {
        one_ms(index, variant, batch) + waits_ms(variant, batch, demand_rps)
    };
    let serves = |index: usize| {
        allocations
            .get(index)
            .is_some_and(|n| *n != Allocation::NONE)
    };
    // Minimum time of each stage, and whether all its serving variants carry the demand.
    let needs: Vec<(f64, bool)> = service
        .stages
        .iter()
        .map(|stage| {
            let all = stage.variants.clone();
            let serving = all.filter(|index| serves(*index));
            let each = serving.filter_map(|index| {
                let (variant, carrier) = (service.variants.get(index)?, *carriers.get(index)?);
                let ms = takes_ms(index, variant, carrier.unwrap_or(1));
                Some((ms, carrier.is_some()))
            });
            each.fold((0.0, true), |all, one| {
                (f64::max(all.0, one.0), all.1 && one.1)
            })
        })
        .collect();
    let short = needs.iter().filter(|(_, carried)| !carried).count();
    let left_ms = service.latency_max_ms - needs.iter().map(|(ms, _)| ms).sum::<f64>();
    let part_ms = left_ms.max(0.0) / short.max(1) as f64;
    let mut batches = Vec::with_capacity(service.variants.len());
    for (stage, (need_ms, _)) in service.stages.iter().zip(&needs) {
        for index in stage.variants.clone() {
            let (Some(variant), Some(carrier)) = (service.variants.get(index), carriers.get(index))
            else {
                continue;
            };
            let in_time = |batch: &u32| takes_ms(index, variant, *batch) <= need_ms + part_ms;
            let rate = |batch: u32| f64::from(batch) / one_ms(index, variant, batch);
            let most = (1..=variant.profile.batch)
                .rev()
                .filter(in_time)
                .max_by(|a, b| rate(*a).total_cmp(&rate(*b)))
                // A variant without cores has no batch of its own.
                .filter(|_| serves(index));
            batches.push(carrier.or(most).unwrap_or(1));
        }
    }
    (batches, left_ms >= 0.0)
}

/// Whether the allocation carries the demand in its batches. It may take longer than a plan would allow for all stages
/// together, which is no reason to change variants: others would have to load first.
pub(super) fn is_carried(
    service: &Service,
    allocations: &[Allocation],
    forecast: Forecast,
) -> bool {
    let demand_rps = forecast.demand.0.max(DEMAND_MIN.0);
    let capacities = capacities(service, allocations, forecast);
    let carries = |stage: &Stage| of_stage(&capacities, stage) >= demand_rps * (1.0 - ROUNDING);
    service.stages.iter().all(carries)
}

/// Capacity of each variant in requests/s, in its batch. [`crate::plan::capacities`] itself depends on policies.
pub(super) fn capacities(
    service: &Service,
    allocations: &[Allocation],
    forecast: Forecast,
) -> Vec<f64> {
    let reserve = |forecast| Reserve::of(service, forecast);
    let batches = batches(service, allocations, Some(forecast), reserve);
    let each = service.variants.iter().zip(allocations).zip(batches);
    let capacity = |((variant, allocation), batch): ((&Variant, &Allocation), u32)| {
        let profile = Profile {
            batch,
            ..variant.profile
        };
        let one = profile
            .capacity(allocation.each(), service.latency_max_ms)
            .0;
        f64::from(allocation.replicas()) * one
    };
    each.map(capacity).collect()
}

/// Total capacity of a stage.
pub(super) fn of_stage(capacities: &[f64], stage: &Stage) -> f64 {
    let all = capacities.get(stage.variants.clone()).unwrap_or_default();
    all.iter().sum()
}

/// Smallest batch in which the allocation carries the demand.
fn carrier(
    variant: &Variant,
    allocation: Allocation,
    demand_rps: f64,
    reserve: Reserve,
) -> Option<u32> {
    let model = reserve.occupancy(variant);
    let cores = cores_each(variant, allocation);
    let each = allocation.each().as_f64();
    let at_once = allocation.replicas() * variant.profile.parallelism.at_once(each);
    let carries = |batch: &u32| {
        f64::from(at_once) * f64::from(*batch) * 1e3 / model.service_ms(*batch, cores) >= demand_rps
    };
    (1..=variant.profile.batch).find(carries)
}

/// Cores per batch; a variant without cores counts with those that it would start with.
fn cores_each(variant: &Variant, allocation: Allocation) -> f64 {
    let each = match allocation {
        Allocation::NONE if replica::is_core(variant) => 1.0,
        Allocation::NONE => variant.cores(variant.min.max(1)).as_f64(),
        allocation => allocation.each().as_f64(),
    };
    variant.profile.parallelism.cores_each(each)
}

/// Variant of a stage that serves with more than its loaded minimum, or the most accurate if none does. `None` if
/// several do, or none serves.
fn chosen<'a>(
    service: &'a Service,
    stage: &Stage,
    allocations: &[Allocation],
) -> Option<(&'a Variant, Allocation)> {
    let each = of(service, stage).iter();
    let each = each.zip(allocations.get(stage.variants.clone())?.iter().copied());
    let serving = each.filter(|(_, allocation)| *allocation != Allocation::NONE);
    let serves_more = |(variant, allocation): &(&Variant, Allocation)| {
        replica::count(variant, *allocation).0 > replica::min(variant)
    };
    let mut more = serving.clone().filter(serves_more);
    match (more.next(), more.next()) {
        (one, None) => one.or_else(|| {
            serving.max_by(|(one, _), (other, _)| one.accuracy.total_cmp(&other.accuracy))
        }),
        _ => None,
    }
}

/// Objective of the actual allocation, if one variant per stage carries the demand in time within the budget.
pub(super) fn running(
    service: &Service,
    rule: Ipa,
    allocations: &[Allocation],
    forecast: Forecast,
) -> Option<f64> {
    let each = service.variants.iter().zip(allocations);
    if !each
        .clone()
        .all(|(v, allocation)| replica::count(v, *allocation).1)
    {
        return None;
    }
    let demand = Rps(forecast.demand.0.max(DEMAND_MIN.0));
    let reserve = Reserve::of(service, forecast);
    let batches = carrying(service, allocations, demand, reserve)?;
    let stages = service.stages.iter();
    let serving = stages.filter_map(|stage| chosen(service, stage, allocations));
    let accuracy: f64 = serving.map(|(v, _)| v.accuracy / 100.0).product();
    let cores: Cores = allocations
        .iter()
        .map(|allocation| allocation.cores())
        .sum();
    Some(
        100.0 * rule.alpha * accuracy
            - rule.beta * cores.as_f64()
            - rule.delta * f64::from(batches),
    )
}

/// Sum of the batches with which the allocation carries the demand in time within the budget, if one variant per stage
/// serves.
pub(in crate::policy) fn carrying(
    service: &Service,
    allocations: &[Allocation],
    demand: Rps,
    reserve: Reserve,
) -> Option<u32> {
    let (mut latency_ms, mut batches) = (0.0, 0);
    for stage in &service.stages {
        let (variant, allocation) = chosen(service, stage, allocations)?;
        let batch = carrier(variant, allocation, demand.0, reserve)?;
        latency_ms += promised(variant).service_ms(batch, cores_each(variant, allocation));
        latency_ms += waits_ms(variant, batch, demand.0);
        batches += batch;
    }
    let cores: Cores = allocations
        .iter()
        .map(|allocation| allocation.cores())
        .sum();
    let holds = cores <= service.budget_cores() && latency_ms <= service.latency_max_ms;
    holds.then_some(batches)
}
