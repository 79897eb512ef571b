//! Derives the arrival rate from each proxy's counters. Pure: the time comes with the scrape.
//!
//! A counter is differenced against the proxy's last answer. A counter that fell belongs to a restarted proxy and
//! counts from 0. A proxy that does not answer keeps its last rate; after [`PROXY_DEPARTED_AFTER`] it counts as departed,
//! unless no other proxy answers either. A proxy that is no longer scraped has ended: its load moves to others and is
//! counted there; so has one without Weir. A proxy that appears with a non-zero count has no rate before its second
//! answer; the others count.

use std::time::Duration;

use weir_api::Rps;

use super::proxies::{PROXY_DEPARTED_AFTER, Proxies};
use super::{Scrape, ScrapeError};

/// Arrival rate from one scrape of all proxies.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Observation {
    /// Rate of requests over all proxies; `None` if no proxy answered or none has answered twice.
    pub measured: Option<Rps>,
    /// Whether a request was ever counted.
    pub seen: bool,
    /// Proxies that answered.
    pub answered: usize,
    /// Proxies that were scraped and did not answer with statistics of Weir.
    pub lost: usize,
    /// Proxies that answered and have no Weir.
    pub without_weir: usize,
}

/// Time over which a rate is the mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// Since the last sample.
    Sample,
    /// Since the last cycle.
    Cycle,
}

/// Last counters of each proxy.
#[derive(Debug, Clone, Default)]
pub struct Arrivals {
    proxies: Proxies<Proxy>,
    seen: bool,
}

/// Rates of a proxy, over each span.
#[derive(Debug, Clone, Copy, Default)]
struct Proxy {
    sample: Option<Rate>,
    cycle: Option<Rate>,
}

#[derive(Debug, Clone, Copy)]
struct Rate {
    last: Reading,
    rate: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Duration,
    total: f64,
}

impl Arrivals {
    /// Creates an estimator that knows no proxy yet.
    pub fn new() -> Arrivals {
        Arrivals::default()
    }

    /// Adds one scrape of all proxies, which ends a span. A cycle's scrape may be that of a sample, too.
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape], span: Span) -> Observation {
        let (mut answered, mut seen) = (0, self.seen);
        self.proxies.observe(at, scrapes, |proxy, at, counts| {
            let total = counts.arrivals;
            answered += 1;
            seen |= total > 0.0;
            let mut proxy = proxy.copied().unwrap_or_default();
            let rate = match span {
                Span::Sample => &mut proxy.sample,
                Span::Cycle => &mut proxy.cycle,
            };
            *rate = Some(Rate::read(*rate, Reading { at, total }));
            proxy
        });
        self.seen = seen;
        let rates = self.proxies.of(scrapes).filter_map(|proxy| match span {
            Span::Sample => proxy.sample,
            Span::Cycle => proxy.cycle,
        });
        let rates: Vec<f64> = rates.filter_map(|rate| rate.known_at(at)).collect();
        let known = answered > 0 && !rates.is_empty();
        let without_weir = |scrape: &&Scrape| scrape.counts == Err(ScrapeError::WithoutWeir);
        let without_weir = scrapes.iter().filter(without_weir).count();
        Observation {
            measured: known.then(|| Rps(rates.iter().sum())),
            seen: self.seen,
            answered,
            lost: scrapes.len() - answered - without_weir,
            without_weir,
        }
    }
}

impl Rate {
    fn read(known: Option<Rate>, new: Reading) -> Rate {
        let Some(known) = known else {
            // A filter that has seen no request does not export the count: none arrived so far. A count that began before
            // ours says nothing about the rate yet.
            let rate = (new.total == 0.0).then_some(0.0);
            return Rate { last: new, rate };
        };
        let last = known.last;
        let arrived = if new.total < last.total {
            new.total
        } else {
            new.total - last.total
        };
        let seconds = new.at.saturating_sub(last.at).as_secs_f64();
        if seconds <= 0.0 {
            return known;
        }
        let rate = Some(arrived / seconds);
        Rate { last: new, rate }
    }

