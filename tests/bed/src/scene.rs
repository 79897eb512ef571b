//! A scene for stories about the filter: a real Envoy with the shipped configuration, one emulator per
//! variant, and a client. Also a scripted planner, for what the real one never says.
//!
//! It sets up and asks; what is right is the stories' to say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use weir_api::metrics::Metric;
use weir_filter::coordination::SlotTable;
use weir_filter::variant::VariantKey;

use crate::emulator::{Emulator, Law, ServerConfig};
use crate::envoy::{Bootstrap, Envoy};
use crate::wait;

/// The service of every scene.
pub const SERVICE: &str = "story";
/// The shared key of every scene.
pub const KEY: &str = "a-key-for-stories";
/// How long anything a story waits for may take. Generous: it only bounds a failing run.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A variant as a story wants it.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Its name, its cluster's, and its model's.
    pub name: &'static str,
    /// Its quota.
    pub share: f64,
    /// Its slots.
    pub slots: u32,
    /// How long its server takes, ms.
    pub service_ms: f64,
}

/// Turns `queue.overlap` off unless `plugin` says otherwise: most stories are of who has a slot and who waits.
pub fn send_none_ahead(plugin: &mut Value) {
    let queue = plugin
        .as_object_mut()
        .map(|plugin| plugin.entry("queue").or_insert_with(|| json!({})));
    if let Some(Value::Object(queue)) = queue {
        queue.entry("overlap").or_insert(json!(false));
    }
}

/// Envoy, its backends and a client.
pub struct Scene {
    /// The proxy.
    pub envoy: Envoy,
    /// One server for each variant, in the order given.
    pub backends: Vec<Emulator>,
    /// Sends over HTTP/1.1, one connection for each request under way.
    pub client: reqwest::Client,
    url: String,
}

impl Scene {
    /// Starts one emulator with so many cores (so many executions at once) per variant, and Envoy with
    /// `workers` workers and the static plan that these variants make; `adapt` may change the rest.
    ///
    /// # Errors
    /// Something did not start.
    pub async fn start(
        variants: &[Variant],
        workers: u32,
        adapt: impl FnOnce(Bootstrap, &mut Value) -> Bootstrap,
    ) -> Result<Scene> {
        let servers = variants.iter().map(|variant| {
            let mut server = ServerConfig::new(variant.name, Law::constant(variant.service_ms));
            server.cores = 1000.0;
            server
        });
        Scene::start_with(servers.collect(), &planned(variants), workers, adapt).await
    }

    /// The same with these servers, each behind the cluster of its model's name, and this plan.
    ///
    /// # Errors
    /// Something did not start.
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
        send_none_ahead(&mut plugin);
        if let Some(first) = backends.first() {
            bootstrap = bootstrap.fallback(first.model());
        }
        let bootstrap = adapt(bootstrap, &mut plugin);
        send_none_ahead(&mut plugin);
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

    /// The same through another listener.
    ///
    /// # Errors
    /// There is no listener of that name.
    pub fn infer_by(&self, listener: &str) -> Result<reqwest::RequestBuilder> {
        let address = self.envoy.listener(listener)?;
        let url = format!("http://{address}/v2/models/model/infer");
        Ok(self.client.post(url).body("{}"))
    }

    /// A request for inference through the filter, for the caller to add headers to and send.
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

    /// The board as it is, from a module that shows it ([`crate::built::trapping_filter`]).
    ///
    /// # Errors
    /// The module does not, or what it shows is none.
    pub async fn board(&self) -> Result<SlotTable> {
        let seen = see(self.infer().header("x-weir-trap", "show")).await?;
        let mut board = SlotTable::default();
        board.read(&seen.body)?;
        Ok(board)
    }

    /// Waits until a metric of the filter has reached `value`.
    ///
    /// # Errors
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

