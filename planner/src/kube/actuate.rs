//! The port [`Actuate`] to pods: what the watches have told is in force; changes are patches of
//! `pods/resize` and of `scale`, and are in force once the watches tell that kubelets have actuated them.
//!
//! An answer is what is in force where all that was asked is; else an error that says what stands in the
//! way, and leaves doubt where anything was asked: the caller reckons with both then. Reading asks nobody.

mod send;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::deal::{Dealt, Patched, Refusals, Seen};
use super::pace::{Pace, Wish};
use super::patch::{self, NotPatchable};
use super::pod::{PodState, Resizing};
use super::refused::Refused;
use super::workload::{Bell, Followed, Watched, Workload};
use crate::actuate::{Actuate, ActuateError, InForce, Resize};

/// Patches under way at the same time.
pub const PATCHES_AT_ONCE: usize = 8;

/// Why a pod does not have what it is to have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum Unmet {
    #[error("{0}")]
    Refused(Refused),
    #[error("{0}")]
    NotPatchable(NotPatchable),
    #[error("its node has no room now, and its kubelet tries again by itself: {0}")]
    Deferred(String),
    #[error("its node can never hold it: {0}")]
    Infeasible(String),
    #[error("its kubelet failed: {0}")]
    Failed(String),
    #[error("not actuated within {0:?}")]
    Late(Duration),
}

impl Unmet {
    /// Whether it may come to have it all the same.
    pub fn leaves_doubt(&self) -> bool {
        match self {
            Unmet::Refused(refused) => refused.leaves_doubt(),
            Unmet::NotPatchable(_) => false,
            Unmet::Deferred(_) | Unmet::Infeasible(_) | Unmet::Failed(_) | Unmet::Late(_) => true,
        }
    }
}

/// The variants' pods.
pub struct KubeBackends {
    pods: Api<Pod>,
    followed: Followed<Pod>,
    /// One for each variant, in their order.
    workloads: Vec<Watched>,
    bell: Bell,
    heard: watch::Receiver<Option<String>>,
    /// Shared by all services.
    pace: Arc<Mutex<Pace>>,
    memory: Mutex<Memory>,
    began: Instant,
    timeout: Duration,
}

/// What is known before the watches tell it.
#[derive(Default)]
struct Memory {
    refusals: Refusals,
    /// By uid: pods as a patch answered them, until a watch is as far.
    ahead: BTreeMap<String, Arc<Pod>>,
    /// By variant: the replicas scaled to, and the generation before.
    scaled: BTreeMap<usize, (u32, i64)>,
}

/// A change under way.
struct Try {
    variant: usize,
    dealt: Dealt,
    /// Something has been asked for, or may have been.
    asked: bool,
    /// The answer to the scaling, if that was refused.
    unscaled: Option<Refused>,
    /// By uid: answers that were refusals.
    refused: BTreeMap<String, Refused>,
    /// Patches that wait for their turn.
    left: usize,
}

