//! The demo's service with its variants, and the load, all fixed before the run.
//!
//! The service comes from a file of `demo/`, one for each policy of the planner. The load's
//! parameters are constants in [`load`]. Nothing is derived from the result of a run.

mod field;
mod load;
mod stage;
mod variant;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_bed::load::STAGES;
use weir_bed::network::Network;
use weir_planner::spec::RawDuration;

pub(crate) use field::Field;
pub(crate) use load::Load;
pub(crate) use stage::Stage;
pub(crate) use variant::Variant;

/// Size of a response.
pub(crate) const ANSWER_BYTES: u64 = 500;
/// Time after which a client disconnects.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// The filter's reserve for the response's return to the client: half the synthetic network's round
/// trip, and 3 ms for delays on this machine.
pub(crate) const RESERVE_MS: u64 = 23;
/// Model name used by clients, which do not name a variant.
pub(crate) const MODEL: &str = "classifier";

/// Policy of the planner; each has its own service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Policy {
    /// InfAdapter: the subset of three variants, their cores and their shares, under a load that
    /// rises and falls.
    #[default]
    Infadapter,
    /// Sponge: cores and batch of one variant, under a steady load over a varying network.
    Sponge,
    /// IPA: one variant, its replicas and batch at each stage of a pipeline, under a load that
    /// rises and falls.
    Ipa,
    /// Themis: cores, replicas and batch at each stage of a pipeline, under a load that rises and
    /// falls.
    Themis,
}

impl Policy {
    /// Name and text of the planner's service file, without addresses.
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
            Policy::Infadapter => file!("service.yaml"),
            Policy::Sponge => file!("sponge.yaml"),
            Policy::Ipa => file!("ipa.yaml"),
            Policy::Themis => file!("themis.yaml"),
        }
    }
}

/// The service of a demo.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "ServiceFile")]
pub(crate) struct Scenario {
    pub(crate) service: String,
    pub(crate) policy: Policy,
    pub(crate) slo_ms: u64,
    pub(crate) budget: Budget,
    pub(crate) key_env: String,
    /// In the order in which a request passes them; a single one with the service's name if the
    /// file has none.
    pub(crate) stages: Vec<Stage>,
}

/// Total cores of one set of variants, over all stages.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Budget {
    pub(crate) cores: u32,
}

/// The service file as deserialized.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServiceFile {
    service: String,
    #[serde(default)]
    policy: Policy,
    slo: RawDuration,
    budget: Budget,
    key_env: String,
    variants: Option<Vec<Variant>>,
    stages: Option<Vec<Stage>>,
}

impl TryFrom<ServiceFile> for Scenario {
    type Error = &'static str;

    fn try_from(written: ServiceFile) -> Result<Scenario, Self::Error> {
        let stages = match (written.variants, written.stages) {
            (Some(variants), None) => vec![Stage {
                name: written.service.clone(),
                variants,
            }],
            (None, Some(stages)) => stages,
            _ => return Err("exactly one of the two: variants or stages"),
        };
        Ok(Scenario {
            service: written.service,
            policy: written.policy,
            slo_ms: u64::try_from(written.slo.0.as_millis()).map_err(|_| "slo: too long")?,
            budget: written.budget,
            key_env: written.key_env,
            stages,
        })
    }
}

impl Scenario {
    /// The shipped scenario of a policy.
    pub(crate) fn shipped(policy: Policy) -> Result<Scenario> {
        let (name, text) = policy.file();
        serde_saphyr::from_str(text).context(name)
    }

    pub(crate) fn slo(&self) -> Duration {
        Duration::from_millis(self.slo_ms)
    }

    /// The variants of all stages.
    pub(crate) fn variants(&self) -> impl Iterator<Item = &Variant> + Clone {
        self.stages.iter().flat_map(|stage| &stage.variants)
    }

    /// Accuracy in percent of an answer: of the named variant or, in a pipeline, the product over
    /// the variants of all stages.
    pub(crate) fn accuracy(&self, answered: &str) -> Option<f64> {
        let names: Vec<&str> = answered.split(STAGES).collect();
        let each = self.stages.iter().zip(&names).map(|(stage, name)| {
            let variant = stage.variants.iter().find(|variant| variant.name == *name);
            variant.map(|variant| variant.accuracy)
        });
        let product = |one: f64, other: f64| one * other / 100.0;
        (names.len() == self.stages.len()).then_some(())?;
        each.collect::<Option<Vec<f64>>>()?
            .into_iter()
            .reduce(product)
    }

