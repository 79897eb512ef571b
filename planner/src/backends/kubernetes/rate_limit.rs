//! Rate limit of patches: per second over all services, and per pod. Pure.
//!
//! API server and kubelets serve others too, and an oscillating planner must not flood them. Patches over the limit
//! are not queued: the next cycle requests what is the target then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// Maximum patches in any second: enough for a service of ten pods in one cycle, and little load for an API server.
pub const PATCHES_MAX_PER_S: u32 = 10;
/// Maximum patches of one pod in any [`POD_WINDOW`]: one per cycle of the planner, and spare ones to correct a rise
/// at once.
pub const POD_PATCHES_MAX: usize = 3;
/// Window of [`POD_PATCHES_MAX`].
pub const POD_WINDOW: Duration = Duration::from_secs(3);

/// One second, plus a margin for varying delay on the network.
const WINDOW: Duration = Duration::from_millis(1_100);

/// Sliding-window rate limiter of the patches sent.
#[derive(Debug, Clone, Default)]
pub struct PatchLimiter {
    /// Times of the latest patches, oldest first; at most [`PATCHES_MAX_PER_S`].
    out: VecDeque<Instant>,
    /// Times of the patches by pod uid, within [`POD_WINDOW`].
    pods: BTreeMap<String, Vec<Instant>>,
}

/// Patch waiting to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatchRequest<'a> {
    /// Uid of the pod.
    pub pod: &'a str,
    /// Whether the pod grows.
    pub grows: bool,
}

impl PatchLimiter {
    /// Returns the indices of the patches to send now, in order: growing pods before shrinking ones, otherwise as
    /// given. The others wait.
    pub fn admit(&mut self, requests: &[PatchRequest<'_>], now: Instant) -> Vec<usize> {
        self.pods.retain(|_, out| {
            out.retain(|at| now < *at + POD_WINDOW);
            !out.is_empty()
        });
        let growing =
            |grows: bool| move |(_, request): &(usize, &PatchRequest<'_>)| request.grows == grows;
        let all = || requests.iter().enumerate();
        let queue = all()
            .filter(growing(true))
            .chain(all().filter(growing(false)));
        let (mut picked, mut pods) = (Vec::new(), BTreeSet::new());
        for (index, request) in queue {
            let out = self.pods.get(request.pod).map_or(0, Vec::len);
            if self.is_free(now) && out < POD_PATCHES_MAX && pods.insert(request.pod) {
                self.pods
                    .entry(request.pod.to_owned())
                    .or_default()
                    .push(now);
                self.record(now);
                picked.push(index);
            }
        }
        picked
    }

    /// Records one more patch, even outside the limit: a retry, for which later patches wait longer.
    pub fn record(&mut self, now: Instant) {
        self.out.push_back(now);
        if self.out.len() > PATCHES_MAX_PER_S as usize {
            self.out.pop_front();
        }
    }

    fn is_free(&self, now: Instant) -> bool {
        let all = self.out.len() >= PATCHES_MAX_PER_S as usize;
        let first = self.out.front().filter(|_| all);
        first.is_none_or(|first| now >= *first + WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(pod: &str, grows: bool) -> PatchRequest<'_> {
        PatchRequest { pod, grows }
    }

    /// Instant `ms` milliseconds after `begin`.
    fn ms(begin: Instant, ms: u64) -> Instant {
        begin + Duration::from_millis(ms)
    }

    #[test]
    fn growing_pods_go_first_and_each_pod_three_times_per_window() {
        let (mut limiter, begin) = (PatchLimiter::default(), Instant::now());
        let requests = [
            request("a", false),
            request("b", true),
            request("b", true),
            request("c", true),
        ];
        assert_eq!(limiter.admit(&requests, ms(begin, 5)), [1, 3, 0]);
        assert_eq!(limiter.admit(&requests[..2], ms(begin, 300)), [1, 0]);
        assert_eq!(limiter.admit(&requests[..2], ms(begin, 600)), [1, 0]);
        assert_eq!(limiter.admit(&requests, ms(begin, 3004)), [3]);
        assert_eq!(limiter.admit(&requests, ms(begin, 3005)), [1, 3, 0]);
    }

    #[test]
    fn at_most_ten_patches_are_sent_in_any_second() {
        let (mut limiter, begin) = (PatchLimiter::default(), Instant::now());
        let names: Vec<String> = (0..30).map(|i| i.to_string()).collect();
        let requests: Vec<PatchRequest<'_>> =
            names.iter().map(|name| request(name, true)).collect();
        assert_eq!(limiter.admit(&requests[..6], ms(begin, 0)).len(), 6);
        assert_eq!(limiter.admit(&requests[6..], ms(begin, 500)).len(), 4);
        assert_eq!(limiter.admit(&requests[10..], ms(begin, 1_099)).len(), 0);
        limiter.record(ms(begin, 1_099));
        assert_eq!(limiter.admit(&requests[10..], ms(begin, 1_100)).len(), 5);
        assert_eq!(limiter.admit(&requests[15..], ms(begin, 1_600)).len(), 4);
        assert_eq!(limiter.admit(&requests[20..], ms(begin, 10_000)).len(), 10);
    }

    proptest! {
        #[test]
        fn limits_hold_in_every_window(
            steps in prop::collection::vec((0u64..500, prop::collection::vec((0u8..20, any::<bool>()), 0..30)), 1..40),
        ) {
            let mut limiter = PatchLimiter::default();
            let (mut now, mut out) = (Instant::now(), Vec::new());
            for (wait, requests) in steps {
                now = ms(now, wait);
                let names: Vec<(String, bool)> =
                    requests.iter().map(|(pod, grows)| (pod.to_string(), *grows)).collect();
                let requests: Vec<PatchRequest<'_>> = names.iter().map(|(pod, grows)| request(pod, *grows)).collect();
                let picked = limiter.admit(&requests, now);
                out.extend(picked.iter().map(|i| (now, names[*i].0.clone())));
            }
            for (from, (begin, pod)) in out.iter().enumerate() {
                let mut own = 0;
                for (count, (end, other)) in out[from..].iter().enumerate() {
                    let elapsed = *end - *begin;
                    prop_assert!(count < 10 || elapsed > Duration::from_secs(1), "{count} in {elapsed:?}");
                    own += usize::from(pod == other);
                    prop_assert!(own <= POD_PATCHES_MAX || elapsed >= POD_WINDOW);
                }
            }
        }
    }
}
