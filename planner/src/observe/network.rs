//! How long requests take from their clients to the proxies: what the proxies' histograms have counted
//! in the last window → a percentile. Pure: the time comes with the look.
//!
//! Only requests whose client said when it sent are in it. Between two edges of a histogram's buckets the
//! percentile is taken on the line; above the last finite edge it is that edge. A histogram that fell
//! belongs to a proxy that was started anew: it counts from 0.

use std::collections::VecDeque;
use std::time::Duration;

use super::Scrape;
use super::proxies::Proxies;

/// The histogram's finite edges in the shipped `envoy/*.yaml`, in ms. What is left of an objective
/// decides, so the steps are small beside objectives, not beside the way: 50 ms up to a second. Envoy keeps
/// two digits of a value and counts all that it keeps as 140, 140 to 149 ms, as at most 140: the edge at
/// which its count is right is the greatest of them, 149.
pub const EDGES_MS: [u32; 40] = [
    1, 2, 3, 5, 10, 15, 20, 30, 40, 50, 75, 99, 119, 149, 199, 249, 299, 349, 399, 449, 499, 549,
    599, 649, 699, 749, 799, 849, 899, 949, 999, 1199, 1499, 1999, 2499, 2999, 3999, 4999, 6999,
    9999,
];

/// How far back requests are counted.
pub const WINDOW: Duration = Duration::from_secs(10);
/// Fewer requests in the window say nothing.
pub const REQUESTS_LEAST: f64 = 20.0;
/// Most looks remembered: a window of the shortest cycles.
const LOOKS_MAX: usize = 128;

/// Upper edges in ms and how many requests took at most that, both rising.
pub type Buckets = Vec<(f64, f64)>;

/// What was counted lately.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// As last seen.
    proxies: Proxies<Buckets>,
    /// By look, since the one before, over all proxies.
    looks: VecDeque<(Duration, Buckets)>,
}

impl Network {
    /// No proxy seen yet.
    pub fn new() -> Network {
        Network::default()
    }

    /// Takes in one look.
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape]) {
        let mut new = Buckets::new();
        self.proxies.observe(at, scrapes, |last, _, counts| {
            if let Some(last) = last {
                add(&mut new, &since(last, &counts.network));
            }
            counts.network.clone()
        });
        self.looks.push_back((at, new));
        let oldest = at.saturating_sub(WINDOW);
        while self.looks.front().is_some_and(|(at, _)| *at <= oldest)
            || self.looks.len() > LOOKS_MAX
        {
            self.looks.pop_front();
        }
    }

    /// Of the latest requests that took `most_ms` at most, what so many percent did not exceed, in ms;
    /// `None` where too few such are known.
    pub fn percentile(&self, percent: f64, most_ms: f64) -> Option<f64> {
        let mut all = Buckets::new();
        for (_, look) in &self.looks {
            add(&mut all, look);
        }
        let total = counted(&all, most_ms);
        if total < REQUESTS_LEAST {
            return None;
        }
        let wanted = total * percent / 100.0;
        let mut before = (0.0, 0.0);
        for (edge, count) in all {
            if count >= wanted {
                if !edge.is_finite() {
                    return Some(before.0);
                }
                let inside = if count > before.1 {
                    (wanted - before.1) / (count - before.1)
                } else {
                    1.0
                };
                return Some(before.0 + (edge - before.0) * inside);
            }
            before = (edge, count);
        }
        None
    }
}

/// How many took at most that; on the line between two edges, and none beyond the last finite one.
fn counted(buckets: &Buckets, most_ms: f64) -> f64 {
    let mut before = (0.0, 0.0);
    for (edge, count) in buckets {
        if *edge > most_ms {
            let inside = if edge.is_finite() {
                (most_ms - before.0) / (edge - before.0)
            } else {
                0.0
            };
            return before.1 + (count - before.1) * inside.clamp(0.0, 1.0);
        }
        before = (*edge, *count);
    }
    before.1
}

/// What `new` has counted beyond `old`.
fn since(old: &Buckets, new: &Buckets) -> Buckets {
    let total = |buckets: &Buckets| buckets.last().map_or(0.0, |(_, count)| *count);
    if total(new) < total(old) {
        return new.clone();
    }
    let counted = |edge: f64| {
        let found = old.iter().find(|(other, _)| *other == edge);
        found.map_or(0.0, |(_, count)| *count)
    };
    new.iter()
        .map(|(edge, count)| (*edge, (count - counted(*edge)).max(0.0)))
        .collect()
}

