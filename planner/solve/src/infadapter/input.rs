//! The problem as a document, and its validation.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BUDGET_MAX, Candidate, Choice, OPTIONS_MAX, Problem, Scale, VARIANTS_MAX, Weights};
use crate::InputError;
use crate::input::{distinct, positive, rule, within};
use crate::latency_model::{Latency, Throughput};

/// Maximum demand, in requests/s.
pub const DEMAND_MAX: f64 = 1e9;
/// Maximum weight.
pub const WEIGHT_MAX: f64 = 1e9;
/// Maximum loading time, in s.
pub const READINESS_MAX_S: f64 = 86_400.0;

/// Set of variants with their cores and shares of the traffic (InfAdapter, Eq. 1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// λ: requests/s to plan for.
    pub demand_rps: f64,
    /// Factor by which the demand is multiplied before planning; 1 or more.
    #[serde(default = "one")]
    pub headroom: f64,
    /// B: budget of whole cores for all variants together.
    pub budget_cores: u32,
    /// L: maximum latency of one answer, in ms. Numbers of cores for which a variant's `latency`
    /// exceeds it have no capacity.
    #[serde(default)]
    pub latency_max_ms: Option<f64>,
    /// α, β and γ.
    pub weights: Weights,
    /// Units of the terms that α, β and γ weigh.
    #[serde(default)]
    pub scale: Scale,
    /// Variants to choose from.
    pub variants: Vec<Variant>,
}

/// One variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Unique name.
    pub name: String,
    /// Accuracy in percent.
    pub accuracy_percent: f64,
    /// Time from loading to the first answer, in s.
    #[serde(default)]
    pub readiness_s: f64,
    /// Current cores; with none it must be loaded anew.
    #[serde(default)]
    pub cores: u32,
    /// Minimum number of cores, whatever its share; 0 allows it to be unloaded.
    #[serde(default)]
    pub cores_min: u32,
    /// Minimum number of cores with which it can run at all.
    #[serde(default = "one_core")]
    pub cores_running: u32,
    /// Maximum number of cores; by default the budget.
    #[serde(default)]
    pub cores_max: Option<u32>,
    /// th: sustained throughput of its cores.
    pub throughput: Throughput,
    /// Part of the throughput to plan with, above 0 to 1 (InfAdapter's code: 0.8).
    #[serde(default = "one")]
    pub utilisation: f64,
    /// p: latency of one request on its cores.
    #[serde(default)]
    pub latency: Option<Latency>,
}

const fn one() -> f64 {
    1.0
}

const fn one_core() -> u32 {
    1
}

impl TryFrom<Input> for Problem {
    type Error = InputError;

    fn try_from(input: Input) -> Result<Problem, InputError> {
        let demand = positive("demand_rps", input.demand_rps, DEMAND_MAX, "requests/s")?;
        let headroom = within("headroom", input.headroom, 1.0, 100.0, "times the demand")?;
        within(
            "budget_cores",
            input.budget_cores,
            1,
            BUDGET_MAX,
            "whole cores",
        )?;
        for (name, weight) in [
            ("alpha", input.weights.alpha),
            ("beta", input.weights.beta),
            ("gamma", input.weights.gamma),
        ] {
            within(format!("weights.{name}"), weight, 0.0, WEIGHT_MAX, "")?;
        }
        if let Some(most) = input.latency_max_ms {
            positive("latency_max_ms", most, crate::latency_model::MS_MAX, "ms")?;
        }
        let count = input.variants.len();
        within("variants", count, 1, VARIANTS_MAX, "variants")?;
        let names = input.variants.iter().map(|variant| variant.name.as_str());
        distinct(names, |index| format!("variants[{index}].name"))?;
        let each = input.variants.iter().enumerate();
        let variants: Vec<Candidate> = each
            .map(|(index, variant)| candidate(&format!("variants[{index}]"), variant, &input))
            .collect::<Result<_, _>>()?;
        let options: usize = variants.iter().map(|variant| variant.options.len()).sum();
        let right = format!("at most {OPTIONS_MAX} numbers of cores over all variants");
        rule(
            options <= OPTIONS_MAX,
            "variants[].cores_max",
            options,
            right,
        )?;
        let min: u64 = input.variants.iter().map(|v| u64::from(v.cores_min)).sum();
        let right = format!(
            "at most budget_cores ({}) over all variants",
            input.budget_cores
        );
        rule(
            min <= u64::from(input.budget_cores),
            "variants[].cores_min",
            min,
            right,
        )?;
        Ok(Problem {
            demand_rps: demand * headroom,
            budget: input.budget_cores,
            step: 1.0,
            weights: input.weights,
            scale: input.scale,
            in_force: Some(input.variants.iter().map(|variant| variant.cores).collect()),
            variants,
        })
    }
}

fn candidate(at: &str, variant: &Variant, input: &Input) -> Result<Candidate, InputError> {
    let key = |name: &str| format!("{at}.{name}");
    within(
        key("accuracy_percent"),
        variant.accuracy_percent,
        0.0,
        100.0,
        "percent",
    )?;
    within(
        key("readiness_s"),
        variant.readiness_s,
        0.0,
        READINESS_MAX_S,
        "s",
    )?;
    within(key("cores"), variant.cores, 0, BUDGET_MAX, "whole cores")?;
    let budget = input.budget_cores;
    let max = variant.cores_max.unwrap_or(budget);
    within(
        key("cores_max"),
        max,
        1,
        budget,
        "whole cores, within budget_cores",
    )?;
    let unit = "whole cores, at most cores_max";
    within(key("cores_min"), variant.cores_min, 0, max, unit)?;
    within(key("cores_running"), variant.cores_running, 1, max, unit)?;
    let right = "above 0 to 1";
    let utilisation = variant.utilisation;
    rule(
        utilisation > 0.0 && utilisation <= 1.0,
        key("utilisation"),
        utilisation,
        right,
    )?;
    variant.throughput.check(&key("throughput"))?;
    if let Some(latency) = &variant.latency {
        latency.check(&key("latency"))?;
    }
    let right = "given, where there is a latency_max_ms";
    let known = variant.latency.is_some() || input.latency_max_ms.is_none();
    rule(known, key("latency"), "missing", right)?;
    let min = variant.cores_min;
    let all = std::iter::once(min).chain((min + 1).max(variant.cores_running)..=max);
    Ok(Candidate {
        name: variant.name.clone(),
        accuracy: variant.accuracy_percent / 100.0,
        readiness: Duration::from_secs_f64(variant.readiness_s),
        loaded: variant.cores > 0,
        options: all.map(|cores| choice(variant, input, cores)).collect(),
    })
}

fn choice(variant: &Variant, input: &Input, cores: u32) -> Choice {
    let too_slow = match (&variant.latency, input.latency_max_ms) {
        (Some(latency), Some(most)) => latency.ms(1, f64::from(cores)) > most,
        _ => false,
    };
    let capacity_rps = if cores == 0 || too_slow {
        0.0
    } else {
        variant.utilisation * variant.throughput.rps(f64::from(cores))
    };
    Choice {
        cores,
        capacity_rps,
    }
}
