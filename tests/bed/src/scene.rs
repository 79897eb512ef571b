//! Fixture for tests of the filter: a real Envoy with the shipped configuration, one emulator per variant, and a
//! client. Also a [scripted planner](ScriptedPlanner), for responses that the real one never gives.
//!
//! It sets up and sends; the assertions are in the tests.

mod scripted_planner;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use axum::http::HeaderMap;
use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_filter::coordination::SlotTable;
use weir_filter::time::Span;
use weir_filter::variant::VariantKey;

use crate::emulator::{Emulator, LatencyModel, ServerConfig};
use crate::envoy::{Bootstrap, Envoy};
use crate::wait;

pub use scripted_planner::ScriptedPlanner;

/// Service name of every scene.
pub const SERVICE: &str = "story";
/// Shared key of every scene.
pub const KEY: &str = "a-key-for-stories";
/// Time limit for anything a test waits for. Generous: it only bounds a failing run.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A variant of a test.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Name of the variant, its cluster and its model.
    pub name: &'static str,
    /// Its quota.
    pub share: f64,
    /// Its slots.
    pub slots: u32,
    /// Service time, ms.
    pub service_ms: f64,
}

/// Turns `queue.overlap` and the search of `queue.concurrency_max` off unless `plugin` sets them: most tests are about
/// requests that have one of the planned slots or wait for one.
pub fn keep_to_slots(plugin: &mut Value) {
    let queue = plugin
        .as_object_mut()
        .map(|plugin| plugin.entry("queue").or_insert_with(|| json!({})));
    if let Some(Value::Object(queue)) = queue {
        queue.entry("overlap").or_insert(json!(false));
        queue.entry("concurrency_max").or_insert(json!(0));
    }
}

/// Envoy, its backends and a client.
pub struct Scene {
    /// The proxy.
    pub envoy: Envoy,
    /// One server for each variant, in the order given.
    pub backends: Vec<Emulator>,
    /// Sends over HTTP/1.1, with one connection for each request in flight.
    pub client: reqwest::Client,
    url: String,
}

impl Scene {
    /// Starts one emulator per variant, with 1000 cores and as many executions at once, and Envoy with `workers`
    /// workers and a static plan of these variants; `adapt` may change the rest.
    ///
    /// # Errors
    ///
    /// Envoy or an emulator does not start.
    pub async fn start(
        variants: &[Variant],
        workers: u32,
        adapt: impl FnOnce(Bootstrap, &mut Value) -> Bootstrap,
    ) -> Result<Scene> {
        let servers = variants.iter().map(|variant| {
            let mut server =
                ServerConfig::new(variant.name, LatencyModel::constant(variant.service_ms));
            server.cores = 1000.0;
            server
        });
        Scene::start_with(servers.collect(), &planned(variants), workers, adapt).await
    }

    /// Starts these servers, each behind the cluster of its model's name, and Envoy with this plan.
    ///
    /// # Errors
    ///
    /// Envoy or an emulator does not start.
    pub async fn start_with(
        servers: Vec<ServerConfig>,
        variants: &Value,
        workers: u32,
        adapt: impl FnOnce(Bootstrap, &mut Value) -> Bootstrap,
    ) -> Result<Scene> {
        let mut backends = Vec::new();
        let mut bootstrap = Bootstrap::shipped()?;
        for mut server in servers {
            server.aliases.push("model".to_owned());
            let emulator = Emulator::start(server).await?;
            bootstrap = bootstrap.backend(emulator.model(), emulator.addr());
            backends.push(emulator);
        }
        let mut plugin = json!({ "service": SERVICE, "plan": { "variants": variants } });
        keep_to_slots(&mut plugin);
        if let Some(first) = backends.first() {
            bootstrap = bootstrap.fallback(first.model());
        }
        let bootstrap = adapt(bootstrap, &mut plugin);
        keep_to_slots(&mut plugin);
        let bootstrap = bootstrap.plugin(&plugin);
        let envoy = Envoy::start(&bootstrap, workers).await?;
        let url = format!("http://{}/v2/models/model/infer", envoy.listener("weir")?);
        let client = reqwest::Client::builder().timeout(PATIENCE).build()?;
        Ok(Scene {
            envoy,
            backends,
            client,
            url,
        })
    }

    /// An inference request through another listener.
    ///
    /// # Errors
    ///
    /// There is no listener of that name.
    pub fn infer_by(&self, listener: &str) -> Result<reqwest::RequestBuilder> {
        let address = self.envoy.listener(listener)?;
        let url = format!("http://{address}/v2/models/model/infer");
        Ok(self.client.post(url).body("{}"))
    }

