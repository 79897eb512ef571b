//! Implements the port [`Actuate`] for pods. The watches report the actual capacity. Changes are patches of
//! `pods/resize` and `scale`; they count once the watches report that the kubelets have actuated them.
//!
//! A successful answer means that the whole change is actuated. An error names the blocker and says whether part of
//! the change may take effect; the caller then counts both outcomes. Reads send no request.

mod attempts;
mod blockers;
mod conflicting_writer;
mod memory;
mod pending_writes;
mod reconfigure;
mod replace;
mod send;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use tokio::time::{Instant, timeout_at};
use weir_api::Cores;

pub use blockers::PodBlocker;
pub use conflicting_writer::{LEFT_ALONE, REVERTS_MAX, WINDOW};
pub use memory::NamespaceMemory;
pub(crate) use memory::WorkloadKey;
pub use pending_writes::PENDING_WRITE_TTL;

use self::conflicting_writer::ConflictingWriters;
use self::pending_writes::UnobservedWrites;
use super::distribute::WorkloadState;
use super::error::KubeError;
use super::namespace::Namespace;
use super::pod::PodState;
use super::rate_limit::PatchLimiter;
use super::workload::{WorkloadSpec, WorkloadWatch};
use crate::backends::{Actuate, ActuateError, Blocker, NotReplaced};
use crate::capacity::{Actual, Resize};
use crate::service::Workload;

/// Maximum number of concurrent patches.
pub const PATCHES_AT_ONCE: usize = 8;

/// Pods of all variants of one service.
pub struct KubeBackends {
    pods: Api<Pod>,
    namespace: Arc<Namespace>,
    /// Workloads, one per variant, in the variants' order.
    workloads: Vec<WorkloadWatch>,
    /// Rate limit, shared by all services.
    limiter: Arc<Mutex<PatchLimiter>>,
    conflicts: Mutex<ConflictingWriters>,
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
        limiter: Arc<Mutex<PatchLimiter>>,
        fence: Fence,
        http: &reqwest::Client,
        timeout: Duration,
    ) -> KubeBackends {
        let watched = |workload| WorkloadWatch::new(&namespace, workload, http);
        for workload in &workloads {
            // Whoever chose a pod to replace is gone; plans count on it unless it ends.
            let mut writes = namespace.memory.writes();
            writes.replacements.restart(&WorkloadKey::of(workload));
        }
        KubeBackends {
            pods: Api::namespaced(namespace.client.clone(), &namespace.name),
            workloads: workloads.into_iter().map(watched).collect(),
            namespace,
            limiter,
            conflicts: Mutex::default(),
            fence,
            timeout,
        }
    }

    fn writes(&self) -> MutexGuard<'_, UnobservedWrites> {
        self.namespace.memory.writes()
    }

    fn conflicts(&self) -> MutexGuard<'_, ConflictingWriters> {
        self.conflicts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, variant: usize) -> Result<&WorkloadKey, KubeError> {
        Ok(&self.watched(variant)?.key)
    }

    fn limiter(&self) -> MutexGuard<'_, PatchLimiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self, variant: usize) -> Result<&WorkloadWatch, KubeError> {
        self.workloads
            .get(variant)
            .ok_or(KubeError::Port(ActuateError::NoAddress))
    }

    /// Returns the latest known state of a variant's workload and pods.
    fn state(&self, variant: usize) -> Result<WorkloadState, KubeError> {
        let store = self.namespace.pods()?;
        let spec = self.spec(variant)?;
        let watched = self.watched(variant)?;
        let hook = watched.hook.as_ref();
        let (writes, now) = (self.writes(), Instant::now());
        let mut pods = Vec::new();
        for observed in spec.pods(store) {
            let pod = writes.newest(observed);
            let state = PodState::of(&pod, &spec.container);
            let name = || pod.name_any();
            let state = state.map_err(|why| KubeError::NotResizable { pod: name(), why })?;
            let pending = writes.pending_requests(&state, now);
            let configured_cores =
                hook.and_then(|hook| hook.configured_cores(&state, spec.template));
            pods.push(PodState {
                pending,
                configured_cores,
                retired: writes.replacements.is_retired(&state.uid),
                ..state
            });
        }
        let staying = |uid: &str| pods.iter().any(|pod| pod.uid == uid && pod.stays());
        let leaving = writes.leaving(&watched.key, staying, now);
        Ok(WorkloadState {
            replicas: spec.replicas,
            pending_replicas: spec.pending_replicas,
            leaving,
            template: spec.template,
            pods,
        })
    }

    /// Returns the latest known spec of a variant's workload.
    fn spec(&self, variant: usize) -> Result<WorkloadSpec, KubeError> {
        let watched = self.watched(variant)?;
        let observed = watched.spec()?;
        let writes = self.writes();
        Ok(writes.spec(&watched.key, observed, Instant::now()))
    }

    /// Waits until `holds` is true of what the watches report; returns false after the deadline.
    async fn wait_until(&self, deadline: Instant, mut holds: impl FnMut() -> bool) -> bool {
        let mut changed = self.namespace.changed.clone();
        loop {
            changed.mark_unchanged();
            if holds() {
                return true;
            }
            match timeout_at(deadline, changed.changed()).await {
                Ok(Ok(())) => {}
                _ => return false,
            }
        }
    }

    /// Drops what is remembered of deleted pods, and whatever the watches have caught up with.
    fn prune(&self) {
        let Ok(store) = self.namespace.pods() else {
            return;
        };
        let existing: BTreeMap<String, Option<i64>> = store
            .state()
            .iter()
            .map(|pod| (pod.uid().unwrap_or_default(), pod.metadata.generation))
            .collect();
        let now = Instant::now();
        self.writes().prune(&existing, now);
        self.conflicts()
            .retain(|uid| existing.contains_key(uid), now);
        for hook in self
            .workloads
            .iter()
            .filter_map(|watched| watched.hook.as_ref())
        {
            hook.retain(|uid| existing.contains_key(uid));
        }
    }

    /// Fails if another controller changes this variant's workload, or if that is not known.
    fn check_sole_writer(&self, variant: usize) -> Result<(), KubeError> {
        self.check_autoscalers(variant)?;
        let watched = self.watched(variant)?;
        let pods = self.state(variant)?.pods;
        let mut conflicts = self.conflicts();
        match conflicts.check(&watched.key, &pods, Instant::now()) {
            None => Ok(()),
            Some(who) => Err(conflicting(watched, who)),
        }
    }

    fn check_autoscalers(&self, variant: usize) -> Result<(), KubeError> {
        let watched = self.watched(variant)?;
        match self.namespace.other_writer(&watched.workload)? {
            None => Ok(()),
            Some(who) => Err(conflicting(watched, format!("{who} changes it"))),
        }
    }

    /// Returns the reason why each variant's workload is left alone, also while nothing is to be changed.
    pub fn writer_blockers(&self) -> Vec<Option<Blocker>> {
        let found = |(variant, watched): (usize, &WorkloadWatch)| {
            let error = match self.check_autoscalers(variant) {
                Err(error) => error,
                Ok(()) => {
                    let who = self.conflicts().left_alone(&watched.key, Instant::now());
                    conflicting(watched, who?)
                }
            };
            Some(Blocker::of(&ActuateError::from(error)))
        };
        self.workloads.iter().enumerate().map(found).collect()
    }

    /// Returns why the pods or workloads may be outdated, if a watch has failed for long.
    pub fn stale(&self) -> Option<String> {
        let workloads = || self.workloads.iter().find_map(WorkloadWatch::stale);
        self.namespace.stale().or_else(workloads)
    }

    /// Whether each watch that all services of the namespace share has listed its objects, or has failed to.
    pub fn has_tried(&self) -> bool {
        self.namespace.has_tried()
    }
}

