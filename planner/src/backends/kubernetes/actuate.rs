//! Implements the port [`Actuate`] for pods. The watches report the actual capacity. Changes are patches of
//! `pods/resize` and `scale`; they count once the watches report that the kubelets have actuated them.
//!
//! A successful answer means that the whole change is actuated. An error names the blocker and says whether part of
//! the change may take effect; the caller then counts both outcomes. Reads send no request.

mod memory;
mod overruled;
mod replace;
mod send;
mod tell;
mod unmet;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use tokio::time::{Instant, timeout_at};
use weir_api::Cores;

pub use memory::DOUBT_MAX;
pub use overruled::{HOLD, OVERRULED_MOST, WINDOW};
pub use unmet::Unmet;

use self::memory::Memory;
use self::overruled::Overruled;
use self::unmet::Try;
use super::deal::{Dealt, Most, Patched, Seen};
use super::disruption::Allowed;
use super::namespace::Namespace;
use super::pace::{Pace, Wish};
use super::pod::PodState;
use super::refused::Refused;
use super::replace::Kept;
use super::workload::{Spec, Watched};
use crate::backends::{Actuate, ActuateError};
use crate::capacity::{InForce, Resize};
use crate::service::Workload;

/// Maximum number of concurrent patches.
pub const PATCHES_AT_ONCE: usize = 8;

/// Pods of all variants of one service.
pub struct KubeBackends {
    pods: Api<Pod>,
    namespace: Arc<Namespace>,
    /// Workloads, one per variant, in the variants' order.
    workloads: Vec<Watched>,
    /// Rate limit, shared by all services.
    pace: Arc<Mutex<Pace>>,
    memory: Mutex<Memory>,
    overruled: Mutex<Overruled>,
    fence: Fence,
    timeout: Duration,
}

/// Permission to change the cluster now, checked before each write: false once this planner has lost leadership.
pub type Fence = Arc<dyn Fn() -> bool + Send + Sync>;

