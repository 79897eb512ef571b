//! A mesh under load. Model servers have exactly the cores that kubelets have actuated for their pods. A real
//! Envoy before them polls the planner and is scraped by it. The planner runs on the emulated API server.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinHandle;
use weir_api::metrics::Metric;
use weir_apiserver::{Change, Happening, Key};
use weir_bed::emulator::{Emulator, Execution, LatencyModel, ServerConfig};
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::operate::{KEY, Planner};
use weir_bed::wait;
use weir_planner::telemetry::status::CYCLES_MAX;

use super::bed::{Cluster, LIMIT, MODELS};

pub(crate) const SERVICE: &str = "demo";
/// Names of the variants; each has a deployment, a cluster and a server. The accurate one is the last.
pub(crate) const BOTH: [&str; 2] = ["small", "large"];
/// Execution time on one core, ms.
const SERVICE_MS: [f64; 2] = [40.0, 80.0];
const ACCURACY: [f64; 2] = [70.0, 80.0];
/// Capacity of each further core, in requests/s: somewhat less than it executes.
const SLOPE_RPS: [f64; 2] = [22.0, 11.0];
/// SLO, ms.
pub(crate) const SLO_MS: u64 = 2000;
/// Planned utilization of a core. The reserve is for other load on the machine: requests late for want of the
/// machine's time would look like requests late for want of the pod's cores.
const UTILISATION: f64 = 0.5;
/// Core budget of both variants.
const BUDGET: u32 = 8;
/// Downtime of a restarted container.
const RESTART: Duration = Duration::from_millis(500);
/// Revision of the plan in force until the planner's first.
const FIRST: u64 = 1;
/// Namespace of Envoy's pod.
const GATEWAY: &str = "istio-ingress";

/// The running parts; stopped when dropped.
pub(crate) struct Mesh {
    pub(crate) cluster: Cluster,
    pub(crate) servers: Servers,
    pub(crate) envoy: Envoy,
    pub(crate) planner: Planner,
    following: JoinHandle<()>,
}

/// Servers of the pods, by variant.
#[derive(Clone)]
pub(crate) struct Servers(Arc<Vec<Mutex<Server>>>);

/// The server of one variant.
struct Server {
    emulator: Emulator,
    /// For each loss of cores below the running executions: their number, and the cores left.
    cut: Vec<(usize, f64)>,
}

/// Whether a resize restarts the container, by its `resizePolicy`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restarts {
    Never,
    AtEachResize,
}

impl Mesh {
    /// Starts a pod of one core for each variant, with the first plan in force and no load yet.
    pub(crate) async fn start(restarts: Restarts) -> Mesh {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let cluster = Cluster::of(|options| options.pods_at = Some(loopback), |_| true).await;
        let servers = Servers::start().await;
        let following = tokio::spawn(servers.clone().follow(cluster.server.subscribe()));
        for name in BOTH {
            cluster.deploy(name, 1, 1);
        }
        let ready = async || servers.cores().await == [1.0, 1.0];
        wait::until_async("the pods", LIMIT, ready).await.unwrap();
        if restarts == Restarts::AtEachResize {
            restart_at_each_resize(&cluster);
        }
        let planner = cluster.planner("weir-a").await;
        let envoy = envoy(&servers, &planner).await;
        create_service(&cluster, envoy.admin().port());
        let mesh = Mesh {
            cluster,
            servers,
            envoy,
            planner,
            following,
        };
        let planned = async || {
            let revision = mesh.envoy.metric(Metric::PlanRevision, SERVICE, "").await;
            revision.is_ok_and(|revision| revision > FIRST)
        };
        let waited = wait::until_async("the first plan", LIMIT, planned).await;
        waited.unwrap();
        mesh
    }

    /// URL for requests.
    pub(crate) fn url(&self) -> String {
        let address = self.envoy.listener("weir").unwrap();
        format!("http://{address}/v2/models/model/infer")
    }

