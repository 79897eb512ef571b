//! Replaces one pod: plans stop counting on it, its requested growth is taken back, and it is evicted. A refusal
//! leaves the pod as it was.

use kube::api::{DeleteParams, EvictParams, Preconditions};
use tokio::time::Instant;
use weir_api::Cores;

use super::KubeBackends;
use super::send::in_time;
use crate::backends::ActuateError;
use crate::backends::kubernetes::deal::Patched;
use crate::backends::kubernetes::patch;
use crate::backends::kubernetes::pod::PodState;
use crate::backends::kubernetes::refused::Refused;
use crate::backends::kubernetes::replace::Kept;
use crate::capacity::InForce;

/// Verb and resource as RBAC names them.
const EVICT: &str = "create pods/eviction";

impl KubeBackends {
    /// Implements [`crate::backends::Actuate::retire`].
    pub(super) fn count_off(&self, variant: usize, room: Cores) -> Option<Result<InForce, Kept>> {
        // A workload with a conflicting writer is left alone, whatever was found before.
        self.is_ours(variant).ok()?;
        let seen = self.seen(variant).ok()?;
        let store = self.namespace.pods().ok()?;
        let pods = self.spec(variant).ok()?.pods(store);
        // Until the budgets have been listed, the allowed disruptions are unknown.
        let allowed = self.namespace.disruption(&pods).ok()?;
        let label = self.watched(variant).ok()?.label();
        let chosen = {
            let (replacing, now) = (&mut self.memory().replacing, Instant::now());
            replacing.retire(variant, &label, &seen, room, allowed.as_ref(), now)?
        };
        match chosen {
            Ok(_) => Some(Ok(self.seen(variant).ok()?.in_force())),
            Err(kept) => Some(Err(kept)),
        }
    }

    /// Evicts the retired pod; returns the actual capacity then.
    pub(super) async fn evict(&self, variant: usize) -> Result<InForce, ActuateError> {
        let seen = self.seen(variant)?;
        let mut retired = seen.pods.iter();
        if let Some(pod) = retired.find(|pod| pod.retired && !pod.ending && !pod.ended) {
            let evicted = self.evict_pod(pod).await;
            if let Err(why) = evicted {
                let partly = why.leaves_doubt();
                if !partly {
                    let (mut memory, now) = (self.memory(), Instant::now());
                    memory.replacing.keep(variant, &pod.uid, why.clone(), now);
                }
                return Err(ActuateError::Unreplaced {
                    pod: pod.name.clone(),
                    why,
                });
            }
        }
        self.seen(variant).map(|seen| seen.in_force())
    }

    async fn evict_pod(&self, pod: &PodState) -> Result<(), Refused> {
        let deadline = Instant::now() + self.timeout;
        self.may_change()?;
        // The new pod starts with the cores that this one waits for in vain.
        let pod = PodState {
            retired: false,
            ..pod.clone()
        };
        let wanted = pod.without_wish().desired.request;
        if let Ok(Some(change)) = patch::change(&pod, wanted) {
            let pod = pod.clone();
            let patched = Patched {
                pod,
                wanted,
                change,
            };
            self.send(&patched, deadline).await?;
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
            Ok(_) | Err(Refused::Gone | Refused::Conflict) => Ok(()),
            Err(refused) => Err(refused),
        }
    }
}
