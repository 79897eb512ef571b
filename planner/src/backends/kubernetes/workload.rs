//! Workloads and pods as reported by watches: followed in the background, read without a request.
//!
//! Nothing is written here.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::Selector;
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use weir_api::Cores;

use super::actuate::WorkloadKey;
use super::error::KubeError;
use super::namespace::Namespace;
use super::pod;
use super::reconfigure::ServerHook;
use super::watch::{ObjectWatch, slim};
use crate::service::{Workload, WorkloadKind};

/// Watch of one workload.
pub(super) struct WorkloadWatch {
    pub(super) key: WorkloadKey,
    pub(super) workload: Workload,
    pub(super) api: Api<DynamicObject>,
    pub(super) hook: Option<ServerHook>,
    object: ObjectWatch<DynamicObject>,
}

/// Spec of a workload.
#[derive(Debug, Clone)]
pub(super) struct WorkloadSpec {
    pub(super) uid: String,
    pub(super) generation: i64,
    /// Resource version of the object that was read.
    pub(super) version: String,
    pub(super) replicas: u32,
    /// Replicas set by a pending write. Not part of the object.
    pub(super) pending_replicas: Option<u32>,
    pub(super) template: Cores,
    /// Container that serves.
    pub(super) container: String,
    pub(super) selector: Selector,
}

impl WorkloadWatch {
    pub(super) fn new(
        namespace: &Namespace,
        workload: Workload,
        http: &reqwest::Client,
    ) -> WorkloadWatch {
        let client = namespace.client.clone();
        let resource = resource(workload.kind);
        let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace.name, &resource);
        let named = watcher::Config::default().fields(&format!("metadata.name={}", workload.name));
        let name = format!("{} {}", workload.kind.label(), workload.name);
        let object = ObjectWatch::new(
            name,
            api.clone(),
            named,
            resource,
            slim,
            Arc::clone(&namespace.notifier),
            &namespace.outage,
        );
        let reconfigure = workload.reconfigure.clone();
        WorkloadWatch {
            hook: reconfigure.map(|reconfigure| ServerHook::new(http.clone(), reconfigure)),
            key: WorkloadKey::of(&workload),
            workload,
            api,
            object,
        }
    }

    /// Returns why its last state may be outdated, if its watch has failed for long.
    pub(super) fn stale(&self) -> Option<String> {
        self.object.stale()
    }

    /// Returns the spec of the workload.
    ///
    /// # Errors
    /// It is not known yet, does not exist, or has no usable selector.
    pub(super) fn spec(&self) -> Result<WorkloadSpec, KubeError> {
        let store = self.object.store()?;
        let object = store.find(|object| object.name_any() == self.workload.name);
        let object = object.ok_or_else(|| KubeError::NoWorkload(self.key.to_string()))?;
        let at = |path: &str| object.data.pointer(path);
        let replicas = at("/spec/replicas").and_then(serde_json::Value::as_u64);
        let selector = at("/spec/selector").cloned().unwrap_or_default();
        let selector = selector_of(selector)
            .ok_or_else(|| KubeError::NoWorkload(format!("{} with a selector", self.key)))?;
        let containers = at("/spec/template/spec/containers").cloned();
        let containers: Vec<Container> = containers
            .and_then(|all| serde_json::from_value(all).ok())
            .unwrap_or_default();
        let container = self.container(&containers)?;
        let own = containers.iter().find(|one| one.name == container);
        let cpu = own
            .and_then(|own| own.resources.as_ref())
            .and_then(pod::cpu);
        Ok(WorkloadSpec {
            uid: object.uid().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or(0),
            version: object.resource_version().unwrap_or_default(),
            replicas: replicas.map_or(1, |count| u32::try_from(count).unwrap_or(u32::MAX)),
            pending_replicas: None,
            template: cpu.map_or(Cores::ZERO, |cpu| cpu.request),
            container,
            selector,
        })
    }

    /// Returns the configured container, or the only one of the template: sidecars are injected into pods, not into
    /// the template.
    fn container(&self, template: &[Container]) -> Result<String, KubeError> {
        match (&self.workload.container, template) {
            (Some(named), _) => Ok(named.clone()),
            (None, [only]) => Ok(only.name.clone()),
            (None, several) => {
                let names: Vec<&str> = several.iter().map(|one| one.name.as_str()).collect();
                Err(KubeError::Unnamed {
                    workload: self.key.to_string(),
                    containers: names.join(", "),
                })
            }
        }
    }
}

fn resource(kind: WorkloadKind) -> ApiResource {
    match kind {
        WorkloadKind::Deployment => ApiResource::erase::<Deployment>(&()),
        WorkloadKind::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
    }
}

/// Parses a selector; `None` if it is invalid or selects all pods of the namespace.
fn selector_of(value: serde_json::Value) -> Option<Selector> {
    let read: LabelSelector = serde_json::from_value(value).ok()?;
    let selector = Selector::try_from(read).ok()?;
    (!selector.selects_all()).then_some(selector)
}

impl WorkloadSpec {
    /// Returns its pods, sorted by name.
    pub(super) fn pods(&self, store: &Store<Pod>) -> Vec<Arc<Pod>> {
        let mut pods = store.state_filter_selector(&self.selector);
        pods.sort_by_key(|pod| pod.name_any());
        pods
    }
}