impl KubeBackends {
    /// Watches these workloads of a namespace, one per variant, in the variants' order. A change may take up to
    /// `timeout` to be actuated. Must be called within a tokio runtime: the watches are tasks that end when the value
    /// is dropped.
    pub fn new(
        namespace: Arc<Namespace>,
        workloads: Vec<Workload>,
        pace: Arc<Mutex<Pace>>,
        fence: Fence,
        http: &reqwest::Client,
        timeout: Duration,
    ) -> KubeBackends {
        let watched = |workload| Watched::new(&namespace, workload, http);
        KubeBackends {
            pods: Api::namespaced(namespace.client.clone(), &namespace.name),
            workloads: workloads.into_iter().map(watched).collect(),
            namespace,
            pace,
            memory: Mutex::default(),
            overruled: Mutex::default(),
            fence,
            timeout,
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn overruled(&self) -> MutexGuard<'_, Overruled> {
        self.overruled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self, variant: usize) -> Result<&Watched, ActuateError> {
        self.workloads.get(variant).ok_or(ActuateError::NoAddress)
    }

    /// Returns the latest known state of a variant's workload and pods.
    fn seen(&self, variant: usize) -> Result<Seen, ActuateError> {
        let store = self.namespace.pods()?;
        let spec = self.spec(variant)?;
        let tuner = self.watched(variant)?.tuner.as_ref();
        let (memory, now) = (self.memory(), Instant::now());
        let mut pods = Vec::new();
        for told in spec.pods(store) {
            let pod = memory.newest(told);
            let state = PodState::of(&pod, &spec.container);
            let name = || pod.name_any();
            let state = state.map_err(|why| ActuateError::NotResizable { pod: name(), why })?;
            let maybe = memory.maybe(&state, now);
            let tuned = tuner.and_then(|tuner| tuner.tuned(&state));
            pods.push(PodState {
                maybe,
                tuned,
                retired: memory.replacing.is_retired(&state.uid),
                ..state
            });
        }
        let staying = |uid: &str| pods.iter().any(|pod| pod.uid == uid && pod.stays());
        let leaving = memory.leaving(variant, staying, now);
        Ok(Seen {
            replicas: spec.replicas,
            maybe: spec.maybe,
            leaving,
            template: spec.template,
            pods,
        })
    }

    /// Returns the latest known spec of a variant's workload.
    fn spec(&self, variant: usize) -> Result<Spec, ActuateError> {
        let told = self.watched(variant)?.spec()?;
        Ok(self.memory().spec(variant, told, Instant::now()))
    }

    /// Waits until `holds` is true of what the watches report; returns false after the deadline.
    async fn until(&self, deadline: Instant, mut holds: impl FnMut() -> bool) -> bool {
        let mut heard = self.namespace.heard.clone();
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

    /// Drops what is remembered of pods that are gone, and whatever the watches have caught up with.
    fn tidy(&self) {
        let Ok(store) = self.namespace.pods() else {
            return;
        };
        let there: BTreeMap<String, Option<i64>> = store
            .state()
            .iter()
            .map(|pod| (pod.uid().unwrap_or_default(), pod.metadata.generation))
            .collect();
        self.memory().tidy(&there, Instant::now());
        self.overruled().retain(|uid| there.contains_key(uid));
        for tuner in self.workloads.iter().filter_map(|one| one.tuner.as_ref()) {
            tuner.retain(|uid| there.contains_key(uid));
        }
    }

    fn deal(&self, change: Resize) -> Result<Dealt, ActuateError> {
        let seen = self.seen(change.variant)?;
        Ok(seen.deal(change.goal, Most::of(&change), &self.memory().refusals))
    }

    /// Fails if another controller changes this variant's workload.
    fn is_ours(&self, variant: usize) -> Result<(), ActuateError> {
        let watched = self.watched(variant)?;
        let pods = self.seen(variant)?.pods;
        let mut overruled = self.overruled();
        let who = self.namespace.other_writer(&watched.workload);
        let who = who.map(|who| format!("{who} changes it"));
        match who.or_else(|| overruled.look(variant, &pods, Instant::now())) {
            None => Ok(()),
            Some(who) => Err(ActuateError::AnotherWriter {
                workload: watched.label(),
                who,
            }),
        }
    }

    /// Scales the workload if needed and determines the pods to patch.
    async fn begin(&self, change: Resize, deadline: Instant) -> Result<Try, ActuateError> {
        self.is_ours(change.variant)?;
        let mut one = Try::new(change.variant, self.deal(change)?);
        let Some(wanted) = one.dealt.scale else {
            return Ok(one);
        };
        let there = self.seen(change.variant)?.replicas;
        let replicas = self.spare(change.variant, there, wanted, &mut one)?;
        if replicas == there && one.spared.is_some() {
            return Ok(one);
        }
        let fewer = replicas < there;
        match self.scale(change.variant, replicas, deadline).await {
            Ok(()) => one.asked = true,
            Err(refused) => {
                one.asked = refused.leaves_doubt();
                one.unscaled = Some(refused);
                return Ok(one);
            }
        }
        if fewer {
            // The workload's controller chooses which pods end; the others are patched.
            let half = Instant::now() + deadline.duration_since(Instant::now()) / 2;
            self.until(half, || {
                let seen = self.seen(change.variant);
                seen.is_ok_and(|seen| seen.staying() <= replicas)
            })
            .await;
            one.dealt = self.deal(change).map_err(|error| one.met(error))?;
        }
        Ok(one)
    }

    /// Limits a scale-down to what PodDisruptionBudgets allow; returns the replica count to request.
    fn spare(
        &self,
        variant: usize,
        there: u32,
        wanted: u32,
        one: &mut Try,
    ) -> Result<u32, ActuateError> {
        if wanted >= there {
            return Ok(wanted);
        }
        let pods = self.spec(variant)?.pods(self.namespace.pods()?);
        let allowed = self.namespace.disruption(&pods)?;
        let least = |allowed: &Allowed| there.saturating_sub(allowed.pods);
        let strict = allowed.filter(|allowed| wanted < least(allowed));
        let replicas = strict.as_ref().map_or(wanted, least);
        one.spared = strict;
        Ok(replicas)
    }

    /// Sends the patches of all changes, within the rate limit.
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
        let picked = self.pace().pick(&wishes, Instant::now());
        let mut all: Vec<Option<(usize, Patched)>> = all.into_iter().map(Some).collect();
        let mut sent = Vec::with_capacity(picked.len());
        for place in picked {
            let one = all.get_mut(place).and_then(Option::take);
            sent.extend(one.map(|(index, patched)| self.sent(index, patched, deadline)));
        }
        for (index, patched) in all.into_iter().flatten() {
            if let Some(Ok(one)) = tries.get_mut(index) {
                one.left.insert(patched.pod.uid);
            }
        }
        let sent = stream::iter(sent).buffer_unordered(PATCHES_AT_ONCE);
        let answers: Vec<(usize, Patched, Result<(), Refused>)> = sent.collect().await;
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

    async fn sent(
        &self,
        index: usize,
        patched: Patched,
        deadline: Instant,
    ) -> (usize, Patched, Result<(), Refused>) {
        let answer = self.send(&patched, deadline).await;
        (index, patched, answer)
    }

    /// Waits until the change is actuated or will not be; returns the actual capacity then.
    async fn finish(&self, one: Try, deadline: Instant) -> Result<InForce, ActuateError> {
        let decided = || {
            let seen = self.seen(one.variant);
            seen.is_ok_and(|seen| seen.pods.iter().all(|pod| one.is_decided(pod)))
        };
        self.until(deadline, decided).await;
        let seen = self.seen(one.variant);
        let seen = seen.map_err(|error| one.met(error))?;
        let unmet = self.unmet(&one, &seen);
        let partly = one.asked;
        if let Some(why) = one.unscaled {
            let workload = self.watched(one.variant)?.label();
            return Err(ActuateError::Unscaled {
                workload,
                why,
                partly,
            });
        }
        if let Some(Allowed { budget, .. }) = one.spared {
            return Err(ActuateError::Protected {
                workload: self.watched(one.variant)?.label(),
                budget,
                partly,
            });
        }
        if let Some((pod, why)) = unmet {
            return Err(ActuateError::Unmet { pod, why, partly });
        }
        if one.dealt.unaffordable > 0 && seen.template == Cores::ZERO {
            return Err(ActuateError::Unpriced {
                workload: self.watched(one.variant)?.label(),
                container: self.spec(one.variant)?.container,
                partly,
            });
        }
        if one.dealt.unaffordable > 0 {
            return Err(ActuateError::Unaffordable {
                replicas: one.dealt.unaffordable,
                template: seen.template,
                partly,
            });
        }
        self.tune(&one, &seen, deadline).await?;
        self.seen(one.variant)
            .map(|seen| seen.in_force())
            .map_err(|error| one.met(error))
    }

    /// Returns the first blocker of any of the pods.
    fn unmet(&self, one: &Try, seen: &Seen) -> Option<(String, Unmet)> {
        let (memory, now) = (&mut *self.memory(), Instant::now());
        let mut all = Vec::new();
        for pod in seen.pods.iter().filter(|pod| pod.stays()) {
            let unmet = one.unmet(pod, &memory.refusals, self.timeout);
            memory.replacing.see(pod, unmet.as_ref(), now);
            all.extend(unmet.map(|unmet| (pod.name.clone(), unmet)));
        }
        if all.is_empty() {
            memory.replacing.settled(one.variant);
        }
        // Blockers that may still resolve come first: they decide what is counted.
        all.sort_by_key(|(_, why)| !why.leaves_doubt());
        all.into_iter().next()
    }
}

impl Actuate for KubeBackends {
    async fn in_force(&self) -> Vec<Option<Result<InForce, ActuateError>>> {
        self.catch_up().await;
        let all = 0..self.workloads.len();
        all.map(|variant| Some(self.seen(variant).map(|seen| seen.in_force())))
            .collect()
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<InForce, ActuateError>> {
        let deadline = Instant::now() + self.timeout;
        self.tidy();
        let begun = changes.iter().copied();
        let begun = begun.map(|change| self.begin(change, deadline));
        let mut tries = join_all(begun).await;
        self.patch(&mut tries, deadline).await;
        let finished = tries.into_iter().map(async |one| match one {
            Ok(one) => self.finish(one, deadline).await,
            Err(error) => Err(error),
        });
        join_all(finished).await
    }

    async fn tell(&self, batches: &[Option<u32>]) -> Vec<Option<Result<u32, ActuateError>>> {
        for (watched, batch) in self.workloads.iter().zip(batches) {
            if let (Some(tuner), Some(batch)) = (&watched.tuner, batch) {
                tuner.want_batch(*batch);
            }
        }
        self.catch_up().await;
        let all = 0..self.workloads.len();
        all.map(|variant| self.told(variant)).collect()
    }

    fn retire(&self, variant: usize, room: Cores) -> Option<Result<InForce, Kept>> {
        self.count_off(variant, room)
    }

    async fn replace(&self, variant: usize) -> Result<InForce, ActuateError> {
        self.evict(variant).await
    }
}
