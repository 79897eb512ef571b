//! An emulated cluster with the manifests of `k8s/`, fake proxies with counters, and the real planner as a child
//! process.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::Instant;
use weir_apiserver::{ApiServer, Key, Options, Verb, What};
use weir_bed::built;
use weir_bed::process::Process;

const MODELS: &str = "models";
const WEIR: &str = "weir-system";
const SUBJECT: &str = "system:serviceaccount:weir-system:weir-planner";
/// Nodes; each has capacity for 110 pods.
const NODES: u32 = 8;
const NODE_CORES: u32 = 512;
const NODE_MIB: u32 = 1_048_576;
/// Resources through which a planner changes pods.
const ACTING: [&str; 2] = ["pods/resize", "deployments/scale"];

/// A running cluster; it ends when dropped.
pub(super) struct Cluster {
    pub(super) server: ApiServer,
    pub(super) proxies: Proxies,
    planner: Option<(Process, TempDir)>,
}

/// One fake proxy for each service, all on one port.
#[derive(Debug, Clone)]
pub(super) struct Proxies {
    address: SocketAddr,
    counted: Arc<Mutex<BTreeMap<String, Counted>>>,
}

#[derive(Debug)]
struct Counted {
    rate_rps: f64,
    since: Instant,
    total: f64,
}

impl Proxies {
    async fn start() -> Result<Proxies> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let proxies = Proxies {
            address: listener.local_addr()?,
            counted: Arc::default(),
        };
        let router = Router::new()
            .route("/{service}/stats", get(stats))
            .with_state(proxies.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(proxies)
    }

    fn total(&self, service: &str, rate_rps: Option<f64>) -> f64 {
        let mut all = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let counted = all.entry(service.to_owned()).or_insert(Counted {
            rate_rps: 0.0,
            since: now,
            total: 0.0,
        });
        counted.total += counted.rate_rps * (now - counted.since).as_secs_f64();
        counted.since = now;
        counted.rate_rps = rate_rps.unwrap_or(counted.rate_rps);
        counted.total
    }

    /// Sets the arrival rate of a service from now on.
    pub(super) fn load(&self, service: &str, rate_rps: f64) {
        self.total(service, Some(rate_rps));
    }
}

async fn stats(State(proxies): State<Proxies>, Path(service): Path<String>) -> String {
    let total = proxies.total(&service, None).round();
    let name = format!("weir_arrivals_total__service__{service}");
    format!("# TYPE {name} counter\n{name}{{}} {total}\n")
}

/// A variant of a service: a deployment with `replicas` pods, each with 1 to `max` cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Model {
    pub(super) name: &'static str,
    pub(super) accuracy: f64,
    /// Requests/s per additional core.
    pub(super) slope_rps: f64,
    pub(super) replicas: u32,
    pub(super) max: u32,
}

impl Cluster {
    pub(super) async fn start() -> Result<Cluster> {
        let server = ApiServer::start(Options::default()).await?;
        for namespace in [MODELS, WEIR] {
            server.store().namespace(namespace);
        }
        for node in 0..NODES {
            let name = format!("node-{node}");
            server.store().node(&name, NODE_CORES, NODE_MIB)?;
        }
        for file in [
            "crd/crd",
            "base/rbac",
            "services/resnet/rights",
            "acts/resnet",
        ] {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
            let text = fs::read_to_string(format!("{root}/k8s/{file}.yaml"))?;
            let documents: Vec<Value> = serde_saphyr::from_multiple(&text)?;
            for document in documents.iter().filter(|document| !document.is_null()) {
                server.store().create(document)?;
            }
        }
        Ok(Cluster {
            server,
            proxies: Proxies::start().await?,
            planner: None,
        })
    }

