//! Replicas as pods of Kubernetes, as in planner/src/backends/kubernetes (`distribute.rs`, `actuate.rs`), with
//! watches that are never late. A scaling creates pods at once, each with the template's cores, which serve once they
//! are loaded. A patch sets a pod's request, and its kubelet grants it after a delay. An ending pod occupies its
//! cores until it has ended; the workload's controller chooses it. Cores are requested as by
//! `WorkloadState::distribute`; the actual capacity is that of `WorkloadState::actual`: a pod counts with the
//! minimum of actual and target, and in the budget with the maximum. Templates ask for one core. Evictions,
//! disruption budgets, rate limits and servers that are told their cores are not simulated.

use weir_api::Cores;

use super::backend::{Answer, Backend};
use super::case::{Case, Fate, Rng};
use super::play::TIMEOUT_MS;
use crate::capacity::{Actual, Allocation, Resize, Target};

/// Maximum time from the end request of a pod until it has ended, in ms.
const GRACE_MS: u64 = 2000;

#[derive(Debug, Clone)]
struct Pod {
    /// Request in its spec.
    desired: Cores,
    has: Cores,
    /// Time at which the request is actual.
    resized_at: Option<u64>,
    ready_at: u64,
    ready: bool,
    served: bool,
    /// Time at which it has ended.
    ends_at: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct Workload {
    replicas: u32,
    pods: Vec<Pod>,
}

#[derive(Debug)]
pub(super) struct Pods(Vec<Workload>);

impl Pod {
    fn stays(&self) -> bool {
        self.ends_at.is_none()
    }

    fn cores(&self) -> Cores {
        self.has.min(self.desired)
    }

    fn reserved(&self) -> Cores {
        self.has.max(self.desired)
    }

    fn target_cores(&self, target: Target) -> Cores {
        if self.ready || target.start == Cores::ZERO {
            target.each
        } else if self.served {
            self.desired.min(target.each)
        } else {
            target.start
        }
    }
}

impl Workload {
    fn advance(&mut self, now: u64) {
        self.pods
            .retain(|pod| pod.ends_at.is_none_or(|at| at > now));
        for pod in &mut self.pods {
            if pod.resized_at.take_if(|at| *at <= now).is_some() {
                pod.has = pod.desired;
            }
            if !pod.ready && pod.stays() && pod.ready_at <= now {
                (pod.ready, pod.served) = (true, true);
            }
        }
    }

    fn staying(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| pod.stays())
    }

    fn reserved(&self) -> Cores {
        self.pods.iter().map(Pod::reserved).sum()
    }

    fn pod_count(&self) -> u32 {
        u32::try_from(self.pods.len()).unwrap()
    }

    fn actual(&self) -> Actual {
        let ready = min(self.staying().filter(|pod| pod.ready).map(Pod::cores));
        let starting = self.staying().filter(|pod| !pod.ready);
        let starting = min(starting.map(|pod| pod.desired));
        Actual {
            ready,
            starting,
            reserved: self.reserved(),
            replicas_reserved: self.pod_count(),
        }
    }

    fn start(&mut self, now: u64, readiness_ms: u64) {
        let template = Cores::whole(1);
        self.pods.push(Pod {
            desired: template,
            has: template,
            resized_at: None,
            ready_at: now + readiness_ms,
            ready: readiness_ms == 0,
            served: readiness_ms == 0,
            ends_at: None,
        });
    }

    /// Scales up as far as `most` cores, and the limit of pods, allow; returns whether that is all of the target.
    fn scale_up(&mut self, now: u64, change: &Resize, readiness_ms: u64) -> bool {
        let (target, held) = (change.target, self.reserved());
        let fit = change.cores().saturating_sub(held).millis() / 1000;
        let most_pods = if change.limited {
            target.replicas
        } else {
            u32::MAX
        };
        let more = target.replicas - self.replicas;
        let new = more
            .min(fit)
            .min(most_pods.saturating_sub(self.pod_count()));
        self.replicas += new;
        (0..new).for_each(|_| self.start(now, readiness_ms));
        new == more
    }

    fn scale_down(&mut self, now: u64, replicas: u32, rng: &mut Rng) {
        while self.replicas > replicas {
            self.replicas -= 1;
            let staying = (0..self.pods.len()).filter(|index| self.pods[*index].stays());
            // Unready pods first, then those that have served for the shortest time.
            let rank = |index: &usize| {
                let pod = &self.pods[*index];
                (!pod.ready, pod.ready_at)
            };
            let Some(first) = staying.clone().map(|index| rank(&index)).max() else {
                return;
            };
            let all: Vec<usize> = staying.filter(|index| rank(index) == first).collect();
            let pick = rng.of(0, all.len() as u64 - 1) as usize;
            self.pods[all[pick]].ends_at = Some(now + rng.of(1, GRACE_MS));
        }
    }