impl KubeBackends {
    /// Follows these workloads of a namespace, one for each variant, in their order. Changes may take
    /// `timeout` until they are in force.
    pub fn new(
        client: &kube::Client,
        namespace: &str,
        workloads: Vec<Workload>,
        pace: Arc<Mutex<Pace>>,
        timeout: Duration,
    ) -> KubeBackends {
        let (sender, heard) = watch::channel(None);
        let bell: Bell = Arc::new(sender);
        let watched =
            |workload| Watched::new(client.clone(), namespace, workload, Arc::clone(&bell));
        let workloads = workloads.into_iter().map(watched).collect();
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        KubeBackends {
            followed: Followed::all(pods.clone(), Arc::clone(&bell)),
            pods,
            workloads,
            bell,
            heard,
            pace,
            memory: Mutex::default(),
            began: Instant::now(),
            timeout,
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self, variant: usize) -> Result<&Watched, ActuateError> {
        self.workloads.get(variant).ok_or(ActuateError::NoAddress)
    }

    /// The latest that is known of a variant.
    fn seen(&self, variant: usize) -> Result<Seen, ActuateError> {
        let watched = self.watched(variant)?;
        let store = self.followed.store(&self.bell)?;
        let spec = watched.spec(&self.bell)?;
        let memory = self.memory();
        let scaled = memory.scaled.get(&variant);
        let replicas = match scaled {
            Some((replicas, before)) if spec.generation <= *before => *replicas,
            _ => spec.replicas,
        };
        let mut pods = Vec::new();
        for pod in spec.pods(store) {
            let ahead = memory.ahead.get(&pod.uid().unwrap_or_default());
            let newer = ahead.filter(|ahead| ahead.metadata.generation > pod.metadata.generation);
            let pod = newer.unwrap_or(&pod);
            let state = PodState::of(pod, &watched.workload.container);
            let name = || pod.name_any();
            pods.push(state.map_err(|why| ActuateError::NotResizable { pod: name(), why })?);
        }
        Ok(Seen {
            replicas,
            template: spec.template,
            pods,
        })
    }

    /// Waits until a condition holds on what the watches tell; whether it came to.
    async fn until(&self, deadline: Instant, mut holds: impl FnMut() -> bool) -> bool {
        let mut heard = self.heard.clone();
        loop {
            heard.mark_unchanged();
            if holds() {
                return true;
            }
            match timeout_at(deadline, heard.changed()).await {
                Ok(Ok(())) => {}
                _ => return false,
            }
        }
    }

    /// Forgets what the watches have caught up with, and what is gone.
    fn tidy(&self) {
        let Ok(store) = self.followed.store(&self.bell) else {
            return;
        };
        let there: BTreeMap<String, Option<i64>> = store
            .state()
            .iter()
            .map(|pod| (pod.uid().unwrap_or_default(), pod.metadata.generation))
            .collect();
        let mut memory = self.memory();
        memory.refusals.retain(|uid| there.contains_key(uid));
        memory.ahead.retain(|uid, ahead| {
            let seen = there.get(uid);
            seen.is_some_and(|seen| ahead.metadata.generation > *seen)
        });
    }

    fn deal(&self, change: &Resize) -> Result<Dealt, ActuateError> {
        let seen = self.seen(change.variant)?;
        Ok(seen.deal(change.goal, change.cores(), &self.memory().refusals))
    }

    /// Scales where that is needed, and says who is to be patched.
    async fn begin(&self, change: &Resize, deadline: Instant) -> Result<Try, ActuateError> {
        let mut one = Try {
            variant: change.variant,
            dealt: self.deal(change)?,
            asked: false,
            unscaled: None,
            refused: BTreeMap::new(),
            left: 0,
        };
        let Some(replicas) = one.dealt.scale else {
            return Ok(one);
        };
        let fewer = replicas < self.seen(change.variant)?.replicas;
        match self.scale(change.variant, replicas, deadline).await {
            Ok(()) => one.asked = true,
            Err(refused) => {
                one.asked = refused.leaves_doubt();
                one.unscaled = Some(refused);
                return Ok(one);
            }
        }
        if fewer {
            // Who is to end is the workload's choice; the others are patched.
            let half = Instant::now() + deadline.duration_since(Instant::now()) / 2;
            self.until(half, || {
                let seen = self.seen(change.variant);
                let staying = |seen: Seen| seen.pods.iter().filter(|pod| pod.stays()).count();
                seen.is_ok_and(|seen| staying(seen) <= replicas as usize)
            })
            .await;
            one.dealt = self.deal(change)?;
        }
        Ok(one)
    }

    /// Sends the patches of all changes, as fast as is allowed.
    async fn patch(&self, tries: &mut [Result<Try, ActuateError>], deadline: Instant) {
        let mut all: Vec<(usize, Patched)> = Vec::new();
        for (index, one) in tries.iter_mut().enumerate() {
            if let Ok(one) = one {
                let patches = std::mem::take(&mut one.dealt.patches);
                all.extend(patches.into_iter().map(|patched| (index, patched)));
            }
        }
        let wish = |(_, patched): &(usize, Patched)| (patched.pod.uid.clone(), patched.grows());
        let wishes: Vec<(String, bool)> = all.iter().map(wish).collect();
        let wishes: Vec<Wish<'_>> = wishes
            .iter()
            .map(|(pod, grows)| Wish { pod, grows: *grows })
            .collect();
        let picked = self.pace().pick(&wishes, self.began.elapsed());
        for (place, (index, _)) in all.iter().enumerate() {
            if let Some(Ok(one)) = tries.get_mut(*index).filter(|_| !picked.contains(&place)) {
                one.left += 1;
            }
        }
        let sent = picked.iter().filter_map(|place| all.get(*place));
        let sent = stream::iter(sent)
            .map(async |(index, patched)| (*index, patched, self.send(patched, deadline).await))
            .buffer_unordered(PATCHES_AT_ONCE);
        let answers: Vec<(usize, &Patched, Result<(), Refused>)> = sent.collect().await;
        for (index, patched, answer) in answers {
            let Some(Ok(one)) = tries.get_mut(index) else {
                continue;
            };
            match answer {
                Ok(()) => one.asked = true,
                Err(Refused::Gone) => {}
                Err(refused) => {
                    one.asked |= refused.leaves_doubt();
                    let mut memory = self.memory();
                    memory
                        .refusals
                        .remember(&patched.pod, patched.wanted, &refused);
                    one.refused.insert(patched.pod.uid.clone(), refused);
                }
            }
        }
    }

    /// Waits until what was asked is actuated, or will not be, and says what is in force then.
    async fn finish(&self, one: Try, deadline: Instant) -> Result<InForce, ActuateError> {
        let decided = || {
            let seen = self.seen(one.variant);
            seen.is_ok_and(|seen| seen.pods.iter().all(|pod| one.is_decided(pod)))
        };
        self.until(deadline, decided).await;
        let seen = self.seen(one.variant)?;
        let unmet = {
            let memory = self.memory();
            let unmet = |pod: &PodState| one.unmet(pod, &memory.refusals, self.timeout);
            let all = seen.pods.iter().filter(|pod| pod.stays());
            let mut all: Vec<(String, Unmet)> = all
                .filter_map(|pod| Some((pod.name.clone(), unmet(pod)?)))
                .collect();
            // What leaves doubt is told first: it decides what is reckoned with.
            all.sort_by_key(|(_, why)| !why.leaves_doubt());
            all.into_iter().next()
        };
        let partly = one.asked;
        if let Some(why) = one.unscaled {
            let workload = self.watched(one.variant)?.label();
            return Err(ActuateError::Unscaled {
                workload,
                why,
                partly,
            });
        }
        if let Some((pod, why)) = unmet {
            return Err(ActuateError::Unmet { pod, why, partly });
        }
        if one.left > 0 {
            return Err(ActuateError::Left(one.left));
        }
        if one.dealt.unaffordable > 0 {
            return Err(ActuateError::Unaffordable {
                replicas: one.dealt.unaffordable,
                template: seen.template,
                partly,
            });
        }
        Ok(seen.in_force())
    }
}

impl Try {
    /// What this pod is to have, if anything was wanted of it.
    fn wanted(&self, pod: &PodState) -> Option<weir_api::Cores> {
        self.dealt.wanted.get(&pod.uid).copied().map(patch::step)
    }