    /// Creates a service with these variants, a cycle of one second, and a demand forecast that follows the arrivals
    /// at once.
    pub(super) fn service(&self, name: &str, models: &[Model], budget: u32) -> Result<()> {
        let mut variants = Vec::new();
        for model in models {
            let workload = format!("{name}-{}", model.name);
            let labels = json!({"app": workload});
            let amounts = json!({"cpu": "1", "memory": "256Mi"});
            let container = json!({"name": "server", "image": "example/none:0",
                "resources": {"requests": amounts, "limits": amounts}});
            self.server.store().create(&json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": workload, "namespace": MODELS},
                "spec": {"replicas": model.replicas, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
            }))?;
            let replicas = model.replicas;
            variants.push(json!({
                "name": model.name, "cluster": workload, "accuracy": model.accuracy,
                "cores": {"initial": 1, "min": 1, "max": model.max},
                "replicas": {"initial": replicas, "min": replicas, "max": replicas},
                "capacity": {"slopeRps": model.slope_rps, "interceptRps": 0.0},
                "latency": {"gammaMs": 40.0, "epsilonMs": 1.0, "deltaMs": 2.0, "etaMs": 0.0,
                    "parallelism": "per-core"},
                "workload": {"name": workload},
            }));
        }
        let stats = format!("http://{}/{name}/stats", self.proxies.address);
        self.server.store().create(&json!({
            "apiVersion": "weir.dev/v1alpha1", "kind": "SloService",
            "metadata": {"name": name, "namespace": MODELS},
            "spec": {
                "slo": "1s", "mode": "active", "cycle": "1s", "budget": {"cores": budget},
                "demand": {"smoothing": "300ms", "window": "1s", "moving": "1s", "headroom": 1.1},
                "proxies": {"stats": [stats]},
                "variants": variants,
            },
        }))?;
        Ok(())
    }

    /// Starts the planner.
    pub(super) fn plan(&mut self) -> Result<()> {
        let folder = tempfile::Builder::new().prefix("weir-planner-").tempdir()?;
        let file = |name: &str| folder.path().join(name);
        fs::write(file("config"), self.server.kubeconfig(SUBJECT))?;
        fs::write(file("key"), "a-key-of-the-demo")?;
        let mut command = Command::new(built::planner()?);
        command
            .args(["operate", "--listen", "127.0.0.1:0", "--name", "weir-0"])
            .args(["--namespace", MODELS, "--lease-namespace", WEIR])
            .arg("--key-file")
            .arg(file("key"))
            .env("KUBECONFIG", file("config"));
        let process = Process::spawn(&mut command, &file("log"))?;
        self.planner = Some((process, folder));
        Ok(())
    }

    /// Actual cores of a service's pods.
    pub(super) fn cores(&self, service: &str) -> f64 {
        let begins = format!("{service}-");
        let pods = self.server.kubelet().pods();
        let own = pods.iter().filter(|pod| pod.key.name.starts_with(&begins));
        own.map(|pod| pod.cores()).sum()
    }

    /// Whether the status reports that the target has been reached.
    pub(super) fn is_in_force(&self, service: &str) -> bool {
        let key = Key::new(MODELS, service);
        let found = self.server.store().get("sloservices.weir.dev", &key);
        let found = found.unwrap_or_default();
        let conditions = found
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        conditions.into_iter().flatten().any(|condition| {
            let is = |key: &str, value: &str| condition.get(key).is_some_and(|own| own == value);
            is("type", "Actuated") && is("status", "True")
        })
    }

    /// The planner's memory in kB, by its name in `/proc/PID/status`.
    pub(super) fn memory_kb(&self, name: &str) -> Result<u64> {
        let (process, folder) = self.planner.as_ref().context("no planner runs")?;
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid()))
            .with_context(|| log_of(folder))?;
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.context("no such line")?.parse()?)
    }

    /// Requests after an entry of the log: the number of each kind, and the times of those that change pods.
    pub(super) fn requests(&self, after: u64) -> (BTreeMap<String, usize>, Vec<Duration>) {
        let (mut kinds, mut acted) = (BTreeMap::new(), Vec::new());
        for entry in self.server.log().after(after) {
            let What::Request(request) = entry.what else {
                continue;
            };
            let kind = format!("{} {}", request.verb.name(), request.resource);
            *kinds.entry(kind).or_default() += 1;
            if request.verb == Verb::Patch && ACTING.contains(&request.resource.as_str()) {
                acted.push(entry.at);
            }
        }
        (kinds, acted)
    }

    /// The planner's log, to explain a failure.
    pub(super) fn log(&self) -> String {
        self.planner
            .as_ref()
            .map_or(String::new(), |(_, folder)| log_of(folder))
    }
}

fn log_of(folder: &TempDir) -> String {
    let text = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(20).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
