//! Writes that the watches do not show yet: those answered, and pending ones, whose answer has not come. Pure.
//! Entries are dropped once the watches have caught up.
//!
//! A write is pending from before it is sent: a planner that loses its lead stops waiting for answers. A write that
//! the API server refuses leaves the record as it was before.
//!
//! A patch names the version of the pod that it applies to. Once another version is reported, a pending patch has
//! either been carried out, as that version shows, or never will be. So does a scaling, which also increments the
//! generation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::time::Instant;
use weir_api::Cores;

use super::memory::WorkloadKey;
use crate::backends::kubernetes::distribute::Refusals;
use crate::backends::kubernetes::pod::{PendingRequests, PodState};
use crate::backends::kubernetes::replace::Replacements;
use crate::backends::kubernetes::workload::WorkloadSpec;

/// Time after which a request without an answer can no longer be carried out: an API server works on one for at most
/// a minute, unless configured otherwise.
pub const PENDING_WRITE_TTL: Duration = Duration::from_secs(60);

/// Writes that the watches do not show yet, with refusals and replacements.
#[derive(Default)]
pub(super) struct UnobservedWrites {
    /// Requests that were refused for good.
    pub(super) refusals: Refusals,
    /// Pods to be replaced, and candidates.
    pub(super) replacements: Replacements,
    /// Pods as answered, by uid, until a watch has caught up.
    ahead: BTreeMap<String, Arc<Pod>>,
    /// Pending patches by pod uid.
    pending_patches: BTreeMap<String, PendingPatches>,
    /// Latest scaling by workload, answered or pending.
    scalings: BTreeMap<WorkloadKey, LatestScaling>,
    /// Scale-downs by workload, latest last; earlier ones are kept until they expire.
    scale_downs: BTreeMap<WorkloadKey, Vec<ScaleDown>>,
}

/// Record of one workload's scalings.
#[derive(Debug, Clone, Default)]
pub(super) struct ScalingRecord {
    latest: Option<LatestScaling>,
    scale_downs: Vec<ScaleDown>,
}

/// Scale-down after which at most `stay` of the pods in `of` stay, whatever the watches report yet.
#[derive(Debug, Clone)]
struct ScaleDown {
    of: BTreeSet<String>,
    stay: u32,
    until: Instant,
}

/// Maximum number of scale-downs remembered per workload.
const SCALE_DOWNS_MAX: usize = 8;

/// Pending patches of one pod, all for the same version of it.
#[derive(Debug, Clone)]
pub(super) struct PendingPatches {
    version: String,
    requests: PendingRequests,
    until: Instant,
}

impl PendingPatches {
    /// Whether they may still take effect, if this version is the latest. Versions only increase (by definition
    /// since Kubernetes 1.35, in practice always with etcd).
    fn is_open(&self, latest: &str) -> bool {
        !is_later(latest, &self.version)
    }
}

/// Whether a version is later than another one of the same object.
fn is_later(version: &str, other: &str) -> bool {
    match (version.parse::<u64>(), other.parse::<u64>()) {
        (Ok(version), Ok(other)) => version > other,
        _ => version != other,
    }
}

/// Workload as known at a generation that no watch may have reported yet. If the replica count was already the same,
/// that generation never comes; therefore the entry expires.
#[derive(Debug, Clone)]
struct LatestScaling {
    uid: String,
    generation: i64,
    /// Version that a pending scaling applies to.
    version: String,
    replicas: u32,
    pending_replicas: Option<u32>,
    until: Instant,
}

impl UnobservedWrites {
    /// Records the pod in an answer.
    pub(super) fn record_pod(&mut self, pod: Pod) {
        let uid = pod.uid().unwrap_or_default();
        self.ahead.insert(uid, Arc::new(pod));
    }

    /// Records that a patch for this request is sent, beside those that are pending for the same version. Returns the
    /// record before.
    pub(super) fn record_pending_patch(
        &mut self,
        pod: &PodState,
        request: Cores,
        now: Instant,
    ) -> Option<PendingPatches> {
        let before = self.pending_patches.get(&pod.uid).cloned();
        let requests = match self.pending_requests(pod, now) {
            Some(requests) => requests.or(request),
            None => PendingRequests::one(request),
        };
        let patches = PendingPatches {
            version: pod.version.clone(),
            requests,
            until: now + PENDING_WRITE_TTL,
        };
        self.pending_patches.insert(pod.uid.clone(), patches);
        before
    }

    /// Restores the record as it was before a patch that took no effect.
    pub(super) fn restore_pending_patches(&mut self, uid: &str, before: Option<PendingPatches>) {
        match before {
            Some(before) => drop(self.pending_patches.insert(uid.to_owned(), before)),
            None => drop(self.pending_patches.remove(uid)),
        }
    }

    /// Returns the newest known state of a pod.
    pub(super) fn newest(&self, observed: Arc<Pod>) -> Arc<Pod> {
        let ahead = self
            .ahead
            .get(observed.metadata.uid.as_deref().unwrap_or_default());
        let newer = ahead.filter(|ahead| ahead.metadata.generation > observed.metadata.generation);
        newer.map_or(observed, Arc::clone)
    }

    /// Returns the requests of the pod's pending patches, if there are any.
    pub(super) fn pending_requests(&self, pod: &PodState, now: Instant) -> Option<PendingRequests> {
        let patches = self.pending_patches.get(&pod.uid);
        let open = patches.filter(|patches| patches.is_open(&pod.version) && now < patches.until);
        open.map(|patches| patches.requests)
    }