    /// An inference request through the filter; the caller adds headers and sends it.
    pub fn infer(&self) -> reqwest::RequestBuilder {
        self.client.post(&self.url).body("{}")
    }

    /// [`Scene::infer`] with a budget, in ms.
    pub fn infer_within(&self, budget_ms: u64) -> reqwest::RequestBuilder {
        self.infer().header("x-slo-ms", budget_ms)
    }

    /// Sends in a task of its own.
    pub fn spawn(request: reqwest::RequestBuilder) -> tokio::task::JoinHandle<Result<Seen>> {
        tokio::spawn(async move { see(request).await })
    }

    /// The slot table, from a module that shows it ([`crate::built::trapping_filter`]).
    ///
    /// # Errors
    ///
    /// The module does not show it, or the response cannot be decoded.
    pub async fn slot_table(&self) -> Result<SlotTable> {
        let seen = see(self.infer().header("x-weir-trap", "show")).await?;
        let mut slot_table = SlotTable::default();
        slot_table.read(&seen.body)?;
        Ok(slot_table)
    }

    /// Waits until a metric of the filter has reached `value`.
    ///
    /// # Errors
    ///
    /// It does not within [`PATIENCE`].
    pub async fn until(&self, metric: Metric, label: &str, value: u64) -> Result<()> {
        let what = format!("{} {label} = {value}", metric.name());
        let reached = async || {
            self.metric(metric, label)
                .await
                .is_ok_and(|now| now == value)
        };
        wait::until_async(&what, PATIENCE, reached).await
    }

    /// Waits until a metric of the filter satisfies `holds`; `what` names the condition in messages.
    ///
    /// # Errors
    ///
    /// It does not within [`PATIENCE`].
    pub async fn until_metric(
        &self,
        metric: Metric,
        label: &str,
        what: &str,
        holds: impl Fn(u64) -> bool,
    ) -> Result<()> {
        let reached = async || self.metric(metric, label).await.is_ok_and(&holds);
        wait::until_async(what, PATIENCE, reached).await
    }

    /// A metric of the filter.
    ///
    /// # Errors
    /// Envoy does not answer.
    pub async fn metric(&self, metric: Metric, label: &str) -> Result<u64> {
        self.envoy.metric(metric, SERVICE, label).await
    }
}

/// Slots of a variant taken by live VMs, according to the slot table: those whose leases end about when the latest
/// one does.
pub fn taken_by_the_living(slot_table: &SlotTable, variant: &str) -> u32 {
    const ABOUT: Span = Span::from_millis(150);
    let leases = slot_table.rows.iter().map(|entry| entry.lease);
    let newest = leases.max().unwrap_or_default();
    let Some(column) = slot_table.column(VariantKey::of(variant)) else {
        return 0;
    };
    let living = (0..slot_table.rows.len()).zip(&slot_table.rows);
    let living = living.filter(|(_, entry)| newest.since(entry.lease) < ABOUT);
    living
        .map(|(entry, _)| slot_table.usage(entry, column).taken)
        .sum()
}

/// A response as a client sees it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Vec<u8>,
}

impl Seen {
    /// Value of a header, or "" if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// Status and `x-slo-dropped-reason`.
    pub fn refusal(&self) -> (u16, &str) {
        (self.status, self.header("x-slo-dropped-reason"))
    }
}

/// Sends and reads the whole response.
///
/// # Errors
///
/// There is no response.
pub async fn see(request: reqwest::RequestBuilder) -> Result<Seen> {
    let answer = request.send().await?;
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Ok(Seen {
        status,
        headers,
        body: answer.bytes().await?.to_vec(),
    })
}

/// Current time in the unit of `x-slo-start`.
pub fn epoch_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The variants of a plan.
pub fn planned(variants: &[Variant]) -> Value {
    variants
        .iter()
        .map(|v| {
            json!({ "name": v.name, "cluster": v.name, "share": v.share, "slots": v.slots,
                    "service_ms": v.service_ms, "accuracy": 70.0 })
        })
        .collect()
}

/// A plan as a planner publishes it.
pub fn plan(revision: u64, variants: &[Variant]) -> Value {
    json!({ "format": 1, "service": SERVICE, "revision": revision, "published_ms": epoch_ms(),
            "max_age_ms": 60_000, "variants": planned(variants) })
}
