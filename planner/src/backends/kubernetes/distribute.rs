//! Distributes a target over the pods of one workload: cores of each pod, pods to patch, number of replicas. Also
//! derives the actual capacity from the pods. Pure.
//!
//! Serving pods get `each`, starting pods `start` once they exist; until then they count with the cores of the
//! workload's template. Pods that are unready for a while keep what they have. No change is made by which the
//! reserved cores of all pods, ending ones included, would exceed the target's cores. Nor is one made by which there
//! would be more pods than the target's replicas, if the resources of replicas are limited.

use std::collections::{BTreeMap, BTreeSet};

use weir_api::Cores;

use super::api_failure::ApiFailure;
use super::patch::{self, Change, NotPatchable};
use super::pod::PodState;
use crate::capacity::{Actual, Allocation, Resize, Target};

/// State of a workload and its pods, as reported by the watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadState {
    /// Replicas in the workload's spec.
    pub replicas: u32,
    /// Replicas set by a pending write, if there is one.
    pub pending_replicas: Option<u32>,
    /// Pods that a scale-down has ended or may have ended and that the watches do not show as ending. The workload's
    /// controller chooses which.
    pub leaving: u32,
    /// Cores that a new pod starts with.
    pub template: Cores,
    /// Pods that still exist, sorted by name.
    pub pods: Vec<PodState>,
}

/// Upper limit for what a workload's pods may use together, ending pods included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapacityLimit {
    /// Maximum cores of all pods.
    pub cores: Cores,
    /// Maximum number of pods, if the resources of replicas are limited.
    pub replicas: u32,
}

/// Pod to patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPatch {
    /// The pod as reported.
    pub pod: PodState,
    /// Cores that it is to get.
    pub target_cores: Cores,
    /// The change of its CPU.
    pub change: Change,
}

impl PodPatch {
    /// Whether the pod grows.
    pub fn grows(&self) -> bool {
        self.change.request > self.pod.desired.request
    }
}

/// Changes of a workload and its pods that lead to a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodChanges {
    /// Target cores by pod uid.
    pub target_cores: BTreeMap<String, Cores>,
    /// Pods to patch.
    pub patches: Vec<PodPatch>,
    /// Uids of pods that grow only once other pods have ended or shrunk.
    pub waiting: BTreeSet<String>,
    /// Replica count to request, if it differs from the spec or a write of it is pending.
    pub scale: Option<u32>,
    /// Replicas that the target's cores do not cover now, or whose cost is unknown.
    pub unaffordable: u32,
    /// Pods that cannot be patched, and why, by uid.
    pub unpatchable: BTreeMap<String, NotPatchable>,
}

/// Final refusals by pod uid: the pod's generation, the cores requested, and the answer.
#[derive(Debug, Clone, Default)]
pub struct Refusals(BTreeMap<String, (i64, Cores, ApiFailure)>);

impl Refusals {
    /// Remembers a refusal that would be the same again.
    pub fn remember(&mut self, pod: &PodState, target_cores: Cores, refused: &ApiFailure) {
        if refused.is_final() {
            let entry = (pod.generation, patch::step(target_cores), refused.clone());
            self.0.insert(pod.uid.clone(), entry);
        }
    }

    /// Returns the refusal of the same request, as long as the pod's spec is unchanged.
    pub fn of(&self, pod: &PodState, target_cores: Cores) -> Option<&ApiFailure> {
        let (generation, before, refused) = self.0.get(&pod.uid)?;
        (*generation == pod.generation && *before == patch::step(target_cores)).then_some(refused)
    }

    /// Forgets deleted pods.
    pub fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.0.retain(|uid, _| exists(uid));
    }
}

impl WorkloadState {
    /// Returns the number of pods that stay.
    pub fn staying(&self) -> u32 {
        let staying = self.pods.iter().filter(|pod| pod.stays()).count();
        u32::try_from(staying).unwrap_or(u32::MAX)
    }

    /// Returns the actual capacity. Pods beyond the number of replicas are about to end and do not count.
    pub fn actual(&self) -> Actual {
        let staying = || self.pods.iter().filter(|pod| pod.stays());
        let ready = smallest(staying().filter(|pod| pod.ready).map(PodState::cores));
        let fewest = self.replicas.min(self.pending_replicas.unwrap_or(u32::MAX));
        let ready = Allocation::new(ready.replicas().min(fewest), ready.each());
        let missing = self.replicas.saturating_sub(self.staying());
        let starting = staying().filter(|pod| !pod.ready);
        let starting = starting.map(|pod| pod.desired.request);
        let new = Some(self.template).filter(|cores| missing > 0 && *cores > Cores::ZERO);
        let starting = smallest(starting.chain(new));
        let count = self.replicas.saturating_sub(ready.replicas());
        Actual {
            ready,
            starting: Allocation::new(count, starting.each()),
            reserved: self.reserved(),
            replicas_reserved: self.reserved_replicas(),
        }
    }

