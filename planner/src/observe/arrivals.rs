//! Counters of each proxy → the rate at which requests arrive. Pure: the time comes with the scrape.
//!
//! A counter is differenced against the last time that proxy answered. One that fell belongs to a
//! proxy that was started anew: it counts from 0. A proxy that does not answer keeps its last rate; after
//! [`PROXY_GONE_AFTER`] it is taken for gone, unless no other answers either. One that is not looked at any
//! more has ended: what came to it comes to others, and is counted there. Of one that appears with a count
//! nothing is known before its second answer; the others count.

use std::time::Duration;

use weir_api::Rps;

use super::Scrape;
use super::proxies::{PROXY_GONE_AFTER, Proxies};

/// What one look at all proxies says.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Observation {
    /// Requests arriving at all proxies together; `None` if no proxy answered or none has answered twice.
    pub measured: Option<Rps>,
    /// Whether a request was ever counted.
    pub seen: bool,
    /// Proxies that answered.
    pub answered: usize,
    /// Proxies that were looked at and did not.
    pub lost: usize,
}

/// The counters as they were last seen.
#[derive(Debug, Clone, Default)]
pub struct Arrivals {
    proxies: Proxies<Proxy>,
    seen: bool,
}

#[derive(Debug, Clone, Copy)]
struct Proxy {
    last: Reading,
    rate: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Duration,
    total: f64,
}

impl Arrivals {
    /// No proxy seen yet.
    pub fn new() -> Arrivals {
        Arrivals::default()
    }

    /// Takes in one look.
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape]) -> Observation {
        let (mut answered, mut seen) = (0, self.seen);
        self.proxies.observe(at, scrapes, |proxy, at, counts| {
            let total = counts.arrivals;
            answered += 1;
            seen |= total > 0.0;
            Proxy::read(proxy, Reading { at, total })
        });
        self.seen = seen;
        let proxies = self.proxies.of(scrapes);
        let rates: Vec<f64> = proxies.filter_map(|proxy| proxy.rate_at(at)).collect();
        let known = answered > 0 && !rates.is_empty();
        Observation {
            measured: known.then(|| Rps(rates.iter().sum())),
            seen: self.seen,
            answered,
            lost: scrapes.len() - answered,
        }
    }
}

impl Proxy {
    fn read(known: Option<&Proxy>, new: Reading) -> Proxy {
        let Some(known) = known else {
            // A filter that has seen no request exports nothing: none arrived so far. A count that
            // began before us says nothing about the rate yet.
            let rate = (new.total == 0.0).then_some(0.0);
            return Proxy { last: new, rate };
        };
        let last = known.last;
        let arrived = if new.total < last.total {
            new.total
        } else {
            new.total - last.total
        };
        let seconds = new.at.saturating_sub(last.at).as_secs_f64();
        if seconds <= 0.0 {
            return *known;
        }
        let rate = Some(arrived / seconds);
        Proxy { last: new, rate }
    }

