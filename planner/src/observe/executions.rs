//! Executions of each variant between two cycles, over all proxies, by their histograms of service times and of
//! requests sent together. Pure: the time comes with the scrape.
//!
//! An execution that was cut off is censored: it would have taken longer, and nothing says by how much. It counts with
//! the time that was seen of it, so that the mean is a lower bound, and is never taken for longer than that.
//!
//! The owner of a variant's slots counts its executions, so the sum over all proxies counts each once. A new proxy
//! begins with its first answer. A count that fell belongs to a restarted proxy and counts from 0.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Scrape;
use super::proxies::Proxies;

/// Executions since the start of a proxy, or between two scrapes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Executions {
    /// Requests that were answered.
    pub answered: f64,
    /// Sum of their service times, in ms.
    pub total_ms: f64,
    /// Requests whose executions were cut off.
    pub cut_off: f64,
    /// Sum of their service times until then, in ms.
    pub cut_off_ms: f64,
    /// Batches that were sent.
    pub batches: f64,
    /// Requests in these batches.
    pub batched: f64,
}

impl Executions {
    /// Requests that were answered or cut off.
    pub fn ended(&self) -> f64 {
        self.answered + self.cut_off
    }

    /// Mean service time in ms; `None` without executions. With executions that were cut off it is a lower bound: the
    /// mean of the times seen, or of the answered ones, which are the shorter ones. The larger of two lower bounds is
    /// one, too, and requests that were sent with little time left do not shorten it.
    pub fn mean_ms(&self) -> Option<f64> {
        let mean = |count: f64, total_ms: f64| (count > 0.0).then(|| total_ms / count);
        let seen = mean(self.ended(), self.total_ms + self.cut_off_ms)?;
        Some(mean(self.answered, self.total_ms).map_or(seen, |answered| answered.max(seen)))
    }

    /// Mean number of requests sent together; `None` if it is not known.
    pub fn together(&self) -> Option<f64> {
        (self.batches > 0.0).then(|| self.batched / self.batches)
    }

    /// Adds others.
    pub fn add(&mut self, more: Executions) {
        self.answered += more.answered;
        self.total_ms += more.total_ms;
        self.cut_off += more.cut_off;
        self.cut_off_ms += more.cut_off_ms;
        self.batches += more.batches;
        self.batched += more.batched;
    }

    /// Returns the increase since `before`.
    pub(super) fn since(self, before: Executions) -> Executions {
        let (now, then) = (self.counters(), before.counters());
        if now.iter().zip(&then).any(|(now, then)| now < then) {
            return self;
        }
        Executions {
            answered: self.answered - before.answered,
            total_ms: self.total_ms - before.total_ms,
            cut_off: self.cut_off - before.cut_off,
            cut_off_ms: self.cut_off_ms - before.cut_off_ms,
            batches: self.batches - before.batches,
            batched: self.batched - before.batched,
        }
    }

    fn counters(&self) -> [f64; 6] {
        [
            self.answered,
            self.total_ms,
            self.cut_off,
            self.cut_off_ms,
            self.batches,
            self.batched,
        ]
    }
}

/// Executions by variant.
pub type ByVariant = BTreeMap<String, Executions>;

/// Last counts of each proxy.
#[derive(Debug, Clone, Default)]
pub struct ExecutionCounts(Proxies<ByVariant>);

