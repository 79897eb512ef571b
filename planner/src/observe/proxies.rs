//! What was last known of each proxy, by its name: proxies come and go, and what is kept of them with
//! them. Pure: the time comes with the look. What the counts mean is for those who keep them.
//!
//! A new name begins with its first answer. One that is looked at and does not answer is kept; one that
//! is not looked at any more is kept for [`PROXY_GONE_AFTER`], then forgotten: back after that, it is new.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{Counts, Scrape};
use crate::service::STATS_MAX;

/// How long the last rate of a proxy that does not answer counts while others do: it may be busy, or out of
/// reach of the planner alone.
pub const PROXY_GONE_AFTER: Duration = Duration::from_secs(60);
/// Most proxies remembered: all that a look has, and as many that all were replaced.
pub(super) const PROXIES_MAX: usize = 2 * STATS_MAX;

/// By proxy; in the order of their names, so that sums over them do not depend on who answers first.
#[derive(Debug, Clone)]
pub(super) struct Proxies<T> {
    known: BTreeMap<Arc<str>, Known<T>>,
}

#[derive(Debug, Clone)]
struct Known<T> {
    answered_at: Duration,
    last: T,
}

impl<T> Default for Proxies<T> {
    fn default() -> Self {
        let known = BTreeMap::new();
        Proxies { known }
    }
}

impl<T> Proxies<T> {
    /// Takes in one look: `next` makes of what was last known of a proxy, when it answered and what it
    /// has counted what is known from now on.
    pub(super) fn observe(
        &mut self,
        at: Duration,
        scrapes: &[Scrape],
        mut next: impl FnMut(Option<&T>, Duration, &Counts) -> T,
    ) {
        let answers = scrapes.iter().filter_map(|scrape| {
            let counts = scrape.counts.as_ref().ok()?;
            Some((&scrape.from, scrape.at, counts))
        });
        let mut answers: Vec<_> = answers.collect();
        answers.sort_by_key(|(from, ..)| *from);
        for (from, answered_at, counts) in answers {
            let last = self.known.get(from).map(|known| &known.last);
            let last = next(last, answered_at, counts);
            let known = Known { answered_at, last };
            self.known.insert(Arc::clone(from), known);
        }
        self.forget(at, scrapes);
    }

    /// What is known of those that were looked at, by name.
    pub(super) fn of<'a>(&'a self, scrapes: &'a [Scrape]) -> impl Iterator<Item = &'a T> {
        let looked_at = looked_at(scrapes);
        let known = self.known.iter();
        let known = known.filter(move |(name, _)| looked_at.contains(&***name));
        known.map(|(_, known)| &known.last)
    }

    fn forget(&mut self, at: Duration, scrapes: &[Scrape]) {
        let looked_at = looked_at(scrapes);
        self.known.retain(|name, known| {
            let since = at.saturating_sub(known.answered_at);
            looked_at.contains(&**name) || since <= PROXY_GONE_AFTER
        });
        while self.known.len() > PROXIES_MAX {
            let known = self.known.iter();
            let oldest =
                known.min_by_key(|(name, known)| (looked_at.contains(&***name), known.answered_at));
            let Some(name) = oldest.map(|(name, _)| Arc::clone(name)) else {
                return;
            };
            self.known.remove(&name);
        }
    }
}

fn looked_at(scrapes: &[Scrape]) -> BTreeSet<&str> {
    scrapes.iter().map(|scrape| &*scrape.from).collect()
}

#[cfg(test)]
mod tests {
    use super::super::ScrapeError;
    use super::*;

    fn scrape(from: &str, second: u64, arrivals: Option<f64>) -> Scrape {
        Scrape {
            from: from.into(),
            at: Duration::from_secs(second),
            counts: arrivals
                .map(Counts::of_arrivals)
                .ok_or(ScrapeError::TooLarge),
        }
    }

