//! Derives each variant's share of the requests from the proxies' counters, beside its quota. Pure.
//!
//! A request is counted only by the proxy that chose its variant (`weir_requests_total`): a router or a combined proxy;
//! a gate chooses nothing. So the sum over all proxies counts each request once. Quotas change from cycle to cycle:
//! each cycle's requests are compared with the quotas they came under, and the latest [`REQUESTS`] of them give the
//! figures.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_api::Share;

use super::Scrape;
use super::proxies::Proxies;

/// Number of latest requests that count; the filter uses the same number for its own deviation.
const REQUESTS: f64 = 1000.0;
/// Maximum number of cycles that count.
const CYCLES_MAX: usize = 120;
/// Minimum number of requests: smooth routing keeps within one request of the quotas, but each worker of each proxy
/// has its own count.
const REQUESTS_MIN: f64 = 100.0;
/// Minimum number of cycles: fewer may just be the time in which a new plan spreads.
const CYCLES_MIN: usize = 5;
/// Shortfall to report, as a share of all requests. The filter itself keeps within 0.02.
const SHORT_MIN: f64 = 0.05;

/// Counters of one variant at one proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Route {
    /// Requests routed to the variant.
    pub routed: f64,
    /// Requests due to the variant by its quota that went elsewhere because they could not wait.
    pub downgraded: f64,
}

/// Share of the latest requests that one variant got.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct RoutedShare {
    /// Share that it got.
    pub share: Share,
    /// Quota in the plans in effect at the time.
    pub quota: Share,
    /// Share that was due to it by quota and could not wait for it.
    pub downgraded: Share,
}

/// Last counters of each proxy, and the latest cycles.
#[derive(Debug, Clone)]
pub struct Routes {
    variants: Vec<String>,
    /// In the variants' order.
    proxies: Proxies<Vec<Route>>,
    cycles: VecDeque<Vec<CycleCounts>>,
}

/// Requests of one variant in one cycle.
#[derive(Debug, Clone, Copy, Default)]
struct CycleCounts {
    routed: f64,
    due: f64,
    downgraded: f64,
}

impl Routes {
    /// Creates a record of these variants that knows no proxy yet.
    pub fn new(variants: impl Iterator<Item = String>) -> Routes {
        Routes {
            variants: variants.collect(),
            proxies: Proxies::default(),
            cycles: VecDeque::new(),
        }
    }

    /// Adds one scrape of all proxies, for requests that came under `quotas` (in the variants' order; empty if no
    /// plan was published).
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape], quotas: &[Share]) {
        let mut cycle = vec![CycleCounts::default(); self.variants.len()];
        self.proxies.observe(at, scrapes, |last, _, counts| {
            let now = in_order(&self.variants, &counts.routes);
            let both = now.iter().zip(last.into_iter().flatten());
            for (cycle, (now, last)) in cycle.iter_mut().zip(both) {
                cycle.routed += grown(now.routed, last.routed);
                cycle.downgraded += grown(now.downgraded, last.downgraded);
            }
            now
        });
        let all: f64 = cycle.iter().map(|cycle| cycle.routed).sum();
        if quotas.len() != cycle.len() || all <= 0.0 {
            return;
        }
        for (cycle, quota) in cycle.iter_mut().zip(quotas) {
            cycle.due = quota.0 * all;
        }
        self.cycles.push_back(cycle);
        while self.cycles.len() > CYCLES_MAX || self.is_enough_without_the_first() {
            self.cycles.pop_front();
        }
    }

    /// Returns each variant's share, in the variants' order; `None` until enough is known.
    pub fn routed(&self) -> Option<Vec<RoutedShare>> {
        let all = requests(self.cycles.iter());
        if self.cycles.len() < CYCLES_MIN || all < REQUESTS_MIN {
            return None;
        }
        let of = |variant: usize| {
            let cycles = || {
                self.cycles
                    .iter()
                    .filter_map(move |cycle| cycle.get(variant))
            };
            let share = |sum: f64| Share(sum / all);
            RoutedShare {
                share: share(cycles().map(|cycle| cycle.routed).sum()),
                quota: share(cycles().map(|cycle| cycle.due).sum()),
                downgraded: share(cycles().map(|cycle| cycle.downgraded).sum()),
            }
        };
        Some((0..self.variants.len()).map(of).collect())
    }

    fn is_enough_without_the_first(&self) -> bool {
        self.cycles.len() > CYCLES_MIN && requests(self.cycles.iter().skip(1)) >= REQUESTS
    }
}

