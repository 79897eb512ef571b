//! The pipeline as a document, and its validation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choices::{BatchOptions, Stage, Variant};
use super::graph::Graph;
use super::{Accuracy, Problem, Weights};
use crate::InputError;
use crate::input::{distinct, positive, rule, within};
use crate::latency_model::{Latency, MS_MAX};

/// Maximum number of stages of a pipeline.
pub const STAGES_MAX: usize = 64;
/// Maximum number of variants of a stage.
pub const VARIANTS_MAX: usize = 64;
/// Maximum number of paths from the entry to an end.
pub const PATHS_MAX: usize = 64;
/// Maximum batch.
pub const BATCH_MAX: u32 = 256;
/// Maximum number of choices (a variant in a batch) of all stages together; listing them takes some
/// ms.
pub const CHOICES_MAX: usize = 1 << 17;
/// Maximum number of replicas of a stage.
pub const REPLICAS_MAX: u32 = 100_000;
/// Maximum arrival rate, in requests/s.
pub const RATE_MAX: f64 = 1e9;
/// Maximum weight.
pub const WEIGHT_MAX: f64 = 1e9;
/// Minimum cores of a replica: a Kubernetes millicore.
pub const CORES_MIN: f64 = 0.001;
/// Maximum cores of a replica.
pub const CORES_MAX: f64 = 100_000.0;
/// Minimum accuracy: products over the maximum number of stages do not underflow.
pub const ACCURACY_MIN_PERCENT: f64 = 0.01;

/// IPA's problem (Eq. 10): stages, arrival rate, SLA and weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// λ: arrival rate in requests/s; every stage receives all requests.
    pub arrival_rps: f64,
    /// Maximum latency along any path, including the wait for batches.
    pub sla_ms: f64,
    /// α, β and δ; by default 2, 1 and 1e-6.
    #[serde(default)]
    pub weights: Weights,
    /// Definition of the pipeline's accuracy.
    #[serde(default)]
    pub accuracy: Accuracy,
    /// Stages: a chain in this order, unless `after` says otherwise.
    pub stages: Vec<StageInput>,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageInput {
    /// Name.
    pub name: String,
    /// Predecessor stages; by default the one written before it. Exactly one stage has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// Variants, of which one runs.
    pub variants: Vec<VariantInput>,
}

/// One variant of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VariantInput {
    /// Name.
    pub name: String,
    /// a: 0.01 to 100.
    pub accuracy_percent: f64,
    /// R, the base allocation: cores of one replica.
    pub replica_cores: f64,
    /// Latency model l(b, R) of one replica.
    pub latency: Latency,
    /// Time for which a batch occupies its replica, by which capacity counts: h = b over it. By default `latency`,
    /// which may be a high percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<Latency>,
    /// Batches it may run: a list, or a number for 1 to that; by default 1 to 8.
    #[serde(default)]
    pub batches: Batches,
    /// q: wait of a request for its batch, for every batch size; by default (b − 1)/λ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<f64>,
    /// Maximum number of replicas; by default 100.
    #[serde(default = "replicas")]
    pub replicas_max: u32,
}

/// Batches that a variant may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Batches {
    /// 1 to this value.
    UpTo(u32),
    /// Exactly these.
    List(Vec<u32>),
}

impl Default for Batches {
    fn default() -> Batches {
        Batches::UpTo(8)
    }
}

fn replicas() -> u32 {
    100
}

impl TryFrom<Input> for Problem {
    type Error = InputError;

    fn try_from(input: Input) -> Result<Problem, InputError> {
        let (mut after, mut stages) = (Vec::new(), Vec::new());
        for (index, stage) in input.stages.into_iter().enumerate() {
            let path = format!("stages[{index}]");
            count(
                &format!("{path}.variants"),
                stage.variants.len(),
                VARIANTS_MAX,
            )?;
            let mut variants = Vec::with_capacity(stage.variants.len());
            for (index, variant) in stage.variants.into_iter().enumerate() {
                variants.push(variant.checked(&format!("{path}.variants[{index}]"))?);
            }
            stages.push((stage.name, variants));
            after.push(stage.after);
        }
        let (rate, sla) = (input.arrival_rps, input.sla_ms);
        Problem::of(rate, sla, input.weights, input.accuracy, stages, &after)
    }
}

