//! A load that rises above what serves → what serves goes on as it is, and the quickest of what is loaded grows. Pure.
//!
//! The first looks at a rise say little of how high it comes. Cores that an accurate variant took for the first part of it
//! would have to be given up for the rest, and be nobody's while they are. So each stage grows by the variant that
//! carries the most by a core; once the load rises no more, what is best is solved for again.

use weir_api::Cores;

use super::super::{ready, replica, stay};
use super::there::{capacities, of_stage};
use crate::capacity::{Actual, Allocation, Target};
use crate::forecast::Forecast;
use crate::service::{Service, Stage};
use crate::solve::Patience;

/// Goals until the load rises no more; `None` where it does not rise, what serves carries it, the budget has no
/// room for it beside what serves, or there is no patience left to find them.
pub(super) fn beside(
    service: &Service,
    actual: &[Actual],
    forecast: Forecast,
    patience: &Patience<'_>,
) -> Option<Vec<Target>> {
    if !forecast.rises {
        return None;
    }
    let (mut targets, mut there) = (stay(actual), ready(actual));
    let mut has_grown = false;
    while let Some(stage) = weakest(service, &there, forecast) {
        let index = quickest(service, stage, &there, forecast)?;
        let (target, variant) = (targets.get_mut(index)?, service.variants.get(index)?);
        let one = there.get_mut(index)?;
        *target = replica::target(variant, replica::count(variant, *one).0 + 1);
        *one = Allocation::new(target.replicas, target.each);
        has_grown = true;
        let each = targets.iter().zip(actual);
        let cores = each.map(|(target, there)| target.cores(there.ready).max(there.reserved));
        if cores.sum::<Cores>() > Cores::whole(service.budget) || patience.is_over() {
            return None;
        }
    }
    has_grown.then_some(targets)
}

/// The stage that carries the least, if it does not carry the demand.
fn weakest<'a>(
    service: &'a Service,
    there: &[Allocation],
    forecast: Forecast,
) -> Option<&'a Stage> {
    let capacities = capacities(service, there, forecast);
    let each = service.stages.iter();
    let each = each.map(|stage| (stage, of_stage(&capacities, stage)));
    let (stage, rps) = each.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (rps < forecast.demand.0).then_some(stage)
}

/// The variant of a stage that serves, may have another replica, and carries the most more by each core of it.
fn quickest(
    service: &Service,
    stage: &Stage,
    there: &[Allocation],
    forecast: Forecast,
) -> Option<usize> {
    let before: f64 = of_stage(&capacities(service, there, forecast), stage);
    let more = |index: usize| -> Option<f64> {
        let (variant, one) = (service.variants.get(index)?, there.get(index)?);
        let (count, is_whole) = replica::count(variant, *one);
        if *one == Allocation::NONE || !is_whole || count >= replica::most(variant) {
            return None;
        }
        let target = replica::target(variant, count + 1);
        let mut then = there.to_vec();
        *then.get_mut(index)? = Allocation::new(target.replicas, target.each);
        let after = of_stage(&capacities(service, &then, forecast), stage);
        Some((after - before) / f64::from(replica::cores_each(variant)))
    };
    let all = stage
        .variants
        .clone()
        .filter_map(|index| Some((index, more(index)?)));
    let best = all.max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.filter(|(_, more)| *more > 0.0).map(|(index, _)| index)
}
