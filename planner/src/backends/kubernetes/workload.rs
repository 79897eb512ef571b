//! Workloads and pods as reported by watches: followed in the background, read without a request.
//!
//! Each watch lists, then watches, and retries with growing pauses after a failure; meanwhile the last reported state
//! holds. It does not use streaming lists, which fail with old versions of etcd. Nothing is written here.

use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::Selector;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use weir_api::Cores;

use super::error::KubeError;
use super::namespace::Namespace;
use super::pod;
use super::reconfigure::ServerHook;
use crate::backends::ActuateError;
use crate::service::{Workload, WorkloadKind};

/// Notified whenever any watch reports something.
pub(crate) type ChangeNotifier = Arc<watch::Sender<()>>;

/// Objects as reported by a watch.
pub(crate) struct ObjectWatch<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Hash + Eq + Clone,
{
    store: Store<K>,
    /// Reason why nothing is known yet; `None` after the first list.
    not_observed: Arc<Mutex<Option<String>>>,
    task: AbortHandle,
}

/// Drops `managedFields`: half of the object, and nothing here reads it.
pub(super) fn slim<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

impl<K> ObjectWatch<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Hash + Eq + Clone + Send + Sync,
{
    /// Watches the objects that `config` selects, without the fields that `slim` drops.
    pub(crate) fn new(
        api: Api<K>,
        config: watcher::Config,
        kind: K::DynamicType,
        slim: fn(&mut K),
        notifier: ChangeNotifier,
    ) -> ObjectWatch<K> {
        let writer = reflector::store::Writer::new(kind);
        let store = writer.as_reader();
        let not_observed = Some("the API server has not answered yet".to_owned());
        let not_observed = Arc::new(Mutex::new(not_observed));
        let shared = Arc::clone(&not_observed);
        let stream = watcher::watcher(api, config)
            .default_backoff()
            .modify(slim)
            .reflect(writer);
        let task = tokio::spawn(async move {
            let mut stream = pin!(stream);
            let mut failing = false;
            while let Some(event) = stream.next().await {
                match event {
                    Ok(event) => {
                        failing = false;
                        if matches!(event, Event::InitDone) {
                            *shared.lock().unwrap_or_else(PoisonError::into_inner) = None;
                        }
                        notifier.send_replace(());
                    }
                    Err(error) => {
                        match failing || absent(&error) {
                            true => tracing::debug!("watch: {error}"),
                            false => {
                                tracing::warn!("watch: {error}; its last state holds (logged once)")
                            }
                        }
                        failing = true;
                        let mut not_observed =
                            shared.lock().unwrap_or_else(PoisonError::into_inner);
                        *not_observed = not_observed.take().map(|_| error.to_string());
                    }
                }
            }
        });
        ObjectWatch {
            store,
            not_observed,
            task: task.abort_handle(),
        }
    }

    /// Returns the objects.
    ///
    /// # Errors
    /// The first list has not arrived.
    pub(crate) fn store(&self) -> Result<&Store<K>, ActuateError> {
        let not_observed = self
            .not_observed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match not_observed.clone() {
            None => Ok(&self.store),
            Some(why) => Err(ActuateError::NotObserved(why)),
        }
    }
}

/// Whether the API server does not know the kind.
fn absent(error: &watcher::Error) -> bool {
    let watcher::Error::InitialListFailed(error) = error else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

impl<K> Drop for ObjectWatch<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Hash + Eq + Clone,
{
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Watch of one workload.
pub(super) struct WorkloadWatch {
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
        let object = ObjectWatch::new(
            api.clone(),
            named,
            resource,
            slim,
            Arc::clone(&namespace.notifier),
        );
        let reconfigure = workload.reconfigure.clone();
        WorkloadWatch {
            hook: reconfigure.map(|reconfigure| ServerHook::new(http.clone(), reconfigure)),
            workload,
            api,
            object,
        }
    }

    /// Returns kind and name, such as `Deployment web`.
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.workload.kind.label(), self.workload.name)
    }

    /// Returns the spec of the workload.
    ///
    /// # Errors
    /// It is not known yet, does not exist, or has no usable selector.
    pub(super) fn spec(&self) -> Result<WorkloadSpec, KubeError> {
        let store = self.object.store()?;
        let object = store.find(|object| object.name_any() == self.workload.name);
        let object = object.ok_or_else(|| KubeError::NoWorkload(self.label()))?;
        let at = |path: &str| object.data.pointer(path);
        let replicas = at("/spec/replicas").and_then(serde_json::Value::as_u64);
        let selector = at("/spec/selector").cloned().unwrap_or_default();
        let selector = selector_of(selector)
            .ok_or_else(|| KubeError::NoWorkload(format!("{} with a selector", self.label())))?;
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
                    workload: self.label(),
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
