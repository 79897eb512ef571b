//! Derives a low percentile of the requests' remaining time from the proxies' histograms over the last window. A
//! request is counted on arrival, and again each time its remaining time has halved while its body came. Pure: the
//! time comes with the scrape.
//!
//! Only requests whose client sent its send time are counted.

use std::collections::VecDeque;
use std::time::Duration;

use super::Scrape;
pub use super::buckets::Buckets;
use super::buckets::{add, counted, first_with, since, total};
use super::proxies::Proxies;

/// Finite edges of the histogram in the shipped `envoy/*.yaml`, in ms. The cores that a request needs are inversely
/// proportional to its remaining time, so the steps are smallest where least is left. Envoy keeps two digits of a
/// value and counts all values kept as 140, 140 to 149 ms, as at most 140. Its count is therefore correct at the
/// greatest of them, 149.
pub const EDGES_MS: [u32; 40] = [
    1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 75, 99, 119, 149, 199, 249, 299, 349,
    399, 449, 499, 599, 699, 799, 899, 999, 1199, 1499, 1999, 2499, 2999, 3999, 4999, 6999, 9999,
];

/// Time for which requests count.
pub const WINDOW: Duration = Duration::from_secs(10);
/// Minimum number of requests in the window.
pub const REQUESTS_MIN: f64 = 20.0;
/// Maximum number of scrapes remembered: one window of the shortest cycles.
const SCRAPES_MAX: usize = 128;

/// Histogram of the last window.
#[derive(Debug, Clone, Default)]
pub struct Slack {
    /// Last histogram of each proxy.
    proxies: Proxies<Buckets>,
    /// Increase over all proxies, by scrape.
    increases: VecDeque<(Duration, Buckets)>,
}

impl Slack {
    /// Creates a window that knows no proxy yet.
    pub fn new() -> Slack {
        Slack::default()
    }

