//! Stand-ins for missing parts of a cluster, over the API and for one namespace: a Deployment controller, and
//! a kubelet with capacity for everything.
//!
//! Pods are assigned no node, so a deleted pod disappears at once.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::fixture::of_json;

/// Delay between a change of a pod and its actuation, as measured with real kubelets.
const ACTUATED_AFTER: Duration = Duration::from_millis(100);
/// Name of a scheduler that does not exist.
pub(crate) const NO_SCHEDULER: &str = "weir-tests-nobody";

/// A stand-in that runs until it is dropped.
pub(crate) struct StandIn(JoinHandle<()>);

impl Drop for StandIn {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Creates the pods of a Deployment.
pub(crate) async fn pods_of(client: &kube::Client, deployment: &Deployment) {
    let namespace = deployment.namespace().unwrap();
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let spec = deployment.spec.clone().unwrap();
    for n in 0..spec.replicas.unwrap_or(1) {
        let mut pod = serde_json::to_value(&spec.template).unwrap();
        pod["metadata"]["name"] = json!(format!("{}-{n}", deployment.name_any()));
        let made = of_json(pod);
        api.create(&PostParams::default(), &made).await.unwrap();
    }
}

/// Starts the kubelet.
pub(crate) fn kubelet(client: &kube::Client, namespace: &str) -> StandIn {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    StandIn(tokio::spawn(async move {
        loop {
            sleep(ACTUATED_AFTER).await;
            let Ok(all) = api.list(&ListParams::default()).await else {
                continue;
            };
            for pod in all {
                let name = pod.name_any();
                let status = status(&serde_json::to_value(&pod).unwrap());
                let Some(status) = status else { continue };
                let changed = of_json(status);
                let params = PostParams::default();
                // A conflict or a missing pod is ignored: the next pass reads the pods again.
                let _ = api.replace_status(&name, &params, &changed).await;
            }
        }
    }))
}

/// Returns the pod with its target status, or `None` if it has that status.
fn status(pod: &Value) -> Option<Value> {
    let generation = &pod["metadata"]["generation"];
    if pod["status"]["observedGeneration"] == *generation
        || !pod["metadata"]["deletionTimestamp"].is_null()
    {
        return None;
    }
    let now = k8s_openapi::jiff::Timestamp::now();
    let now = format!("{now:.0}");
    let mut pod = pod.clone();
    let containers = pod["spec"]["containers"].as_array()?.clone();
    let before = pod["status"]["containerStatuses"].clone();
    let began = before[0]["state"]["running"]["startedAt"].clone();
    let began = if began.is_null() { json!(now) } else { began };
    let statuses: Vec<Value> = containers
        .iter()
        .map(|container| {
            json!({
                "name": container["name"], "image": container["image"], "imageID": "played",
                "containerID": format!("played://{}", pod["metadata"]["uid"].as_str().unwrap_or_default()),
                "ready": true, "started": true, "restartCount": 0, "lastState": {},
                "state": {"running": {"startedAt": began}},
                "resources": container["resources"],
                "allocatedResources": container["resources"]["requests"],
            })
        })
        .collect();
    let conditions = ["Initialized", "ContainersReady", "Ready"];
    let conditions =
        conditions.map(|name| json!({"type": name, "status": "True", "lastTransitionTime": began}));
    pod["status"]["phase"] = json!("Running");
    pod["status"]["startTime"] = began;
    pod["status"]["observedGeneration"] = generation.clone();
    pod["status"]["conditions"] = json!(conditions);
    pod["status"]["containerStatuses"] = json!(statuses);
    Some(pod)
}
