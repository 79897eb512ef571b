//! A load rising above the actual capacity → the actual allocation plus replicas of the variants with the highest
//! capacity per core. Pure.
//!
//! The first samples of a rise do not show its height. Cores given to an accurate variant early would have to be
//! moved again later, and carry no load meanwhile. So each stage grows by the variant that carries the most per core.
//! Once the load stops rising, the optimum is solved for again.

use weir_api::Cores;

use super::super::{ready, replica, stay};
use super::allocation::{capacities, of_stage};
use crate::capacity::{Actual, Allocation, Target};
use crate::forecast::Forecast;
use crate::service::{Service, Stage};
use crate::solve::TimeLimit;

/// Targets until the load stops rising. `None` if it does not rise, the actual capacity carries it, the budget has no
/// room beside the actual allocation, or the solver's time is over.
pub(super) fn beside(
    service: &Service,
    actual: &[Actual],
    forecast: Forecast,
    time_limit: &TimeLimit<'_>,
) -> Option<Vec<Target>> {
    if !forecast.rises {
        return None;
    }
    let (mut targets, mut allocations) = (stay(actual), ready(actual));
    let mut has_grown = false;
    while let Some(stage) = weakest(service, &allocations, forecast) {
        let index = quickest(service, stage, &allocations, forecast)?;
        let (target, variant) = (targets.get_mut(index)?, service.variants.get(index)?);
        let one = allocations.get_mut(index)?;
        *target = replica::target(variant, replica::count(variant, *one).0 + 1);
        *one = Allocation::new(target.replicas, target.each);
        has_grown = true;
        let each = targets.iter().zip(actual);
        let cores = each.map(|(target, actual)| target.cores(actual.ready).max(actual.reserved));
        if cores.sum::<Cores>() > service.budget_cores() || time_limit.is_over() {
            return None;
        }
    }
    has_grown.then_some(targets)
}

/// Stage with the lowest capacity, if that is below the demand.
fn weakest<'a>(
    service: &'a Service,
    allocations: &[Allocation],
    forecast: Forecast,
) -> Option<&'a Stage> {
    let capacities = capacities(service, allocations, forecast);
    let each = service.stages.iter();
    let each = each.map(|stage| (stage, of_stage(&capacities, stage)));
    let (stage, rps) = each.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (rps < forecast.demand.0).then_some(stage)
}

/// Serving variant of a stage that may have another replica and gains the most capacity per core from it.
fn quickest(
    service: &Service,
    stage: &Stage,
    allocations: &[Allocation],
    forecast: Forecast,
) -> Option<usize> {
    let before: f64 = of_stage(&capacities(service, allocations, forecast), stage);
    let more = |index: usize| -> Option<f64> {
        let (variant, one) = (service.variants.get(index)?, allocations.get(index)?);
        let (count, is_whole) = replica::count(variant, *one);
        if *one == Allocation::NONE || !is_whole || count >= replica::most(variant) {
            return None;
        }
        let target = replica::target(variant, count + 1);
        let mut then = allocations.to_vec();
        *then.get_mut(index)? = Allocation::new(target.replicas, target.each);
        let after = of_stage(&capacities(service, &then, forecast), stage);
        Some((after - before) / replica::cores_each(variant).as_f64())
    };
    let all = stage
        .variants
        .clone()
        .filter_map(|index| Some((index, more(index)?)));
    let best = all.max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.filter(|(_, more)| *more > 0.0).map(|(index, _)| index)
}