impl Problem {
    /// Creates a problem from checked stages, as the common part of both constructors.
    pub(super) fn of(
        arrival_rps: f64,
        sla_ms: f64,
        weights: Weights,
        accuracy: Accuracy,
        stages: Vec<(String, Vec<Variant>)>,
        after: &[Option<Vec<String>>],
    ) -> Result<Problem, InputError> {
        positive("arrival_rps", arrival_rps, RATE_MAX, "requests/s")?;
        positive("sla_ms", sla_ms, MS_MAX, "ms")?;
        let Weights { alpha, beta, delta } = weights;
        for (name, weight) in [("alpha", alpha), ("beta", beta), ("delta", delta)] {
            within(format!("weights.{name}"), weight, 0.0, WEIGHT_MAX, "")?;
        }
        count("stages", stages.len(), STAGES_MAX)?;
        let names: Vec<&str> = stages.iter().map(|(name, _)| name.as_str()).collect();
        distinct(names.iter().copied(), |i| format!("stages[{i}].name"))?;
        for (index, (_, variants)) in stages.iter().enumerate() {
            let path = format!("stages[{index}].variants");
            count(&path, variants.len(), VARIANTS_MAX)?;
            let names = variants.iter().map(|variant| variant.name.as_str());
            distinct(names, |i| format!("{path}[{i}].name"))?;
        }
        let all = stages.iter().flat_map(|(_, variants)| variants);
        let choices: usize = all.map(|variant| variant.options.count()).sum();
        let right = format!("stages with at most {CHOICES_MAX} variants in batches");
        rule(choices <= CHOICES_MAX, "stages", choices, right)?;
        let graph = Graph::new(&names, after)?;
        let stages = stages
            .into_iter()
            .map(|(name, variants)| Stage::new(name, variants, arrival_rps))
            .collect();
        Ok(Problem {
            arrival_rps,
            sla_ms,
            weights,
            accuracy,
            stages,
            graph,
        })
    }
}

impl VariantInput {
    fn checked(self, path: &str) -> Result<Variant, InputError> {
        let batches = self.batches.checked(&format!("{path}.batches"))?;
        let occupancy = self.occupancy.as_ref();
        let models = std::iter::once(("latency", &self.latency));
        let models = models.chain(occupancy.map(|model| ("occupancy", model)));
        accuracy_and_cores(path, self.accuracy_percent, self.replica_cores)?;
        for (key, model) in models {
            let at = format!("{path}.{key}");
            model.check(&at)?;
            for batch in &batches {
                // A fit may dip below 0; beyond a table the latency is unknown. Neither gives a choice.
                let ms = model.ms(*batch, self.replica_cores);
                let right = format!("above 0 for every batch it may run, such as {batch}");
                rule(ms > 0.0, &at, format!("{ms} ms"), right)?;
            }
        }
        let most = format!("{path}.replicas_max");
        let replicas_max = within(most, self.replicas_max, 1, REPLICAS_MAX, "replicas")?;
        Ok(Variant {
            name: self.name,
            accuracy_percent: self.accuracy_percent,
            replica_cores: self.replica_cores,
            wait_ms: match self.wait_ms {
                Some(ms) => Some(within(format!("{path}.wait_ms"), ms, 0.0, MS_MAX, "ms")?),
                None => None,
            },
            options: BatchOptions::LatencyModel {
                latency: self.latency,
                occupancy: self.occupancy,
                batches,
                replicas_max,
            },
        })
    }
}

impl Batches {
    fn checked(self, path: &str) -> Result<Vec<u32>, InputError> {
        match self {
            Batches::UpTo(most) => {
                Ok((1..=within(path, most, 1, BATCH_MAX, "requests")?).collect())
            }
            Batches::List(list) => {
                count(path, list.len(), BATCH_MAX as usize)?;
                for (index, batch) in list.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    within(&path, *batch, 1, BATCH_MAX, "requests")?;
                    let again = list.iter().take(index).any(|before| before == batch);
                    rule(!again, path, batch, "another batch: this one stands twice")?;
                }
                Ok(list)
            }
        }
    }
}

pub(super) fn accuracy_and_cores(path: &str, percent: f64, cores: f64) -> Result<(), InputError> {
    let accuracy = format!("{path}.accuracy_percent");
    within(accuracy, percent, ACCURACY_MIN_PERCENT, 100.0, "percent")?;
    let replica = format!("{path}.replica_cores");
    within(replica, cores, CORES_MIN, CORES_MAX, "cores")?;
    Ok(())
}

pub(super) fn count(path: &str, count: usize, most: usize) -> Result<(), InputError> {
    let right = format!("1 to {most} of them");
    rule(
        (1..=most).contains(&count),
        path,
        format!("{count} items"),
        right,
    )
}
