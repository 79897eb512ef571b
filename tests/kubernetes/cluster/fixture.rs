//! A namespace prepared for a test: the resource definition, the planner's rights as shipped, a proxy, and
//! stand-ins for missing parts. Each test adds its deployments, resources and planners.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::AuthInfo;
use kube::core::ApiResource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use weir_bed::operate::{Planner, Proxy};
use weir_planner::spec::resource::SloService;

use super::definition::MANAGER;
use super::parts::Parts;
use super::request_log::RequestLog;
use super::rights;
use super::sandbox::Sandbox;
use super::stand_ins::{self, StandIn};

/// The variants of the test's service, and their workloads.
pub(crate) const BOTH: [&str; 2] = ["small", "large"];
/// Core budget of a test's service; also the free cores that a node must have for it.
pub(crate) const CORES: u32 = 4;
/// Environment variable with the image of all pods, used where there is a kubelet; any image that runs until
/// it is stopped.
const IMAGE: &str = "WEIR_TEST_IMAGE";
const IMAGE_USUAL: &str = "registry.k8s.io/pause:3.10";
/// Service account of all pods; the namespace's default account needs a controller that may be missing.
const PODS: &str = "weir-tests-pods";

/// The prepared namespace.
pub(crate) struct Fixture<'a> {
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) parts: Parts,
    pub(crate) proxy: Proxy,
    /// Configuration of the planner's account.
    account: kube::Config,
    _kubelet: Option<StandIn>,
}

impl<'a> Fixture<'a> {
    pub(crate) async fn new(sandbox: &'a Sandbox) -> Fixture<'a> {
        let (client, namespace) = (&sandbox.client, sandbox.namespace.as_str());
        sandbox.define().await;
        for account in [PODS, rights::PLANNER] {
            let made = of_json(json!({"metadata": {"name": account}}));
            let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
            api.create(&PostParams::default(), &made).await.unwrap();
        }
        rights::grant(client, namespace).await;
        let parts = sandbox
            .cluster
            .parts(async || Parts::detect(client, namespace).await);
        let parts = parts.await;
        let fixture = Fixture {
            sandbox,
            parts,
            proxy: Proxy::start().await.unwrap(),
            account: account(sandbox).await,
            _kubelet: (parts.nodes == 0).then(|| stand_ins::kubelet(client, namespace)),
        };
        rights::until_in_force(&fixture.client(), namespace).await;
        fixture
    }

    /// Whether a node has capacity for the test's service; reports if none has.
    pub(crate) fn has_capacity(&self) -> bool {
        let fits = self.parts.nodes == 0 || self.parts.free_m >= i64::from(CORES) * 1000;
        if !fits {
            eprintln!("SKIPPED: no node has {CORES} cores left");
        }
        fits
    }

    /// Creates a client with the planner's rights.
    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::try_from(self.account.clone()).unwrap()
    }

    /// Starts a planner with the planner's rights; also returns the log of its requests.
    pub(crate) async fn planner(&self, name: &str) -> (Planner, RequestLog) {
        let (client, log) = RequestLog::client(self.account.clone());
        let namespace = &self.sandbox.namespace;
        let planner = Planner::start_apart(client, name, namespace, namespace).await;
        (planner.unwrap(), log)
    }