    /// Adds one scrape of all proxies.
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape]) {
        let mut new = Buckets::new();
        self.proxies.observe(at, scrapes, |last, _, counts| {
            if let Some(last) = last {
                add(&mut new, &since(last, &counts.slack));
            }
            counts.slack.clone()
        });
        self.increases.push_back((at, new));
        let oldest = at.saturating_sub(WINDOW);
        while self.increases.front().is_some_and(|(at, _)| *at <= oldest)
            || self.increases.len() > SCRAPES_MAX
        {
            self.increases.pop_front();
        }
    }

    /// Returns the time in ms that at least `percent` percent of the latest requests had left, among those with at
    /// least `min_ms`. `None` if too few such requests are known.
    pub fn percentile(&self, percent: f64, min_ms: f64) -> Option<f64> {
        let mut all = Buckets::new();
        for (_, increase) in &self.increases {
            add(&mut all, increase);
        }
        let less = counted(&all, min_ms);
        let total = total(&all) - less;
        if total < REQUESTS_MIN {
            return None;
        }
        let desired = less + total * (1.0 - percent / 100.0);
        first_with(&all, desired).map(|ms| ms.max(min_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, ScrapeError};
    use super::*;

    /// Histogram of requests with up to 100, 250, 500 ms left, and all.
    fn scrape(second: u64, counts: Option<[f64; 4]>) -> Scrape {
        of("a", second, counts)
    }

    fn of(from: &str, second: u64, counts: Option<[f64; 4]>) -> Scrape {
        let edges = [100.0, 250.0, 500.0, f64::INFINITY];
        let counts = counts.map(|counts| Counts {
            slack: edges.into_iter().zip(counts).collect(),
            ..Counts::default()
        });
        Scrape {
            from: from.into(),
            at: Duration::from_secs(second),
            counts: counts.ok_or(ScrapeError::Status(503)),
        }
    }

    /// Checks one row per second of one proxy: counts and expected median.
    fn check(rows: &[(Option<[f64; 4]>, Option<f64>)]) {
        let mut slack = Slack::new();
        for (second, (counts, median)) in rows.iter().enumerate() {
            let second = second as u64;
            slack.observe(Duration::from_secs(second), &[scrape(second, *counts)]);
            assert_eq!(slack.percentile(50.0, 0.0), *median, "second {second}");
        }
    }

    #[test]
    fn only_increase_since_last_scrape_counts() {
        check(&[
            // Counted before ours, at unknown times.
            (Some([900.0, 900.0, 900.0, 900.0]), None),
            (Some([900.0, 905.0, 905.0, 905.0]), None),
            (Some([900.0, 940.0, 940.0, 940.0]), Some(175.0)),
            // A lost scrape changes nothing; the next one covers its time.
            (None, Some(175.0)),
            (Some([940.0, 980.0, 980.0, 980.0]), Some(100.0)),
            // Restarted.
            (Some([0.0, 0.0, 80.0, 80.0]), Some(250.0)),
        ]);
    }

    /// Histogram of one proxy with these edges.
    fn with_edges(from: &str, second: u64, slack: &[(f64, f64)]) -> Scrape {
        let counts = Ok(Counts {
            slack: slack.to_vec(),
            ..Counts::default()
        });
        Scrape {
            counts,
            ..of(from, second, None)
        }
    }

    #[test]
    fn changed_edges_count_from_zero_and_common_ones_are_added() {
        const ALL: f64 = f64::INFINITY;
        let at = Duration::from_secs;
        let before = |count| [(100.0, 0.0), (250.0, count), (ALL, count)];
        let after = |count| [(100.0, 0.0), (200.0, count), (ALL, count)];
        let mut slack = Slack::new();
        slack.observe(at(0), &[with_edges("a", 0, &before(500.0))]);
        // It has restarted with other edges and counted more than before.
        slack.observe(at(1), &[with_edges("a", 1, &after(600.0))]);
        assert_eq!(slack.percentile(0.0, 0.0), Some(200.0));
        // Two proxies, of which one has the new edges: 100 and all are common.
        let mut slack = Slack::new();
        let both = |second: u64, a: &[(f64, f64)], b: &[(f64, f64)]| {
            [with_edges("a", second, a), with_edges("b", second, b)]
        };
        slack.observe(at(0), &both(0, &before(0.0), &after(0.0)));
        let more = [(100.0, 15.0), (250.0, 30.0), (ALL, 30.0)];
        slack.observe(at(1), &both(1, &more, &after(30.0)));
        let increase = slack.increases.back().map(|(_, increase)| &increase[..]);
        assert_eq!(increase, Some(&[(100.0, 15.0), (ALL, 60.0)][..]));
        // A proxy without the histogram changes nothing.
        slack.observe(at(2), &both(2, &[], &after(60.0)));
        assert_eq!(slack.percentile(0.0, 0.0), Some(100.0));
    }

    #[test]
    fn percentile_above_last_edge_is_that_edge() {
        check(&[
            (Some([0.0; 4]), None),
            (Some([0.0, 0.0, 10.0, 40.0]), Some(500.0)),
        ]);
    }

    #[test]
    fn requests_below_minimum_slack_do_not_count() {
        let mut slack = Slack::new();
        for (second, counts) in [[0.0; 4], [20.0, 60.0, 85.0, 100.0]]
            .into_iter()
            .enumerate()
        {
            let second = second as u64;
            slack.observe(Duration::from_secs(second), &[scrape(second, Some(counts))]);
        }
        // 60 had up to 250 ms, half of the next 25 up to 375.
        for (percent, min_ms, had) in [
            (50.0, 0.0, Some(212.5)),
            (50.0, 250.0, Some(450.0)),
            (100.0, 0.0, Some(0.0)),
            (100.0, 250.0, Some(250.0)),
            (100.0, 375.0, Some(375.0)),
            (99.0, 250.0, Some(254.0)),
            (100.0, 500.0, None),
            (100.0, 700.0, None),
            (10.0, -5.0, Some(500.0)),
        ] {
            let expected = had.map(|ms: f64| ms.to_bits());
            let found = slack.percentile(percent, min_ms);
            assert_eq!(
                found.map(f64::to_bits),
                expected,
                "{percent} {min_ms}: {found:?}"
            );
        }
    }

    #[test]
    fn window_expires_and_proxies_are_summed() {
        let mut slack = Slack::new();
        let at = Duration::from_secs;
        slack.observe(
            at(0),
            &[of("a", 0, Some([0.0; 4])), of("b", 0, Some([0.0; 4]))],
        );
        let second = [
            of("a", 1, Some([15.0; 4])),
            of("b", 1, Some([0.0, 15.0, 15.0, 15.0])),
        ];
        slack.observe(at(1), &second);
        assert_eq!(slack.percentile(50.0, 0.0), Some(100.0));
        assert_eq!(slack.percentile(0.0, 0.0), Some(250.0));
        for second in 2..=11 {
            let lost = [of("a", second, None), of("b", second, None)];
            slack.observe(at(second), &lost);
        }
        assert_eq!(
            slack.percentile(50.0, 0.0),
            None,
            "what was counted at 1 s is 10 s old"
        );
        for _ in 0..1000 {
            slack.observe(at(12), &[of("a", 12, None), of("b", 12, None)]);
        }
        assert!(slack.increases.len() <= SCRAPES_MAX);
    }

    #[test]
    fn proxies_come_and_go_in_any_order() {
        let at = Duration::from_secs;
        let mut slack = Slack::new();
        let old = |second, more| of("old", second, Some([500.0 + more; 4]));
        let new = |second, more| {
            of(
                "new",
                second,
                Some([0.0, 900.0 + more, 900.0 + more, 900.0 + more]),
            )
        };
        slack.observe(at(0), &[old(0, 0.0)]);
        slack.observe(at(1), &[new(1, 0.0), old(1, 10.0)]);
        let all = |slack: &Slack| slack.percentile(0.0, 0.0);
        assert_eq!(
            all(&slack),
            None,
            "what a new one has counted before is not of now"
        );
        slack.observe(at(2), &[old(2, 20.0), new(2, 10.0)]);
        assert_eq!(all(&slack), Some(250.0), "20 and 10");
        // The old one is gone and back in time, and continues its count; later it is new.
        for second in 3..=13 {
            slack.observe(at(second), &[new(second, 10.0)]);
        }
        assert_eq!(all(&slack), None);
        slack.observe(at(14), &[new(14, 10.0), old(14, 60.0)]);
        assert_eq!(all(&slack), Some(100.0));
        for second in 15..=75 {
            slack.observe(at(second), &[new(second, 10.0)]);
        }
        slack.observe(at(76), &[new(76, 10.0), old(76, 160.0)]);
        assert_eq!(all(&slack), None);
    }
}