    /// The uids of the variants' pods.
    pub(crate) fn pods(&self) -> BTreeSet<String> {
        let pods = self.cluster.server.kubelet().pods().into_iter();
        let own = pods.filter(|pod| pod.key.namespace == MODELS);
        own.map(|pod| pod.uid).collect()
    }

    /// Describes the planner's cycles as text.
    pub(crate) async fn describe_cycles(&self) -> String {
        let url = format!(
            "{}/v1/services/{SERVICE}?cycles={CYCLES_MAX}",
            self.planner.url
        );
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.get(url).bearer_auth(KEY);
        let status: Value = request.send().await.unwrap().json().await.unwrap();
        let cycles = status["cycles"].as_array().into_iter().flatten();
        let mut text = String::new();
        for cycle in cycles {
            text += &format!("{} demand {}", cycle["at_ms"], cycle["demand_rps"]);
            for name in BOTH {
                let one = &cycle["variants"][name];
                let [target, actual, slots, share] =
                    ["cores_target", "cores_actual", "slots", "share"].map(|key| &one[key]);
                text += &format!(", {name} {actual} of {target} cores, {slots} slots, {share}");
            }
            text += &format!("; {}\n", cycle["why"]);
        }
        text
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl Servers {
    async fn start() -> Servers {
        let mut servers = Vec::new();
        for (name, service_ms) in BOTH.into_iter().zip(SERVICE_MS) {
            let mut config = ServerConfig::new(name, LatencyModel::constant(service_ms));
            config.aliases.push("model".to_owned());
            config.cores = 0.0;
            servers.push(Mutex::new(Server {
                emulator: Emulator::start(config).await.unwrap(),
                cut: Vec::new(),
            }));
        }
        Servers(Arc::new(servers))
    }

    async fn cores(&self) -> Vec<f64> {
        let mut cores = Vec::new();
        for server in self.0.iter() {
            cores.push(server.lock().await.emulator.cores());
        }
        cores
    }

    /// Executions of each variant.
    pub(crate) async fn executions(&self) -> Vec<Vec<Execution>> {
        let mut executions = Vec::new();
        for server in self.0.iter() {
            let emulator = &server.lock().await.emulator;
            assert_eq!(emulator.forgotten(), 0);
            executions.push(emulator.executions());
        }
        executions
    }

    /// Takes all cores but one from a variant's server while it executes several requests; no other part is
    /// notified.
    pub(crate) async fn take_cores_at_work(&self, name: &str) -> bool {
        let index = BOTH.into_iter().position(|one| one == name).unwrap();
        let mut server = self.0[index].lock().await;
        let (_, executing) = server.emulator.load();
        if executing >= 2 {
            server.has(1.0);
        }
        executing >= 2
    }

    /// Every occasion when a server executed more requests than it had cores left: the number of requests,
    /// and of cores.
    pub(crate) async fn cut(&self) -> Vec<(usize, f64)> {
        let mut cut = Vec::new();
        for server in self.0.iter() {
            cut.extend(server.lock().await.cut.iter().copied());
        }
        cut
    }

    /// Gives each server the cores of its pod's container, and stops and starts it with the container.
    async fn follow(self, mut changes: Receiver<Change>) {
        loop {
            let Change { happening, pod } = changes.recv().await.unwrap();
            let own = |name: &str| pod.key.name.starts_with(&format!("{name}-"));
            let Some(index) = BOTH.into_iter().position(own) else {
                continue;
            };
            let mut server = self.0[index].lock().await;
            match happening {
                Happening::Started | Happening::Resized => server.has(pod.cores()),
                Happening::Restarted | Happening::Deleted => server.emulator.crash(),
                Happening::Ready => server.emulator.come_back().await.unwrap(),
                _ => {}
            }
        }
    }
}

impl Server {
    fn has(&mut self, cores: f64) {
        let (_, executed) = self.emulator.load();
        if executed as f64 > cores {
            self.cut.push((executed, cores));
        }
        self.emulator.set_cores(cores).unwrap();
    }
}

/// Makes the deliberate mistake: each change of the containers' resources restarts them.
fn restart_at_each_resize(cluster: &Cluster) {
    for pod in cluster.server.kubelet().pods() {
        cluster.server.store().amend("pods", &pod.key, |pod| {
            let policies = &mut pod["spec"]["containers"][0]["resizePolicy"];
            for policy in policies.as_array_mut().unwrap() {
                policy["restartPolicy"] = json!("RestartContainer");
            }
        });
    }
    cluster.server.kubelet().ready_after(RESTART);
}

/// Starts Envoy with the shipped configuration and two workers.
async fn envoy(servers: &Servers, planner: &Planner) -> Envoy {
    let mut bootstrap = Bootstrap::shipped().unwrap();
    for (name, server) in BOTH.into_iter().zip(servers.0.iter()) {
        bootstrap = bootstrap.backend(name, server.lock().await.emulator.addr());
    }
    let first = |index: usize| {
        json!({"name": BOTH[index], "cluster": BOTH[index], "accuracy": ACCURACY[index], "share": 0.5,
            "slots": 1, "service_ms": SERVICE_MS[index]})
    };
    let plugin = json!({
        "service": SERVICE, "planner": {"cluster": "planner", "key": KEY},
        "plan": {"revision": FIRST, "variants": [first(0), first(1)]},
        // As many requests are in flight as there are slots: one that waits at a server then waits only for cores.
        "queue": {"overlap": false, "concurrency_max": 0},
    });
    let planner = planner.url.strip_prefix("http://").unwrap();
    let bootstrap = bootstrap
        .fallback(BOTH[0])
        .planner(planner.parse().unwrap())
        .plugin(&plugin);
    Envoy::start(&bootstrap, 2).await.unwrap()
}

/// Creates the resource, and the gateway's pod, by which the planner finds Envoy's statistics at that port.
fn create_service(cluster: &Cluster, port: u16) {
    cluster.apply("istio/gateway/resnet/rights.yaml", |_| true);
    let labels = json!({"istio": "ingress"});
    let gateway = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "gateway-1", "namespace": GATEWAY, "labels": labels},
        "spec": {"containers": [{"name": "istio-proxy", "image": "example/none:0"}]},
    });
    let variant = |index: usize| {
        json!({
            "name": BOTH[index], "cluster": BOTH[index], "accuracy": ACCURACY[index],
            "cores": {"initial": 1, "min": 1},
            "capacity": {"slopeRps": SLOPE_RPS[index], "interceptRps": -2.0, "utilisation": UTILISATION},
            "latency": {"gammaMs": 0.0, "epsilonMs": 0.0, "deltaMs": 0.0, "etaMs": SERVICE_MS[index],
                "parallelism": "per-core"},
            "workload": {"name": BOTH[index]},
        })
    };
    let pods = json!({"labels": labels, "namespace": GATEWAY, "port": port});
    // A cycle of a second, and defaults elsewhere, except that demand is forgotten after two seconds.
    let resource = json!({
        "apiVersion": "weir.dev/v1alpha1", "kind": "SloService",
        "metadata": {"name": SERVICE, "namespace": MODELS},
        "spec": {
            "slo": format!("{SLO_MS}ms"), "mode": "active", "budget": {"cores": BUDGET},
            "demand": {"smoothing": "1s", "window": "2s", "moving": "1s"},
            "proxies": {"pods": pods}, "variants": [variant(0), variant(1)],
        },
    });
    for object in [gateway, resource] {
        cluster.server.store().create(&object).unwrap();
    }
}

/// Whether a pod belongs to that variant's deployment.
pub(crate) fn is_of(name: &str, pod: &Key) -> bool {
    pod.name.starts_with(&format!("{name}-"))
}