    /// Returns the record of a workload's scalings.
    pub(super) fn scaling_record(&self, workload: &WorkloadKey) -> ScalingRecord {
        let scale_downs = self.scale_downs.get(workload).cloned();
        ScalingRecord {
            latest: self.scalings.get(workload).cloned(),
            scale_downs: scale_downs.unwrap_or_default(),
        }
    }

    /// Restores the record as it was before a scaling that took no effect.
    pub(super) fn restore_scalings(&mut self, workload: &WorkloadKey, before: ScalingRecord) {
        match before.latest {
            Some(latest) => drop(self.scalings.insert(workload.clone(), latest)),
            None => drop(self.scalings.remove(workload)),
        }
        self.scale_downs
            .insert(workload.clone(), before.scale_downs);
    }

    /// Records that a workload with this `spec` was scaled.
    pub(super) fn record_scaling(
        &mut self,
        workload: &WorkloadKey,
        spec: &WorkloadSpec,
        replicas: u32,
        now: Instant,
    ) {
        let scaled = LatestScaling {
            uid: spec.uid.clone(),
            generation: spec.generation.saturating_add(1),
            version: spec.version.clone(),
            replicas,
            pending_replicas: None,
            until: now + PENDING_WRITE_TTL,
        };
        self.scalings.insert(workload.clone(), scaled);
    }

    /// Records that a scaling is sent that applies to that version of the workload.
    pub(super) fn record_pending_scaling(
        &mut self,
        workload: &WorkloadKey,
        spec: &WorkloadSpec,
        version: &str,
        replicas: u32,
        now: Instant,
    ) {
        // Of two that apply to the same version either may be carried out.
        let before = spec.pending_replicas.unwrap_or(0);
        let scaled = LatestScaling {
            uid: spec.uid.clone(),
            generation: spec.generation,
            version: version.to_owned(),
            replicas: spec.replicas,
            pending_replicas: Some(replicas.max(before)),
            until: now + PENDING_WRITE_TTL,
        };
        self.scalings.insert(workload.clone(), scaled);
    }

    /// Records a scale-down, answered or pending, of a workload with these pods.
    pub(super) fn record_scale_down(
        &mut self,
        workload: &WorkloadKey,
        of: BTreeSet<String>,
        stay: u32,
        now: Instant,
    ) {
        let all = self.scale_downs.entry(workload.clone()).or_default();
        if all.len() >= SCALE_DOWNS_MAX {
            all.remove(0);
        }
        let until = now + PENDING_WRITE_TTL;
        all.push(ScaleDown { of, stay, until });
    }

    /// Returns how many of a workload's pods end although none of them is reported as ending.
    pub(super) fn leaving(
        &self,
        workload: &WorkloadKey,
        staying: impl Fn(&str) -> bool,
        now: Instant,
    ) -> u32 {
        let all = self.scale_downs.get(workload).into_iter().flatten();
        let current = all.filter(|scale_down| now < scale_down.until);
        let leaving = current.map(|scale_down| {
            let remaining = scale_down.of.iter().filter(|uid| staying(uid)).count();
            u32::try_from(remaining)
                .unwrap_or(u32::MAX)
                .saturating_sub(scale_down.stay)
        });
        leaving.max().unwrap_or(0)
    }

    /// Returns the newest known spec of a workload.
    pub(super) fn spec(
        &self,
        workload: &WorkloadKey,
        observed: WorkloadSpec,
        now: Instant,
    ) -> WorkloadSpec {
        let scaled = self.scalings.get(workload);
        let newer = |scaled: &&LatestScaling| {
            let answered = scaled.pending_replicas.is_none();
            let open = answered || !is_later(&observed.version, &scaled.version);
            scaled.uid == observed.uid && scaled.generation >= observed.generation && open
        };
        match scaled.filter(newer).filter(|scaled| now < scaled.until) {
            None => observed,
            Some(scaled) => WorkloadSpec {
                generation: scaled.generation,
                replicas: scaled.replicas,
                pending_replicas: scaled.pending_replicas,
                ..observed
            },
        }
    }

    /// Drops deleted pods, expired entries, and what the watches have caught up with. `existing`: generations by pod
    /// uid.
    pub(super) fn prune(&mut self, existing: &BTreeMap<String, Option<i64>>, now: Instant) {
        self.refusals.retain(|uid| existing.contains_key(uid));
        self.replacements.retain(|uid| existing.contains_key(uid));
        self.ahead.retain(|uid, ahead| {
            let observed = existing.get(uid);
            observed.is_some_and(|observed| ahead.metadata.generation > *observed)
        });
        for all in self.scale_downs.values_mut() {
            all.retain(|scale_down| now < scale_down.until);
        }
        self.scale_downs.retain(|_, all| !all.is_empty());
        self.scalings.retain(|_, scaled| now < scaled.until);
        self.pending_patches
            .retain(|uid, patch| existing.contains_key(uid) && now < patch.until);
    }
}

impl UnobservedWrites {
    /// Whether no write is pending any more, nor answered and not yet reported.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let scaled = self.scalings.values().any(|scaled| now < scaled.until);
        let mut scale_downs = self.scale_downs.values().flatten();
        let mut patches = self.pending_patches.values();
        !scaled
            && !scale_downs.any(|scale_down| now < scale_down.until)
            && !patches.any(|patch| now < patch.until)
    }
}

#[cfg(test)]
mod tests;