    /// Second, who is looked at, and who is known then.
    type Row<'a> = (u64, &'a str, &'a [(&'a str, u32)]);

    /// Looks, each at its second: `+` before a name that answers, `-` before one that does not → of each
    /// that is known the number of its answers.
    fn check(looks: &[Row]) {
        let mut proxies: Proxies<u32> = Proxies::default();
        for (second, look, expected) in looks {
            let one = |word: &str| {
                let (sign, name) = word.split_at(1);
                scrape(name, *second, (sign == "+").then_some(7.0))
            };
            let scrapes: Vec<Scrape> = look.split_whitespace().map(one).collect();
            let next = |last: Option<&u32>, at, counts: &Counts| {
                assert_eq!((at, counts.arrivals), (Duration::from_secs(*second), 7.0));
                last.map_or(1, |last| last + 1)
            };
            proxies.observe(Duration::from_secs(*second), &scrapes, next);
            let known = proxies.known.iter();
            let known: Vec<_> = known.map(|(name, known)| (&**name, known.last)).collect();
            assert_eq!(&known, expected, "{second} s");
        }
    }

    #[test]
    fn one_that_appears_begins_with_its_first_answer() {
        check(&[
            (0, "-b", &[]),
            (1, "+b", &[("b", 1)]),
            (2, "+b +a", &[("a", 1), ("b", 2)]),
            (3, "+a +b -c", &[("a", 2), ("b", 3)]),
        ]);
    }

    #[test]
    fn one_that_vanished_is_forgotten_a_minute_after_its_last_answer() {
        check(&[
            (0, "+a +b", &[("a", 1), ("b", 1)]),
            (10, "-a +b", &[("a", 1), ("b", 2)]),
            (60, "+b", &[("a", 1), ("b", 3)]),
            (61, "+b", &[("b", 4)]),
            (120, "", &[("b", 4)]),
            (122, "", &[]),
        ]);
    }

    #[test]
    fn one_that_returns_in_time_goes_on_and_a_later_one_is_new() {
        check(&[
            (0, "+a +b", &[("a", 1), ("b", 1)]),
            (1, "+b", &[("a", 1), ("b", 2)]),
            (60, "+a +b", &[("a", 2), ("b", 3)]),
            (121, "+b", &[("b", 4)]),
            (122, "+a +b", &[("a", 1), ("b", 5)]),
        ]);
    }

    #[test]
    fn one_that_is_looked_at_is_kept_however_long_it_is_silent() {
        check(&[
            (0, "+a", &[("a", 1)]),
            (9000, "-a", &[("a", 1)]),
            (9001, "+a", &[("a", 2)]),
            (9999, "-a", &[("a", 2)]),
            (10_000, "", &[]),
        ]);
    }

    #[test]
    fn however_fast_they_are_replaced_no_more_than_the_most_are_kept() {
        let mut proxies: Proxies<u64> = Proxies::default();
        let name = |second: u64, index| format!("{second:02}-{index}");
        let stays = scrape("stays", 0, Some(1.0));
        for second in 0..5 {
            let at = Duration::from_secs(second);
            let fresh = |index| scrape(&name(second, index), second, Some(1.0));
            let mut scrapes: Vec<Scrape> = (1..STATS_MAX).map(fresh).collect();
            // Its answer is the oldest, and it is looked at.
            scrapes.push(if second == 0 {
                stays.clone()
            } else {
                scrape("stays", second, None)
            });
            proxies.observe(at, &scrapes, |_, at, _| at.as_secs());
            assert!(proxies.known.len() <= PROXIES_MAX, "{second} s");
        }
        let of = |second: u64| {
            proxies
                .known
                .values()
                .filter(|known| known.last == second)
                .count()
        };
        let last_two = [3, 4].map(of);
        assert_eq!(last_two, [STATS_MAX - 1; 2], "the latest stay");
        assert!(proxies.known.contains_key("stays"));
        assert_eq!(proxies.known.len(), PROXIES_MAX);
    }
}
