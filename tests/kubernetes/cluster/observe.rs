//! Observations of a cluster: resources, their conditions, events and columns, and the pods' cores.

use std::collections::BTreeMap;

use axum::http::Request;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::Value;
use weir_bed::operate::condition;

use super::fixture::Fixture;
use super::sandbox::{LIMIT, cpu_m, until_within};

impl Fixture<'_> {
    /// Returns the pods of these deployments.
    pub(crate) async fn pods_of(&self, deployments: &[&str]) -> Vec<Pod> {
        let mut all = Vec::new();
        for name in deployments {
            all.extend(self.pods(name).await);
        }
        all
    }

    /// Returns what stays the same while these deployments' pods are neither replaced nor restarted.
    pub(crate) async fn identities(&self, deployments: &[&str]) -> Vec<Value> {
        self.pods_of(deployments)
            .await
            .iter()
            .map(identity)
            .collect()
    }

    /// Returns the resource, or null if there is none.
    pub(crate) async fn resource(&self, name: &str) -> Value {
        let found = self.services().get_opt(name).await.unwrap();
        serde_json::to_value(found).unwrap()
    }

    /// Deletes the resource and waits until it has disappeared.
    pub(crate) async fn remove(&self, name: &str) {
        let api = self.services();
        api.delete(name, &DeleteParams::default()).await.unwrap();
        let deleted = async || self.resource(name).await.is_null();
        assert!(until_within(LIMIT, deleted).await, "{name} is still there");
    }

    pub(crate) async fn until_condition(&self, name: &str, about: &str, begins: &str) -> String {
        let actual = async || condition(&self.resource(name).await, about);
        let reached = async || actual().await.starts_with(begins);
        assert!(
            until_within(LIMIT, reached).await,
            "{about} of {name} never {begins}: {}",
            self.resource(name).await["status"]
        );
        actual().await
    }

    /// Waits until the status of `demo` reports a matching number of actual cores that is also the target.
    pub(crate) async fn until_reported(&self, is: impl Fn(f64) -> bool) {
        let reported = async || {
            let resource = self.resource("demo").await;
            let cores = resource["status"]["cores"].as_f64();
            cores.is_some_and(&is) && condition(&resource, "Actuated").starts_with("True InForce")
        };
        let reported = until_within(LIMIT, reported).await;
        assert!(reported, "{}", self.resource("demo").await["status"]);
    }

    /// Waits for an event about a resource with that reason.
    pub(crate) async fn until_event(&self, name: &str, reason: &str) {
        let reported = async || {
            let all = self.api::<Event>().list(&ListParams::default()).await;
            let all = all.unwrap().into_iter();
            let own = all.filter(|one| one.involved_object.name.as_deref() == Some(name));
            own.filter_map(|one| one.reason).any(|one| one == reason)
        };
        let reported = until_within(LIMIT, reported).await;
        assert!(reported, "no event {reason} about {name}");
    }

    /// Returns the columns and cells of a resource, as `kubectl get -o wide` shows them.
    pub(crate) async fn columns(&self, name: &str) -> BTreeMap<String, Value> {
        let namespace = &self.sandbox.namespace;
        let path = format!("/apis/weir.dev/v1alpha1/namespaces/{namespace}/sloservices/{name}");
        let as_table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let request = Request::get(path).header("accept", as_table);
        let request = request.body(Vec::new()).unwrap();
        let table: Value = self.sandbox.client.request(request).await.unwrap();
        let names = table["columnDefinitions"].as_array().unwrap().iter();
        let cells = table["rows"][0]["cells"].as_array().unwrap().iter();
        let names = names.map(|column| column["name"].as_str().unwrap().to_owned());
        names.zip(cells.cloned()).collect()
    }

    /// Waits until a deployment has exactly `count` pods and all are ready.
    pub(crate) async fn until_ready(&self, deployment: &str, count: usize) {
        let ready = async || {
            let pods = self.pods(deployment).await;
            pods.len() == count && pods.iter().all(is_ready)
        };
        assert!(
            until_within(LIMIT, ready).await,
            "{deployment}: {:?}",
            self.pods(deployment)
                .await
                .into_iter()
                .map(|pod| pod.status)
                .collect::<Vec<_>>()
        );
    }

    /// Returns the cores of each deployment's pods together, as reported by the kubelets.
    pub(crate) async fn cores(&self, deployments: &[&str]) -> Vec<f64> {
        let mut cores = Vec::new();
        for deployment in deployments {
            let pods = self.pods(deployment).await;
            let millis: i64 = pods.iter().map(|pod| actual_m(server(pod))).sum();
            cores.push(millis as f64 / 1e3);
        }
        cores
    }

    pub(crate) async fn until_cores(&self, deployments: &[&str], is: impl Fn(f64) -> bool) {
        let reached = async || is(self.cores(deployments).await.iter().sum());
        let reached = until_within(LIMIT, reached).await;
        assert!(
            reached,
            "{:?}, {}",
            self.cores(deployments).await,
            self.resource("demo").await["status"]
        );
    }
}

/// Status of a pod's only container.
pub(crate) fn server(pod: &Pod) -> Option<&ContainerStatus> {
    let status = pod.status.as_ref()?;
    status.container_statuses.as_ref()?.first()
}

/// Actual CPU of a container, in thousandths of a core.
pub(crate) fn actual_m(status: Option<&ContainerStatus>) -> i64 {
    let resources = status.and_then(|status| status.resources.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let cpu = requests.and_then(|requests| requests.get("cpu"));
    cpu.map_or(0, |cpu| cpu_m(&cpu.0))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Fields of a pod that must not change: identity, restarts, owners and metadata.
pub(crate) fn identity(pod: &Pod) -> Value {
    let started = server(pod).map(|one| (one.restart_count, one.container_id.clone()));
    let qos = pod.status.as_ref().and_then(|s| s.qos_class.clone());
    serde_json::json!({
        "name": pod.name_any(), "uid": pod.uid(), "started": started, "qos": qos,
        "labels": pod.labels(), "annotations": pod.annotations(), "finalizers": pod.finalizers(),
        "owners": pod.owner_references().iter().map(|owner| &owner.uid).collect::<Vec<_>>(),
    })
}
