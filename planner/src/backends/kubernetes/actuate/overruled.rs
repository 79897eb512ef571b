//! Detects another controller that reverts our changes (a conflicting writer). Pure. A single change may be a
//! person's; repeated ones are a program's with another target, and the two would never stop.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use weir_api::Cores;

use crate::backends::kubernetes::pod::PodState;

/// Number of reverts within [`WINDOW`] that mark a conflicting writer.
pub const OVERRULED_MOST: usize = 3;
/// Window of [`OVERRULED_MOST`].
pub const WINDOW: Duration = Duration::from_secs(60);
/// Time for which the workload is then left alone.
pub const HOLD: Duration = Duration::from_secs(300);

/// Requests sent, and reverts of them. Bounded by the number of pods.
#[derive(Default)]
pub(super) struct Overruled {
    /// Requests by pod uid.
    asked: BTreeMap<String, Asked>,
    /// Times of reverts by variant.
    times: BTreeMap<usize, VecDeque<Instant>>,
    /// Variants left alone: until when, and why.
    held: BTreeMap<usize, (Instant, String)>,
}

/// Requests to one pod.
#[derive(Default)]
struct Asked {
    /// Last confirmed request, and the pod's generation with it.
    taken: Option<(Cores, i64)>,
    /// Requests sent since, which may have been applied although no answer came.
    sent: BTreeSet<Cores>,
}

impl Overruled {
    /// Records that a request is about to be sent to this pod.
    pub(super) fn asking(&mut self, pod: &PodState, request: Cores) {
        let asked = self.asked.entry(pod.uid.clone()).or_default();
        asked.sent.insert(request);
    }

    /// Records that the pod's current request was confirmed.
    pub(super) fn asked(&mut self, pod: &PodState) {
        let asked = self.asked.entry(pod.uid.clone()).or_default();
        asked.taken = Some((pod.desired.request, pod.generation));
        asked.sent.clear();
    }

    /// Checks a variant's pods for reverts; returns why the variant is to be left alone now, if it is.
    pub(super) fn look(
        &mut self,
        variant: usize,
        pods: &[PodState],
        now: Instant,
    ) -> Option<String> {
        for pod in pods {
            let asked = self.asked.get(&pod.uid);
            let Some((asked, (request, generation))) =
                asked.and_then(|one| Some((one, one.taken?)))
            else {
                continue;
            };
            if pod.generation <= generation || pod.desired.request == request {
                continue;
            }
            if asked.sent.contains(&pod.desired.request) {
                self.asked(pod);
                continue;
            }
            self.asked.remove(&pod.uid);
            let times = self.times.entry(variant).or_default();
            times.push_back(now);
            times.retain(|at| now.duration_since(*at) < WINDOW);
            if times.len() >= OVERRULED_MOST {
                times.clear();
                let why = format!(
                    "something set the CPU of pod {} to {} after it was set to {request} here",
                    pod.name, pod.desired.request
                );
                self.held.insert(variant, (now + HOLD, why));
            }
        }
        let (until, why) = self.held.get(&variant)?;
        (now < *until).then(|| why.clone())
    }

    /// Forgets pods that are gone.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.asked.retain(|uid, _| is_there(uid));
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

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
        let mut overruled = Overruled::default();
        let mut now = Instant::now();
        let mut generation = 1;
        let mut round = |overruled: &mut Overruled, seconds: u64| {
            generation += 2;
            overruled.asked(&pod(4, generation - 1));
            assert_eq!(overruled.look(1, &[pod(4, generation - 1)], now), None);
            now += Duration::from_secs(seconds);
            (overruled.look(1, &[pod(2, generation)], now), now)
        };
        // Rare changes are a person's.
        for _ in 0..5 {
            assert_eq!(round(&mut overruled, 61).0, None);
        }
        assert_eq!(round(&mut overruled, 1).0, None);
        let (why, held) = round(&mut overruled, 1);
        let why = why.unwrap();
        assert_eq!(
            why,
            "something set the CPU of pod web-1 to 2 after it was set to 4 here"
        );
        let (later, after) = (held + HOLD - Duration::from_secs(1), held + HOLD);
        assert_eq!(overruled.look(1, &[], later), Some(why));
        assert_eq!(overruled.look(0, &[], later), None, "another variant");
        assert_eq!(overruled.look(1, &[], after), None);
        overruled.asked(&pod(4, 100));
        overruled.retain(|_| false);
        assert!(overruled.asked.is_empty());
    }

    #[test]
    fn lagging_watch_is_no_conflicting_writer() {
        let (mut overruled, now) = (Overruled::default(), Instant::now());
        for generation in 1..10 {
            overruled.asked(&pod(4, generation + 1));
            // A watch that lags, and the same change by someone else.
            assert_eq!(overruled.look(0, &[pod(2, generation)], now), None);
            assert_eq!(overruled.look(0, &[pod(4, generation + 2)], now), None);
        }
    }

    #[test]
    fn unanswered_patch_is_no_conflicting_writer() {
        let (mut overruled, now) = (Overruled::default(), Instant::now());
        overruled.asked(&pod(8, 1));
        for (cores, generation) in [(4, 2), (2, 3), (3, 4), (1, 5)] {
            let before = overruled.look(0, &[], now);
            assert_eq!(before, None);
            overruled.asking(&pod(8, 1), Cores::whole(9));
            overruled.asking(&pod(8, 1), Cores::whole(cores));
            assert_eq!(overruled.look(0, &[pod(cores, generation)], now), None);
        }
        // Earlier sends no longer count once a later one is confirmed.
        for generation in 1..=OVERRULED_MOST {
            overruled.asked(&pod(8, 10 * generation as i64));
            let other = pod(9, 10 * generation as i64 + 1);
            let held = overruled.look(0, &[other], now);
            assert_eq!(held.is_some(), generation == OVERRULED_MOST);
        }
    }
}
