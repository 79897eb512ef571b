//! What the demo is about: the service and its variants, and the load, all stated before the run.
//!
//! Everything about the service comes from a file of `demo/`, one for each policy of the planner; the
//! load's figures are constants in [`load`]. Nothing is derived from a run's result.

mod load;
mod variant;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_tests::envoy::Careful;
use weir_tests::network::Network;

pub(crate) use load::Load;
pub(crate) use variant::Variant;

/// An answer on its way down.
pub(crate) const ANSWER_BYTES: u64 = 500;
/// After this a client leaves.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// What the filter keeps back for the answer's way to the client: half the synthetic network's round
/// trip, and 10 ms.
pub(crate) const RESERVE_MS: u64 = 30;
/// The model's name for clients, which do not name a variant.
pub(crate) const MODEL: &str = "classifier";

/// Whose problem the planner solves; each has its own service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Policy {
    /// Which of three variants, with how many cores and what share of a load that swells.
    #[default]
    Infadapter,
    /// Cores and batch of one variant, under a steady load over a network that is not.
    Sponge,
}

impl Policy {
    /// The planner's service file without addresses, and its name.
    fn file(self) -> (&'static str, &'static str) {
        macro_rules! file {
            ($name:literal) => {
                (
                    $name,
                    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $name)),
                )
            };
        }
        match self {
            Policy::Infadapter => file!("demo/service.yaml"),
            Policy::Sponge => file!("demo/sponge.yaml"),
        }
    }
}

/// The service.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Scenario {
    pub(crate) service: String,
    #[serde(default)]
    pub(crate) policy: Policy,
    pub(crate) slo_ms: u64,
    pub(crate) budget: Budget,
    pub(crate) key_env: String,
    pub(crate) variants: Vec<Variant>,
}

/// The cores of one set of variants together.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Budget {
    pub(crate) cores: u32,
}

impl Scenario {
    /// The one of that policy.
    pub(crate) fn shipped(policy: Policy) -> Result<Scenario> {
        let (name, text) = policy.file();
        serde_saphyr::from_str(text).context(name)
    }

    pub(crate) fn slo(&self) -> Duration {
        Duration::from_millis(self.slo_ms)
    }

    /// Accuracy in percent of the variant of that name.
    pub(crate) fn accuracy(&self, name: &str) -> Option<f64> {
        self.variants
            .iter()
            .find(|variant| variant.name == name)
            .map(|variant| variant.accuracy)
    }

    /// What is sent.
    pub(crate) fn load(&self) -> Load {
        Load::of(self.policy, self.static_capacity_rps())
    }

    /// What the starting split sustains, in requests/s.
    pub(crate) fn static_capacity_rps(&self) -> f64 {
        self.variants.iter().map(Variant::capacity_rps).sum()
    }

    /// The most requests that any variant executes together.
    pub(crate) fn greatest_batch(&self) -> u32 {
        let batches = self.variants.iter().map(Variant::batch);
        batches.max().unwrap_or(1)
    }

    /// The planner's service file with its addresses.
    pub(crate) fn service_file(
        &self,
        listen: SocketAddr,
        stats: &str,
        resize: &[String],
    ) -> Result<String> {
        let (name, text) = self.policy.file();
        let mut file: Value = serde_saphyr::from_str(text).context(name)?;
        let keys = file
            .as_object_mut()
            .with_context(|| format!("{name}: not a mapping"))?;
        keys.insert("listen".into(), json!(listen.to_string()));
        keys.insert("proxies".into(), json!({ "stats": [stats] }));
        let variants = keys.get_mut("variants").and_then(Value::as_array_mut);
        for (variant, url) in variants
            .context("variants: not a list")?
            .iter_mut()
            .zip(resize)
        {
            let keys = variant.as_object_mut().context("variants: not mappings")?;
            keys.insert("resize".into(), json!(url));
        }
        // JSON is YAML.
        Ok(serde_json::to_string_pretty(&file)?)
    }

    /// The plugin configuration: the planner, and equal shares until its first plan.
    pub(crate) fn plugin(&self, key: &str) -> Value {
        let share = 1.0 / self.variants.len() as f64;
        let variant = |variant: &Variant| {
            json!({
                "name": variant.name, "cluster": variant.cluster, "share": share,
                "slots": variant.at_once(), "accuracy": variant.accuracy,
                "service_ms": variant.alone_ms(),
            })
        };
        let variants: Vec<Value> = self.variants.iter().map(variant).collect();
        json!({
            "service": self.service,
            "deadline": { "default_ms": self.slo_ms, "reserve_ms": RESERVE_MS },
            "planner": { "cluster": "planner", "authority": "planner.local", "key": key },
            "plan": {
                "format": weir_api::plan::FORMAT, "service": self.service, "revision": 1,
                "max_age_ms": weir_api::plan::HOUR_MS, "variants": variants,
            },
        })
    }

    /// The careful engineer's cluster: weights as the capacities, and no more requests at once than
    /// that capacity answers within the SLO (Little's law).
    pub(crate) fn careful(&self, hosts: &[SocketAddr]) -> Careful {
        const GREATEST_WEIGHT: f64 = 100.0;
        let most = self
            .variants
            .iter()
            .map(Variant::capacity_rps)
            .fold(1.0, f64::max);
        let weight = |variant: &Variant| {
            (variant.capacity_rps() / most * GREATEST_WEIGHT)
                .round()
                .max(1.0) as u32
        };
        let at_once = (self.static_capacity_rps() * self.slo().as_secs_f64()).round() as u32;
        Careful {
            hosts: hosts
                .iter()
                .copied()
                .zip(self.variants.iter().map(weight))
                .collect(),
            timeout: self.slo(),
            max_requests: at_once,
            max_pending_requests: at_once,
        }
    }
}

/// The network: the log where one is given, else synthetic 4G out of the seed.
pub(crate) fn network(log: Option<&Path>, seed: u64, seconds: usize) -> Result<Network> {
    match log {
        Some(path) => Network::from_file(path),
        None => Network::synthetic_4g(seed, seconds + PATIENCE.as_secs() as usize),
    }
}

#[cfg(test)]
mod tests;