    fn is_decided(&self, pod: &PodState) -> bool {
        let Some(wanted) = self.wanted(pod).filter(|_| pod.stays()) else {
            return true;
        };
        match pod.desired.request == wanted {
            true => pod.resizing != Resizing::InProgress,
            // A lost answer may still turn out to have been a yes.
            false => {
                let refused = self.refused.get(&pod.uid);
                !refused.is_some_and(Refused::leaves_doubt)
            }
        }
    }

    fn unmet(&self, pod: &PodState, refusals: &Refusals, timeout: Duration) -> Option<Unmet> {
        let wanted = self.wanted(pod)?;
        if pod.desired.request != wanted {
            if let Some(why) = self.dealt.unpatchable.get(&pod.uid) {
                return Some(Unmet::NotPatchable(why.clone()));
            }
            let refused = self.refused.get(&pod.uid);
            let refused = refused.or_else(|| refusals.of(pod, wanted));
            return refused.cloned().map(Unmet::Refused);
        }
        match pod.resizing.clone() {
            Resizing::Settled => None,
            Resizing::Deferred { why } => Some(Unmet::Deferred(why)),
            Resizing::Infeasible { why } => Some(Unmet::Infeasible(why)),
            Resizing::Failed { why } => Some(Unmet::Failed(why)),
            Resizing::InProgress => Some(Unmet::Late(timeout)),
        }
    }
}

impl Actuate for KubeBackends {
    async fn in_force(&self) -> Vec<Option<Result<InForce, ActuateError>>> {
        let all = 0..self.workloads.len();
        all.map(|variant| Some(self.seen(variant).map(|seen| seen.in_force())))
            .collect()
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<InForce, ActuateError>> {
        let deadline = Instant::now() + self.timeout;
        self.tidy();
        let begun = changes.iter().map(|change| self.begin(change, deadline));
        let mut tries = join_all(begun).await;
        self.patch(&mut tries, deadline).await;
        let finished = tries.into_iter().map(async |one| match one {
            Ok(one) => self.finish(one, deadline).await,
            Err(error) => Err(error),
        });
        join_all(finished).await
    }
}