impl RoutedShare {
    /// Returns a sentence about the shortfall, if there is one, and whether the requests lacked time.
    pub fn shortfall(&self, name: &str) -> Option<String> {
        let short = self.quota.0 - self.share.0;
        if short < SHORT_MIN {
            return None;
        }
        let reason = match self.downgraded.0 >= short / 2.0 {
            true => ": requests could not wait for it",
            false => "",
        };
        let (routed, of) = (self.share.0 * 100.0, self.quota.0 * 100.0);
        Some(format!("{name} got {routed:.0} % of {of:.0} %{reason}"))
    }
}

fn in_order(variants: &[String], routes: &BTreeMap<String, Route>) -> Vec<Route> {
    let of = |name: &String| routes.get(name).copied().unwrap_or_default();
    variants.iter().map(of).collect()
}

/// Returns the growth of a counter; a counter that fell belongs to a restarted proxy.
fn grown(now: f64, last: f64) -> f64 {
    if now < last { now } else { now - last }
}

fn requests<'a>(cycles: impl Iterator<Item = &'a Vec<CycleCounts>>) -> f64 {
    cycles.flatten().map(|cycle| cycle.routed).sum()
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, ScrapeError};
    use super::*;

    const QUOTAS: [Share; 2] = [Share(0.6), Share(0.4)];

    fn routes() -> Routes {
        Routes::new(["a", "b"].map(String::from).into_iter())
    }

    /// Counters of a proxy: routed to a and b, downgraded from b.
    fn scrape(a: f64, b: f64, downgraded: f64) -> Scrape {
        let route = |routed, downgraded| Route { routed, downgraded };
        let routes = [("a", route(a, 0.0)), ("b", route(b, downgraded))];
        Scrape {
            from: "one".into(),
            at: Duration::ZERO,
            counts: Ok(Counts {
                arrivals: a + b,
                routes: routes.map(|(name, route)| (name.to_owned(), route)).into(),
                ..Counts::default()
            }),
        }
    }

    /// Adds scrapes at time 0.
    fn observe(routes: &mut Routes, scrapes: &[Scrape], quotas: &[Share]) {
        routes.observe(Duration::ZERO, scrapes, quotas);
    }

    fn percents(routed: Option<Vec<RoutedShare>>) -> Option<Vec<[f64; 3]>> {
        let round = |share: Share| (share.0 * 1000.0).round() / 10.0;
        let of = |routed: RoutedShare| [routed.share, routed.quota, routed.downgraded].map(round);
        routed.map(|routed| routed.into_iter().map(of).collect())
    }

    #[test]
    fn share_is_compared_with_quotas_of_its_time() {
        let mut routes = routes();
        // Counted before ours, under unknown quotas.
        observe(&mut routes, &[scrape(9000.0, 10.0, 10.0)], &QUOTAS);
        for cycle in 1..=6_u32 {
            assert_eq!(routes.routed().is_some(), cycle > 5, "cycle {cycle}");
            let sum = f64::from(cycle);
            let now = scrape(9000.0 + 69.0 * sum, 10.0 + 31.0 * sum, 10.0 + 9.0 * sum);
            let quotas = [Share(0.5), Share(0.5)];
            let quotas = if cycle <= 3 { QUOTAS } else { quotas };
            observe(&mut routes, &[now], &quotas);
        }
        let expected = vec![[69.0, 55.0, 0.0], [31.0, 45.0, 9.0]];
        assert_eq!(percents(routes.routed()), Some(expected));
    }

    #[test]
    fn loss_restart_silence_and_missing_plan_are_no_shortfall() {
        let mut routes = routes();
        let of_two = |scrape: Scrape| Scrape {
            from: "two".into(),
            ..scrape
        };
        let lost = || Scrape {
            counts: Err(ScrapeError::Status(503)),
            ..of_two(scrape(0.0, 0.0, 0.0))
        };
        let (mut first, mut second) = ([0.0; 2], [0.0; 2]);
        for cycle in 0..40 {
            first = [first[0] + 12.0, first[1] + 8.0];
            second = [second[0] + 6.0, second[1] + 4.0];
            if cycle == 20 {
                second = [3.0, 2.0];
            }
            let of = |counts: [f64; 2]| scrape(counts[0], counts[1], 0.0);
            let two = if cycle % 3 == 0 {
                lost()
            } else {
                of_two(of(second))
            };
            observe(&mut routes, &[of(first), two], &QUOTAS);
            // Nothing new since.
            observe(&mut routes, &[lost(), of(first)], &QUOTAS);
        }
        let expected = vec![[60.0, 60.0, 0.0], [40.0, 40.0, 0.0]];
        assert_eq!(percents(routes.routed()), Some(expected));
        let before = routes.routed();
        observe(&mut routes, &[scrape(99_999.0, 0.0, 0.0), lost()], &[]);
        assert_eq!(routes.routed(), before, "no quota, no deviation from it");
    }

    #[test]
    fn proxies_may_come_and_go_in_any_order() {
        let mut routes = routes();
        let of = |from: &str, second: u64, a, b| Scrape {
            from: from.into(),
            at: Duration::from_secs(second),
            ..scrape(a, b, 0.0)
        };
        let mut sample = |second: u64, scrapes: &[Scrape]| {
            routes.observe(Duration::from_secs(second), scrapes, &QUOTAS);
            let routed = percents(routes.routed());
            routed.map(|routed| [routed[0][0], routed[1][0]])
        };
        for second in 0..=6_u32 {
            let (at, sum) = (second.into(), f64::from(second));
            let old = of("old", at, 600.0 + 60.0 * sum, 40.0 * sum);
            // It appears at 3 s with 9,300 requests that did not come under these quotas.
            let new = of("new", at, 0.0, 9000.0 + 100.0 * sum);
            let routed = match second {
                0..3 => sample(at, &[old]),
                3 => sample(at, &[new, old]),
                _ => sample(at, &[old, new]),
            };
            match second {
                0..5 => assert_eq!(routed, None),
                5 => assert_eq!(routed, Some([42.9, 57.1]), "300 of 700"),
                _ => assert_eq!(routed, Some([40.0, 60.0]), "360 of 900"),
            }
        }
        let new = |second| of("new", second, 0.0, 9600.0);
        assert_eq!(sample(7, &[new(7)]), Some([40.0, 60.0]));
        // Back within a minute it continues its count; later it is new.
        let routed = sample(60, &[new(60), of("old", 60, 960.0 + 100.0, 240.0)]);
        assert_eq!(routed, Some([46.0, 54.0]), "460 of 1000");
        sample(121, &[new(121)]);
        let routed = sample(122, &[new(122), of("old", 122, 9000.0, 240.0)]);
        assert_eq!(routed, Some([46.0, 54.0]));
    }

    #[test]
    fn window_is_bounded_in_requests_and_cycles() {
        for (each, cycles) in [(1.0, CYCLES_MAX), (100.0, 10), (5000.0, CYCLES_MIN)] {
            let mut routes = routes();
            for cycle in 0..500 {
                let now = scrape(each * f64::from(cycle), 0.0, 0.0);
                observe(&mut routes, &[now], &QUOTAS);
            }
            assert_eq!(routes.cycles.len(), cycles, "{each} a cycle");
        }
    }

    #[test]
    fn shortfall_is_reported_with_its_reason() {
        let routed = |share, quota, downgraded| RoutedShare {
            share: Share(share),
            quota: Share(quota),
            downgraded: Share(downgraded),
        };
        for (routed, expected) in [
            (
                routed(0.31, 0.40, 0.09),
                Some("b got 31 % of 40 %: requests could not wait for it"),
            ),
            (routed(0.31, 0.40, 0.02), Some("b got 31 % of 40 %")),
            (routed(0.38, 0.40, 0.02), None),
            (routed(0.60, 0.40, 0.0), None),
        ] {
            assert_eq!(routed.shortfall("b").as_deref(), expected, "{routed:?}");
        }
    }
}
