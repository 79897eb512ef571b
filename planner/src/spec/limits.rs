//! Validation of the replicas' resources other than cores, and of their limits.

use std::collections::BTreeMap;

use super::raw::{RawAmount, RawStage, RawVariant};
use crate::capacity::{Amount, LIMITS_MAX, ResourceLimit, ResourceLimits};
use crate::quantity;
use crate::service::rule::{refusal, rule, within};
use crate::service::{ConfigError, Stage, Variant};

/// Resources used by each variant's replicas, with the path of the variant.
pub(super) type Resources = Vec<(String, BTreeMap<String, RawAmount>)>;

/// Returns the resources of all variants, in their order.
pub(super) fn resources(variants: Option<&[RawVariant]>, stages: Option<&[RawStage]>) -> Resources {
    let of = |path: String, all: &[RawVariant]| -> Resources {
        let each = all.iter().enumerate();
        each.map(|(index, raw)| (format!("{path}[{index}]"), raw.resources.clone()))
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
pub(super) fn limits(
    budget: &BTreeMap<String, RawAmount>,
    resources: &Resources,
    stages: &[Stage],
    variants: &[Variant],
) -> Result<ResourceLimits, ConfigError> {
    let unit = "kinds of resources";
    within("budget.resources", budget.len(), 0..=LIMITS_MAX, unit)?;
    for (path, used) in resources {
        let unlimited = used.keys().find(|name| !budget.contains_key(*name));
        if let Some(name) = unlimited {
            let right = "left out, or limited by budget.resources";
            return Err(refusal(format!("{path}.resources.{name}"), "given", right));
        }
    }
    let mut limits = Vec::with_capacity(budget.len());
    for (name, most) in budget {
        let path = format!("budget.resources.{name}");
        let right = "a resource of Kubernetes that is requested for containers, such as memory or nvidia.com/gpu";
        rule(is_resource(name), &path, "given", right)?;
        let right = "left out: cores are budget.cores";
        rule(name != "cpu" && name != "cores", &path, "given", right)?;
        let most = amount(&path, most)?;
        let mut each = Vec::with_capacity(resources.len());
        for (at, used) in resources {
            let path = format!("{at}.resources.{name}");
            let amount = used.get(name).map(|raw| amount(&path, raw));
            each.push(amount.transpose()?.unwrap_or(0));
        }
        let limit = ResourceLimit {
            name: name.clone(),
            most,
            each,
        };
        check(&limit, resources, stages, variants)?;
        limits.push(limit);
    }
    Ok(ResourceLimits(limits))
}

fn check(
    limit: &ResourceLimit,
    resources: &Resources,
    stages: &[Stage],
    variants: &[Variant],
) -> Result<(), ConfigError> {
    let (name, most) = (&limit.name, limit.most);
    let right = format!("at most budget.resources.{name} ({})", Amount(most));
    for ((path, _), each) in resources.iter().zip(&limit.each) {
        rule(
            *each <= most,
            format!("{path}.resources.{name}"),
            Amount(*each),
            &right,
        )?;
    }
    let count = |count: fn(&Variant) -> u32| -> Vec<u32> { variants.iter().map(count).collect() };
    let initial = limit.used(&count(|variant| variant.initial.replicas()));
    let right = format!(
        "at most budget.resources.{name} ({}) for all replicas that there are at first",
        Amount(most)
    );
    let path = format!("variants[].resources.{name}");
    rule(initial <= most, &path, Amount(initial), &right)?;
    // Every stage serves with at least one of its variants.
    let fewest = count(Variant::fewest);
    let mut min = limit.used(&fewest);
    for stage in stages {
        let all = || stage.variants.clone();
        if all().all(|index| fewest.get(index) == Some(&0)) {
            let lightest = all().filter_map(|index| limit.each.get(index)).min();
            min = min.saturating_add(lightest.copied().unwrap_or(0));
        }
    }
    let right = format!(
        "at most budget.resources.{name} ({}) for the fewest replicas with which all stages serve",
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
