//! Outcome if nothing meets all constraints: the exhausted resource, and a greedy best effort.

use super::accuracy::Shares;
use super::cover::{Cover, Item};
use super::units::Units;
use super::{Plan, Problem, REPLICAS_MAX, greedy};
use crate::{Outcome, TimeLimit};

/// Returns the outcome with `why` and the best effort.
pub(super) fn infeasible(problem: &Problem, why: String) -> Outcome<Plan> {
    Outcome::Infeasible {
        why,
        best_effort: Some(problem.plan(&allocate_greedily(problem))),
    }
}

/// Returns the best effort, if it carries everything after all.
pub(super) fn carrying(problem: &Problem) -> Option<Vec<Vec<u32>>> {
    let replicas = allocate_greedily(problem);
    greedy::carries_all(problem, &replicas).then_some(replicas)
}

/// Describes the first architecture that cannot be carried, even alone.
pub(super) fn infeasible_architecture(problem: &Problem) -> Option<String> {
    problem.input.architectures.iter().find_map(|architecture| {
        let needs = architecture.needs();
        let slo = architecture.slo_ms.map_or(String::new(), |slo_ms| {
            format!(" within its SLO of {slo_ms} ms")
        });
        needs.iter().enumerate().find_map(|(place, need)| {
            let serving = architecture.variants.iter();
            let serving =
                serving.filter(|v| architecture.may_serve(v) && needs.rank(v) > place);
            let most = serving
                .map(|v| v.sustains_qps * f64::from(REPLICAS_MAX))
                .fold(0.0, |sum, more| sum + more);
            let (accurate, needed) = (need.text(), need.qps);
            (most < needed).then(|| {
                format!(
                    "{}: its variants{slo}{accurate} can carry {most} queries/s at most, load and slack are {needed}",
                    architecture.name
                )
            })
        })
    })
}

/// Describes the first resource type of which the minimum use of all architectures exceeds the
/// available amount; if one of them alone needs more than that, it is named too.
pub(super) fn exhausted_resource(
    problem: &Problem,
    covers: &[Cover],
    available: &Units,
    time_limit: &TimeLimit<'_>,
) -> Option<String> {
    let resources = problem.input.resources.iter().enumerate();
    resources.clone().find_map(|(index, resource)| {
        let price = Units::only(index, 1.0);
        let (mut total, mut alone) = (0.0, None);
        for (cover, architecture) in covers.iter().zip(&problem.input.architectures) {
            let (_, min) = without_costs(cover).cheapest(&price, None, time_limit);
            total += min;
            if min > available.at(index) && alone.is_none() {
                alone = Some(format!(", {} alone {min}", architecture.name));
            }
        }
        (total > available.at(index)).then(|| {
            format!(
                "{}: load and slack take {total} units at the least{}, there are {}",
                resource.name,
                alone.unwrap_or_default(),
                resource.available
            )
        })
    })
}

/// The same load, without costs other than the resources'.
fn without_costs(cover: &Cover) -> Cover {
    let item = |item: &Item| Item {
        lo: 0.0,
        hi: 0.0,
        ..item.clone()
    };
    Cover {
        items: cover.items.iter().map(item).collect(),
        needs: cover.needs,
    }
}

/// Returns replicas by architecture and variant. Each step takes the variant that carries the greatest
/// part of the remaining load for the greatest part of the remaining resource that it uses, with as
/// many replicas as are needed or fit. Of equals it takes the cheapest per query/s, then the first. A variant carries
/// the load of the highest required accuracy that it has first.
fn allocate_greedily(problem: &Problem) -> Vec<Vec<u32>> {
    let architectures = &problem.input.architectures;
    let mut left = problem.available();
    let mut replicas: Vec<Vec<u32>> = architectures
        .iter()
        .map(|architecture| vec![0; architecture.variants.len()])
        .collect();
    let mut needs: Vec<Shares> = architectures.iter().map(|a| a.needs().shares()).collect();
    loop {
        let mut best: Option<(f64, f64, usize, usize, u32)> = None;
        for (i, architecture) in architectures.iter().enumerate() {
            let (Some(shares), ranks) = (needs.get(i), architecture.needs()) else {
                continue;
            };
            for (j, variant) in architecture.variants.iter().enumerate() {
                let (Some(takes), Some(has)) = (
                    problem.takes.get(i).and_then(|takes| takes.get(j)),
                    replicas.get(i).and_then(|counts| counts.get(j)),
                ) else {
                    continue;
                };
                let need = shares.open(ranks.rank(variant));
                if need <= 0.0 {
                    continue;
                }
                let fit = fitting(takes, &left).min(REPLICAS_MAX - has);
                let count = fit.min((need / variant.sustains_qps).ceil() as u32);
                if count == 0 || !architecture.may_serve(variant) {
                    continue;
                }
                let carried = need.min(f64::from(count) * variant.sustains_qps);
                let part = takes.0.iter().zip(&left.0);
                let part = part.filter(|(takes, _)| **takes > 0.0);
                let part = part.map(|(takes, left)| f64::from(count) * takes / left);
                let value = carried / part.fold(1e-9, f64::max);
                let cost_per_query = variant.cost / variant.sustains_qps;
                let better = best.is_none_or(|(most, min, ..)| {
                    value > most || (value == most && cost_per_query < min)
                });
                if better {
                    best = Some((value, cost_per_query, i, j, count));
                }
            }
        }
        let Some((_, _, i, j, count)) = best else {
            return replicas;
        };
        let takes = problem.takes.get(i).and_then(|takes| takes.get(j));
        left = left.plus(&takes.copied().unwrap_or_default(), -f64::from(count));
        if let Some(slot) = replicas.get_mut(i).and_then(|counts| counts.get_mut(j)) {
            *slot += count;
        }
        let architecture = architectures.get(i);
        let variant = architecture.and_then(|a| Some((a.needs(), a.variants.get(j)?)));
        if let (Some(shares), Some((ranks, variant))) = (needs.get_mut(i), variant) {
            shares.carry(f64::from(count) * variant.sustains_qps, ranks.rank(variant));
        }
    }
}

/// Number of replicas that fit into the rest.
pub(super) fn fitting(takes: &Units, left: &Units) -> u32 {
    let each = takes
        .0
        .iter()
        .zip(&left.0)
        .filter(|(takes, _)| **takes > 0.0);
    let most = each.map(|(takes, left)| (left / takes).floor().max(0.0));
    most.fold(f64::from(REPLICAS_MAX), f64::min) as u32
}