fn conflicting(watched: &WorkloadWatch, who: String) -> KubeError {
    KubeError::ConflictingWriter {
        workload: watched.key.to_string(),
        who,
    }
}

impl Actuate for KubeBackends {
    async fn actual(&self) -> Vec<Option<Result<Actual, ActuateError>>> {
        self.tell_due_servers().await;
        let actual = |variant| self.state(variant).map(|state| state.actual());
        let all = 0..self.workloads.len();
        all.map(|variant| Some(actual(variant).map_err(ActuateError::from)))
            .collect()
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Actual, ActuateError>> {
        let deadline = Instant::now() + self.timeout;
        self.prune();
        let started = changes.iter().copied();
        let started = started.map(|change| self.start(change, deadline));
        let mut attempts = join_all(started).await;
        self.patch(&mut attempts, deadline).await;
        let finished = attempts.into_iter().map(async |attempt| match attempt {
            Ok(attempt) => Ok(self.finish(attempt, deadline).await?),
            Err(error) => Err(ActuateError::from(error)),
        });
        join_all(finished).await
    }

    async fn tell(&self, batches: &[Option<u32>]) -> Vec<Option<Result<u32, ActuateError>>> {
        for (watched, batch) in self.workloads.iter().zip(batches) {
            if let (Some(hook), Some(batch)) = (&watched.hook, batch) {
                hook.want_batch(*batch);
            }
        }
        self.tell_due_servers().await;
        let all = 0..self.workloads.len();
        all.map(|variant| self.confirmed_batch(variant).map(Ok))
            .collect()
    }

    fn retire(&self, variant: usize, spare: Cores) -> Option<Result<Actual, NotReplaced>> {
        let retired = self.retire_pod(variant, spare)?;
        Some(retired.map_err(|blocker| NotReplaced(blocker.to_string())))
    }

    async fn replace(&self, variant: usize) -> Result<Actual, ActuateError> {
        Ok(self.evict(variant).await?)
    }
}