    fn known_at(&self, at: Duration) -> Option<f64> {
        self.rate
            .filter(|_| at.saturating_sub(self.last.at) <= PROXY_DEPARTED_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, ScrapeError};
    use super::*;

    const LOST: f64 = f64::NAN;
    /// An answer without Weir.
    const WITHOUT_WEIR: f64 = f64::INFINITY;
    /// Not among the scraped proxies.
    const AWAY: f64 = f64::NEG_INFINITY;

    fn scrape(from: &str, at: Duration, total: f64) -> Scrape {
        Scrape {
            from: from.into(),
            at,
            counts: match total {
                WITHOUT_WEIR => Err(ScrapeError::WithoutWeir),
                _ if total.is_nan() => Err(ScrapeError::Status(503)),
                total => Ok(Counts::of_arrivals(total)),
            },
        }
    }

    /// Checks rows of time in seconds, each proxy's counter ([`LOST`] for a failed scrape, [`AWAY`] for none) and
    /// expected rate, with the scrapes in any order.
    fn check_at(rows: &[(u64, &[f64], Option<f64>)]) {
        for turned in 0..rows[0].1.len() {
            let mut arrivals = Arrivals::new();
            for (second, totals, measured) in rows {
                let at = Duration::from_secs(*second);
                let of = |(index, total): (usize, &f64)| scrape(&index.to_string(), at, *total);
                let present = totals
                    .iter()
                    .enumerate()
                    .filter(|(_, total)| **total != AWAY);
                let mut scrapes: Vec<_> = present.map(of).collect();
                let by = turned.min(scrapes.len());
                scrapes.rotate_left(by);
                let seen = arrivals.observe(at, &scrapes, Span::Sample);
                assert_eq!(seen.measured, measured.map(Rps), "second {second}");
                let all = seen.answered + seen.lost + seen.without_weir;
                assert_eq!(all, scrapes.len());
            }
        }
    }

    /// Checks one row per second.
    fn check(rows: &[(&[f64], Option<f64>)]) {
        let rows = (0..).zip(rows);
        let rows: Vec<_> = rows
            .map(|(second, (totals, measured))| (second, *totals, *measured))
            .collect();
        check_at(&rows);
    }

    #[test]
    fn rate_is_difference_over_time() {
        check(&[
            (&[100.0], None),
            (&[140.0], Some(40.0)),
            (&[140.0], Some(0.0)),
            (&[150.0], Some(10.0)),
        ]);
    }

    #[test]
    fn each_span_has_its_own_rate() {
        let mut arrivals = Arrivals::new();
        let mut rate = |second, total, span| {
            let at = Duration::from_secs(second);
            arrivals
                .observe(at, &[scrape("a", at, total)], span)
                .measured
        };
        assert_eq!(rate(0, 0.0, Span::Sample), Some(Rps(0.0)));
        assert_eq!(rate(0, 0.0, Span::Cycle), Some(Rps(0.0)));
        assert_eq!(rate(1, 10.0, Span::Sample), Some(Rps(10.0)));
        assert_eq!(rate(2, 40.0, Span::Sample), Some(Rps(30.0)));
        assert_eq!(rate(2, 40.0, Span::Cycle), Some(Rps(20.0)));
    }

    #[test]
    fn missing_series_means_no_arrivals() {
        check(&[(&[0.0], Some(0.0)), (&[25.0], Some(25.0))]);
    }

    #[test]
    fn fallen_counter_counts_from_zero() {
        check(&[
            (&[1000.0], None),
            (&[30.0], Some(30.0)),
            (&[50.0], Some(20.0)),
        ]);
    }

    #[test]
    fn lost_scrape_is_unknown_and_next_one_covers_its_time() {
        check(&[
            (&[0.0], Some(0.0)),
            (&[40.0], Some(40.0)),
            (&[LOST], None),
            (&[120.0], Some(40.0)),
        ]);
    }

    #[test]
    fn lost_proxy_keeps_its_rate_while_others_answer() {
        check(&[
            (&[0.0, 0.0], Some(0.0)),
            (&[40.0, 10.0], Some(50.0)),
            (&[100.0, LOST], Some(70.0)),
            (&[LOST, LOST], None),
            (&[160.0, 70.0], Some(50.0)),
        ]);
    }

    #[test]
    fn proxy_lost_for_a_minute_has_departed() {
        check_at(&[
            (0, &[0.0, 0.0], Some(0.0)),
            (1, &[40.0, 10.0], Some(50.0)),
            (61, &[2440.0, LOST], Some(50.0)),
            (62, &[2480.0, LOST], Some(40.0)),
            // Still scraped all the time, it continues from its last answer.
            (101, &[4040.0, 1010.0], Some(50.0)),
        ]);
    }

    #[test]
    fn new_proxy_with_count_is_unknown_until_second_answer() {
        check(&[
            (&[0.0, AWAY], Some(0.0)),
            (&[40.0, 7000.0], Some(40.0)),
            (&[80.0, 7010.0], Some(50.0)),
        ]);
        // While the others do not answer, their last rates hold.
        check(&[
            (&[0.0, AWAY], Some(0.0)),
            (&[40.0, AWAY], Some(40.0)),
            (&[LOST, 7000.0], Some(40.0)),
            (&[LOST, 7010.0], Some(50.0)),
        ]);
        // A new proxy with a count of 0: no request came to it.
        check(&[
            (&[0.0, AWAY], Some(0.0)),
            (&[40.0, 0.0], Some(40.0)),
            (&[80.0, 10.0], Some(50.0)),
        ]);
    }

    #[test]
    fn removed_proxy_no_longer_counts() {
        check_at(&[
            (0, &[0.0, 0.0], Some(0.0)),
            (1, &[40.0, 10.0], Some(50.0)),
            (2, &[90.0, AWAY], Some(50.0)),
            (62, &[3090.0, AWAY], Some(50.0)),
            // Back after a minute, it is new.
            (63, &[3130.0, 630.0], Some(40.0)),
            (64, &[3170.0, 640.0], Some(50.0)),
        ]);
        // A rolling replacement of the proxies: no request is counted twice.
        check(&[
            (&[0.0, 0.0, AWAY, AWAY], Some(0.0)),
            (&[20.0, 20.0, AWAY, AWAY], Some(40.0)),
            (&[40.0, AWAY, 0.0, AWAY], Some(20.0)),
            (&[60.0, AWAY, 20.0, AWAY], Some(40.0)),
            (&[AWAY, AWAY, 40.0, 0.0], Some(20.0)),
            (&[AWAY, AWAY, 60.0, 20.0], Some(40.0)),
        ]);
    }

    #[test]
    fn proxy_without_weir_does_not_count_and_is_new_with_it() {
        check(&[
            (&[0.0, 0.0], Some(0.0)),
            (&[40.0, 10.0], Some(50.0)),
            (&[80.0, WITHOUT_WEIR], Some(40.0)),
            (&[120.0, 7.0], Some(40.0)),
            (&[160.0, 17.0], Some(50.0)),
            (&[WITHOUT_WEIR, WITHOUT_WEIR], None),
            (&[LOST, WITHOUT_WEIR], None),
            (&[0.0, WITHOUT_WEIR], Some(0.0)),
            (&[5.0, WITHOUT_WEIR], Some(5.0)),
        ]);
    }

    #[test]
    fn proxy_returning_within_a_minute_continues_its_count() {
        check(&[
            (&[0.0, 0.0], Some(0.0)),
            (&[40.0, 10.0], Some(50.0)),
            (&[80.0, AWAY], Some(40.0)),
            (&[120.0, 50.0], Some(60.0)),
            (&[160.0, AWAY], Some(40.0)),
            // Restarted in between.
            (&[200.0, 8.0], Some(44.0)),
        ]);
    }

    #[test]
    fn rate_is_unknown_without_proxies() {
        check(&[
            (&[0.0, 0.0], Some(0.0)),
            (&[40.0, 10.0], Some(50.0)),
            (&[AWAY, AWAY], None),
            (&[120.0, 30.0], Some(50.0)),
        ]);
    }

    #[test]
    fn sum_is_bit_identical_in_any_order() {
        let (a, b, c) = (0.1, 0.2, 0.3);
        assert_ne!((a + b) + c, (b + c) + a);
        check(&[(&[0.0; 3], Some(0.0)), (&[a, b, c], Some((a + b) + c))]);
    }

    #[test]
    fn same_instant_twice_gives_no_new_rate() {
        check_at(&[(0, &[0.0], Some(0.0)), (0, &[5.0], Some(0.0))]);
    }
}
