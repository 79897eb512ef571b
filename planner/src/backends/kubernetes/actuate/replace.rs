//! Replaces one pod: plans stop counting on it, its requested growth is taken back, and it is evicted. A refusal
//! leaves the pod as it was.

use kube::api::{DeleteParams, EvictParams, Preconditions};
use tokio::time::Instant;
use weir_api::Cores;

use super::KubeBackends;
use super::send::in_time;
use crate::backends::kubernetes::api_failure::ApiFailure;
use crate::backends::kubernetes::distribute::PodPatch;
use crate::backends::kubernetes::error::KubeError;
use crate::backends::kubernetes::patch;
use crate::backends::kubernetes::pod::PodState;
use crate::backends::kubernetes::replace::ReplacementBlocker;
use crate::capacity::Actual;

/// Verb and resource as RBAC names them.
const EVICT: &str = "create pods/eviction";

impl KubeBackends {
    /// Implements [`crate::backends::Actuate::retire`].
    pub(super) fn retire_pod(
        &self,
        variant: usize,
        spare: Cores,
    ) -> Option<Result<Actual, ReplacementBlocker>> {
        // A workload with a conflicting writer is left alone, whatever was found before.
        self.check_sole_writer(variant).ok()?;
        let state = self.state(variant).ok()?;
        let store = self.namespace.pods().ok()?;
        let pods = self.spec(variant).ok()?.pods(store);
        // Until the budgets have been listed, the allowed disruptions are unknown.
        let allowed = self.namespace.disruption(&pods).ok()?;
        let key = self.key(variant).ok()?.clone();
        let chosen = {
            let (replacements, now) = (&mut self.writes().replacements, Instant::now());
            replacements.retire(&key, &state, spare, allowed.as_ref(), now)?
        };
        match chosen {
            Ok(_) => Some(Ok(self.state(variant).ok()?.actual())),
            Err(blocker) => Some(Err(blocker)),
        }
    }

    /// Evicts the retired pod; returns the actual capacity then.
    pub(super) async fn evict(&self, variant: usize) -> Result<Actual, KubeError> {
        let state = self.state(variant)?;
        let mut retired = state.pods.iter();
        if let Some(pod) = retired.find(|pod| pod.retired && !pod.ending && !pod.ended) {
            let evicted = self.evict_pod(pod).await;
            if let Err(why) = evicted {
                let partly = why.may_have_applied();
                if !partly {
                    let key = self.key(variant)?;
                    let (mut writes, now) = (self.writes(), Instant::now());
                    writes
                        .replacements
                        .record_refused_eviction(key, &pod.uid, why.clone(), now);
                }
                return Err(KubeError::NotReplaced {
                    pod: pod.name.clone(),
                    why,
                });
            }
        }
        self.state(variant).map(|state| state.actual())
    }

    async fn evict_pod(&self, pod: &PodState) -> Result<(), ApiFailure> {
        let deadline = Instant::now() + self.timeout;
        self.may_change()?;
        // The new pod starts with the cores that this one waits for in vain.
        let pod = PodState {
            retired: false,
            ..pod.clone()
        };
        let target_cores = pod.without_growth().desired.request;
        if let Ok(Some(change)) = patch::change(&pod, target_cores) {
            let pod = pod.clone();
            let pod_patch = PodPatch {
                pod,
                target_cores,
                change,
            };
            self.send(&pod_patch, deadline).await?;
        }
        self.may_change()?;
        let preconditions = Preconditions {
            uid: Some(pod.uid.clone()),
            ..Preconditions::default()
        };
        let params = EvictParams {
            delete_options: Some(DeleteParams {
                preconditions: Some(preconditions),
                ..DeleteParams::default()
            }),
            ..EvictParams::default()
        };
        match in_time(deadline, self.pods.evict(&pod.name, &params), EVICT).await {
            // A pod of the same name has already taken its place.
            Ok(_) | Err(ApiFailure::NotFound | ApiFailure::Conflict) => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}
