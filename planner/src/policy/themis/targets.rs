//! Targets of a plan: the replicas of each stage, their cores, and those of new replicas.

use weir_api::Cores;

use crate::capacity::{Actual, Target};
use crate::service::{Service, Variant};
use crate::solve::themis::{Phase, Plan, Scaling};

/// Targets in the order of the variants, one per stage.
pub(super) fn targets(
    service: &Service,
    plan: &Plan,
    actual: &[Actual],
    window_full: bool,
) -> Vec<Target> {
    let of = |scaling: &Option<Scaling>, index: usize| {
        let setting = scaling.as_ref()?.stages.get(index)?;
        Some((setting.instances, service.step.times(setting.cores)))
    };
    let target = |(index, (variant, actual)): (usize, (&Variant, &Actual))| {
        let vertical = of(&plan.vertical, index);
        let horizontal = of(&plan.horizontal, index);
        let target = match plan.phase {
            Phase::Vertical => vertical.or(horizontal).map(|(instances, each)| Target {
                // Started replicas are not stopped when the load rises again.
                replicas: instances.max(actual.replicas()),
                each,
                start: horizontal.map_or(each, |(_, each)| each),
            }),
            Phase::Horizontal => horizontal.or(vertical).map(|(instances, each)| {
                let waits = instances > actual.ready.replicas() && actual.ready.replicas() > 0;
                let meanwhile = vertical.map_or(actual.ready.each(), |(_, each)| each);
                Target {
                    replicas: instances,
                    each: if waits { meanwhile.max(each) } else { each },
                    start: each,
                }
            }),
        };
        bounded(
            variant,
            *actual,
            target.unwrap_or(actual.target()),
            window_full,
        )
    };
    let each = service.variants.iter().zip(actual);
    let mut targets: Vec<Target> = each.enumerate().map(target).collect();
    if plan.phase == Phase::Horizontal && plan.vertical.is_none() {
        free_cores(service, actual, &mut targets);
    }
    targets
}

/// Adds replicas of the horizontal plan within the budget, first to the stage with the smallest part of them.
pub(super) fn start_beside(
    service: &Service,
    plan: &Plan,
    actual: &[Actual],
    targets: &mut [Target],
) {
    let budget = service.budget_cores();
    let Some(horizontal) = &plan.horizontal else {
        return;
    };
    loop {
        let each = targets.iter().zip(actual);
        let all: Cores = each
            .map(|(target, actual)| target.cores(actual.ready))
            .sum();
        let desired = targets.iter_mut().zip(&horizontal.stages);
        let fewer = desired.filter(|(target, desired)| target.replicas < desired.instances);
        let part =
            |target: &Target, instances: u32| f64::from(target.replicas) / f64::from(instances);
        let first = fewer
            .min_by(|(a, to), (b, of)| part(a, to.instances).total_cmp(&part(b, of.instances)));
        match first {
            Some((target, _)) if all + target.start <= budget => target.replicas += 1,
            _ => return,
        }
    }
}

/// Takes cores from the largest serving replicas until all starting ones fit, but leaves them the cores that new
/// replicas start with.
fn free_cores(service: &Service, actual: &[Actual], targets: &mut [Target]) {
    let budget = service.budget_cores();
    loop {
        let each = targets.iter().zip(actual);
        let all: Cores = each
            .map(|(target, actual)| target.cores(actual.ready))
            .sum();
        let larger = targets
            .iter_mut()
            .filter(|target| target.each > target.start);
        let largest = larger.max_by_key(|target| target.each);
        let Some(largest) = largest.filter(|_| all > budget) else {
            return;
        };
        largest.each = largest.each.saturating_sub(service.step).max(largest.start);
    }
}

/// Limits a target to the service's minima and, before the window is full, to no less than the actual allocation.
fn bounded(variant: &Variant, actual: Actual, target: Target, window_full: bool) -> Target {
    let min = variant.cores(variant.min);
    let now = if window_full {
        Target::default()
    } else {
        actual.target()
    };
    Target {
        replicas: target.replicas.max(variant.replicas.min).max(now.replicas),
        each: target.each.max(min).max(now.each),
        start: target.start.max(min),
    }
}