/// Adds counts of the same edges, which all proxies have: one program wrote them.
fn add(to: &mut Buckets, more: &Buckets) {
    if to.is_empty() {
        to.clone_from(more);
        return;
    }
    for ((_, count), (_, more)) in to.iter_mut().zip(more) {
        *count += more;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, ScrapeError};
    use super::*;

    /// Counts up to 100, 250, 500 ms and above.
    fn scrape(second: u64, counts: Option<[f64; 4]>) -> Scrape {
        of("a", second, counts)
    }

    fn of(from: &str, second: u64, counts: Option<[f64; 4]>) -> Scrape {
        let edges = [100.0, 250.0, 500.0, f64::INFINITY];
        let counts = counts.map(|counts| Counts {
            network: edges.into_iter().zip(counts).collect(),
            ..Counts::default()
        });
        Scrape {
            from: from.into(),
            at: Duration::from_secs(second),
            counts: counts.ok_or(ScrapeError::Status(503)),
        }
    }

    /// One row a second, one proxy: counts → median.
    fn check(rows: &[(Option<[f64; 4]>, Option<f64>)]) {
        let mut network = Network::new();
        for (second, (counts, median)) in rows.iter().enumerate() {
            let second = second as u64;
            network.observe(Duration::from_secs(second), &[scrape(second, *counts)]);
            assert_eq!(
                network.percentile(50.0, f64::INFINITY),
                *median,
                "second {second}"
            );
        }
    }

    #[test]
    fn it_is_what_came_since_the_last_look() {
        check(&[
            // Counted before us: nothing is known of when.
            (Some([900.0, 900.0, 900.0, 900.0]), None),
            (Some([900.0, 905.0, 905.0, 905.0]), None),
            (Some([900.0, 940.0, 940.0, 940.0]), Some(175.0)),
            // Lost looks change nothing; what came meanwhile is counted with the next.
            (None, Some(175.0)),
            (Some([940.0, 980.0, 980.0, 980.0]), Some(100.0)),
            // Started anew.
            (Some([0.0, 0.0, 80.0, 80.0]), Some(250.0)),
        ]);
    }

    #[test]
    fn beyond_the_last_edge_it_is_that_edge() {
        check(&[
            (Some([0.0; 4]), None),
            (Some([0.0, 0.0, 10.0, 40.0]), Some(500.0)),
        ]);
    }

    #[test]
    fn those_beyond_help_do_not_count() {
        let mut network = Network::new();
        for (second, counts) in [[0.0; 4], [20.0, 60.0, 80.0, 100.0]]
            .into_iter()
            .enumerate()
        {
            let second = second as u64;
            network.observe(Duration::from_secs(second), &[scrape(second, Some(counts))]);
        }
        // 60 took up to 250 ms, half of the next 20 up to 375.
        for (most_ms, greatest) in [
            (1000.0, Some(500.0)),
            (500.0, Some(500.0)),
            (375.0, Some(375.0)),
            (250.0, Some(250.0)),
            (100.0, Some(100.0)),
            (50.0, None),
            (-5.0, None),
        ] {
            assert_eq!(network.percentile(100.0, most_ms), greatest, "{most_ms}");
        }
    }

    #[test]
    fn the_window_ends_and_proxies_add_up() {
        let mut network = Network::new();
        let at = Duration::from_secs;
        network.observe(
            at(0),
            &[of("a", 0, Some([0.0; 4])), of("b", 0, Some([0.0; 4]))],
        );
        let second = [
            of("a", 1, Some([15.0; 4])),
            of("b", 1, Some([0.0, 15.0, 15.0, 15.0])),
        ];
        network.observe(at(1), &second);
        assert_eq!(network.percentile(50.0, f64::INFINITY), Some(100.0));
        assert_eq!(network.percentile(100.0, f64::INFINITY), Some(250.0));
        for second in 2..=11 {
            let lost = [of("a", second, None), of("b", second, None)];
            network.observe(at(second), &lost);
        }
        assert_eq!(
            network.percentile(50.0, f64::INFINITY),
            None,
            "what was counted at 1 s is 10 s old"
        );
        for _ in 0..1000 {
            network.observe(at(12), &[of("a", 12, None), of("b", 12, None)]);
        }
        assert!(network.looks.len() <= LOOKS_MAX);
    }

    #[test]
    fn proxies_come_and_go_in_any_order() {
        let at = Duration::from_secs;
        let mut network = Network::new();
        let old = |second, more| of("old", second, Some([500.0 + more; 4]));
        let new = |second, more| {
            of(
                "new",
                second,
                Some([0.0, 900.0 + more, 900.0 + more, 900.0 + more]),
            )
        };
        network.observe(at(0), &[old(0, 0.0)]);
        network.observe(at(1), &[new(1, 0.0), old(1, 10.0)]);
        let all = |network: &Network| network.percentile(100.0, f64::INFINITY);
        assert_eq!(
            all(&network),
            None,
            "what a new one has counted before is not of now"
        );
        network.observe(at(2), &[old(2, 20.0), new(2, 10.0)]);
        assert_eq!(all(&network), Some(250.0), "20 and 10");
        // Away and back in time, the old one goes on; after that it is new.
        for second in 3..=13 {
            network.observe(at(second), &[new(second, 10.0)]);
        }
        assert_eq!(all(&network), None);
        network.observe(at(14), &[new(14, 10.0), old(14, 60.0)]);
        assert_eq!(all(&network), Some(100.0));
        for second in 15..=75 {
            network.observe(at(second), &[new(second, 10.0)]);
        }
        network.observe(at(76), &[new(76, 10.0), old(76, 160.0)]);
        assert_eq!(all(&network), None);
    }
}
