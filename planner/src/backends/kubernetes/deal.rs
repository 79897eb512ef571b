//! A goal over the pods of one workload → who is to have how many cores, who is patched, how many replicas;
//! and back: pods → what is in force. Pure.
//!
//! Serving pods get `each`, starting ones `start`, once they exist: until then they have what the workload's
//! template says, and count with that. Those that are unready for a while keep what they have. Nothing is asked for that would make all that the pods may hold, those
//! that end included, more than the goal costs, nor for more pods than its replicas where what each holds is bounded.

use std::collections::{BTreeMap, BTreeSet};

use weir_api::Cores;

use super::patch::{self, Change, NotPatchable};
use super::pod::PodState;
use super::refused::Refused;
use crate::capacity::{Allocation, Goal, InForce, Resize};

/// A workload and its pods, as they were seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Replicas it is to have.
    pub replicas: u32,
    /// Replicas it may have been given by a scaling whose answer never came.
    pub maybe: Option<u32>,
    /// Pods that were told to end by a scaling, or may have been, and are not seen to: which of them is the workload's choice.
    pub leaving: u32,
    /// Cores that a new pod starts with.
    pub template: Cores,
    /// All that are not gone, in the order of their names.
    pub pods: Vec<PodState>,
}

/// What a workload's pods may hold together, those that end included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// All their cores.
    pub cores: Cores,
    /// So many pods, where what each holds is bounded.
    pub replicas: u32,
}

/// A pod that is to be patched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patched {
    /// The pod as it was seen.
    pub pod: PodState,
    /// What is wanted.
    pub wanted: Cores,
    /// What changes.
    pub change: Change,
}

impl Patched {
    /// Whether it is to have more.
    pub fn grows(&self) -> bool {
        self.change.request > self.pod.desired.request
    }
}

/// What a goal comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dealt {
    /// By uid of a pod: what it is to have.
    pub wanted: BTreeMap<String, Cores>,
    /// Who is to be patched.
    pub patches: Vec<Patched>,
    /// By uid: who is to have more once others have gone or have less.
    pub waiting: BTreeSet<String>,
    /// The number of replicas to scale to, if it is or may be another.
    pub scale: Option<u32>,
    /// Replicas that the goal's cores do not bear now, or of which nobody knows what they cost.
    pub unaffordable: u32,
    /// Pods that cannot be patched, and why.
    pub unpatchable: BTreeMap<String, NotPatchable>,
}

/// Wishes that were refused for good: by uid of the pod, its generation then, what was wanted, and the answer.
#[derive(Debug, Clone, Default)]
pub struct Refusals(BTreeMap<String, (i64, Cores, Refused)>);

impl Refusals {
    /// Remembers an answer that would be the same again.
    pub fn remember(&mut self, pod: &PodState, wanted: Cores, refused: &Refused) {
        if refused.is_final() {
            let wish = (pod.generation, patch::step(wanted), refused.clone());
            self.0.insert(pod.uid.clone(), wish);
        }
    }

    /// The answer that the same wish had, as long as the pod's spec is the same too.
    pub fn of(&self, pod: &PodState, wanted: Cores) -> Option<&Refused> {
        let (generation, before, refused) = self.0.get(&pod.uid)?;
        (*generation == pod.generation && *before == patch::step(wanted)).then_some(refused)
    }

    /// Forgets pods that are gone.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|uid, _| is_there(uid));
    }
}

impl Seen {
    /// Pods that are to be.
    pub fn staying(&self) -> u32 {
        let staying = self.pods.iter().filter(|pod| pod.stays()).count();
        u32::try_from(staying).unwrap_or(u32::MAX)
    }

    /// What of it is in force. Pods beyond the number of replicas are about to go, and do not count.
    pub fn in_force(&self) -> InForce {
        let staying = || self.pods.iter().filter(|pod| pod.stays());
        let ready = least(staying().filter(|pod| pod.ready).map(PodState::cores));
        let fewest = self.replicas.min(self.maybe.unwrap_or(u32::MAX));
        let ready = Allocation::new(ready.replicas().min(fewest), ready.each());
        let missing = self.replicas.saturating_sub(self.staying());
        let starting = staying().filter(|pod| !pod.ready);
        let starting = starting.map(|pod| pod.desired.request);
        let new = Some(self.template).filter(|cores| missing > 0 && *cores > Cores::ZERO);
        let starting = least(starting.chain(new));
        let count = self.replicas.saturating_sub(ready.replicas());
        InForce {
            ready,
            starting: Allocation::new(count, starting.each()),
            at_most: self.at_most(),
            replicas_at_most: self.replicas_at_most(),
        }
    }