impl ExecutionCounts {
    /// Returns the executions since the last call.
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape]) -> ByVariant {
        let mut new = ByVariant::new();
        self.0.observe(at, scrapes, |last, _, counts| {
            for (variant, count) in &counts.executions {
                let Some(last) = last else {
                    continue;
                };
                let before = last.get(variant).copied().unwrap_or_default();
                let increase = count.since(before);
                new.entry(variant.clone()).or_default().add(increase);
            }
            counts.executions.clone()
        });
        new
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Counts, ScrapeError};
    use super::*;

    /// That many answers of 20 ms each, in batches of two.
    fn executions(answered: u32) -> Executions {
        let answered = f64::from(answered);
        Executions {
            answered,
            total_ms: 20.0 * answered,
            batches: answered / 2.0,
            batched: answered,
            ..Executions::default()
        }
    }

    fn scrape(from: &str, answered: Option<u32>) -> Scrape {
        let counts = |answered| Counts {
            executions: [("a".to_owned(), executions(answered))].into(),
            ..Counts::default()
        };
        Scrape {
            from: from.into(),
            at: Duration::ZERO,
            counts: answered.map(counts).ok_or(ScrapeError::Status(503)),
        }
    }

    #[test]
    fn increases_of_all_proxies_are_summed() {
        let mut counts = ExecutionCounts::default();
        for (second, (scrapes, expected)) in (0..).zip([
            // Counted before, at unknown times.
            (vec![("x", Some(900))], None),
            (vec![("x", Some(910))], Some(10)),
            (vec![("x", Some(915)), ("y", Some(500))], Some(5)),
            (vec![("x", None), ("y", Some(520))], Some(20)),
            // The lost scrape's executions come with the next one; y has restarted.
            (vec![("x", Some(945)), ("y", Some(7))], Some(37)),
        ]) {
            let scrapes: Vec<Scrape> = scrapes
                .into_iter()
                .map(|(from, answered)| scrape(from, answered))
                .collect();
            let found = counts.observe(Duration::from_secs(second), &scrapes);
            let expected = expected.map(executions);
            assert_eq!(found.get("a").copied(), expected, "{second} s");
        }
        assert_eq!(executions(6).mean_ms(), Some(20.0));
        assert_eq!(executions(6).together(), Some(2.0));
        let none = Executions::default();
        assert_eq!((none.mean_ms(), none.together()), (None, None));
    }

    #[test]
    fn cut_off_executions_count_with_the_time_seen() {
        for (answered, cut_off, cut_off_ms, mean_ms) in [
            // 20 ms each, and 100 ms until they were cut off.
            (4.0, 0.0, 0.0, Some(20.0)),
            (99.0, 1.0, 100.0, Some(20.8)),
            (3.0, 1.0, 100.0, Some(40.0)),
            (1.0, 3.0, 100.0, Some(80.0)),
            (0.0, 4.0, 100.0, Some(100.0)),
            (0.0, 0.0, 0.0, None),
            // With little time left they say nothing.
            (3.0, 9.0, 5.0, Some(20.0)),
        ] {
            let executions = Executions {
                answered,
                total_ms: 20.0 * answered,
                cut_off,
                cut_off_ms: cut_off_ms * cut_off,
                ..Executions::default()
            };
            assert_eq!(executions.mean_ms(), mean_ms, "{answered} {cut_off}");
        }
    }

    proptest! {
        /// The mean is no longer than that of the whole times, wherever executions were cut off.
        #[test]
        fn mean_is_a_lower_bound(
            times in prop::collection::vec(1.0_f64..500.0, 1..40),
            limit_ms in 1.0_f64..600.0,
        ) {
            let (answered, cut_off): (Vec<f64>, Vec<f64>) =
                times.iter().partition(|ms| **ms < limit_ms);
            let total_ms = answered.iter().sum::<f64>();
            let executions = Executions {
                answered: answered.len() as f64,
                total_ms,
                cut_off: cut_off.len() as f64,
                cut_off_ms: limit_ms * cut_off.len() as f64,
                ..Executions::default()
            };
            let mean = executions.mean_ms().unwrap();
            let whole = times.iter().sum::<f64>() / times.len() as f64;
            prop_assert!(mean <= whole + 1e-9, "{mean} of {whole}");
            let seen = (total_ms + executions.cut_off_ms) / executions.ended();
            prop_assert!(mean >= seen - 1e-9, "{mean}, {seen} seen");
        }
    }

    #[test]
    fn variant_of_a_known_proxy_counts_from_zero() {
        let mut counts = ExecutionCounts::default();
        let idle = Scrape {
            counts: Ok(Counts::default()),
            ..scrape("x", Some(0))
        };
        assert!(counts.observe(Duration::ZERO, &[idle]).is_empty());
        let found = counts.observe(Duration::from_secs(1), &[scrape("x", Some(4))]);
        assert_eq!(found, [("a".to_owned(), executions(4))].into());
    }
}
