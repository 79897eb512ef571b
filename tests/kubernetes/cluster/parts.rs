//! Detection of the parts that a cluster has; missing parts are emulated.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

use super::fixture::of_json;
use super::sandbox::{cpu_m, until_within};

/// Time that a Deployment controller gets to observe a new Deployment.
const NOTICED: Duration = Duration::from_secs(5);

/// Parts of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Whether a controller creates the pods of Deployments.
    pub(crate) deployments: bool,
    /// Number of nodes that accept pods.
    pub(crate) nodes: usize,
    /// Free CPU of the node with most free CPU, in thousandths of a core.
    pub(crate) free_m: i64,
    /// Allocatable CPU of the largest node, in thousandths of a core.
    pub(crate) largest_m: i64,
}

impl Parts {
    pub(crate) async fn detect(client: &kube::Client, namespace: &str) -> Parts {
        let nodes = nodes(client).await;
        let parts = Parts {
            deployments: deployments(client, namespace).await,
            nodes: nodes.len(),
            free_m: nodes.iter().map(|node| node.1).max().unwrap_or(0),
            largest_m: nodes.iter().map(|node| node.0).max().unwrap_or(0),
        };
        eprintln!("{parts}");
        parts
    }
}

impl std::fmt::Display for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.deployments {
            true => write!(f, "Deployments: by the cluster's controller; ")?,
            false => write!(
                f,
                "Deployments: no controller, this program makes their pods; "
            )?,
        }
        match self.nodes {
            0 => write!(
                f,
                "nodes: none that is ready, this program emulates the kubelet"
            ),
            nodes => write!(
                f,
                "nodes: {nodes}, the roomiest with {} cores left",
                self.free_m as f64 / 1e3
            ),
        }
    }
}

/// Whether a controller observes a new Deployment without pods.
async fn deployments(client: &kube::Client, namespace: &str) -> bool {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let labels = json!({"app": "look"});
    let made = of_json(json!({
        "metadata": {"name": "look"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "none", "image": "example/none:0"}]}}},
    }));
    api.create(&PostParams::default(), &made).await.unwrap();
    let noticed = async || {
        let seen = api.get("look").await.unwrap().status;
        seen.is_some_and(|status| status.observed_generation.is_some())
    };
    let noticed = until_within(NOTICED, noticed).await;
    let params = DeleteParams::background();
    api.delete("look", &params).await.unwrap();
    noticed
}

/// Returns (allocatable, free) CPU of the nodes that accept pods, in thousandths of a core.
async fn nodes(client: &kube::Client) -> Vec<(i64, i64)> {
    let all: Api<Node> = Api::all(client.clone());
    let all = all.list(&ListParams::default()).await.unwrap().items;
    let usable: Vec<Node> = all.into_iter().filter(takes_pods).collect();
    let pods: Api<Pod> = Api::all(client.clone());
    let pods = pods.list(&ListParams::default()).await.unwrap().items;
    let taken = |node: &str| -> i64 {
        let on = pods.iter().filter_map(|pod| pod.spec.as_ref());
        let on = on.filter(|spec| spec.node_name.as_deref() == Some(node));
        let requests = on.flat_map(|spec| &spec.containers).filter_map(|one| {
            let requests = one.resources.as_ref()?.requests.as_ref()?;
            Some(cpu_m(&requests.get("cpu")?.0))
        });
        requests.sum()
    };
    let both = usable.iter().map(|node| {
        let status = node.status.as_ref();
        let has = status.and_then(|status| status.allocatable.as_ref());
        let has = has.and_then(|has| has.get("cpu"));
        let has = has.map_or(0, |cpu| cpu_m(&cpu.0));
        (has, has - taken(&node.name_any()))
    });
    both.collect()
}

fn takes_pods(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    let ready = conditions.into_iter().flatten();
    let mut ready = ready.filter(|one| one.type_ == "Ready" && one.status == "True");
    let spec = node.spec.clone().unwrap_or_default();
    let tainted = spec.taints.unwrap_or_default().into_iter();
    let tainted = tainted
        .into_iter()
        .any(|taint| taint.effect.starts_with("No"));
    ready.next().is_some() && spec.unschedulable != Some(true) && !tainted
}
