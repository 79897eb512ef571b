//! Shared fixtures: an emulator with a namespace and a node, objects, and waits.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::Api;
use serde_json::{Value, json};
use weir_apiserver::{ADMIN, ApiServer, Key, Options};
use weir_bed::wait;

/// Longest wait for any condition.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Namespace of all tests.
pub(crate) const DEMO: &str = "demo";

/// Starts an emulator with a namespace and a node of 8 cores.
pub(crate) async fn start(change: impl FnOnce(&mut Options)) -> ApiServer {
    let mut options = Options {
        starts_after: Duration::from_millis(1),
        ready_after: Duration::from_millis(1),
        exits_after: Some(Duration::from_millis(1)),
        ..Options::default()
    };
    change(&mut options);
    let server = ApiServer::start(options).await.unwrap();
    server.store().namespace(DEMO);
    server.store().node("node-a", 8, 16_384).unwrap();
    server
}

/// Creates a client with all rights and without retries.
pub(crate) async fn admin(server: &ApiServer) -> kube::Client {
    server.client_without_retries(ADMIN).await.unwrap()
}

pub(crate) async fn pods(server: &ApiServer) -> Api<Pod> {
    Api::namespaced(admin(server).await, DEMO)
}

/// Returns a Guaranteed pod with one container of `cpu_m` millicores.
pub(crate) fn pod(name: &str, cpu_m: u32) -> Pod {
    let amounts = json!({"cpu": format!("{cpu_m}m"), "memory": "64Mi"});
    read(json!({
        "metadata": {"name": name, "namespace": DEMO, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": "example/none:0",
            "resources": {"requests": amounts, "limits": amounts}}]},
    }))
}

/// Returns a deployment of such pods.
pub(crate) fn deployment(
    name: &str,
    replicas: u32,
    cpu_m: u32,
) -> k8s_openapi::api::apps::v1::Deployment {
    let amounts = json!({"cpu": format!("{cpu_m}m"), "memory": "64Mi"});
    read(json!({
        "metadata": {"name": name, "namespace": DEMO},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "app", "image": "example/none:0",
                    "resources": {"requests": amounts, "limits": amounts}}]}}},
    }))
}

/// Returns a small object, labelled with its value.
pub(crate) fn config(name: &str, value: &str) -> ConfigMap {
    read(json!({"metadata": {"name": name, "labels": {"of": value}}, "data": {"key": value}}))
}

pub(crate) fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Returns the pod as stored.
pub(crate) fn stored(server: &ApiServer, name: &str) -> Value {
    let found = server.store().get("pods", &Key::new(DEMO, name));
    found.unwrap_or_default()
}

/// Waits until a stored pod meets a condition.
pub(crate) async fn until_pod(
    server: &ApiServer,
    name: &str,
    what: &str,
    is: impl Fn(&Value) -> bool,
) -> Value {
    let found = || is(&stored(server, name));
    let waited = wait::until(what, LIMIT, found).await;
    assert!(waited.is_ok(), "{what}: {}", stored(server, name));
    stored(server, name)
}

/// Field of a condition, or empty.
pub(crate) fn condition<'a>(object: &'a Value, name: &str, field: &str) -> &'a str {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == name);
    found
        .and_then(|condition| condition[field].as_str())
        .unwrap_or_default()
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready", "status") == "True"
}

/// Unwraps the refusal from an answer.
pub(crate) fn refusal<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> kube::core::Status {
    match answer {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("{other:?}"),
    }
}
