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

use super::disruption::{DisruptionAllowance, allowed};
use super::workload::{ChangeNotifier, ObjectWatch, slim};
use crate::backends::ActuateError;
use crate::service::Workload;

/// Namespace, watched until dropped.
pub struct Namespace {
    pub(super) client: kube::Client,
    pub(super) name: String,
    pub(super) notifier: ChangeNotifier,
    pub(super) changed: watch::Receiver<()>,
    pods: ObjectWatch<Pod>,
    horizontal: ObjectWatch<HorizontalPodAutoscaler>,
    vertical: ObjectWatch<DynamicObject>,
    budgets: ObjectWatch<PodDisruptionBudget>,
}

impl Namespace {
    /// Starts the watches. Must be called within a tokio runtime: the watches are its tasks.
    pub fn follow(client: &kube::Client, name: &str) -> Arc<Namespace> {
        let (sender, changed) = watch::channel(());
        let notifier: ChangeNotifier = Arc::new(sender);
        let pods: Api<Pod> = Api::namespaced(client.clone(), name);
        let horizontal = Api::namespaced(client.clone(), name);
        let kind = GroupVersionKind::gvk("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler");
        let kind = ApiResource::from_gvk(&kind);
        let budgets = Api::namespaced(client.clone(), name);
        let vertical = Api::namespaced_with(client.clone(), name, &kind);
        let all = watcher::Config::default;
        Arc::new(Namespace {
            client: client.clone(),
            name: name.to_owned(),
            pods: ObjectWatch::new(pods, all(), (), slim_pod, Arc::clone(&notifier)),
            horizontal: ObjectWatch::new(horizontal, all(), (), slim, Arc::clone(&notifier)),
            // Most clusters do not have this kind; then there are no objects.
            vertical: ObjectWatch::new(vertical, all(), kind, slim, Arc::clone(&notifier)),
            budgets: ObjectWatch::new(budgets, all(), (), slim, Arc::clone(&notifier)),
            notifier,
            changed,
        })
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
    ) -> Result<Option<DisruptionAllowance>, ActuateError> {
        Ok(allowed(&self.budgets.store()?.state(), pods))
    }

    /// Returns the autoscaler that targets this workload, if there is one.
    pub(super) fn other_writer(&self, workload: &Workload) -> Option<String> {
        let horizontal = self.horizontal.store().ok();
        let horizontal = horizontal.and_then(|all| all.find(|one| scales(one, workload)));
        let vertical = self.vertical.store().ok();
        let vertical = vertical.and_then(|all| all.find(|one| resizes(one, workload)));
        let horizontal =
            horizontal.map(|one| format!("HorizontalPodAutoscaler {}", one.name_any()));
        horizontal.or_else(|| Some(format!("VerticalPodAutoscaler {}", vertical?.name_any())))
    }
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