    /// Creates a deployment whose pods have one container with `resources`, and waits until they are ready.
    pub(crate) async fn deploy(&self, name: &str, replicas: u32, resources: Value) {
        let client = &self.sandbox.client;
        let image = std::env::var(IMAGE).unwrap_or_else(|_| IMAGE_USUAL.to_owned());
        let restricted = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": true, "runAsUser": 65_535, "seccompProfile": {"type": "RuntimeDefault"}});
        let mut pod = json!({
            "serviceAccountName": PODS, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "server", "image": image, "imagePullPolicy": "IfNotPresent",
                "resources": resources, "securityContext": restricted}],
        });
        if self.parts.nodes == 0 {
            pod["schedulerName"] = json!(stand_ins::NO_SCHEDULER);
        }
        let deployment: Deployment = of_json(json!({
            "metadata": {"name": name, "namespace": self.sandbox.namespace},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": pod}},
        }));
        let api: Api<Deployment> = self.api();
        let made = api.create(&PostParams::default(), &deployment).await;
        let made = made.unwrap();
        if !self.parts.deployments {
            stand_ins::pods_of(client, &made).await;
        }
        self.until_ready(name, replicas as usize).await;
    }

    /// Creates a deployment of Guaranteed pods with `cores` each, and waits until they are ready.
    pub(crate) async fn deploy_cores(&self, name: &str, replicas: u32, cores: u32) {
        let amounts = json!({"cpu": cores.to_string(), "memory": "32Mi"});
        let resources = json!({"requests": amounts, "limits": amounts});
        self.deploy(name, replicas, resources).await;
    }

    /// Creates the workloads of [`BOTH`] variants with a core each, if the cluster has capacity for the test; reports
    /// if it has none.
    pub(crate) async fn deploy_both(&self) -> bool {
        if !self.has_capacity() {
            return false;
        }
        for name in BOTH {
            self.deploy_cores(name, 1, 1).await;
        }
        true
    }

    /// API of a kind of object in the test's namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.sandbox.client.clone(), &self.sandbox.namespace)
    }

    /// API of the resources as untyped objects.
    pub(crate) fn services(&self) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<SloService>(&());
        Api::namespaced_with(self.sandbox.client.clone(), &self.sandbox.namespace, &kind)
    }

    /// Returns the resource `demo`: variant `small` on deployment `small`, `large` on `large`.
    pub(crate) fn demo(&self) -> Value {
        self.named("demo", &["small", "large"])
    }

    /// Returns a resource with one variant per deployment; later ones are slower and more accurate.
    pub(crate) fn named(&self, name: &str, deployments: &[&str]) -> Value {
        let variants = deployments.iter().enumerate().map(|(n, of)| {
            let slower = (n + 1) as f64;
            json!({
                "name": of, "cluster": of, "accuracy": 60.0 + 10.0 * slower, "cores": {"initial": 1, "min": 1},
                "capacity": {"slopeRps": 20.0 / slower, "interceptRps": -2.0},
                "latency": {"gammaMs": 40.0 * slower, "epsilonMs": 1.0, "deltaMs": 2.0, "etaMs": 0.0,
                    "parallelism": "per-core"},
                "workload": {"name": of},
            })
        });
        let variants: Vec<Value> = variants.collect();
        json!({
            "apiVersion": "weir.dev/v1alpha1", "kind": "SloService",
            "metadata": {"name": name, "namespace": self.sandbox.namespace},
            "spec": {
                "slo": "1s", "mode": "active", "cycle": "300ms", "budget": {"cores": CORES},
                "demand": {"smoothing": "300ms", "window": "1s", "moving": "600ms", "headroom": 1.1},
                "resize": {"timeout": "250ms"}, "solver": {"timeLimit": "100ms"},
                "proxies": {"stats": [self.proxy.url()], "timeout": "200ms"},
                "variants": variants,
            },
        })
    }

    /// Applies a resource, as `kubectl apply --server-side` does.
    pub(crate) async fn apply(&self, resource: &Value) -> kube::Result<DynamicObject> {
        let name = resource["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply(MANAGER).force();
        let api = self.services();
        api.patch(name, &params, &Patch::Apply(resource)).await
    }

    /// Returns the pods of a deployment that are not being deleted, sorted by name.
    pub(crate) async fn pods(&self, deployment: &str) -> Vec<Pod> {
        let selected = kube::api::ListParams::default().labels(&format!("app={deployment}"));
        let all = self.api::<Pod>().list(&selected).await.unwrap().items;
        let all = all.into_iter();
        let stays = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
        let mut all: Vec<Pod> = all.filter(stays).collect();
        all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        all
    }
}

/// Returns a configuration with a token of the planner's account.
async fn account(sandbox: &Sandbox) -> kube::Config {
    let api: Api<ServiceAccount> = Api::namespaced(sandbox.client.clone(), &sandbox.namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(3600),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let params = PostParams::default();
    let given = api.create_token_request(rights::PLANNER, &params, &request);
    let token = given.await.unwrap().status.unwrap().token.unwrap();
    let mut config = sandbox.cluster.config.clone();
    config.auth_info = AuthInfo {
        token: Some(token.into()),
        ..AuthInfo::default()
    };
    config
}

/// Reads the documents of one of the project's manifests.
pub(crate) fn manifest(file: &str) -> Vec<Value> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let text = std::fs::read_to_string(format!("{root}/{file}")).unwrap();
    let all: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    all.into_iter().filter(|one| !one.is_null()).collect()
}

/// Deserializes a Kubernetes type.
pub(crate) fn of_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
