//! Detects another controller that reverts our changes (a conflicting writer). Pure. A single change may be a
//! person's; repeated ones are a program's with another target, and the two would never stop.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use weir_api::Cores;

use super::memory::WorkloadKey;
use crate::backends::kubernetes::pod::PodState;

/// Number of reverts within [`WINDOW`] that mark a conflicting writer.
pub const REVERTS_MAX: usize = 3;
/// Window of [`REVERTS_MAX`].
pub const WINDOW: Duration = Duration::from_secs(60);
/// Time for which the workload is then left alone.
pub const LEFT_ALONE: Duration = Duration::from_secs(300);

/// Requests sent, and reverts of them. Bounded by the number of pods.
#[derive(Default)]
pub(super) struct ConflictingWriters {
    /// Requests by pod uid.
    requests: BTreeMap<String, SentRequests>,
    /// Times of reverts by workload.
    reverts: BTreeMap<WorkloadKey, VecDeque<Instant>>,
    /// Workloads left alone: until when, and why.
    left_alone: BTreeMap<WorkloadKey, (Instant, String)>,
}

/// Requests to one pod.
#[derive(Default)]
struct SentRequests {
    /// Last confirmed request, and the pod's generation with it.
    confirmed: Option<(Cores, i64)>,
    /// Requests sent since, which may have been applied although no answer came.
    sent: BTreeSet<Cores>,
}

impl ConflictingWriters {
    /// Records that a request is about to be sent to this pod.
    pub(super) fn record_sent(&mut self, pod: &PodState, request: Cores) {
        let requests = self.requests.entry(pod.uid.clone()).or_default();
        requests.sent.insert(request);
    }

    /// Records that the pod's current request was confirmed.
    pub(super) fn record_confirmed(&mut self, pod: &PodState) {
        let requests = self.requests.entry(pod.uid.clone()).or_default();
        requests.confirmed = Some((pod.desired.request, pod.generation));
        requests.sent.clear();
    }

    /// Checks a workload's pods for reverts; returns why the workload is to be left alone now, if it is.
    pub(super) fn check(
        &mut self,
        workload: &WorkloadKey,
        pods: &[PodState],
        now: Instant,
    ) -> Option<String> {
        for pod in pods {
            let requests = self.requests.get(&pod.uid);
            let Some((requests, (request, generation))) =
                requests.and_then(|one| Some((one, one.confirmed?)))
            else {
                continue;
            };
            if pod.generation <= generation || pod.desired.request == request {
                continue;
            }
            if requests.sent.contains(&pod.desired.request) {
                self.record_confirmed(pod);
                continue;
            }
            self.requests.remove(&pod.uid);
            let reverts = self.reverts.entry(workload.clone()).or_default();
            reverts.push_back(now);
            reverts.retain(|at| now.duration_since(*at) < WINDOW);
            if reverts.len() >= REVERTS_MAX {
                reverts.clear();
                let why = format!(
                    "something set the CPU of pod {} to {} after it was set to {request} here",
                    pod.name, pod.desired.request
                );
                self.left_alone
                    .insert(workload.clone(), (now + LEFT_ALONE, why));
            }
        }
        self.left_alone(workload, now)
    }

    /// Returns why the workload is left alone now, if it is.
    pub(super) fn left_alone(&self, workload: &WorkloadKey, now: Instant) -> Option<String> {
        let (until, why) = self.left_alone.get(workload)?;
        (now < *until).then(|| why.clone())
    }

