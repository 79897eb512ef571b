//! Sends a patch or a scaling until it is answered. Retries once after a conflict, with the pod's newest state, and
//! after "too many requests" at the time the answer names, while time is left.

use std::collections::BTreeSet;

use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};

use super::KubeBackends;
use super::pending_writes::ScalingRecord;
use crate::backends::kubernetes::api_failure::ApiFailure;
use crate::backends::kubernetes::distribute::PodPatch;
use crate::backends::kubernetes::patch;
use crate::backends::kubernetes::pod::PodState;
use crate::backends::kubernetes::workload::{WorkloadSpec, WorkloadWatch};

/// Verbs and resources as RBAC names them.
const RESIZE: &str = "patch pods/resize";
const SCALE: &str = "patch scale";
const GET: &str = "get pods";
const GET_SCALE: &str = "get scale";

impl KubeBackends {
    /// Patches a pod.
    pub(super) async fn send(
        &self,
        pod_patch: &PodPatch,
        deadline: Instant,
    ) -> Result<(), ApiFailure> {
        let params = PatchParams::default();
        let name = pod_patch.pod.name.as_str();
        let (mut pod, mut change) = (pod_patch.pod.clone(), pod_patch.change);
        let mut conflicted = false;
        loop {
            self.may_change()?;
            let body = change.body(&pod);
            let strategic = Patch::Strategic(&body);
            self.conflicts().record_sent(&pod, change.request);
            let now = Instant::now();
            let before = self
                .writes()
                .record_pending_patch(&pod, change.request, now);
            let request = self.pods.patch_resize(name, &params, &strategic);
            let failure = match in_time(deadline, request, RESIZE).await {
                Ok(taken) => {
                    if let Ok(state) = PodState::of(&taken, &pod.container) {
                        self.conflicts().record_confirmed(&state);
                    }
                    let mut writes = self.writes();
                    writes.restore_pending_patches(&pod.uid, None);
                    writes.record_pod(taken);
                    return Ok(());
                }
                Err(failure) => failure,
            };
            if !failure.may_have_applied() {
                self.writes().restore_pending_patches(&pod.uid, before);
            }
            match failure {
                ApiFailure::Conflict if !conflicted => {
                    conflicted = true;
                    let newest = in_time(deadline, self.pods.get(name), GET).await;
                    let newest = newest.map_err(ApiFailure::of_read)?;
                    let state = PodState::of(&newest, &pod_patch.pod.container);
                    // Another pod may have the same name.
                    let state = state.ok().filter(|state| state.uid == pod_patch.pod.uid);
                    pod = state.ok_or(ApiFailure::NotFound)?;
                    self.writes().record_pod(newest);
                    match patch::change(&pod, pod_patch.target_cores) {
                        Ok(Some(other)) => change = other,
                        Ok(None) => return Ok(()),
                        Err(_) => return Err(ApiFailure::Conflict),
                    }
                }
                failure => wait(failure, deadline).await?,
            }
            self.limiter().record(Instant::now());
        }
    }

    pub(super) fn may_change(&self) -> Result<(), ApiFailure> {
        match (self.fence)() {
            true => Ok(()),
            false => Err(ApiFailure::NotLeading),
        }
    }

    /// Scales a workload.
    pub(super) async fn scale(
        &self,
        variant: usize,
        replicas: u32,
        deadline: Instant,
    ) -> Result<(), ApiFailure> {
        let (Ok(watched), Ok(spec)) = (self.watched(variant), self.spec(variant)) else {
            return Err(ApiFailure::NotFound);
        };
        let params = PatchParams::default();
        let name = &watched.workload.name;
        let (mut version, mut conflicted) = (spec.version.clone(), false);
        let pods: BTreeSet<String> = match self.state(variant) {
            Ok(state) => state
                .pods
                .into_iter()
                .filter(PodState::stays)
                .map(|pod| pod.uid)
                .collect(),
            Err(_) => return Err(ApiFailure::NotFound),
        };
        loop {
            self.may_change()?;
            let before = self.record_scaling_sent(watched, &spec, &version, replicas, &pods);
            // Without a version, one that is carried out late would undo what was answered since.
            let body =
                json!({"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}});
            let merge = Patch::Merge(&body);
            let request = watched.api.patch_scale(name, &params, &merge);
            let failure = match in_time(deadline, request, SCALE).await {
                Ok(_) => {
                    let now = Instant::now();
                    self.writes()
                        .record_scaling(&watched.key, &spec, replicas, now);
                    return Ok(());
                }
                Err(failure) => failure,
            };
            if !failure.may_have_applied() {
                self.writes().restore_scalings(&watched.key, before);
            }
            match failure {
                ApiFailure::Conflict if !conflicted => {
                    conflicted = true;
                    let newest = in_time(deadline, watched.api.get_scale(name), GET_SCALE).await;
                    let newest = newest.map_err(ApiFailure::of_read)?;
                    version = newest.metadata.resource_version.unwrap_or_default();
                }
                failure => wait(failure, deadline).await?,
            }
        }
    }

    /// Records a scaling that is about to be sent, of a workload with these `pods`. Returns the record before.
    fn record_scaling_sent(
        &self,
        watched: &WorkloadWatch,
        spec: &WorkloadSpec,
        version: &str,
        replicas: u32,
        pods: &BTreeSet<String>,
    ) -> ScalingRecord {
        let (mut writes, now) = (self.writes(), Instant::now());
        let before = writes.scaling_record(&watched.key);
        if replicas < spec.replicas {
            writes.record_scale_down(&watched.key, pods.clone(), replicas, now);
        }
        writes.record_pending_scaling(&watched.key, spec, version, replicas, now);
        before
    }
}

/// Waits as long as a throttled answer says. Returns other failures, and this one if there is no time left.
async fn wait(failure: ApiFailure, deadline: Instant) -> Result<(), ApiFailure> {
    match failure {
        ApiFailure::Throttled { after } if Instant::now() + after < deadline => {
            sleep(after).await;
            Ok(())
        }
        failure => Err(failure),
    }
}

pub(super) async fn in_time<T>(
    deadline: Instant,
    request: impl Future<Output = kube::Result<T>>,
    verb: &'static str,
) -> Result<T, ApiFailure> {
    match timeout_at(deadline, request).await {
        Ok(answer) => answer.map_err(|error| ApiFailure::of(&error, verb)),
        Err(_) => Err(ApiFailure::Unreachable {
            why: "not in time".to_owned(),
            indeterminate: true,
        }),
    }
}
