//! A namespace in which a story can begin: the definition, the planner's rights as shipped, a proxy, and whoever is
//! played; deployments, resources and planners are the story's to add.

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

use super::asked::Asked;
use super::definition::MANAGER;
use super::ground::Ground;
use super::parts::Parts;
use super::play::{self, Played};
use super::rights;

/// Most cores that a story's service may have; also what a node must have left for it.
pub(crate) const CORES: u32 = 4;
/// The image of all pods, where there is a kubelet: whatever runs and ends when told to.
const IMAGE: &str = "WEIR_TEST_IMAGE";
const IMAGE_USUAL: &str = "registry.k8s.io/pause:3.10";
/// The account of all pods: the namespace's own comes when its controller is there, perhaps.
const PODS: &str = "weir-tests-pods";

/// Where a story begins.
pub(crate) struct Stage<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) parts: Parts,
    pub(crate) proxy: Proxy,
    /// The planner's account.
    account: kube::Config,
    _kubelet: Option<Played>,
}

impl<'a> Stage<'a> {
    pub(crate) async fn set(ground: &'a Ground) -> Stage<'a> {
        let (client, namespace) = (&ground.client, ground.namespace.as_str());
        ground.define().await;
        for account in [PODS, rights::PLANNER] {
            let made = of_json(json!({"metadata": {"name": account}}));
            let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
            api.create(&PostParams::default(), &made).await.unwrap();
        }
        rights::grant(client, namespace).await;
        let parts = ground
            .place
            .parts(async || Parts::look(client, namespace).await);
        let parts = parts.await;
        let stage = Stage {
            ground,
            parts,
            proxy: Proxy::start().await.unwrap(),
            account: account(ground).await,
            _kubelet: (parts.nodes == 0).then(|| play::kubelet(client, namespace)),
        };
        rights::until_in_force(&stage.client(), namespace).await;
        stage
    }

    /// Whether a node has room for a story's service; said where it has not.
    pub(crate) fn has_room(&self) -> bool {
        let room = self.parts.nodes == 0 || self.parts.room_m >= i64::from(CORES) * 1000;
        if !room {
            eprintln!("LEFT OUT: no node has {CORES} cores left");
        }
        room
    }

    /// A client with the planner's rights.
    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::try_from(self.account.clone()).unwrap()
    }

    /// A planner with the planner's rights, and all that it asks for.
    pub(crate) async fn planner(&self, name: &str) -> (Planner, Asked) {
        let (client, asked) = Asked::client(self.account.clone());
        let namespace = &self.ground.namespace;
        let planner = Planner::start_apart(client, name, namespace, namespace).await;
        (planner.unwrap(), asked)
    }

    /// A deployment of so many pods whose one container has these resources; its pods are ready.
    pub(crate) async fn deploy(&self, name: &str, replicas: u32, resources: Value) {
        let client = &self.ground.client;
        let image = std::env::var(IMAGE).unwrap_or_else(|_| IMAGE_USUAL.to_owned());
        let nobody = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": true, "runAsUser": 65_535, "seccompProfile": {"type": "RuntimeDefault"}});
        let mut pod = json!({
            "serviceAccountName": PODS, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "server", "image": image, "imagePullPolicy": "IfNotPresent",
                "resources": resources, "securityContext": nobody}],
        });
        if self.parts.nodes == 0 {
            pod["schedulerName"] = json!(play::NOBODY);
        }
        let deployment: Deployment = of_json(json!({
            "metadata": {"name": name, "namespace": self.ground.namespace},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": pod}},
        }));
        let api: Api<Deployment> = self.api();
        let made = api.create(&PostParams::default(), &deployment).await;
        let made = made.unwrap();
        if !self.parts.deployments {
            play::pods_of(client, &made).await;
        }
        self.until_ready(name, replicas as usize).await;
    }

    /// The same, Guaranteed, with so many cores for each pod.
    pub(crate) async fn deploy_cores(&self, name: &str, replicas: u32, cores: u32) {
        let amounts = json!({"cpu": cores.to_string(), "memory": "32Mi"});
        let resources = json!({"requests": amounts, "limits": amounts});
        self.deploy(name, replicas, resources).await;
    }

    /// Objects of a kind in the story's namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.ground.client.clone(), &self.ground.namespace)
    }

    /// The resources as they are, whatever their types.
    pub(crate) fn services(&self) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<SloService>(&());
        Api::namespaced_with(self.ground.client.clone(), &self.ground.namespace, &kind)
    }

    /// A resource `demo`: variant `small` on deployment `small`, `large` on `large`.
    pub(crate) fn demo(&self) -> Value {
        self.named("demo", &["small", "large"])
    }

    /// A resource with a variant on each of these deployments, the first ones quicker, the later ones more accurate.
    pub(crate) fn named(&self, name: &str, deployments: &[&str]) -> Value {
        let variants = deployments.iter().enumerate().map(|(n, of)| {
            let slower = (n + 1) as f64;
            json!({
                "name": of, "cluster": of, "accuracy": 60.0 + 10.0 * slower, "cores": {"initial": 1, "least": 1},
                "capacity": {"slope_rps": 20.0 / slower, "intercept_rps": -2.0},
                "latency": {"gamma_ms": 40.0 * slower, "epsilon_ms": 1.0, "delta_ms": 2.0, "eta_ms": 0.0,
                    "parallelism": "per-core"},
                "workload": {"name": of},
            })
        });
        let variants: Vec<Value> = variants.collect();
        json!({
            "apiVersion": "weir.dev/v1alpha1", "kind": "SloService",
            "metadata": {"name": name, "namespace": self.ground.namespace},
            "spec": {
                "slo_ms": 1000, "mode": "active", "cycle_ms": 300, "budget": {"cores": CORES},
                "demand": {"smoothing_s": 0.3, "window_s": 1.0, "moving_s": 0.6, "headroom": 1.1},
                "resize": {"timeout_ms": 250}, "solver": {"time_limit_ms": 100},
                "proxies": {"stats": [self.proxy.url()], "timeout_ms": 200},
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

    /// The pods of a deployment that are not to end, by name.
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

/// The configuration of the planner's account, by a token of its own.
async fn account(ground: &Ground) -> kube::Config {
    let api: Api<ServiceAccount> = Api::namespaced(ground.client.clone(), &ground.namespace);
    let asked = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(3600),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let params = PostParams::default();
    let given = api.create_token_request(rights::PLANNER, &params, &asked);
    let token = given.await.unwrap().status.unwrap().token.unwrap();
    let mut config = ground.place.config.clone();
    config.auth_info = AuthInfo {
        token: Some(token.into()),
        ..AuthInfo::default()
    };
    config
}

/// The documents of a manifest of the project.
pub(crate) fn manifest(file: &str) -> Vec<Value> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let text = std::fs::read_to_string(format!("{root}/{file}")).unwrap();
    let all: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    all.into_iter().filter(|one| !one.is_null()).collect()
}

/// A value as a type of Kubernetes.
pub(crate) fn of_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
