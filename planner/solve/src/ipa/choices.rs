//! Choices of a stage: variants with a latency model, or with given batches and replicas.

use super::input::{BATCH_MAX, REPLICAS_MAX, VARIANTS_MAX, accuracy_and_cores, count};
use super::{Accuracy, Problem, StagePlan, Weights};
use crate::input::{positive, within};
use crate::latency_model::{Latency, MS_MAX};
use crate::{InputError, TOLERANCE};

/// Stage whose variants' batches, replicas and latencies are given one by one.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenStage {
    /// Name.
    pub name: String,
    /// Predecessor stages; `None`: the stage before it.
    pub after: Option<Vec<String>>,
    /// Variants, of which one runs.
    pub variants: Vec<GivenVariant>,
}

/// Variant with its options.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenVariant {
    /// Name.
    pub name: String,
    /// a.
    pub accuracy_percent: f64,
    /// R: cores of one replica.
    pub replica_cores: f64,
    /// Options to choose from; those that do not carry λ are ignored.
    pub options: Vec<BatchOption>,
}

/// A batch and a number of replicas, with the latency of one batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchOption {
    /// b.
    pub batch: u32,
    /// n.
    pub replicas: u32,
    /// l.
    pub latency_ms: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stage {
    pub(super) name: String,
    pub(super) variants: Vec<Variant>,
    /// Choices that carry λ, by variant and batch in the input's order.
    pub(super) choices: Vec<Choice>,
    /// Greatest rate that any choice here carries.
    pub(super) most_rps: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) accuracy_percent: f64,
    pub(super) replica_cores: f64,
    pub(super) wait_ms: Option<f64>,
    pub(super) options: BatchOptions,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum BatchOptions {
    LatencyModel {
        latency: Latency,
        occupancy: Option<Latency>,
        batches: Vec<u32>,
        replicas_max: u32,
    },
    Given(Vec<BatchOption>),
}

impl BatchOptions {
    pub(super) fn count(&self) -> usize {
        match self {
            BatchOptions::LatencyModel { batches, .. } => batches.len(),
            BatchOptions::Given(options) => options.len(),
        }
    }
}

/// A variant, batch and number of replicas that carries λ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    pub(super) variant: usize,
    pub(super) batch: u32,
    pub(super) replicas: u32,
    pub(super) latency_ms: f64,
    pub(super) queue_ms: f64,
    /// n·R.
    pub(super) cores: f64,
    /// a/100.
    pub(super) factor: f64,
    /// Rank for PAS′.
    pub(super) rank: f64,
}

impl Choice {
    pub(super) fn time_ms(&self) -> f64 {
        self.latency_ms + self.queue_ms
    }
}

/// Fractional number of replicas that carry λ: λ/h, less the tolerance.
pub(super) fn needed(batch: u32, occupancy_ms: f64, arrival_rps: f64) -> f64 {
    arrival_rps * occupancy_ms / (f64::from(batch) * 1000.0) * (1.0 - TOLERANCE)
}

impl Problem {
    /// Creates a problem of given options, such as IPA's Table 3.
    ///
    /// # Errors
    /// A number out of range, an empty list or a repeated name, by the path of the field.
    pub fn of_options(
        arrival_rps: f64,
        sla_ms: f64,
        weights: Weights,
        accuracy: Accuracy,
        stages: Vec<GivenStage>,
    ) -> Result<Problem, InputError> {
        let (mut after, mut checked) = (Vec::new(), Vec::new());
        for (index, stage) in stages.into_iter().enumerate() {
            let path = format!("stages[{index}].variants");
            count(&path, stage.variants.len(), VARIANTS_MAX)?;
            let mut variants = Vec::with_capacity(stage.variants.len());
            for (index, variant) in stage.variants.into_iter().enumerate() {
                variants.push(variant.checked(&format!("{path}[{index}]"))?);
            }
            checked.push((stage.name, variants));
            after.push(stage.after);
        }
        Problem::of(arrival_rps, sla_ms, weights, accuracy, checked, &after)
    }
}

impl GivenVariant {
    fn checked(self, path: &str) -> Result<Variant, InputError> {
        accuracy_and_cores(path, self.accuracy_percent, self.replica_cores)?;
        count(
            &format!("{path}.options"),
            self.options.len(),
            BATCH_MAX as usize,
        )?;
        for (index, option) in self.options.iter().enumerate() {
            let path = format!("{path}.options[{index}]");
            within(
                format!("{path}.batch"),
                option.batch,
                1,
                BATCH_MAX,
                "requests",
            )?;
            let replicas = format!("{path}.replicas");
            within(replicas, option.replicas, 1, REPLICAS_MAX, "replicas")?;
            positive(
                format!("{path}.latency_ms"),
                option.latency_ms,
                MS_MAX,
                "ms",
            )?;
        }
        Ok(Variant {
            name: self.name,
            accuracy_percent: self.accuracy_percent,
            replica_cores: self.replica_cores,
            wait_ms: None,
            options: BatchOptions::Given(self.options),
        })
    }
}

