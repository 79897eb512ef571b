//! Rate of each variant while all its slots are taken, between two cycles, over all proxies: what its servers sustain.
//! Pure: the time comes with the scrape.
//!
//! Each proxy counts by its own slots, so the rate of all is the sum of the proxies' rates. A variant is left out while the
//! rate of one of its proxies is not known: that did not answer, was not full, or has just appeared.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Scrape;
use super::proxies::Proxies;

/// Time with all slots taken at one proxy, and the executions that ended in it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FullTime {
    /// Time in µs.
    pub us: f64,
    /// Executions.
    pub executions: f64,
}

/// Such times by variant, for variants that had any.
pub type FullTimes = BTreeMap<String, FullTime>;

/// Rate with all slots taken.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FullRate {
    /// Executions per second, over all proxies.
    pub rps: f64,
    /// Executions counted.
    pub executions: f64,
    /// Time with all slots taken, in seconds; the mean of the proxies.
    pub seconds: f64,
}

/// Last counts of each proxy.
#[derive(Debug, Clone, Default)]
pub struct FullRates(Proxies<FullTimes>);

impl FullTime {
    /// Adds another.
    pub fn add(&mut self, more: FullTime) {
        self.us += more.us;
        self.executions += more.executions;
    }

    /// Returns the increase since `before`.
    fn since(self, before: FullTime) -> FullTime {
        if self.us < before.us || self.executions < before.executions {
            return self;
        }
        FullTime {
            us: self.us - before.us,
            executions: self.executions - before.executions,
        }
    }
}

impl FullRates {
    /// Returns the rates since the last call.
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape]) -> BTreeMap<String, FullRate> {
        let mut new: BTreeMap<String, (usize, FullRate)> = BTreeMap::new();
        self.0.observe(at, scrapes, |last, _, counts| {
            let last = last.filter(|_| !counts.full.is_empty());
            let each = counts.full.iter().filter_map(|(variant, count)| {
                let before = last?.get(variant).copied().unwrap_or_default();
                let increase = count.since(before);
                (increase.us > 0.0).then_some((variant, increase))
            });
            for (variant, increase) in each {
                let seconds = increase.us / 1e6;
                let (proxies, sum) = new.entry(variant.clone()).or_default();
                *proxies += 1;
                sum.rps += increase.executions / seconds;
                sum.executions += increase.executions;
                sum.seconds += seconds;
            }
            counts.full.clone()
        });
        let of_all = |(variant, (proxies, sum)): (String, (usize, FullRate))| {
            let known = self.0.of(scrapes);
            let all = known.filter(|times| times.contains_key(&variant)).count();
            let seconds = sum.seconds / all as f64;
            (all == proxies).then_some((variant, FullRate { seconds, ..sum }))
        };
        new.into_iter().filter_map(of_all).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, ScrapeError};
    use super::*;

    /// Time in seconds and executions at a proxy; `None` for a lost scrape.
    type Row<'a> = (&'a str, Option<(f64, f64)>);

    fn scrape((from, full): &Row) -> Scrape {
        let counts = |(seconds, executions): (f64, f64)| {
            let us = seconds * 1e6;
            let full = FullTime { us, executions };
            Counts {
                full: [("a".to_owned(), full)].into(),
                ..Counts::default()
            }
        };
        Scrape {
            from: (*from).into(),
            at: Duration::ZERO,
            counts: full.map(counts).ok_or(ScrapeError::Status(503)),
        }
    }

    #[test]
    fn rate_is_sum_of_proxies_that_are_all_known() {
        let mut rates = FullRates::default();
        for (second, (scrapes, expected)) in (0..).zip([
            // Counted before, in an unknown time.
            (&[("x", Some((9.0, 900.0)))][..], None),
            (&[("x", Some((9.5, 925.0)))], Some((50.0, 25.0, 0.5))),
            (&[("x", Some((9.5, 925.0)))], None),
            (&[("x", Some((10.0, 950.0))), ("y", Some((3.0, 5.0)))], None),
            (
                &[("x", Some((11.0, 1000.0))), ("y", Some((3.5, 15.0)))],
                Some((70.0, 60.0, 0.75)),
            ),
            (&[("x", Some((12.0, 1050.0))), ("y", None)], None),
            // y has restarted.
            (
                &[("x", Some((13.0, 1100.0))), ("y", Some((1.0, 20.0)))],
                Some((70.0, 70.0, 1.0)),
            ),
            (&[("x", Some((14.0, 1150.0)))], Some((50.0, 50.0, 1.0))),
        ]) {
            let scrapes: Vec<Scrape> = scrapes.iter().map(scrape).collect();
            let found = rates.observe(Duration::from_secs(second), &scrapes);
            let found = found.get("a");
            let found = found.map(|full| (full.rps, full.executions, full.seconds));
            assert_eq!(found, expected, "{second} s");
        }
    }
}
