//! The parts that a cluster has nobody for, played over the API for one namespace: pods of Deployments, and a kubelet
//! that has room for everything.
//!
//! Pods are given no node: nobody schedules them, and who deletes one sees it go at once.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::stage::of_json;

/// From a change of a pod until a kubelet has made it so, as was measured of real ones.
const ACTUATED_AFTER: Duration = Duration::from_millis(100);
/// A scheduler that is nobody.
pub(crate) const NOBODY: &str = "weir-tests-nobody";

/// A part that is played until dropped.
pub(crate) struct Played(JoinHandle<()>);

impl Drop for Played {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Makes the pods of a Deployment.
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
pub(crate) fn kubelet(client: &kube::Client, namespace: &str) -> Played {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    Played(tokio::spawn(async move {
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
                // Changed since, or gone: it is looked at again.
                let _ = api.replace_status(&name, &params, &changed).await;
            }
        }
    }))
}

/// The pod with the status it is to have, unless it has it.
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