    fn rate_at(&self, at: Duration) -> Option<f64> {
        self.rate
            .filter(|_| at.saturating_sub(self.last.at) <= PROXY_GONE_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, ScrapeError};
    use super::*;

    const LOST: f64 = f64::NAN;
    /// Not in the look.
    const AWAY: f64 = f64::NEG_INFINITY;

    fn scrape(from: &str, at: Duration, total: f64) -> Scrape {
        Scrape {
            from: from.into(),
            at,
            counts: if total.is_nan() {
                Err(ScrapeError::Status(503))
            } else {
                Ok(Counts::of_arrivals(total))
            },
        }
    }

    /// At seconds each proxy's counter ([`LOST`] for a scrape that failed, [`AWAY`] for none) → measured
    /// rate; whatever order the scrapes have.
    fn check_at(rows: &[(u64, &[f64], Option<f64>)]) {
        for turned in 0..rows[0].1.len() {
            let mut arrivals = Arrivals::new();
            for (second, totals, measured) in rows {
                let at = Duration::from_secs(*second);
                let of = |(index, total): (usize, &f64)| scrape(&index.to_string(), at, *total);
                let there = totals
                    .iter()
                    .enumerate()
                    .filter(|(_, total)| **total != AWAY);
                let mut scrapes: Vec<_> = there.map(of).collect();
                let by = turned.min(scrapes.len());
                scrapes.rotate_left(by);
                let seen = arrivals.observe(at, &scrapes);
                assert_eq!(seen.measured, measured.map(Rps), "second {second}");
                assert_eq!(seen.answered + seen.lost, scrapes.len());
            }
        }
    }

    /// One row a second.
    fn check(rows: &[(&[f64], Option<f64>)]) {
        let rows = (0..).zip(rows);
        let rows: Vec<_> = rows
            .map(|(second, (totals, measured))| (second, *totals, *measured))
            .collect();
        check_at(&rows);
    }

    #[test]
    fn a_rate_is_a_difference_over_time() {
        check(&[
            (&[100.0], None),
            (&[140.0], Some(40.0)),
            (&[140.0], Some(0.0)),
            (&[150.0], Some(10.0)),
        ]);
    }

    #[test]
    fn no_series_yet_is_no_arrival_yet() {
        check(&[(&[0.0], Some(0.0)), (&[25.0], Some(25.0))]);
    }

    #[test]
    fn a_counter_that_fell_counts_from_zero() {
        check(&[
            (&[1000.0], None),
            (&[30.0], Some(30.0)),
            (&[50.0], Some(20.0)),
        ]);
    }

    #[test]
    fn a_lost_scrape_is_unknown_and_its_time_is_made_up_for() {
        check(&[
            (&[0.0], Some(0.0)),
            (&[40.0], Some(40.0)),
            (&[LOST], None),
            (&[120.0], Some(40.0)),
        ]);
    }

    #[test]
    fn a_lost_proxy_keeps_its_rate_while_others_answer() {
        check(&[
            (&[0.0, 0.0], Some(0.0)),
            (&[40.0, 10.0], Some(50.0)),
            (&[100.0, LOST], Some(70.0)),
            (&[LOST, LOST], None),
            (&[160.0, 70.0], Some(50.0)),
        ]);
    }

    #[test]
    fn a_proxy_lost_for_long_is_gone() {
        check_at(&[
            (0, &[0.0, 0.0], Some(0.0)),
            (1, &[40.0, 10.0], Some(50.0)),
            (61, &[2440.0, LOST], Some(50.0)),
            (62, &[2480.0, LOST], Some(40.0)),
            // Looked at all the time, it goes on where it was.
            (101, &[4040.0, 1010.0], Some(50.0)),
        ]);
    }

    #[test]
    fn one_that_appears_with_a_count_is_unknown_until_it_answers_again() {
        check(&[
            (&[0.0, AWAY], Some(0.0)),
            (&[40.0, 7000.0], Some(40.0)),
            (&[80.0, 7010.0], Some(50.0)),
        ]);
        // While the others do not answer, what they had last holds.
        check(&[
            (&[0.0, AWAY], Some(0.0)),
            (&[40.0, AWAY], Some(40.0)),
            (&[LOST, 7000.0], Some(40.0)),
            (&[LOST, 7010.0], Some(50.0)),
        ]);
        // One that has counted nothing yet: nothing came to it.
        check(&[
            (&[0.0, AWAY], Some(0.0)),
            (&[40.0, 0.0], Some(40.0)),
            (&[80.0, 10.0], Some(50.0)),
        ]);
    }

    #[test]
    fn one_that_vanished_counts_no_more_as_others_count_what_came_to_it() {
        check_at(&[
            (0, &[0.0, 0.0], Some(0.0)),
            (1, &[40.0, 10.0], Some(50.0)),
            (2, &[90.0, AWAY], Some(50.0)),
            (62, &[3090.0, AWAY], Some(50.0)),
            // Back after a minute, it is new.
            (63, &[3130.0, 630.0], Some(40.0)),
            (64, &[3170.0, 640.0], Some(50.0)),
        ]);
        // A proxy after the other is replaced: never is anything counted twice.
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
    fn one_that_returns_in_time_goes_on_where_it_was() {
        check(&[
            (&[0.0, 0.0], Some(0.0)),
            (&[40.0, 10.0], Some(50.0)),
            (&[80.0, AWAY], Some(40.0)),
            (&[120.0, 50.0], Some(60.0)),
            (&[160.0, AWAY], Some(40.0)),
            // Started anew meanwhile.
            (&[200.0, 8.0], Some(44.0)),
        ]);
    }

    #[test]
    fn where_no_proxy_is_left_nothing_is_known() {
        check(&[
            (&[0.0, 0.0], Some(0.0)),
            (&[40.0, 10.0], Some(50.0)),
            (&[AWAY, AWAY], None),
            (&[120.0, 30.0], Some(50.0)),
        ]);
    }

    #[test]
    fn a_sum_has_the_same_last_bit_in_any_order() {
        let (a, b, c) = (0.1, 0.2, 0.3);
        assert_ne!((a + b) + c, (b + c) + a);
        check(&[(&[0.0; 3], Some(0.0)), (&[a, b, c], Some((a + b) + c))]);
    }

    #[test]
    fn the_same_instant_twice_is_no_rate() {
        check_at(&[(0, &[0.0], Some(0.0)), (0, &[5.0], Some(0.0))]);
    }
}
