//! Estimate of one measured point: throughput with its uncertainty, and latency. Pure.
//!
//! The window is cut into [`SEGMENTS`] equal parts. A request counts in each part with the fraction of its time that
//! lies there, so that a slow server's throughput does not jump with each whole request. The 95 % interval is that of
//! the parts' mean (batch means, Student's t).

use std::time::Duration;

/// Number of parts of a window.
pub const SEGMENTS: usize = 10;
/// Student's t for 95 % (two-sided) and [`SEGMENTS`] − 1 degrees of freedom.
const T_95: f64 = 2.262;

/// Answered request; times since any fixed moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// Time of sending.
    pub sent: Duration,
    /// Time at which the whole answer had been received.
    pub received: Duration,
}

/// Estimate of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Requests per second.
    pub rps: f64,
    /// Half width of the 95 % interval of `rps`, in percent of it.
    pub half_width_percent: f64,
    /// Mean latency in ms, of the requests received in the window.
    pub mean_ms: f64,
    /// Median latency in ms.
    pub p50_ms: f64,
    /// 95th percentile of the latency, in ms.
    pub p95_ms: f64,
    /// 99th percentile of the latency, in ms.
    pub p99_ms: f64,
    /// Number of requests received in the window.
    pub requests: usize,
}

/// Estimates a point from the requests of the window; `None` if none was received in it.
#[must_use]
pub fn estimate(answered: &[Answered], from: Duration, until: Duration) -> Option<Estimate> {
    let (from_s, until_s) = (from.as_secs_f64(), until.as_secs_f64());
    let part_s = (until_s - from_s) / SEGMENTS as f64;
    let received = answered
        .iter()
        .filter(|one| one.received > from && one.received <= until);
    let mut latencies: Vec<f64> = received
        .map(|one| (one.received.saturating_sub(one.sent)).as_secs_f64() * 1e3)
        .collect();
    if latencies.is_empty() || part_s <= 0.0 {
        return None;
    }
    latencies.sort_by(f64::total_cmp);
    let mut parts = [0.0; SEGMENTS];
    for (index, part) in parts.iter_mut().enumerate() {
        let start_s = from_s + part_s * index as f64;
        let fractions = answered
            .iter()
            .map(|one| fraction(one, start_s, start_s + part_s));
        *part = fractions.sum::<f64>() / part_s;
    }
    let count = SEGMENTS as f64;
    let rps = parts.iter().sum::<f64>() / count;
    let squares = parts.iter().map(|part| (part - rps) * (part - rps));
    let variance = squares.sum::<f64>() / (count - 1.0);
    Some(Estimate {
        rps,
        half_width_percent: 100.0 * T_95 * (variance / count).sqrt() / rps,
        mean_ms: latencies.iter().sum::<f64>() / latencies.len() as f64,
        p50_ms: quantile(&latencies, 0.5),
        p95_ms: quantile(&latencies, 0.95),
        p99_ms: quantile(&latencies, 0.99),
        requests: latencies.len(),
    })
}

/// Fraction of a request's time that lies between `start_s` and `end_s`.
fn fraction(one: &Answered, start_s: f64, end_s: f64) -> f64 {
    let (sent_s, received_s) = (one.sent.as_secs_f64(), one.received.as_secs_f64());
    let inside = received_s.min(end_s) - sent_s.max(start_s);
    if received_s > sent_s {
        (inside / (received_s - sent_s)).max(0.0)
    } else {
        f64::from(u8::from(received_s >= start_s && received_s < end_s))
    }
}

/// Returns the smallest value with at least that part of all values at or below it. `sorted` is not empty.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    let index = rank.clamp(1, sorted.len()) - 1;
    sorted.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests one after the other, each of `ms`, on `lanes` lanes, over 10 s.
    fn steady(ms: u64, lanes: u64) -> Vec<Answered> {
        let each = 10_000 / ms;
        let lane = (0..each).map(|index| Answered {
            sent: Duration::from_millis(index * ms),
            received: Duration::from_millis((index + 1) * ms),
        });
        lane.cycle()
            .take(usize::try_from(each * lanes).unwrap())
            .collect()
    }

    #[test]
    fn steady_server_has_its_rate_and_no_uncertainty() {
        // 700 ms: 14 requests in 10 s, not one more in any part of it.
        for (ms, lanes, rps) in [(100, 1, 10.0), (100, 4, 40.0), (700, 1, 1.0 / 0.7)] {
            let window = Duration::from_millis(9_800);
            let found = estimate(&steady(ms, lanes), Duration::ZERO, window).unwrap();
            assert!((found.rps / rps - 1.0).abs() < 1e-9, "{found:?}");
            assert!(found.half_width_percent < 1e-6, "{found:?}");
            assert!((found.mean_ms - ms as f64).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn interval_covers_the_truth_of_a_noisy_server_nearly_always() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
        let mut covered = 0;
        for _ in 0..400 {
            let (mut at_ms, mut all) = (0.0, Vec::new());
            while at_ms < 11_000.0 {
                // 50 to 150 ms, 100 ms in the mean.
                let ms = 50.0 + 100.0 * rng.random::<f64>();
                let of = |ms: f64| Duration::from_secs_f64(ms / 1e3);
                all.push(Answered {
                    sent: of(at_ms),
                    received: of(at_ms + ms),
                });
                at_ms += ms;
            }
            let found = estimate(&all, Duration::ZERO, Duration::from_secs(10)).unwrap();
            covered +=
                u32::from((found.rps - 10.0).abs() <= 10.0 * found.half_width_percent / 100.0);
        }
        assert!((360..=396).contains(&covered), "{covered} of 400");
    }

    #[test]
    fn quantiles_are_those_of_the_received_requests() {
        let slow = |ms: u64| Answered {
            sent: Duration::ZERO,
            received: Duration::from_millis(ms),
        };
        let all: Vec<Answered> = (1..=200).map(slow).collect();
        let found = estimate(&all, Duration::ZERO, Duration::from_millis(100)).unwrap();
        assert_eq!(
            (found.p50_ms, found.p95_ms, found.p99_ms, found.requests),
            (50.0, 95.0, 99.0, 100)
        );
    }

    #[test]
    fn window_without_answers_has_no_estimate() {
        let second = Duration::from_secs(1);
        assert_eq!(estimate(&[], Duration::ZERO, second), None);
        assert_eq!(estimate(&steady(100, 1), second, second), None);
    }
}
