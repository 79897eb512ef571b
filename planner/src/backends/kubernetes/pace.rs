//! How many patches go out: so many a second over all services, and few of one pod. Pure.
//!
//! An API server and its kubelets serve others too, and a planner that oscillates must not be able to flood
//! them. What has to wait is not queued: the next turn asks for what is wanted then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// Most patches in any second, at once or not: a whole service of ten pods in one turn, and little for an API
/// server.
pub const PATCHES_MAX_PER_S: u32 = 10;
/// Most patches of one pod in any [`POD_WINDOW`]: one a cycle of the planner's, and what a rise turns out to be
/// may be mended at once.
pub const POD_PATCHES_MAX: usize = 3;
/// See [`POD_PATCHES_MAX`].
pub const POD_WINDOW: Duration = Duration::from_secs(3);

/// A second, and what the way there may take off it.
const WINDOW: Duration = Duration::from_millis(1_100);

/// What has gone out.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    /// When the latest went out, oldest first; [`PATCHES_MAX_PER_S`] at most.
    out: VecDeque<Instant>,
    /// By uid of the pod, when it was patched; what is long ago is forgotten.
    pods: BTreeMap<String, Vec<Instant>>,
}

/// One patch that is to go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish<'a> {
    /// The uid of its pod.
    pub pod: &'a str,
    /// Whether the pod is to have more.
    pub grows: bool,
}

impl Pace {
    /// Which of these go out now, in the order they are to: those that grow before those that shrink, else as
    /// given. Those left out wait.
    pub fn pick(&mut self, wishes: &[Wish<'_>], now: Instant) -> Vec<usize> {
        self.pods.retain(|_, out| {
            out.retain(|at| now < *at + POD_WINDOW);
            !out.is_empty()
        });
        let growing = |grows: bool| move |(_, wish): &(usize, &Wish<'_>)| wish.grows == grows;
        let all = || wishes.iter().enumerate();
        let queue = all()
            .filter(growing(true))
            .chain(all().filter(growing(false)));
        let (mut picked, mut pods) = (Vec::new(), BTreeSet::new());
        for (index, wish) in queue {
            let out = self.pods.get(wish.pod).map_or(0, Vec::len);
            if self.is_free(now) && out < POD_PATCHES_MAX && pods.insert(wish.pod) {
                self.pods.entry(wish.pod.to_owned()).or_default().push(now);
                self.again(now);
                picked.push(index);
            }
        }
        picked
    }

    /// One more goes out, whatever the pace: a second attempt, for which others wait the longer.
    pub fn again(&mut self, now: Instant) {
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

    fn wish(pod: &str, grows: bool) -> Wish<'_> {
        Wish { pod, grows }
    }

    /// So long after a beginning.
    fn ms(begin: Instant, ms: u64) -> Instant {
        begin + Duration::from_millis(ms)
    }

    #[test]
    fn those_that_grow_go_first_and_a_pod_three_times_in_a_while() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        let wishes = [
            wish("a", false),
            wish("b", true),
            wish("b", true),
            wish("c", true),
        ];
        assert_eq!(pace.pick(&wishes, ms(begin, 5)), [1, 3, 0]);
        assert_eq!(pace.pick(&wishes[..2], ms(begin, 300)), [1, 0]);
        assert_eq!(pace.pick(&wishes[..2], ms(begin, 600)), [1, 0]);
        assert_eq!(pace.pick(&wishes, ms(begin, 3004)), [3]);
        assert_eq!(pace.pick(&wishes, ms(begin, 3005)), [1, 3, 0]);
    }

    #[test]
    fn ten_in_any_second_at_once_or_not() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        let names: Vec<String> = (0..30).map(|i| i.to_string()).collect();
        let wishes: Vec<Wish<'_>> = names.iter().map(|name| wish(name, true)).collect();
        assert_eq!(pace.pick(&wishes[..6], ms(begin, 0)).len(), 6);
        assert_eq!(pace.pick(&wishes[6..], ms(begin, 500)).len(), 4);
        assert_eq!(pace.pick(&wishes[10..], ms(begin, 1_099)).len(), 0);
        pace.again(ms(begin, 1_099));
        assert_eq!(pace.pick(&wishes[10..], ms(begin, 1_100)).len(), 5);
        assert_eq!(pace.pick(&wishes[15..], ms(begin, 1_600)).len(), 4);
        assert_eq!(pace.pick(&wishes[20..], ms(begin, 10_000)).len(), 10);
    }

    proptest! {
        #[test]
        fn in_no_time_are_there_more(
            steps in prop::collection::vec((0u64..500, prop::collection::vec((0u8..20, any::<bool>()), 0..30)), 1..40),
        ) {
            let mut pace = Pace::default();
            let (mut now, mut out) = (Instant::now(), Vec::new());
            for (wait, wishes) in steps {
                now = ms(now, wait);
                let names: Vec<(String, bool)> =
                    wishes.iter().map(|(pod, grows)| (pod.to_string(), *grows)).collect();
                let wishes: Vec<Wish<'_>> = names.iter().map(|(pod, grows)| wish(pod, *grows)).collect();
                let picked = pace.pick(&wishes, now);
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