    /// Waits until a metric of the filter is as `holds` says; `what` names that.
    ///
    /// # Errors
    /// It is not within [`PATIENCE`].
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

/// Slots of a variant that the board says are taken by VMs that live: those whose leases end about when
/// the last one does.
pub fn taken_by_the_living(board: &SlotTable, variant: &str) -> u32 {
    const ABOUT: Duration = Duration::from_millis(150);
    let leases = board.rows.iter().map(|entry| entry.lease);
    let newest = leases.max().unwrap_or_default();
    let Some(column) = board.column(VariantKey::of(variant)) else {
        return 0;
    };
    let living = (0..board.rows.len()).zip(&board.rows);
    let living = living.filter(|(_, entry)| newest.since(entry.lease) < ABOUT);
    living
        .map(|(entry, _)| board.usage(entry, column).taken)
        .sum()
}

/// An answer as a client sees it.
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
    /// A header's value, empty where there is none.
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

/// Sends and reads the whole answer.
///
/// # Errors
/// There is none.
pub async fn see(request: reqwest::RequestBuilder) -> Result<Seen> {
    let answer = request.send().await?;
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Ok(Seen {
        status,
        headers,
        body: answer.bytes().await?.to_vec(),
    })
}

/// Now, as `x-slo-start` says it.
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

/// A planner that says what it is told to say: a script, not the real planner.
pub struct ScriptedPlanner {
    script: Arc<Script>,
    addr: SocketAddr,
    serving: AbortHandle,
}

struct Script {
    says: watch::Sender<Says>,
    polls: watch::Sender<u64>,
}

#[derive(Debug, Clone)]
struct Says {
    revision: u64,
    status: StatusCode,
    body: String,
}

impl ScriptedPlanner {
    /// Starts on a free port and has nothing to say yet.
    ///
    /// # Errors
    /// No port.
    pub async fn start() -> Result<ScriptedPlanner> {
        let nothing = Says {
            revision: 0,
            status: StatusCode::OK,
            body: String::new(),
        };
        let script = Arc::new(Script {
            says: watch::Sender::new(nothing),
            polls: watch::Sender::new(0),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let routes = axum::Router::new()
            .route("/v1/plans/{service}", get(poll))
            .with_state(Arc::clone(&script));
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(ScriptedPlanner {
            script,
            addr,
            serving: serving.abort_handle(),
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// From now on answers polls for anything before `revision` with this body and status.
    pub fn say(&self, revision: u64, status: u16, body: impl ToString) {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.script.says.send_replace(Says {
            revision,
            status,
            body: body.to_string(),
        });
    }

    /// Publishes a plan.
    pub fn publish(&self, revision: u64, variants: &[Variant]) {
        self.say(revision, 200, plan(revision, variants));
    }

    /// Waits for so many polls in all.
    ///
    /// # Errors
    /// They do not come within [`PATIENCE`].
    pub async fn until_polls(&self, count: u64) -> Result<()> {
        let mut polls = self.script.polls.subscribe();
        let reached = polls.wait_for(|polls| *polls >= count);
        tokio::time::timeout(PATIENCE, reached)
            .await
            .context("no such poll")??;
        Ok(())
    }
}

impl Drop for ScriptedPlanner {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[derive(Deserialize)]
struct PollQuery {
    after: u64,
}

async fn poll(
    State(script): State<Arc<Script>>,
    Query(query): Query<PollQuery>,
    headers: HeaderMap,
) -> Response {
    let authorized = headers.get("authorization").is_some_and(|sent| {
        sent.to_str()
            .is_ok_and(|sent| sent.strip_prefix("Bearer ") == Some(KEY))
    });
    if !authorized {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    script.polls.send_modify(|polls| *polls += 1);
    let mut says = script.says.subscribe();
    let newer = says.wait_for(|says| says.revision > query.after);
    match tokio::time::timeout(Duration::from_secs(20), newer).await {
        Ok(Ok(says)) => (says.status, says.body.clone()).into_response(),
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}
