//! A path of several real Envoys: routers before gates, or the stages of a pipeline.
//!
//! It sets up and sends; the assertions are in the tests.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use weir_api::metrics::Metric;

use crate::emulator::{Emulator, LatencyModel, ServerConfig};
use crate::envoy::{Bootstrap, Envoy};
use crate::scene::{PATIENCE, SERVICE, Variant, keep_to_slots, planned};
use crate::wait;

/// Default number of workers of each Envoy.
const WORKERS: u32 = 2;

/// One Envoy of a path, and a client for it.
pub struct Hop {
    /// The proxy.
    pub envoy: Envoy,
    service: String,
    address: SocketAddr,
    client: reqwest::Client,
}

impl Hop {
    /// Starts an Envoy with `workers` workers and the filter configuration `plugin`.
    ///
    /// # Errors
    ///
    /// It does not start, or `plugin` names no service.
    pub async fn start(bootstrap: Bootstrap, plugin: &Value, workers: u32) -> Result<Hop> {
        let service = plugin.get("service").and_then(Value::as_str);
        let service = service.context("plugin: service is missing")?.to_owned();
        let envoy = Envoy::start(&bootstrap.plugin(plugin), workers).await?;
        Ok(Hop {
            service,
            address: envoy.listener("weir")?,
            client: reqwest::Client::builder().timeout(PATIENCE).build()?,
            envoy,
        })
    }

    /// Starts a router before these gates.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub async fn router(gates: &[(Variant, SocketAddr)], plugin: Value) -> Result<Hop> {
        let variants: Vec<Variant> = gates.iter().map(|(variant, _)| *variant).collect();
        let own = json!({ "service": SERVICE, "role": "router", "plan": { "variants": planned(&variants) } });
        let bootstrap = Bootstrap::shipped()?;
        let bootstrap = gates.iter().fold(bootstrap, |bootstrap, (variant, gate)| {
            bootstrap.backend(variant.name, *gate)
        });
        Hop::start(bootstrap, &with(own, plugin), WORKERS).await
    }

    /// Starts a gate before one server: the shipped one, with that variant.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub async fn gate(variant: Variant, server: SocketAddr, plugin: Value) -> Result<Hop> {
        let bootstrap = Bootstrap::gate()?.backend(variant.name, server);
        Hop::start(bootstrap, &Hop::gate_plugin(variant, plugin), WORKERS).await
    }

    /// Plugin configuration of a gate; keys of `plugin` take precedence.
    pub fn gate_plugin(variant: Variant, plugin: Value) -> Value {
        let alone = Variant {
            share: 1.0,
            ..variant
        };
        let own = json!({
            "service": SERVICE, "role": "gate", "variant": variant.name,
            "deadline": { "max_ms": 10_000, "trust_deadline": true },
            "plan": { "variants": planned(&[alone]) },
        });
        with(own, plugin)
    }

    /// Starts a proxy with both roles before one server or further Envoy.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub async fn both(variant: Variant, server: SocketAddr, plugin: Value) -> Result<Hop> {
        let own = json!({ "service": SERVICE, "plan": { "variants": planned(&[variant]) } });
        let bootstrap = Bootstrap::shipped()?.backend(variant.name, server);
        Hop::start(bootstrap, &with(own, plugin), WORKERS).await
    }

    /// Its listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// An inference request through it; the caller adds headers and sends it.
    pub fn infer(&self) -> reqwest::RequestBuilder {
        let url = format!("http://{}/v2/models/model/infer", self.address);
        self.client.post(url).body("{}")
    }

    /// [`Hop::infer`] with a budget, in ms.
    pub fn infer_within(&self, budget_ms: u64) -> reqwest::RequestBuilder {
        self.infer().header("x-slo-ms", budget_ms)
    }

    /// A metric of its filter.
    ///
    /// # Errors
    /// Envoy does not answer.
    pub async fn metric(&self, metric: Metric, label: &str) -> Result<u64> {
        self.envoy.metric(metric, &self.service, label).await
    }

    /// Waits until a metric of its filter is `value`.
    ///
    /// # Errors
    ///
    /// It is not within [`PATIENCE`].
    pub async fn until(&self, metric: Metric, label: &str, value: u64) -> Result<()> {
        let what = format!("{} {label} = {value}", metric.name());
        let reached = async || {
            let now = self.metric(metric, label).await;
            now.is_ok_and(|now| now == value)
        };
        wait::until_async(&what, PATIENCE, reached).await
    }
}

/// Starts a server of `model`, which also answers to the name `model`.
///
/// # Errors
///
/// It does not start.
pub async fn server(model: &str, service_ms: f64) -> Result<Emulator> {
    let mut config = ServerConfig::new(model, LatencyModel::constant(service_ms));
    config.cores = 1000.0;
    config.aliases.push("model".to_owned());
    Emulator::start(config).await
}

/// Merges the keys of `other` into `object`; those of `other` take precedence.
fn with(mut object: Value, other: Value) -> Value {
    if let (Some(object), Value::Object(other)) = (object.as_object_mut(), other) {
        object.extend(other);
    }
    keep_to_slots(&mut object);
    object
}