    /// All pods that there may be, those that it is still to have included.
    fn replicas_at_most(&self) -> u32 {
        let there = self.pods.iter().filter(|pod| !pod.ended).count();
        let there = u32::try_from(there).unwrap_or(u32::MAX);
        there.saturating_add(self.missing(self.most_replicas()))
    }

    /// All cores that its pods, and those it is still to have, may hold.
    pub fn at_most(&self) -> Cores {
        let pods: Cores = self.pods.iter().map(PodState::at_most).sum();
        pods + times(self.template, self.missing(self.most_replicas()))
    }

    /// How many new pods there may be to come for so many replicas.
    fn missing(&self, replicas: u32) -> u32 {
        let stay = self.staying().saturating_sub(self.leaving);
        replicas.saturating_sub(stay)
    }

    fn most_replicas(&self) -> u32 {
        self.replicas.max(self.maybe.unwrap_or(0))
    }

    /// What `goal` comes to, where no more than `most` may be held.
    pub fn deal(&self, goal: Goal, most: Most, refusals: &Refusals) -> Dealt {
        let mut dealt = Dealt::default();
        let (mut held, pods) = (self.at_most(), self.replicas_at_most());
        let Most {
            cores: most,
            replicas: most_pods,
        } = most;
        if goal.replicas < self.replicas {
            dealt.scale = Some(goal.replicas);
        } else {
            // Those that there may be already are reckoned with, and asking again costs nothing.
            let borne = self.most_replicas().min(goal.replicas);
            let more = goal.replicas - borne;
            let room = most.saturating_sub(held).millis();
            let fit = room.checked_div(self.template.millis()).unwrap_or(0);
            let new = more.min(fit).min(most_pods.saturating_sub(pods));
            // Asked again, a scaling down that was carried out would be taken back: another pod beside one that ends.
            let again = self.maybe.is_some() && held <= most && pods <= most_pods;
            dealt.scale = Some(borne + new).filter(|replicas| *replicas > self.replicas || again);
            dealt.unaffordable = more - new;
            held = held + times(self.template, new);
        }
        for pod in self.pods.iter().filter(|pod| pod.stays()) {
            let wanted = goal.of_pod(pod);
            if wanted == Cores::ZERO {
                continue;
            }
            dealt.wanted.insert(pod.uid.clone(), wanted);
            if refusals.of(pod, wanted).is_some() {
                continue;
            }
            let change = match patch::change(pod, wanted) {
                Ok(Some(change)) => change,
                Ok(None) => continue,
                Err(why) => {
                    dealt.unpatchable.insert(pod.uid.clone(), why);
                    continue;
                }
            };
            let before = pod.at_most();
            let after = PodState {
                desired: super::pod::Cpu {
                    request: change.request,
                    ..pod.desired
                },
                ..pod.clone()
            };
            let then = held.saturating_sub(before) + after.at_most();
            if change.request > pod.desired.request && then > held && then > most {
                dealt.waiting.insert(pod.uid.clone());
                continue;
            }
            held = held.max(then);
            dealt.patches.push(Patched {
                pod: pod.clone(),
                wanted,
                change,
            });
        }
        dealt
    }
}

impl Most {
    /// What that change may come to.
    pub fn of(change: &Resize) -> Most {
        Most {
            cores: change.cores(),
            replicas: if change.bound {
                change.goal.replicas
            } else {
                u32::MAX
            },
        }
    }
}

impl Goal {
    /// What one pod is to have of it. One that has served and does not for now keeps what it has: it would
    /// come back with the cores of a beginner, and the others be counted as having no more.
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

fn least(cores: impl Iterator<Item = Cores>) -> Allocation {
    let mut count = 0u32;
    let mut least = None::<Cores>;
    for cores in cores {
        count = count.saturating_add(1);
        least = Some(least.map_or(cores, |before| before.min(cores)));
    }
    Allocation::new(count, least.unwrap_or(Cores::ZERO))
}

fn times(cores: Cores, count: u32) -> Cores {
    Cores::from_millis(cores.millis().saturating_mul(count))
}

#[cfg(test)]
pub(super) mod tests;
