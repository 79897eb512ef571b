//! Counters of each proxy → the rate at which requests arrive. Pure: the time comes with the scrape.
//!
//! A counter is differenced against the last time that proxy answered. One that fell belongs to a
//! proxy that was started anew: it counts from 0. A proxy that does not answer keeps its last rate;
//! after [`PROXY_GONE_AFTER`] it is taken for gone, unless no other answers either.

use std::time::Duration;

use weir_api::Rps;

use super::Scrape;

/// How long the last rate of a proxy that does not answer counts while others do. The traffic of a
/// proxy that was removed is counted at another one by then.
pub const PROXY_GONE_AFTER: Duration = Duration::from_secs(60);

/// What one look at all proxies says.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Observation {
    /// Requests arriving at all proxies together; `None` if no proxy answered or none has answered twice.
    pub measured: Option<Rps>,
    /// Whether a request was ever counted.
    pub seen: bool,
    /// Proxies that answered.
    pub answered: usize,
    /// Proxies that did not.
    pub lost: usize,
}

/// The counters as they were last seen.
#[derive(Debug, Clone)]
pub struct Arrivals {
    proxies: Vec<Proxy>,
    seen: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Proxy {
    last: Option<Reading>,
    rate: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Duration,
    total: f64,
}

impl Arrivals {
    /// For so many proxies, none seen yet.
    pub fn new(proxies: usize) -> Arrivals {
        Arrivals {
            proxies: vec![Proxy::default(); proxies],
            seen: false,
        }
    }

    /// Takes in one look; `scrapes` are in the proxies' order.
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape]) -> Observation {
        debug_assert_eq!(scrapes.len(), self.proxies.len());
        let mut answered = 0;
        for (proxy, scrape) in self.proxies.iter_mut().zip(scrapes) {
            if let Ok(counts) = &scrape.counts {
                let total = counts.arrivals;
                answered += 1;
                self.seen |= total > 0.0;
                proxy.read(Reading {
                    at: scrape.at,
                    total,
                });
            }
        }
        let rates: Vec<f64> = self
            .proxies
            .iter()
            .filter_map(|proxy| proxy.rate_at(at))
            .collect();
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
    fn read(&mut self, new: Reading) {
        match self.last {
            // A filter that has seen no request exports nothing: none arrived so far. A count that
            // began before us says nothing about the rate yet.
            None => self.rate = (new.total == 0.0).then_some(0.0),
            Some(last) => {
                let arrived = if new.total < last.total {
                    new.total
                } else {
                    new.total - last.total
                };
                let seconds = new.at.saturating_sub(last.at).as_secs_f64();
                if seconds <= 0.0 {
                    return;
                }
                self.rate = Some(arrived / seconds);
            }
        }
        self.last = Some(new);
    }

    fn rate_at(&self, at: Duration) -> Option<f64> {
        let last = self.last?;
        self.rate
            .filter(|_| at.saturating_sub(last.at) <= PROXY_GONE_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, ScrapeError};
    use super::*;

    const LOST: f64 = f64::NAN;

    /// One row a second: each proxy's counter ([`LOST`] for a scrape that failed) → measured rate.
    fn check(rows: &[(&[f64], Option<f64>)]) {
        let mut arrivals = Arrivals::new(rows[0].0.len());
        for (second, (totals, measured)) in rows.iter().enumerate() {
            let at = Duration::from_secs(second as u64);
            let scrape = |total: &f64| Scrape {
                at,
                counts: if total.is_nan() {
                    Err(ScrapeError::Status(503))
                } else {
                    Ok(Counts::of_arrivals(*total))
                },
            };
            let scrapes: Vec<_> = totals.iter().map(scrape).collect();
            let observation = arrivals.observe(at, &scrapes);
            assert_eq!(observation.measured, measured.map(Rps), "second {second}");
            assert_eq!(observation.answered + observation.lost, totals.len());
        }
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
        let mut arrivals = Arrivals::new(2);
        let scrape = |at, total: Option<f64>| Scrape {
            at,
            counts: total.map(Counts::of_arrivals).ok_or(ScrapeError::TooLarge),
        };
        let mut observe = |at: u64, totals: [Option<f64>; 2]| {
            let at = Duration::from_secs(at);
            arrivals
                .observe(at, &totals.map(|total| scrape(at, total)))
                .measured
        };
        observe(0, [Some(0.0), Some(0.0)]);
        assert_eq!(observe(1, [Some(40.0), Some(10.0)]), Some(Rps(50.0)));
        assert_eq!(observe(61, [Some(2440.0), None]), Some(Rps(50.0)));
        assert_eq!(observe(62, [Some(2480.0), None]), Some(Rps(40.0)));
    }

    #[test]
    fn the_same_instant_twice_is_no_rate() {
        check(&[(&[0.0], Some(0.0))]);
        let mut arrivals = Arrivals::new(1);
        let scrape = |total| {
            [Scrape {
                at: Duration::ZERO,
                counts: Ok(Counts::of_arrivals(total)),
            }]
        };
        arrivals.observe(Duration::ZERO, &scrape(0.0));
        assert_eq!(
            arrivals.observe(Duration::ZERO, &scrape(5.0)).measured,
            Some(Rps(0.0))
        );
    }
}
