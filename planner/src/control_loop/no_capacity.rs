//! Explanations in the *why* of a decision for capacities lower than what servers execute: a variant that takes longer
//! than `latencyBudget` allows, by its profile or as measured, and `capacity.utilisation` when demand exceeds the planned
//! capacity.
//!
//! Neither changes a decision: the policies and the plan have already counted both.

use weir_api::Cores;

use crate::capacity::{Actual, Allocation};
use crate::plan::capacities;
use crate::policy::batches;
use crate::profile::Profile;
use crate::service::{Inputs, Service, SolveStatus, Variant};

/// Names the variants without capacity because of the latency budget, each with the value that would be right.
pub(super) fn over_latency_budget(
    service: &Service,
    actual: &[Actual],
    inputs: Option<Inputs>,
) -> String {
    let ready: Vec<Allocation> = actual.iter().map(|one| one.ready).collect();
    let batches = batches(service, &ready, inputs);
    let capacities = capacities(service, &ready, inputs, &[]);
    let mut notes = String::new();
    for stage in &service.stages {
        // In a stage without any capacity, the slots determine the shares.
        let shared = capacities.get(stage.variants.clone());
        let shared = shared.is_some_and(|capacities| capacities.iter().any(|rps| *rps > 0.0));
        for index in stage.variants.clone() {
            let lists = (
                service.variants.get(index),
                ready.get(index),
                batches.get(index),
            );
            let (Some(variant), Some(allocation), Some(batch)) = lists else {
                continue;
            };
            let excess = at_most_cores(service, variant);
            let excess = excess.or_else(|| now(service, variant, allocation, *batch));
            if let Some(excess) = excess {
                notes += &excess.note(service, &variant.name, shared);
            }
        }
    }
    notes
}

/// Names the variants that are within the latency budget by their profiles and not as measured. They serve all the same,
/// at the measured rate.
pub(super) fn measured_beyond_budget(
    service: &Service,
    actual: &[Actual],
    inputs: Option<Inputs>,
) -> String {
    let ready: Vec<Allocation> = actual.iter().map(|one| one.ready).collect();
    let batches = batches(service, &ready, inputs);
    let each = service.variants.iter().zip(ready.iter().zip(batches));
    let within = each.filter_map(|(variant, (allocation, batch))| {
        let profile = Profile {
            batch,
            ..variant.profile
        };
        let cores = allocation.each();
        let serves = *allocation != Allocation::NONE;
        (serves && profile.budget_ms(cores) <= service.latency_max_ms)
            .then(|| (&variant.name, profile.service_ms(cores)))
    });
    let (beyond, rest): (Vec<_>, Vec<_>) = within.partition(|(_, ms)| *ms > service.latency_max_ms);
    let who = match (beyond.as_slice(), rest.is_empty()) {
        ([], _) => return String::new(),
        ([_, _, ..], true) => "no variant".to_owned(),
        _ => {
            let names: Vec<&str> = beyond.iter().map(|(name, _)| name.as_str()).collect();
            names.join(", ")
        }
    };
    let is = if who == "no variant" { "is" } else { "is not" };
    format!(
        "; as measured, {who} {is} within the {:.0} ms of latencyBudget: shares go by measured rates",
        service.latency_max_ms
    )
}

/// Names the fraction that demand was compared with, if the decision finds that demand exceeds the capacity.
pub(super) fn utilisation(service: &Service, status: SolveStatus) -> String {
    let each = service.variants.iter();
    let used = each
        .filter(|variant| at_most_cores(service, variant).is_none())
        .map(|variant| variant.profile.utilisation);
    let (min, max) = used.fold((1.0_f64, 0.0_f64), |(min, max), one| {
        (min.min(one), max.max(one))
    });
    if status != SolveStatus::Infeasible || min >= 1.0 {
        return String::new();
    }
    let part = match min < max {
        true => format!("{min} to {max}"),
        false => format!("{min}"),
    };
    format!("; only {part} of what servers sustain is planned with (capacity.utilisation)")
}

/// Service time that exceeds the latency budget.
struct Excess {
    service_ms: f64,
    cores: Cores,
    /// Whether more cores might help.
    resizable: bool,
}

/// Excess on the most cores that the variant may have, in the smallest batch that the policy may choose.
fn at_most_cores(service: &Service, variant: &Variant) -> Option<Excess> {
    let batch = match service.policy.chooses_batches() {
        true => 1,
        false => variant.profile.batch,
    };
    let cores = variant.cores(variant.max);
    excess(service, variant, cores, batch, false)
}

/// Excess on the actual cores.
fn now(
    service: &Service,
    variant: &Variant,
    allocation: &Allocation,
    batch: u32,
) -> Option<Excess> {
    let serves = *allocation != Allocation::NONE;
    let excess = excess(service, variant, allocation.each(), batch, true);
    excess.filter(|_| serves)
}

fn excess(
    service: &Service,
    variant: &Variant,
    cores: Cores,
    batch: u32,
    resizable: bool,
) -> Option<Excess> {
    let profile = Profile {
        batch,
        ..variant.profile
    };
    let service_ms = profile.budget_ms(cores);
    (service_ms > service.latency_max_ms).then_some(Excess {
        service_ms,
        cores,
        resizable,
    })
}

impl Excess {
    fn note(&self, service: &Service, name: &str, shared: bool) -> String {
        let slo_ms = service.own_slo_ms();
        let part = service.latency_max_ms / slo_ms;
        let (cores, most) = match self.resizable {
            true => (self.cores, ""),
            false => (self.cores, ", its most"),
        };
        let takes_rest = service.stages.len() == 1 && self.service_ms <= slo_ms;
        let share = match (shared, takes_rest) {
            (true, true) => " and only the share that the others cannot carry",
            (true, false) => " and share 0",
            (false, _) => "",
        };
        let right = self.right(slo_ms);
        format!(
            "; {name} has capacity 0{share}: it takes {:.0} ms (cores: {cores}{most}), latencyBudget \
             {part:.2} of {slo_ms:.0} ms allows {:.0}; {right}",
            self.service_ms, service.latency_max_ms
        )
    }

    /// Smallest change of the service file that gives the variant a capacity.
    fn right(&self, slo_ms: f64) -> String {
        let needed = (self.service_ms / slo_ms * 100.0).ceil() / 100.0;
        if self.resizable {
            return "it needs more cores".to_owned();
        }
        match needed <= 1.0 {
            true => format!("{needed:.2} or more would do"),
            false => format!("slo of {:.0}ms or more would do", self.service_ms.ceil()),
        }
    }
}
