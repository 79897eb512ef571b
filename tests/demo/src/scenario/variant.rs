//! One variant: the keys of the service file that the demo needs, and its emulated server.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, de};
use weir_bed::emulator::{LatencyModel, Noise, Parallelism, ReplicasConfig, ServerConfig};
use weir_planner::spec::RawDuration;

use super::{Field, MODEL};

/// The 99 % quantile of the standard normal distribution.
const Z_99: f64 = 2.326;

/// The keys of one variant that the demo needs; the planner parses and validates all of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) accuracy: f64,
    cores: Cores,
    #[serde(default)]
    replicas: Replicas,
    capacity: Option<Capacity>,
    latency: Latency,
    #[serde(default = "one")]
    batch: NonZeroU32,
    /// Batch window of its server.
    #[serde(default)]
    batch_delay: RawDuration,
    /// Load time.
    #[serde(default)]
    readiness: RawDuration,
}

#[derive(Debug, Clone, Deserialize)]
struct Cores {
    initial: u32,
}

/// Replicas behind one address: the emulator distributes its cores over them.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Replicas {
    initial: NonZeroU32,
}

impl Default for Replicas {
    fn default() -> Self {
        Replicas { initial: one() }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Capacity {
    slope_rps: f64,
    intercept_rps: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Latency {
    gamma_ms: f64,
    epsilon_ms: f64,
    delta_ms: f64,
    eta_ms: f64,
    #[serde(deserialize_with = "parallelism")]
    parallelism: Parallelism,
    tail: f64,
}

impl Variant {
    /// Capacity on its starting cores, in requests/s: by the published line if there is one, else
    /// with full batches at the high percentile of the service time.
    pub(crate) fn capacity_rps(&self) -> f64 {
        if let Some(line) = &self.capacity {
            return line.slope_rps * self.initial_cores() + line.intercept_rps;
        }
        let together = f64::from(self.at_once()) * f64::from(self.batch.get());
        together * 1000.0 / self.predicted_ms(self.batch.get())
    }

    /// Its cores at the start, and throughout in the sets that are not resized.
    pub(crate) fn initial_cores(&self) -> f64 {
        f64::from(self.cores.initial * self.replicas.initial.get())
    }

    fn parallelism(&self) -> Parallelism {
        match (self.latency.parallelism, self.replicas.initial) {
            (Parallelism::Fixed(each), replicas) => {
                Parallelism::Fixed(each.saturating_mul(replicas))
            }
            (Parallelism::PerCore, _) => Parallelism::PerCore,
        }
    }

    /// Its maximum batch.
    pub(crate) fn batch(&self) -> u32 {
        self.batch.get()
    }

    /// Number of batches that its starting cores execute at once.
    pub(crate) fn at_once(&self) -> u32 {
        self.parallelism().at_once(self.initial_cores())
    }

    /// High percentile of the time of a single request on the starting cores.
    pub(crate) fn alone_ms(&self) -> f64 {
        self.predicted_ms(1)
    }

    fn predicted_ms(&self, batch: u32) -> f64 {
        let cores = self.parallelism().cores_each(self.initial_cores());
        self.model().service_ms(batch, cores) * self.latency.tail
    }

    pub(super) fn model(&self) -> LatencyModel {
        let Latency {
            gamma_ms,
            epsilon_ms,
            delta_ms,
            eta_ms,
            ..
        } = self.latency;
        LatencyModel {
            gamma_ms,
            epsilon_ms,
            delta_ms,
            eta_ms,
        }
    }

    /// Its emulated server.
    pub(crate) fn emulator(&self, seed: u64) -> ServerConfig {
        let noise = Noise {
            sigma: sigma(self.latency.tail),
            seed,
        };
        ServerConfig {
            aliases: vec![MODEL.to_owned()],
            cores: self.initial_cores(),
            parallelism: self.parallelism(),
            batch_max: self.batch,
            batch_delay: self.batch_delay.0,
            noise: Some(noise),
            ..ServerConfig::new(&self.name, self.model())
        }
    }

    /// Its emulated servers.
    pub(crate) fn replicas(&self, field: Field, seed: u64) -> ReplicasConfig {
        ReplicasConfig {
            count: field.replicas,
            readiness: match field.at_once {
                true => Duration::ZERO,
                false => self.readiness.0,
            },
            resize_delay: field.resize_delay(),
            ..ReplicasConfig::one(self.emulator(seed))
        }
    }

    #[cfg(test)]
    pub(super) fn slope_rps(&self) -> Option<f64> {
        self.capacity.as_ref().map(|line| line.slope_rps)
    }

    #[cfg(test)]
    pub(super) fn tail(&self) -> f64 {
        self.latency.tail
    }
}

/// `per-core`, or the number of executions that share the cores.
fn parallelism<'de, D: Deserializer<'de>>(from: D) -> Result<Parallelism, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ParallelismForm {
        Fixed(NonZeroU32),
        Named(String),
    }
    match ParallelismForm::deserialize(from)? {
        ParallelismForm::Fixed(batches) => Ok(Parallelism::Fixed(batches)),
        ParallelismForm::Named(name) if name == "per-core" => Ok(Parallelism::PerCore),
        ParallelismForm::Named(name) => Err(D::Error::invalid_value(
            de::Unexpected::Str(&name),
            &"per-core, or the number of batches executed at once",
        )),
    }
}

const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// σ of the log-normal distribution with mean 1 whose 99th percentile is `tail`:
/// exp(z·σ − σ²/2) = tail.
pub(super) fn sigma(tail: f64) -> f64 {
    Z_99 - (Z_99 * Z_99 - 2.0 * tail.ln()).max(0.0).sqrt()
}