    /// Forgets deleted pods, and workloads that are left alone no longer.
    pub(super) fn retain(&mut self, exists: impl Fn(&str) -> bool, now: Instant) {
        self.requests.retain(|uid, _| exists(uid));
        self.left_alone.retain(|_, (until, _)| now < *until);
        self.reverts.retain(|_, times| {
            let latest = times.back();
            latest.is_some_and(|at| now.duration_since(*at) < WINDOW)
        });
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;
    use crate::service::WorkloadKind;

    fn key(name: &str) -> WorkloadKey {
        WorkloadKey {
            kind: WorkloadKind::Deployment,
            name: name.to_owned(),
        }
    }

    fn pod(cores: u32, generation: i64) -> PodState {
        let amounts = json!({"cpu": cores.to_string()});
        let pod = json!({
            "metadata": {"name": "web-1", "uid": "u", "generation": generation},
            "spec": {"containers": [{"name": "app", "resources": {"requests": amounts}}]},
            "status": {"qosClass": "Burstable"},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        PodState::of(&pod, "app").unwrap()
    }

    #[test]
    fn repeated_reverts_mark_conflicting_writer_and_rare_ones_do_not() {
        let mut conflicts = ConflictingWriters::default();
        let mut now = Instant::now();
        let mut generation = 1;
        let mut round = |conflicts: &mut ConflictingWriters, seconds: u64| {
            generation += 2;
            conflicts.record_confirmed(&pod(4, generation - 1));
            assert_eq!(
                conflicts.check(&key("b"), &[pod(4, generation - 1)], now),
                None
            );
            now += Duration::from_secs(seconds);
            (conflicts.check(&key("b"), &[pod(2, generation)], now), now)
        };
        // Rare changes are a person's.
        for _ in 0..5 {
            assert_eq!(round(&mut conflicts, 61).0, None);
        }
        assert_eq!(round(&mut conflicts, 1).0, None);
        let (why, left_alone) = round(&mut conflicts, 1);
        let why = why.unwrap();
        assert_eq!(
            why,
            "something set the CPU of pod web-1 to 2 after it was set to 4 here"
        );
        let (later, after) = (
            left_alone + LEFT_ALONE - Duration::from_secs(1),
            left_alone + LEFT_ALONE,
        );
        assert_eq!(conflicts.check(&key("b"), &[], later), Some(why));
        assert_eq!(
            conflicts.check(&key("a"), &[], later),
            None,
            "another variant"
        );
        assert_eq!(conflicts.check(&key("b"), &[], after), None);
        conflicts.record_confirmed(&pod(4, 100));
        conflicts.retain(|_| false, after);
        assert!(conflicts.requests.is_empty() && conflicts.left_alone.is_empty());
    }

    #[test]
    fn lagging_watch_is_no_conflicting_writer() {
        let (mut conflicts, now) = (ConflictingWriters::default(), Instant::now());
        for generation in 1..10 {
            conflicts.record_confirmed(&pod(4, generation + 1));
            // A watch that lags, and the same change by someone else.
            assert_eq!(conflicts.check(&key("a"), &[pod(2, generation)], now), None);
            assert_eq!(
                conflicts.check(&key("a"), &[pod(4, generation + 2)], now),
                None
            );
        }
    }

    #[test]
    fn unanswered_patch_is_no_conflicting_writer() {
        let (mut conflicts, now) = (ConflictingWriters::default(), Instant::now());
        conflicts.record_confirmed(&pod(8, 1));
        for (cores, generation) in [(4, 2), (2, 3), (3, 4), (1, 5)] {
            let before = conflicts.check(&key("a"), &[], now);
            assert_eq!(before, None);
            conflicts.record_sent(&pod(8, 1), Cores::whole(9));
            conflicts.record_sent(&pod(8, 1), Cores::whole(cores));
            assert_eq!(
                conflicts.check(&key("a"), &[pod(cores, generation)], now),
                None
            );
        }
        // Earlier sends no longer count once a later one is confirmed.
        for generation in 1..=REVERTS_MAX {
            conflicts.record_confirmed(&pod(8, 10 * generation as i64));
            let other = pod(9, 10 * generation as i64 + 1);
            let left_alone = conflicts.check(&key("a"), &[other], now);
            assert_eq!(left_alone.is_some(), generation == REVERTS_MAX);
        }
    }
}
