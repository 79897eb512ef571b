//! Shared fixtures: a cluster set up by the manifests in `k8s/`, a model's deployments, a proxy that counts, planners.

use std::time::Duration;

use serde_json::{Value, json};
use weir_apiserver::{ApiServer, Key as Object};
use weir_bed::operate::{self, Planner, Proxy};
use weir_bed::wait;
use weir_planner::shared_budget::SharedBudgets;

/// Longest wait for any condition.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// Namespace of the model servers, as in `k8s/services/resnet/rights.yaml`.
pub(crate) const MODELS: &str = "models";
/// Namespace of the planner.
pub(crate) const WEIR: &str = "weir-system";
const SUBJECT: &str = "system:serviceaccount:weir-system:weir-planner";

/// Variants of [`Cluster::demo`].
pub(crate) const BOTH: [&str; 2] = ["small", "large"];

/// An API server with the resource definition, the planner's rights, a node of 16 cores and a proxy.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) proxy: Proxy,
}

impl Cluster {
    pub(crate) async fn start() -> Cluster {
        Cluster::of(|_| {}, |_| true).await
    }

    /// Starts a cluster with a Deployment of one pod of one core for each variant of [`Cluster::demo`].
    pub(crate) async fn start_with_both() -> Cluster {
        let cluster = Cluster::start().await;
        for name in BOTH {
            cluster.deploy(name, 1, 1);
        }
        cluster
    }

    /// Starts a cluster with those documents of `k8s/` that `keeps` accepts.
    pub(crate) async fn of(
        change: impl FnOnce(&mut weir_apiserver::Options),
        keeps: impl Fn(&Value) -> bool,
    ) -> Cluster {
        let mut options = weir_apiserver::Options {
            exits_after: Some(Duration::from_millis(10)),
            ..weir_apiserver::Options::default()
        };
        change(&mut options);
        let server = ApiServer::start(options).await.unwrap();
        for namespace in [MODELS, WEIR] {
            server.store().namespace(namespace);
        }
        server.store().node("node-a", 16, 65_536).unwrap();
        let cluster = Cluster {
            server,
            proxy: Proxy::start().await.unwrap(),
        };
        for file in [
            "k8s/crd/crd.yaml",
            "k8s/base/rbac.yaml",
            "k8s/services/resnet/rights.yaml",
            "k8s/acts/resnet.yaml",
        ] {
            cluster.apply(file, &keeps);
        }
        cluster
    }

    /// Applies the documents of a manifest that `keeps` accepts.
    pub(crate) fn apply(&self, file: &str, keeps: impl Fn(&Value) -> bool) {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let text = std::fs::read_to_string(format!("{root}/{file}")).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        for document in documents {
            if !document.is_null() && keeps(&document) {
                self.server.store().create(&document).unwrap();
            }
        }
    }

    /// Adds the rule of the ClusterRole that `weir manifests` binds for a service with `fallback: replace`.
    pub(crate) fn may_evict(&self) {
        let rule = json!({"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]});
        let (kind, role) = (
            "clusterroles.rbac.authorization.k8s.io",
            Object::new("", "weir-planner-acts"),
        );
        self.server.store().amend(kind, &role, |role| {
            let rules = role["rules"].as_array_mut();
            rules.expect("a role has rules").push(rule);
        });
    }

    /// Creates a deployment of `replicas` pods with `cores` each.
    pub(crate) fn deploy(&self, name: &str, replicas: u32, cores: u32) {
        let amounts = json!({"cpu": cores.to_string(), "memory": "256Mi"});
        let container = json!({"name": "server", "image": "example/none:0",
            "resources": {"requests": amounts, "limits": amounts}});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": MODELS},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}},
                    "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}},
        });
        self.server.store().create(&deployment).unwrap();
    }

