//! Watches of a namespace, shared by all its services: pods, autoscalers and disruption budgets.
//!
//! Weir leaves a workload alone that an autoscaler targets: two controllers of one field would work against each
//! other, and the autoscaler is there by a person's decision. An autoscaler's own object names its target; its
//! actions are not considered.

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use tokio::sync::watch;

use super::actuate::NamespaceMemory;
use super::disruption::{DisruptionAllowance, allowed};
use super::error::KubeError;
use super::watch::{ApiOutage, ChangeNotifier, ObjectWatch, WatchFailure, slim};
use crate::backends::ActuateError;
use crate::service::Workload;

/// Namespace, watched until dropped.
pub struct Namespace {
    pub(super) client: kube::Client,
    pub(super) name: String,
    pub(super) notifier: ChangeNotifier,
    pub(super) changed: watch::Receiver<()>,
    pub(super) outage: Arc<ApiOutage>,
    /// Memory of what was written; it outlives this value.
    pub(super) memory: Arc<NamespaceMemory>,
    pods: ObjectWatch<Pod>,
    horizontal: ObjectWatch<HorizontalPodAutoscaler>,
    vertical: ObjectWatch<DynamicObject>,
    budgets: ObjectWatch<PodDisruptionBudget>,
}

impl Namespace {
    /// Starts the watches. Must be called within a tokio runtime: the watches are its tasks. `memory` is that of
    /// earlier watches of the same namespace, `outage` is shared by all watches of the API server.
    pub fn follow(
        client: &kube::Client,
        name: &str,
        memory: Arc<NamespaceMemory>,
        outage: &Arc<ApiOutage>,
    ) -> Arc<Namespace> {
        let (sender, changed) = watch::channel(());
        let notifier: ChangeNotifier = Arc::new(sender);
        let pods: Api<Pod> = Api::namespaced(client.clone(), name);
        let horizontal = Api::namespaced(client.clone(), name);
        let kind = GroupVersionKind::gvk("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler");
        let kind = ApiResource::from_gvk(&kind);
        let budgets = Api::namespaced(client.clone(), name);
        let vertical = Api::namespaced_with(client.clone(), name, &kind);
        let all = watcher::Config::default;
        let of = |kinds: &str| format!("{kinds} of namespace {name}");
        let changes = || Arc::clone(&notifier);
        Arc::new(Namespace {
            client: client.clone(),
            name: name.to_owned(),
            pods: ObjectWatch::new(of("pods"), pods, all(), (), slim_pod, changes(), outage),
            horizontal: ObjectWatch::new(of(HPAS), horizontal, all(), (), slim, changes(), outage),
            // Most clusters do not have this kind; then there are no objects.
            vertical: ObjectWatch::new(of(VPAS), vertical, all(), kind, slim, changes(), outage),
            budgets: ObjectWatch::new(of(PDBS), budgets, all(), (), slim, changes(), outage),
            outage: Arc::clone(outage),
            memory,
            notifier,
            changed,
        })
    }

    /// Whether each watch has listed its objects, or has failed to.
    pub(super) fn has_tried(&self) -> bool {
        self.pods.has_tried()
            && self.horizontal.has_tried()
            && self.vertical.has_tried()
            && self.budgets.has_tried()
    }

    /// Returns why the last state of some objects may be outdated, if a watch has failed for long.
    pub(super) fn stale(&self) -> Option<String> {
        let pods = self.pods.stale();
        let autoscalers = || self.horizontal.stale().or_else(|| self.vertical.stale());
        pods.or_else(autoscalers).or_else(|| self.budgets.stale())
    }

    /// Returns the pods.
    ///
    /// # Errors
    /// They have not been listed yet.
    pub(super) fn pods(&self) -> Result<&Store<Pod>, ActuateError> {
        self.pods.store()
    }

    /// Returns how many of these pods the disruption budgets let go.
    ///
    /// # Errors
    /// The budgets have not been listed yet.
    pub(super) fn disruption(
        &self,
        pods: &[Arc<Pod>],
    ) -> Result<Option<DisruptionAllowance>, KubeError> {
        let store = self.budgets.listed().map_err(|why| unlisted(PDBS, why))?;
        Ok(allowed(&store.state(), pods))
    }

