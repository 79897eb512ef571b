//! What the demo is about: the service and its variants, and the load, all stated before the run.
//!
//! Everything about the service comes from `demo/service.yaml`; the load's figures are the constants
//! here. Nothing is derived from a run's result.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_tests::emulator::{Law, Noise, ServerConfig};
use weir_tests::envoy::Careful;
use weir_tests::load::Rates;
use weir_tests::network::Network;

/// The planner's service file without addresses.
const SERVICE_FILE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/demo/service.yaml"));

/// Load at the beginning and end, in requests/s.
pub(crate) const LOW_RPS: f64 = 40.0;
/// Load at the crest over the capacity that the starting split of cores has by InfAdapter's lines.
pub(crate) const CREST_OVER_CAPACITY: f64 = 1.2;
/// An image on its way up. The emulated network delays every request by what this takes; the bytes
/// really sent over loopback are few.
pub(crate) const PAYLOAD_BYTES: u64 = 200_000;
/// An answer on its way down.
pub(crate) const ANSWER_BYTES: u64 = 500;
/// After this a client leaves.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// What the filter keeps back for the answer's way to the client: half the synthetic network's round
/// trip, and 10 ms.
pub(crate) const RESERVE_MS: u64 = 30;
/// The model's name for clients, which do not name a variant.
pub(crate) const MODEL: &str = "classifier";

/// The 99 % quantile of the standard normal distribution.
const Z_99: f64 = 2.326;

/// The service.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Scenario {
    pub(crate) service: String,
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

/// The keys of one variant that the demo reads; the planner reads, and checks, all of them.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) accuracy: f64,
    cores: Cores,
    capacity: Capacity,
    latency: Latency,
}

#[derive(Debug, Clone, Deserialize)]
struct Cores {
    initial: u32,
}

#[derive(Debug, Clone, Deserialize)]
struct Capacity {
    slope_rps: f64,
    intercept_rps: f64,
}

#[derive(Debug, Clone, Deserialize)]
struct Latency {
    gamma_ms: f64,
    epsilon_ms: f64,
    delta_ms: f64,
    eta_ms: f64,
    tail: f64,
}

impl Scenario {
    /// The one in the demo's table.
    pub(crate) fn shipped() -> Result<Scenario> {
        serde_saphyr::from_str(SERVICE_FILE).context("demo/service.yaml")
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

    /// What the starting split sustains, in requests/s.
    pub(crate) fn static_capacity_rps(&self) -> f64 {
        self.variants.iter().map(Variant::capacity_rps).sum()
    }

    /// Requests per second over the run: a swell above the static capacity, or the trace as it is.
    pub(crate) fn rates(&self, seconds: usize, trace: Option<&Path>) -> Result<Rates> {
        match trace {
            Some(path) => Rates::from_file(path)?.fitted(seconds),
            None => {
                let crest = CREST_OVER_CAPACITY * self.static_capacity_rps();
                Rates::swell(LOW_RPS, crest, seconds)
            }
        }
    }

    /// The planner's service file with its addresses.
    pub(crate) fn service_file(
        &self,
        listen: SocketAddr,
        stats: &str,
        resize: &[String],
    ) -> Result<String> {
        let mut file: Value = serde_saphyr::from_str(SERVICE_FILE).context("demo/service.yaml")?;
        let keys = file
            .as_object_mut()
            .context("demo/service.yaml: not a mapping")?;
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
                "slots": variant.cores.initial, "accuracy": variant.accuracy,
                "service_ms": variant.law().service_ms(1, 1.0) * variant.latency.tail,
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

impl Variant {
    /// What it sustains on its starting cores, in requests/s.
    pub(crate) fn capacity_rps(&self) -> f64 {
        self.capacity.slope_rps * f64::from(self.cores.initial) + self.capacity.intercept_rps
    }

    /// Its cores at the start, and throughout for the sets that nobody resizes.
    pub(crate) fn initial_cores(&self) -> f64 {
        f64::from(self.cores.initial)
    }

    fn law(&self) -> Law {
        let Latency {
            gamma_ms,
            epsilon_ms,
            delta_ms,
            eta_ms,
            ..
        } = self.latency;
        Law {
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
            noise: Some(noise),
            ..ServerConfig::new(&self.name, self.law())
        }
    }
}

/// σ of the log-normal distribution with mean 1 whose 99th percentile is `tail`:
/// exp(z·σ − σ²/2) = tail.
fn sigma(tail: f64) -> f64 {
    Z_99 - (Z_99 * Z_99 - 2.0 * tail.ln()).max(0.0).sqrt()
}

/// The network: the log where one is given, else synthetic 4G out of the seed.
pub(crate) fn network(log: Option<&Path>, seed: u64, seconds: usize) -> Result<Network> {
    match log {
        Some(path) => Network::from_file(path),
        None => Network::synthetic_4g(seed, seconds + PATIENCE.as_secs() as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_the_papers_say() {
        let scenario = Scenario::shipped().unwrap();
        let cores: f64 = scenario.variants.iter().map(Variant::initial_cores).sum();
        assert_eq!(cores, f64::from(scenario.budget.cores));
        assert!((scenario.static_capacity_rps() - 233.40).abs() < 0.01);
        let printed = [(69.75, 40.9), (76.13, 96.9), (78.31, 262.5)];
        for (variant, (accuracy, ms)) in scenario.variants.iter().zip(printed) {
            assert_eq!(variant.accuracy, accuracy);
            assert!((variant.law().service_ms(1, 1.0) - ms).abs() < 0.05);
            assert!((1000.0 / variant.capacity.slope_rps - ms).abs() < 0.1);
        }
        assert!((sigma(1.26) - 0.1016).abs() < 0.001);
    }

    #[test]
    fn the_planner_gets_every_key_and_every_address() {
        let scenario = Scenario::shipped().unwrap();
        let urls: Vec<String> = (0..3).map(|n| format!("http://127.0.0.1:{n}/r")).collect();
        let listen = "127.0.0.1:7".parse().unwrap();
        let file = scenario
            .service_file(listen, "http://127.0.0.1:9/stats/prometheus", &urls)
            .unwrap();
        let file: Value = serde_json::from_str(&file).unwrap();
        assert_eq!(file["listen"], "127.0.0.1:7");
        assert_eq!(
            file["proxies"]["stats"][0],
            "http://127.0.0.1:9/stats/prometheus"
        );
        assert_eq!(file["variants"][2]["resize"], "http://127.0.0.1:2/r");
        assert_eq!(file["variants"][2]["latency"]["parallelism"], "per-core");
    }

    #[test]
    fn the_first_plan_is_one() {
        let plugin = Scenario::shipped().unwrap().plugin("secret");
        let plan: weir_api::Plan = serde_json::from_value(plugin["plan"].clone()).unwrap();
        assert_eq!(plan.check(), Ok(()));
    }
}
