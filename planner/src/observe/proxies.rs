//! Keeps the last state of each proxy by name, while proxies come and go. Pure: the time comes with the scrape. The
//! meaning of the state is left to the owner.
//!
//! A new name begins with its first answer. A proxy that is scraped and does not answer is kept. One that is no
//! longer scraped is kept for [`PROXY_DEPARTED_AFTER`], then forgotten; if it comes back later, it is new. So is one from
//! which Weir was removed, once it has Weir again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{Counts, Scrape, ScrapeError};
use crate::service::STATS_MAX;

/// Time for which the last rate of an unanswering proxy counts while others answer: it may be busy, or unreachable
/// from the planner alone.
pub const PROXY_DEPARTED_AFTER: Duration = Duration::from_secs(60);
/// Time for which a proxy must answer without any metric of Weir to count as one without Weir. A proxy that has just
/// started answers so until it has loaded the filter. Until then its requests are unknown, like those of a lost scrape.
pub const WITHOUT_WEIR_AFTER: Duration = PROXY_DEPARTED_AFTER;
/// Maximum number of proxies remembered: those of one scrape, and as many that were all replaced.
pub(super) const PROXIES_MAX: usize = 2 * STATS_MAX;

/// State by proxy, in order of names, so that sums do not depend on the order of the answers.
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
    /// Adds one scrape of all proxies. `next` derives a proxy's new state from its last one, the time of the answer
    /// and the counts.
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
        for scrape in scrapes {
            if scrape.counts == Err(ScrapeError::WithoutWeir) {
                self.known.remove(&scrape.from);
            }
        }
        self.forget(at, scrapes);
    }

    /// Returns the states of the scraped proxies, in order of their names.
    pub(super) fn of<'a>(&'a self, scrapes: &'a [Scrape]) -> impl Iterator<Item = &'a T> {
        self.named(scrapes).map(|(_, last)| last)
    }

    /// Returns the states of the scraped proxies with their names, in order of these.
    pub(super) fn named<'a>(
        &'a self,
        scrapes: &'a [Scrape],
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a T)> {
        let scraped_names = scraped_names(scrapes);
        let known = self.known.iter();
        let known = known.filter(move |(name, _)| scraped_names.contains(&***name));
        known.map(|(name, known)| (name, &known.last))
    }

    fn forget(&mut self, at: Duration, scrapes: &[Scrape]) {
        let scraped_names = scraped_names(scrapes);
        self.known.retain(|name, known| {
            let since = at.saturating_sub(known.answered_at);
            scraped_names.contains(&**name) || since <= PROXY_DEPARTED_AFTER
        });
        while self.known.len() > PROXIES_MAX {
            let known = self.known.iter();
            let oldest = known
                .min_by_key(|(name, known)| (scraped_names.contains(&***name), known.answered_at));
            let Some(name) = oldest.map(|(name, _)| Arc::clone(name)) else {
                return;
            };
            self.known.remove(&name);
        }
    }
}

fn scraped_names(scrapes: &[Scrape]) -> BTreeSet<&str> {
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

    /// Time in seconds, scraped proxies, and proxies known afterwards.
    type Row<'a> = (u64, &'a str, &'a [(&'a str, u32)]);

    /// Checks scrapes, each at its second: `+` before a proxy that answers, `-` before one that does not; expects the
    /// number of answers of each known proxy.
    fn check(scrapes_by_second: &[Row]) {
        let mut proxies: Proxies<u32> = Proxies::default();
        for (second, names, expected) in scrapes_by_second {
            let one = |word: &str| {
                let (sign, name) = word.split_at(1);
                scrape(name, *second, (sign == "+").then_some(7.0))
            };
            let scrapes: Vec<Scrape> = names.split_whitespace().map(one).collect();
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
    fn new_proxy_begins_with_its_first_answer() {
        check(&[
            (0, "-b", &[]),
            (1, "+b", &[("b", 1)]),
            (2, "+b +a", &[("a", 1), ("b", 2)]),
            (3, "+a +b -c", &[("a", 2), ("b", 3)]),
        ]);
    }

    #[test]
    fn removed_proxy_is_forgotten_a_minute_after_its_last_answer() {
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
    fn proxy_continues_within_a_minute_and_is_new_afterwards() {
        check(&[
            (0, "+a +b", &[("a", 1), ("b", 1)]),
            (1, "+b", &[("a", 1), ("b", 2)]),
            (60, "+a +b", &[("a", 2), ("b", 3)]),
            (121, "+b", &[("b", 4)]),
            (122, "+a +b", &[("a", 1), ("b", 5)]),
        ]);
    }

    #[test]
    fn scraped_proxy_is_kept_however_long_it_is_silent() {
        check(&[
            (0, "+a", &[("a", 1)]),
            (9000, "-a", &[("a", 1)]),
            (9001, "+a", &[("a", 2)]),
            (9999, "-a", &[("a", 2)]),
            (10_000, "", &[]),
        ]);
    }

    #[test]
    fn number_of_proxies_kept_is_bounded() {
        let mut proxies: Proxies<u64> = Proxies::default();
        let name = |second: u64, index| format!("{second:02}-{index}");
        let stays = scrape("stays", 0, Some(1.0));
        for second in 0..5 {
            let at = Duration::from_secs(second);
            let fresh = |index| scrape(&name(second, index), second, Some(1.0));
            let mut scrapes: Vec<Scrape> = (1..STATS_MAX).map(fresh).collect();
            // Its answer is the oldest, and it is still scraped.
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