    /// Returns the autoscaler that targets this workload, if there is one.
    ///
    /// # Errors
    /// Autoscalers have not been listed yet: there may be one. A cluster without the kind has none.
    pub(super) fn other_writer(&self, workload: &Workload) -> Result<Option<String>, KubeError> {
        let horizontal = self.horizontal.listed();
        let horizontal = horizontal.map_err(|why| unlisted(HPAS, why))?;
        if let Some(one) = horizontal.find(|one| scales(one, workload)) {
            return Ok(Some(format!("HorizontalPodAutoscaler {}", one.name_any())));
        }
        let vertical = self.vertical.listed_or_absent();
        let vertical = vertical.map_err(|why| unlisted(VPAS, why))?;
        let found = vertical.and_then(|all| all.find(|one| resizes(one, workload)));
        Ok(found.map(|one| format!("VerticalPodAutoscaler {}", one.name_any())))
    }
}

const HPAS: &str = "HorizontalPodAutoscalers";
const VPAS: &str = "VerticalPodAutoscalers";
const PDBS: &str = "PodDisruptionBudgets";

fn unlisted(kinds: &'static str, why: WatchFailure) -> KubeError {
    KubeError::Unlisted { kinds, why }
}

fn scales(scaler: &HorizontalPodAutoscaler, workload: &Workload) -> bool {
    let target = &scaler.spec.scale_target_ref;
    target.kind == workload.kind.label() && target.name == workload.name
}

/// Whether the autoscaler changes running pods of the workload: with mode `Off` it only recommends, with `Initial` it
/// changes only new pods.
fn resizes(scaler: &DynamicObject, workload: &Workload) -> bool {
    let at = |path: &str| {
        scaler
            .data
            .pointer(path)
            .and_then(serde_json::Value::as_str)
    };
    let is_target = at("/spec/targetRef/kind") == Some(workload.kind.label())
        && at("/spec/targetRef/name") == Some(&workload.name);
    let mode = at("/spec/updatePolicy/updateMode");
    is_target && !matches!(mode, Some("Off" | "Initial"))
}

/// Drops the fields of a pod that nothing here reads.
pub(crate) fn slim_pod(pod: &mut Pod) {
    slim(pod);
    let Some(spec) = pod.spec.as_mut() else {
        return;
    };
    spec.volumes = None;
    spec.init_containers = None;
    spec.tolerations = None;
    spec.affinity = None;
    for container in &mut spec.containers {
        container.env = None;
        container.env_from = None;
        container.args = None;
        container.command = None;
        container.volume_mounts = None;
        container.liveness_probe = None;
        container.readiness_probe = None;
        container.startup_probe = None;
    }
    if let Some(status) = pod.status.as_mut() {
        status.init_container_statuses = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::service::WorkloadKind;

    fn web() -> Workload {
        Workload {
            kind: WorkloadKind::Deployment,
            name: "web".to_owned(),
            container: None,
            reconfigure: None,
        }
    }

    #[test]
    fn autoscaler_is_conflicting_writer_of_its_target() {
        for (kind, name, is) in [
            ("Deployment", "web", true),
            ("Deployment", "other", false),
            ("StatefulSet", "web", false),
        ] {
            let target = json!({"kind": kind, "name": name});
            let scaler = json!({"spec": {"scaleTargetRef": target, "maxReplicas": 3}});
            let scaler: HorizontalPodAutoscaler = serde_json::from_value(scaler).unwrap();
            assert_eq!(scales(&scaler, &web()), is, "{kind} {name}");
            for (mode, acts) in [
                (json!({"updateMode": "InPlaceOrRecreate"}), true),
                (json!({"updateMode": "Off"}), false),
                (json!({"updateMode": "Initial"}), false),
                (json!({}), true),
            ] {
                let scaler = json!({
                    "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
                    "metadata": {"name": "v"}, "spec": {"targetRef": target, "updatePolicy": mode},
                });
                let scaler: DynamicObject = serde_json::from_value(scaler).unwrap();
                assert_eq!(resizes(&scaler, &web()), is && acts, "{kind} {name} {mode}");
            }
        }
    }
}
