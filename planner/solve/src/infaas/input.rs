//! The problem as a document, and its validation.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accuracy::AccuracyShare;
use super::units::{RESOURCES_MAX, Units};
use super::{LATENCY_MS_MAX, Problem};
use crate::InputError;
use crate::input::{distinct, positive, rule, within};

/// Maximum number of architectures.
pub const ARCHITECTURES_MAX: usize = 256;
/// Maximum number of variants of one architecture.
pub const VARIANTS_MAX: usize = 32;
/// Maximum number of replicas of one variant, running or planned.
pub const REPLICAS_MAX: u32 = 10_000;
/// Maximum cost, load, amount of a resource, and weight.
pub const AMOUNT_MAX: f64 = 1e12;
/// Maximum time to load a variant: one day.
pub const LOADING_S_MAX: f64 = 86_400.0;

/// Running replicas, the load to carry, and the available resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Resource types.
    pub resources: Vec<Resource>,
    /// Model architectures, with their variants.
    pub architectures: Vec<Architecture>,
    /// λ: cost of one second of loading a replica, as a fraction of the replica's cost; 0 or more.
    #[serde(default)]
    pub loading_weight_per_s: f64,
    /// Gap at which the solver may stop before the optimum: the objective is then proven to lie
    /// within this part of the running and loading cost (0.0001 for 0.01 %). 0: only at the
    /// optimum.
    #[serde(default)]
    pub gap: f64,
}

/// Resource type, such as `cpu`, `gpu` or `inferentia`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// Name.
    pub name: String,
    /// Number of units, in use or not.
    pub available: f64,
}

/// Model architecture, of which several variants can answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Name.
    pub name: String,
    /// Arrival rate in queries/s.
    pub load_qps: f64,
    /// Additional queries/s to be ready for, absolute.
    #[serde(default)]
    pub slack_qps: f64,
    /// Latency objective in ms: a slower variant carries nothing. None: all may serve.
    #[serde(default)]
    pub slo_ms: Option<f64>,
    /// Shares of the load that require an accuracy; the rest of the load requires none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accuracies: Vec<AccuracyShare>,
    /// Variants.
    pub variants: Vec<Variant>,
}

/// Model variant: the architecture, compiled for one resource type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Name.
    pub name: String,
    /// Resource type it runs on.
    pub resource: String,
    /// Units of each resource type that a replica takes. None: one unit of its own type.
    #[serde(default)]
    pub takes: Option<BTreeMap<String, f64>>,
    /// C: cost of a replica.
    pub cost: f64,
    /// L: queries/s that a replica sustains.
    pub sustains_qps: f64,
    /// Latency of an answer, in ms.
    pub latency_ms: f64,
    /// Accuracy of the answers, in percent; used by the selection, and by the plan if a share of the load requires an
    /// accuracy.
    #[serde(default)]
    pub accuracy_percent: Option<f64>,
    /// T_load: seconds until a new replica is ready.
    #[serde(default)]
    pub loading_s: f64,
    /// N: running replicas.
    #[serde(default)]
    pub replicas: u32,
}

impl TryFrom<Input> for Problem {
    type Error = InputError;

    fn try_from(input: Input) -> Result<Problem, InputError> {
        let count = input.resources.len();
        within("resources", count, 1, RESOURCES_MAX, "resource types")?;
        distinct(input.resources.iter().map(|r| r.name.as_str()), |index| {
            format!("resources[{index}].name")
        })?;
        for (index, resource) in input.resources.iter().enumerate() {
            let path = format!("resources[{index}].available");
            within(path, resource.available, 0.0, AMOUNT_MAX, "units")?;
        }
        within(
            "loading_weight_per_s",
            input.loading_weight_per_s,
            0.0,
            AMOUNT_MAX,
            "per s",
        )?;
        within("gap", input.gap, 0.0, 1.0, "")?;
        let count = input.architectures.len();
        within(
            "architectures",
            count,
            1,
            ARCHITECTURES_MAX,
            "architectures",
        )?;
        distinct(
            input.architectures.iter().map(|a| a.name.as_str()),
            |index| format!("architectures[{index}].name"),
        )?;
        let architectures = input.architectures.iter().enumerate();
        let takes = architectures
            .map(|(index, a)| a.checked(&format!("architectures[{index}]"), &input.resources))
            .collect::<Result<Vec<_>, InputError>>()?;
        Ok(Problem { input, takes })
    }
}

impl Architecture {
    /// Returns the resources of a replica of each variant.
    fn checked(&self, path: &str, resources: &[Resource]) -> Result<Vec<Units>, InputError> {
        for (name, value) in [("load_qps", self.load_qps), ("slack_qps", self.slack_qps)] {
            within(
                format!("{path}.{name}"),
                value,
                0.0,
                AMOUNT_MAX,
                "queries/s",
            )?;
        }
        if let Some(slo_ms) = self.slo_ms {
            positive(format!("{path}.slo_ms"), slo_ms, LATENCY_MS_MAX, "ms")?;
        }
        let count = self.variants.len();
        within(
            format!("{path}.variants"),
            count,
            1,
            VARIANTS_MAX,
            "variants",
        )?;
        distinct(self.variants.iter().map(|v| v.name.as_str()), |index| {
            format!("{path}.variants[{index}].name")
        })?;
        self.check_accuracies(path)?;
        let variants = self.variants.iter().enumerate();
        variants
            .map(|(index, v)| v.checked(&format!("{path}.variants[{index}]"), resources))
            .collect()
    }
}

impl Variant {
    fn checked(&self, path: &str, resources: &[Resource]) -> Result<Units, InputError> {
        let known = |field: String, name: &str| {
            let index = resources.iter().position(|resource| resource.name == name);
            let right = "the name of one of the resources";
            rule(index.is_some(), field, format!("'{name}'"), right)?;
            Ok(index.unwrap_or_default())
        };
        let own = known(format!("{path}.resource"), &self.resource)?;
        within(format!("{path}.cost"), self.cost, 0.0, AMOUNT_MAX, "")?;
        let sustains = format!("{path}.sustains_qps");
        positive(sustains, self.sustains_qps, AMOUNT_MAX, "queries/s")?;
        let latency = format!("{path}.latency_ms");
        within(latency, self.latency_ms, 0.0, LATENCY_MS_MAX, "ms")?;
        if let Some(percent) = self.accuracy_percent {
            within(
                format!("{path}.accuracy_percent"),
                percent,
                0.0,
                100.0,
                "percent",
            )?;
        }
        within(
            format!("{path}.loading_s"),
            self.loading_s,
            0.0,
            LOADING_S_MAX,
            "s",
        )?;
        within(
            format!("{path}.replicas"),
            self.replicas,
            0,
            REPLICAS_MAX,
            "replicas",
        )?;
        let Some(takes) = &self.takes else {
            return Ok(Units::only(own, 1.0));
        };
        let mut units = Units::default();
        for (name, amount) in takes {
            let field = format!("{path}.takes.{name}");
            let index = known(field.clone(), name)?;
            let amount = within(field, *amount, 0.0, AMOUNT_MAX, "units")?;
            units = units.plus(&Units::only(index, amount), 1.0);
        }
        Ok(units)
    }
}