    /// Returns the resource `demo`: variant `small` on deployment `small`, `large` on `large`, with a budget
    /// of 8 cores.
    pub(crate) fn demo(&self) -> Value {
        let variant = |name: &str, accuracy: f64, slope: f64, gamma: f64, min: u32| {
            json!({
                "name": name, "cluster": name, "accuracy": accuracy,
                "cores": {"initial": 1, "min": min},
                "capacity": {"slopeRps": slope, "interceptRps": -2.0},
                "latency": {"gammaMs": gamma, "epsilonMs": 1.0, "deltaMs": 2.0, "etaMs": 0.0, "parallelism": "per-core"},
                "workload": {"name": name},
            })
        };
        json!({
            "apiVersion": "weir.dev/v1alpha1", "kind": "SloService",
            "metadata": {"name": "demo", "namespace": MODELS},
            "spec": {
                "slo": "1s", "mode": "active", "cycle": "300ms", "budget": {"cores": 8},
                "demand": {"smoothing": "300ms", "window": "1s", "moving": "600ms", "headroom": 1.1},
                "resize": {"timeout": "250ms", "scaleDownStabilization": "1s"}, "solver": {"timeLimit": "100ms"},
                "proxies": {"stats": [self.proxy.url()], "timeout": "200ms"},
                "variants": [variant("small", 70.0, 20.0, 40.0, 1), variant("large", 80.0, 10.0, 80.0, 1)],
            },
        })
    }

    pub(crate) async fn planner(&self, name: &str) -> Planner {
        self.planner_as(name, SUBJECT).await
    }

    /// Starts a planner with a budget that services share, as NAME=CORES.
    pub(crate) async fn planner_sharing(&self, name: &str, budget: &str) -> Planner {
        let budgets = SharedBudgets::new(&[budget.parse().unwrap()]).unwrap();
        let client = self.client().await;
        Planner::start_sharing(client, [name, WEIR, MODELS], budgets)
            .await
            .unwrap()
    }

    /// Client of the planners' service account.
    pub(crate) async fn client(&self) -> kube::Client {
        self.server.client(SUBJECT).await.unwrap()
    }

    /// Starts a planner that authenticates as `subject`.
    pub(crate) async fn planner_as(&self, name: &str, subject: &str) -> Planner {
        let client = self.server.client(subject).await.unwrap();
        Planner::start(client, name, WEIR, MODELS).await.unwrap()
    }

    /// Returns the resource as stored.
    pub(crate) fn resource(&self, name: &str) -> Value {
        let key = Object::new(MODELS, name);
        let found = self.server.store().get("sloservices.weir.dev", &key);
        found.unwrap_or_default()
    }

    /// Returns a condition as `status reason: message`.
    pub(crate) fn condition(&self, name: &str, about: &str) -> String {
        operate::condition(&self.resource(name), about)
    }

    pub(crate) async fn until_condition(&self, name: &str, about: &str, begins: &str) -> String {
        let reached = || self.condition(name, about).starts_with(begins);
        let waited = wait::until(begins, LIMIT, reached).await;
        assert!(
            waited.is_ok(),
            "{about} never {begins}: {}\n{}",
            self.resource(name)["status"],
            self.refusals()
        );
        self.condition(name, about)
    }

    /// Refused requests, shown when a test fails.
    pub(crate) fn refusals(&self) -> String {
        let requests = self.server.log().requests().into_iter();
        let refused = requests.filter(|request| request.status >= 400);
        let refused: std::collections::BTreeSet<String> = refused
            .map(|r| {
                format!(
                    "{:?} {} {}: {} {}",
                    r.verb, r.resource, r.key, r.status, r.reason
                )
            })
            .collect();
        refused.into_iter().collect::<Vec<_>>().join("\n")
    }

    /// Actual cores of each deployment's pods together, as the kubelets have set them.
    pub(crate) fn cores(&self, names: &[&str]) -> Vec<f64> {
        let pods = self.server.kubelet().pods();
        let of = |name: &&str| {
            let begins = format!("{name}-");
            let own = pods.iter().filter(|pod| pod.key.name.starts_with(&begins));
            own.map(|pod| pod.cores()).sum()
        };
        names.iter().map(of).collect()
    }

    pub(crate) async fn until_cores(&self, names: &[&str], is: impl Fn(&[f64]) -> bool) {
        let reached = || is(&self.cores(names));
        let waited = wait::until("the cores", LIMIT, reached).await;
        assert!(
            waited.is_ok(),
            "{:?}, {}",
            self.cores(names),
            self.resource("demo")["status"]
        );
    }

    /// Reasons of the events about a resource, in order.
    pub(crate) fn events(&self, name: &str) -> Vec<String> {
        let all: Vec<Value> = self.server.store().list("events", MODELS).unwrap();
        let about = all
            .into_iter()
            .filter(|event| event["involvedObject"]["name"] == name);
        about
            .map(|event| event["reason"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}