    /// Returns the number of pods that may exist, including those still to be created.
    fn reserved_replicas(&self) -> u32 {
        let existing = self.pods.iter().filter(|pod| !pod.ended).count();
        let existing = u32::try_from(existing).unwrap_or(u32::MAX);
        existing.saturating_add(self.missing(self.most_replicas()))
    }

    /// Returns the reserved cores: all that existing pods, and pods still to be created, may use.
    pub fn reserved(&self) -> Cores {
        let pods: Cores = self.pods.iter().map(PodState::reserved).sum();
        pods + times(self.template, self.missing(self.most_replicas()))
    }

    /// Returns how many new pods may still be created for this number of replicas.
    fn missing(&self, replicas: u32) -> u32 {
        let stay = self.staying().saturating_sub(self.leaving);
        replicas.saturating_sub(stay)
    }

    fn most_replicas(&self) -> u32 {
        self.replicas.max(self.pending_replicas.unwrap_or(0))
    }

    /// Distributes `target`, with no more than `most` reserved.
    pub fn distribute(
        &self,
        target: Target,
        most: CapacityLimit,
        refusals: &Refusals,
    ) -> PodChanges {
        let mut changes = PodChanges::default();
        let (mut held, pods) = (self.reserved(), self.reserved_replicas());
        let CapacityLimit {
            cores: most,
            replicas: most_pods,
        } = most;
        if target.replicas < self.replicas {
            changes.scale = Some(target.replicas);
        } else {
            // Replicas of a pending write are counted already; requesting them again costs nothing.
            let fitting = self.most_replicas().min(target.replicas);
            let more = target.replicas - fitting;
            let free = most.saturating_sub(held).millis();
            let fit = free.checked_div(self.template.millis()).unwrap_or(0);
            let new = more.min(fit).min(most_pods.saturating_sub(pods));
            // Sent again, an applied scale-down would be undone: a new pod beside one that ends.
            let again = self.pending_replicas.is_some() && held <= most && pods <= most_pods;
            changes.scale =
                Some(fitting + new).filter(|replicas| *replicas > self.replicas || again);
            changes.unaffordable = more - new;
            held = held + times(self.template, new);
        }
        for pod in self.pods.iter().filter(|pod| pod.stays()) {
            let target_cores = target.of_pod(pod);
            if target_cores == Cores::ZERO {
                continue;
            }
            changes.target_cores.insert(pod.uid.clone(), target_cores);
            if refusals.of(pod, target_cores).is_some() {
                continue;
            }
            let change = match patch::change(pod, target_cores) {
                Ok(Some(change)) => change,
                Ok(None) => continue,
                Err(why) => {
                    changes.unpatchable.insert(pod.uid.clone(), why);
                    continue;
                }
            };
            let before = pod.reserved();
            let after = PodState {
                desired: super::pod::Cpu {
                    request: change.request,
                    ..pod.desired
                },
                ..pod.clone()
            };
            let then = held.saturating_sub(before) + after.reserved();
            if change.request > pod.desired.request && then > held && then > most {
                changes.waiting.insert(pod.uid.clone());
                continue;
            }
            held = held.max(then);
            changes.patches.push(PodPatch {
                pod: pod.clone(),
                target_cores,
                change,
            });
        }
        changes
    }
}

impl CapacityLimit {
    /// Returns the limit that a change sets.
    pub fn of(change: &Resize) -> CapacityLimit {
        CapacityLimit {
            cores: change.cores(),
            replicas: if change.limited {
                change.target.replicas
            } else {
                u32::MAX
            },
        }
    }
}

impl Target {
    /// Returns the target cores of one pod. A pod that has served and is unready for now keeps its cores: with the
    /// cores of a starting pod it would come back too small, and all others would count with no more.
    fn of_pod(self, pod: &PodState) -> Cores {
        if pod.ready || self.start == Cores::ZERO {
            self.each
        } else if pod.served {
            pod.desired.request.min(self.each)
        } else {
            self.start
        }
    }
}

fn smallest(cores: impl Iterator<Item = Cores>) -> Allocation {
    let mut count = 0u32;
    let mut min = None::<Cores>;
    for cores in cores {
        count = count.saturating_add(1);
        min = Some(min.map_or(cores, |before| before.min(cores)));
    }
    Allocation::new(count, min.unwrap_or(Cores::ZERO))
}

fn times(cores: Cores, count: u32) -> Cores {
    Cores::from_millis(cores.millis().saturating_mul(count))
}

#[cfg(test)]
pub(super) mod tests;
