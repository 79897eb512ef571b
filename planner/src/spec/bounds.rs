//! Validation of the replicas' resources other than cores, and of their limits.

use std::collections::BTreeMap;

use super::raw::{RawAmount, RawStage, RawVariant};
use crate::capacity::{Amount, BOUNDS_MAX, ResourceLimit, ResourceLimits};
use crate::quantity;
use crate::service::rule::{refusal, rule, within};
use crate::service::{ConfigError, Stage, Variant};

/// Resources used by each variant's replicas, with the path of the variant.
pub(super) type Holds = Vec<(String, BTreeMap<String, RawAmount>)>;

/// Returns the resources of all variants, in their order.
pub(super) fn holds(variants: Option<&[RawVariant]>, stages: Option<&[RawStage]>) -> Holds {
    let of = |path: String, all: &[RawVariant]| -> Holds {
        let each = all.iter().enumerate();
        each.map(|(index, raw)| (format!("{path}[{index}]"), raw.holds.clone()))
            .collect()
    };
    let stages = stages.unwrap_or_default().iter().enumerate();
    let of_stages =
        stages.flat_map(|(index, stage)| of(format!("stages[{index}].variants"), &stage.variants));
    let alone = of("variants".to_owned(), variants.unwrap_or_default());
    alone.into_iter().chain(of_stages).collect()
}

/// Validates the resource limits. The initial replicas and the fewest replicas with which all stages serve
/// must fit.
pub(super) fn bounds(
    held: &BTreeMap<String, RawAmount>,
    holds: &Holds,
    stages: &[Stage],
    variants: &[Variant],
) -> Result<ResourceLimits, ConfigError> {
    let unit = "kinds of what replicas hold";
    within("budget.held", held.len(), 0..=BOUNDS_MAX, unit)?;
    for (path, holds) in holds {
        let unbounded = holds.keys().find(|name| !held.contains_key(*name));
        if let Some(name) = unbounded {
            let right = "left out, or bounded by budget.held";
            return Err(refusal(format!("{path}.holds.{name}"), "given", right));
        }
    }
    let mut bounds = Vec::with_capacity(held.len());
    for (name, most) in held {
        let path = format!("budget.held.{name}");
        let right = "a resource of Kubernetes that is requested for containers, such as memory or nvidia.com/gpu";
        rule(is_resource(name), &path, "given", right)?;
        let right = "left out: cores are budget.cores";
        rule(name != "cpu" && name != "cores", &path, "given", right)?;
        let most = amount(&path, most)?;
        let mut each = Vec::with_capacity(holds.len());
        for (at, holds) in holds {
            let path = format!("{at}.holds.{name}");
            let amount = holds.get(name).map(|raw| amount(&path, raw));
            each.push(amount.transpose()?.unwrap_or(0));
        }
        let bound = ResourceLimit {
            name: name.clone(),
            most,
            each,
        };
        check(&bound, holds, stages, variants)?;
        bounds.push(bound);
    }
    Ok(ResourceLimits(bounds))
}

fn check(
    bound: &ResourceLimit,
    holds: &Holds,
    stages: &[Stage],
    variants: &[Variant],
) -> Result<(), ConfigError> {
    let (name, most) = (&bound.name, bound.most);
    let right = format!("at most budget.held.{name} ({})", Amount(most));
    for ((path, _), each) in holds.iter().zip(&bound.each) {
        rule(
            *each <= most,
            format!("{path}.holds.{name}"),
            Amount(*each),
            &right,
        )?;
    }
    let count = |count: fn(&Variant) -> u32| -> Vec<u32> { variants.iter().map(count).collect() };
    let initial = bound.held(&count(|variant| variant.initial.replicas()));
    let right = format!(
        "at most budget.held.{name} ({}) for all replicas that there are at first",
        Amount(most)
    );
    let path = format!("variants[].holds.{name}");
    rule(initial <= most, &path, Amount(initial), &right)?;
    // Every stage serves with at least one of its variants.
    let fewest = count(Variant::fewest);
    let mut min = bound.held(&fewest);
    for stage in stages {
        let all = || stage.variants.clone();
        if all().all(|index| fewest.get(index) == Some(&0)) {
            let lightest = all().filter_map(|index| bound.each.get(index)).min();
            min = min.saturating_add(lightest.copied().unwrap_or(0));
        }
    }
    let right = format!(
        "at most budget.held.{name} ({}) for the fewest replicas with which all stages serve",
        Amount(most)
    );
    rule(min <= most, &path, Amount(min), &right)
}

/// Returns the amount in whole bytes or devices.
fn amount(path: &str, raw: &RawAmount) -> Result<u64, ConfigError> {
    let amount = match raw {
        RawAmount::Number(number) => Some(*number),
        RawAmount::Text(text) => quantity::whole(text),
    };
    let right = "whole bytes or pieces, such as 64Gi, 1536Mi or 4";
    amount.ok_or_else(|| refusal(path, raw, right))
}

/// Whether the name is a qualified name of Kubernetes.
fn is_resource(name: &str) -> bool {
    let plain = |part: &str| {
        (1..=63).contains(&part.len())
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            && part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    match name.split_once('/') {
        Some((domain, name)) => plain(domain) && plain(name),
        None => plain(name),
    }
}