    /// The load of this scenario.
    pub(crate) fn load(&self) -> Load {
        Load::of(self.policy, self.static_capacity_rps())
    }

    /// Capacity of the starting cores, in requests/s: that of the narrowest stage.
    pub(crate) fn static_capacity_rps(&self) -> f64 {
        let each = self.stages.iter().map(Stage::capacity_rps);
        each.reduce(f64::min).unwrap_or(0.0)
    }

    /// Maximum batch of any variant.
    pub(crate) fn max_batch(&self) -> u32 {
        self.variants().map(Variant::batch).max().unwrap_or(1)
    }

    /// The planner's service file with its addresses: each Envoy's statistics, and the resize URL
    /// of each variant of all stages.
    pub(crate) fn service_file(
        &self,
        listen: SocketAddr,
        stats: &[String],
        resize: &[String],
    ) -> Result<String> {
        let (name, text) = self.policy.file();
        let mut file: Value = serde_saphyr::from_str(text).context(name)?;
        let keys = file
            .as_object_mut()
            .with_context(|| format!("{name}: not a mapping"))?;
        keys.insert("listen".into(), json!(listen.to_string()));
        keys.insert("proxies".into(), json!({ "stats": stats }));
        let mut urls = resize.iter();
        let stages = keys.get_mut("stages").and_then(Value::as_array_mut);
        match stages {
            Some(stages) => stages
                .iter_mut()
                .try_for_each(|stage| resized(stage.get_mut("variants"), &mut urls))?,
            None => resized(keys.get_mut("variants"), &mut urls)?,
        }
        // JSON is valid YAML.
        Ok(serde_json::to_string_pretty(&file)?)
    }

    /// The plugin configuration at a stage: the planner's address, and equal shares until its first
    /// plan. Later stages get a downstream time equal to the time of their slowest variants.
    pub(crate) fn plugin(&self, stage: &Stage, key: &str) -> Value {
        let share = 1.0 / stage.variants.len() as f64;
        let variant = |variant: &Variant| {
            json!({
                "name": variant.name, "cluster": variant.cluster, "share": share,
                "slots": variant.at_once(), "accuracy": variant.accuracy,
                "service_ms": variant.alone_ms(),
            })
        };
        let variants: Vec<Value> = stage.variants.iter().map(variant).collect();
        let this = |other: &&Stage| other.name != stage.name;
        let later = self.stages.iter().skip_while(this).skip(1);
        let downstream_ms: f64 = later.map(Stage::slowest_ms).sum();
        json!({
            "service": stage.name,
            "deadline": { "default_ms": self.slo_ms, "reserve_ms": RESERVE_MS },
            "planner": { "cluster": "planner", "authority": "planner.local", "key": key },
            "plan": {
                "format": weir_api::plan::FORMAT, "service": stage.name, "revision": 1,
                "max_age_ms": weir_api::plan::HOUR_MS, "downstream_ms": downstream_ms, "variants": variants,
            },
        })
    }
}

/// Sets the next resize address in each of these variants.
fn resized<'a>(
    variants: Option<&mut Value>,
    urls: &mut impl Iterator<Item = &'a String>,
) -> Result<()> {
    let variants = variants.and_then(Value::as_array_mut);
    for variant in variants.context("variants: not a list")? {
        let keys = variant.as_object_mut().context("variants: not mappings")?;
        let url = urls.next().context("fewer addresses than variants")?;
        keys.insert("resize".into(), json!(url));
    }
    Ok(())
}

/// The network: from the log if one is given, else synthetic 4G from the seed.
pub(crate) fn network(log: Option<&Path>, seed: u64, seconds: usize) -> Result<Network> {
    match log {
        Some(path) => Network::from_file(path),
        None => Network::synthetic_4g(seed, seconds + PATIENCE.as_secs() as usize),
    }
}

#[cfg(test)]
mod tests;
