//! What was answered before the watches tell of it, and what may have been done though no answer came. Pure;
//! forgotten once the watches are as far.
//!
//! A patch of a pod names the version that it is for: once another version is told, one without an answer has
//! been carried out, as that version shows, or never will be. A scaling counts the generation up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::time::Instant;
use weir_api::Cores;

use crate::backends::kubernetes::deal::Refusals;
use crate::backends::kubernetes::pod::PodState;
use crate::backends::kubernetes::replace::Replacing;
use crate::backends::kubernetes::workload::Spec;

/// From a request without an answer until it cannot be carried out any more: an API server works on one for
/// a minute at most, unless it is told otherwise.
pub const DOUBT_MAX: Duration = Duration::from_secs(60);

/// See the file's head.
#[derive(Default)]
pub(super) struct Memory {
    /// Wishes that need not be told again.
    pub(super) refusals: Refusals,
    /// Pods that are to be replaced, and those that may come to be.
    pub(super) replacing: Replacing,
    /// By uid: pods as they were answered, until a watch is as far.
    ahead: BTreeMap<String, Arc<Pod>>,
    /// By uid: patches without an answer.
    doubts: BTreeMap<String, Doubt>,
    /// By variant.
    scaled: BTreeMap<usize, Scaled>,
    /// By variant, the latest last: of the earlier ones those that still say something.
    fewer: BTreeMap<usize, Vec<Fewer>>,
}

/// Scaled down: of these pods so many stay at most, whatever the watches tell yet.
struct Fewer {
    of: BTreeSet<String>,
    stay: u32,
    until: Instant,
}

/// Most of these that are remembered of a variant.
const FEWER_MAX: usize = 8;

struct Doubt {
    version: String,
    request: Cores,
    until: Instant,
}

impl Doubt {
    /// Whether its fate is unknown where this version is the latest. Versions count up (by their definition
    /// since 1.35, and by etcd's ever before).
    fn is_open(&self, latest: &str) -> bool {
        match (latest.parse::<u64>(), self.version.parse::<u64>()) {
            (Ok(latest), Ok(own)) => latest <= own,
            _ => latest == self.version,
        }
    }
}

/// A workload as it is known to be at a generation, which no watch may have told yet. Where the number was the
/// same already, no such generation comes; so this holds for a time only.
struct Scaled {
    uid: String,
    generation: i64,
    replicas: u32,
    maybe: Option<u32>,
    until: Instant,
}

impl Memory {
    /// A pod was answered.
    pub(super) fn answered(&mut self, pod: Pod) {
        let uid = pod.uid().unwrap_or_default();
        self.ahead.insert(uid, Arc::new(pod));
    }

    /// A patch for this request had no answer.
    pub(super) fn unanswered(&mut self, pod: &PodState, request: Cores, now: Instant) {
        let doubt = Doubt {
            version: pod.version.clone(),
            request,
            until: now + DOUBT_MAX,
        };
        self.doubts.insert(pod.uid.clone(), doubt);
    }

    /// The newest that is known of a pod.
    pub(super) fn newest(&self, told: Arc<Pod>) -> Arc<Pod> {
        let ahead = self
            .ahead
            .get(told.metadata.uid.as_deref().unwrap_or_default());
        let newer = ahead.filter(|ahead| ahead.metadata.generation > told.metadata.generation);
        newer.map_or(told, Arc::clone)
    }

    /// What it may have been asked for.
    pub(super) fn maybe(&self, pod: &PodState, now: Instant) -> Option<Cores> {
        let doubt = self.doubts.get(&pod.uid);
        let open = doubt.filter(|doubt| doubt.is_open(&pod.version) && now < doubt.until);
        open.map(|doubt| doubt.request)
    }

    /// A workload was scaled from what `spec` says.
    pub(super) fn scaled(&mut self, variant: usize, spec: &Spec, replicas: u32, now: Instant) {
        let scaled = Scaled {
            uid: spec.uid.clone(),
            generation: spec.generation.saturating_add(1),
            replicas,
            maybe: None,
            until: now + DOUBT_MAX,
        };
        self.scaled.insert(variant, scaled);
    }

    /// A scaling had no answer.
    pub(super) fn maybe_scaled(
        &mut self,
        variant: usize,
        spec: &Spec,
        replicas: u32,
        now: Instant,
    ) {
        let scaled = Scaled {
            uid: spec.uid.clone(),
            generation: spec.generation,
            replicas: spec.replicas,
            maybe: Some(replicas),
            until: now + DOUBT_MAX,
        };
        self.scaled.insert(variant, scaled);
    }

    /// A workload whose pods are these was scaled down to so many, or may have been.
    pub(super) fn scaled_down(
        &mut self,
        variant: usize,
        of: BTreeSet<String>,
        stay: u32,
        now: Instant,
    ) {
        let all = self.fewer.entry(variant).or_default();
        if all.len() >= FEWER_MAX {
            all.remove(0);
        }
        let until = now + DOUBT_MAX;
        all.push(Fewer { of, stay, until });
    }

    /// How many of these pods of a variant, none of which is seen to end, end all the same.
    pub(super) fn leaving(
        &self,
        variant: usize,
        staying: impl Fn(&str) -> bool,
        now: Instant,
    ) -> u32 {
        let all = self.fewer.get(&variant).into_iter().flatten();
        let current = all.filter(|fewer| now < fewer.until);
        let leaving = current.map(|fewer| {
            let there = fewer.of.iter().filter(|uid| staying(uid)).count();
            u32::try_from(there)
                .unwrap_or(u32::MAX)
                .saturating_sub(fewer.stay)
        });
        leaving.max().unwrap_or(0)
    }

    /// The newest that is known of a workload.
    pub(super) fn spec(&self, variant: usize, told: Spec, now: Instant) -> Spec {
        let scaled = self.scaled.get(&variant);
        let newer =
            |scaled: &&Scaled| scaled.uid == told.uid && scaled.generation >= told.generation;
        match scaled.filter(newer).filter(|scaled| now < scaled.until) {
            None => told,
            Some(scaled) => Spec {
                generation: scaled.generation,
                replicas: scaled.replicas,
                maybe: scaled.maybe,
                ..told
            },
        }
    }

    /// Forgets pods that are gone, and what the watches have caught up with. `there`: pods' generations.
    pub(super) fn tidy(&mut self, there: &BTreeMap<String, Option<i64>>, now: Instant) {
        self.refusals.retain(|uid| there.contains_key(uid));
        self.replacing.retain(|uid| there.contains_key(uid));
        self.ahead.retain(|uid, ahead| {
            let told = there.get(uid);
            told.is_some_and(|told| ahead.metadata.generation > *told)
        });
        for all in self.fewer.values_mut() {
            all.retain(|fewer| now < fewer.until);
        }
        self.doubts
            .retain(|uid, doubt| there.contains_key(uid) && now < doubt.until);
    }
}

#[cfg(test)]
mod tests;