    /// Patches the pods one by one, growth as far as `most` cores allow. Returns the time at which all have their
    /// targets; `None` if one does not reach it by itself.
    fn patch(&mut self, now: u64, change: &Resize, takes_ms: u64, half: bool) -> Option<u64> {
        let most = change.cores();
        let (mut held, mut all_at, mut is_all) = (self.reserved(), now, true);
        let count = self.pods.len();
        for pod in self
            .pods
            .iter_mut()
            .filter(|pod| pod.stays())
            .take(if half { count / 2 } else { count })
        {
            let target_cores = pod.target_cores(change.target);
            if target_cores != Cores::ZERO && target_cores != pod.desired {
                let then = held.saturating_sub(pod.reserved()) + pod.has.max(target_cores);
                if target_cores > pod.desired && then > held && then > most {
                    is_all = false;
                    continue;
                }
                held = held.max(then);
                pod.desired = target_cores;
                pod.resized_at = (pod.has != target_cores).then_some(now + takes_ms);
            }
            all_at = all_at.max(pod.resized_at.unwrap_or(now));
        }
        is_all.then_some(all_at).filter(|_| !half)
    }
}

impl Pods {
    pub(super) fn new(case: &Case) -> Pods {
        let workload = |allocation: &Allocation| {
            let pod = Pod {
                desired: allocation.each(),
                has: allocation.each(),
                resized_at: None,
                ready_at: 0,
                ready: true,
                served: true,
                ends_at: None,
            };
            Workload {
                replicas: allocation.replicas(),
                pods: vec![pod; allocation.replicas() as usize],
            }
        };
        Pods(case.start.iter().map(workload).collect())
    }
}

impl Backend for Pods {
    fn advance(&mut self, now: u64) {
        for workload in &mut self.0 {
            workload.advance(now);
        }
    }

    fn actual(&mut self, _: u64) -> Vec<Actual> {
        self.0.iter().map(Workload::actual).collect()
    }

    fn resize(
        &mut self,
        case: &Case,
        now: u64,
        change: &Resize,
        fate: Fate,
        rng: &mut Rng,
    ) -> (u64, Answer) {
        let late = now + TIMEOUT_MS;
        match fate {
            Fate::Refused => {
                return (
                    now,
                    Answer::Failed {
                        indeterminate: false,
                    },
                );
            }
            Fate::LostBefore => {
                return (
                    late,
                    Answer::Failed {
                        indeterminate: true,
                    },
                );
            }
            _ => {}
        }
        let (workload, variant) = (&mut self.0[change.variant], &case.variants[change.variant]);
        let mut is_all = true;
        if change.target.replicas < workload.replicas {
            workload.scale_down(now, change.target.replicas, rng);
        } else if change.target.replicas > workload.replicas {
            is_all = workload.scale_up(now, change, variant.readiness_ms);
        }
        let more_ms = match fate {
            Fate::Deferred(ms) => ms,
            _ => 0,
        };
        let half = fate == Fate::Halfway;
        let done_at = workload.patch(now, change, variant.delay_ms + more_ms, half);
        let done_at = done_at.filter(|at| *at <= late && is_all && fate != Fate::LostAfter);
        match done_at {
            Some(at) => {
                let mut then = workload.clone();
                then.advance(at);
                (at, Answer::Confirmed(then.actual()))
            }
            None => (
                late,
                Answer::Failed {
                    indeterminate: true,
                },
            ),
        }
    }

    /// Restarts a pod, replaces it after the loss of its node, or resizes it as another controller would.
    fn undo(&mut self, now: u64, case: &Case, index: usize, to: Allocation, rng: &mut Rng) {
        let (workload, variant) = (&mut self.0[index], &case.variants[index]);
        let Some(pod) = workload.pods.iter_mut().find(|pod| pod.stays()) else {
            return;
        };
        match rng.of(0, 2) {
            0 => (pod.ready, pod.ready_at) = (false, now + variant.readiness_ms.max(1)),
            1 => {
                pod.ends_at = Some(now);
                workload.start(now, variant.readiness_ms.max(1));
            }
            _ if to.each() > Cores::ZERO => {
                (pod.desired, pod.resized_at) = (to.each(), Some(now + variant.delay_ms));
            }
            _ => {}
        }
        self.advance(now);
    }

    fn used(&self) -> Cores {
        self.0.iter().map(Workload::reserved).sum()
    }

    fn replicas(&self) -> Vec<u32> {
        self.0.iter().map(Workload::pod_count).collect()
    }

    fn serves(&self, index: usize, published: Allocation) -> bool {
        let serve = self.0[index]
            .staying()
            .filter(|pod| pod.ready && pod.has >= published.each());
        serve.count() >= published.replicas() as usize
    }

    fn allocations(&self) -> Vec<Allocation> {
        self.0
            .iter()
            .map(|workload| workload.actual().ready)
            .collect()
    }

    fn is_stable(&self) -> bool {
        let stable = |pod: &Pod| pod.ready && pod.stays() && pod.resized_at.is_none();
        self.0
            .iter()
            .flat_map(|workload| &workload.pods)
            .all(stable)
    }

    fn requested_anew(&self) -> u32 {
        0
    }
}

/// Number of pods, and their minimum cores.
fn min(cores: impl Iterator<Item = Cores>) -> Allocation {
    let all: Vec<Cores> = cores.collect();
    let min = all.iter().min().copied().unwrap_or(Cores::ZERO);
    Allocation::new(u32::try_from(all.len()).unwrap(), min)
}