impl Variant {
    /// q in ms: (b − 1)/λ (Eq. 7), unless it is given.
    pub(super) fn queue_ms(&self, batch: u32, arrival_rps: f64) -> f64 {
        let fill_ms = || f64::from(batch.saturating_sub(1)) * 1000.0 / arrival_rps;
        self.wait_ms.unwrap_or_else(fill_ms)
    }

    /// Returns the time for which a batch of that latency occupies its replica, in ms.
    pub(super) fn occupancy_ms(&self, batch: u32, latency_ms: f64) -> f64 {
        match &self.options {
            BatchOptions::LatencyModel {
                occupancy: Some(model),
                ..
            } => model.ms(batch, self.replica_cores),
            _ => latency_ms,
        }
    }

    /// Returns the options, with the minimum number of replicas that carry λ where none is given,
    /// and with the maximum number of replicas.
    fn options(&self, arrival_rps: f64) -> Vec<(BatchOption, u32)> {
        match &self.options {
            BatchOptions::Given(options) => options.iter().map(|o| (*o, o.replicas)).collect(),
            BatchOptions::LatencyModel {
                latency,
                batches,
                replicas_max,
                ..
            } => {
                let option = |batch: &u32| {
                    let latency_ms = latency.ms(*batch, self.replica_cores);
                    let occupancy_ms = self.occupancy_ms(*batch, latency_ms);
                    let min = needed(*batch, occupancy_ms, arrival_rps).ceil().max(1.0);
                    let replicas = if min <= f64::from(*replicas_max) {
                        min as u32
                    } else {
                        *replicas_max
                    };
                    let option = BatchOption {
                        batch: *batch,
                        replicas,
                        latency_ms,
                    };
                    (option, *replicas_max)
                };
                batches.iter().map(option).collect()
            }
        }
    }
}

impl Stage {
    pub(super) fn new(name: String, variants: Vec<Variant>, arrival_rps: f64) -> Stage {
        let (mut choices, mut most_rps) = (Vec::new(), 0.0f64);
        let ranks = ranks(&variants);
        for (index, (variant, rank)) in variants.iter().zip(ranks).enumerate() {
            for (option, most) in variant.options(arrival_rps) {
                let occupancy_ms = variant.occupancy_ms(option.batch, option.latency_ms);
                let one_rps = f64::from(option.batch) * 1000.0 / occupancy_ms;
                most_rps = most_rps.max(f64::from(most) * one_rps);
                let carries =
                    f64::from(option.replicas) >= needed(option.batch, occupancy_ms, arrival_rps);
                if !option.latency_ms.is_finite() || !carries {
                    continue;
                }
                choices.push(Choice {
                    variant: index,
                    batch: option.batch,
                    replicas: option.replicas,
                    latency_ms: option.latency_ms,
                    queue_ms: variant.queue_ms(option.batch, arrival_rps),
                    cores: f64::from(option.replicas) * variant.replica_cores,
                    factor: variant.accuracy_percent / 100.0,
                    rank,
                });
            }
        }
        Stage {
            name,
            variants,
            choices,
            most_rps,
        }
    }

    pub(super) fn min_ms(&self) -> f64 {
        let times = self.choices.iter().map(Choice::time_ms);
        times.fold(f64::INFINITY, f64::min)
    }

    pub(super) fn plan(&self, choice: &Choice) -> Option<StagePlan> {
        let variant = self.variants.get(choice.variant)?;
        Some(StagePlan {
            stage: self.name.clone(),
            variant: variant.name.clone(),
            batch: choice.batch,
            replicas: choice.replicas,
            cores: choice.cores,
            latency_ms: choice.latency_ms,
            queue_ms: choice.queue_ms,
            accuracy_percent: variant.accuracy_percent,
        })
    }
}

/// Rank of the accuracy of each variant among the distinct ones, 0 to 1.
pub(super) fn ranks(variants: &[Variant]) -> Vec<f64> {
    let mut distinct: Vec<f64> = variants.iter().map(|v| v.accuracy_percent).collect();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    let last = distinct.len().saturating_sub(1);
    let rank = |variant: &Variant| {
        let place = distinct.partition_point(|a| *a < variant.accuracy_percent);
        if last == 0 {
            1.0
        } else {
            place as f64 / last as f64
        }
    };
    variants.iter().map(rank).collect()
}
