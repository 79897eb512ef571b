//! Requests that are late because others wait by chance.
//!
//! The queue now follows from what arrived of late: of A requests in the last s seconds at least A − h·s wait, where h
//! are carried. More arrive until cores can have changed: λ·r in that time r, with a normal deviation of √(δ·λ·r) by the
//! dispersion δ (1 for Poisson arrivals). A request is late if those before it take longer than what is left to it after
//! its own batch and, on average, half of the one under way.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::InputError;
use crate::input::{positive, rule, within};
use crate::latency_model::MS_MAX;

/// Execution times that pass besides waiting: the request's own batch, and half of the one under way.
const EXECUTIONS: f64 = 1.5;
/// Maximum number of spans.
pub(super) const SPANS_MAX: usize = 1000;
/// Maximum requests of a span.
const REQUESTS_MAX: f64 = 1e12;
/// Maximum dispersion of the arrivals.
const DISPERSION_MAX: f64 = 1e6;

/// Queue that arrivals make by chance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Percent of the requests that may be late because of it.
    pub late_percent: f64,
    /// Time until cores can have changed, in ms.
    pub horizon_ms: f64,
    /// Variance of a count of arrivals, divided by its mean; 1 for Poisson arrivals.
    #[serde(default = "poisson")]
    pub dispersion: f64,
    /// Requests that arrived of late.
    #[serde(default)]
    pub recent: Vec<Recent>,
}

/// Requests that arrived within a span that ends now.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recent {
    /// Length of the span, in ms.
    pub span_ms: f64,
    /// Number of requests.
    pub requests: f64,
}

const fn poisson() -> f64 {
    1.0
}

impl Queue {
    pub(super) fn check(&self) -> Result<(), InputError> {
        let key = |name: &str| format!("arriving.queue.{name}");
        within(
            key("late_percent"),
            self.late_percent,
            0.0,
            100.0,
            "percent",
        )?;
        positive(key("horizon_ms"), self.horizon_ms, MS_MAX, "ms")?;
        within(key("dispersion"), self.dispersion, 0.0, DISPERSION_MAX, "")?;
        let right = format!("at most {SPANS_MAX} spans");
        let count = self.recent.len();
        rule(count <= SPANS_MAX, key("recent"), count, right)?;
        for (index, recent) in self.recent.iter().enumerate() {
            let key = |name: &str| format!("arriving.queue.recent[{index}].{name}");
            positive(key("span_ms"), recent.span_ms, MS_MAX, "ms")?;
            let path = key("requests");
            within(path, recent.requests, 0.0, REQUESTS_MAX, "requests")?;
        }
        Ok(())
    }
}

/// Queue, and the time left of the requests in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chance {
    /// Time left of an arriving request, in ms.
    pub(super) left_ms: f64,
    /// Queue.
    pub(super) queue: Queue,
}

impl Chance {
    /// Maximum fraction of late requests.
    pub(super) fn late_max(&self) -> f64 {
        self.queue.late_percent / 100.0
    }

    /// Fraction of `rate_rps` that is late with batches of that size and duration.
    pub(super) fn late(&self, rate_rps: f64, batch: u32, latency_ms: f64) -> f64 {
        let carried = f64::from(batch) / latency_ms;
        let rate = rate_rps / 1000.0;
        let recent = self.queue.recent.iter();
        let waiting = recent.map(|recent| recent.requests - carried * recent.span_ms);
        let waiting = waiting.fold(0.0, f64::max);
        let wait_ms = (self.left_ms - EXECUTIONS * latency_ms).max(0.0);
        let horizon_ms = self.queue.horizon_ms;
        let spare = carried * wait_ms - waiting + (carried - rate) * horizon_ms;
        let deviation = libm::sqrt(self.queue.dispersion * rate * horizon_ms);
        if deviation > 0.0 {
            return 0.5 * libm::erfc(spare / deviation * std::f64::consts::FRAC_1_SQRT_2);
        }
        f64::from(u8::from(spare < 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Late of 20 requests/s in batches of four on one core, which carries 23.8.
    fn late(left_ms: f64, dispersion: f64, recent: &[(f64, f64)]) -> f64 {
        let recent = recent.iter().map(|(span_ms, requests)| Recent {
            span_ms: *span_ms,
            requests: *requests,
        });
        let queue = Queue {
            late_percent: 1.0,
            horizon_ms: 1500.0,
            dispersion,
            recent: recent.collect(),
        };
        queue.check().unwrap();
        Chance { left_ms, queue }.late(20.0, 4, 168.0)
    }

    #[test]
    fn more_are_late_the_more_wait_and_the_less_time_is_left() {
        let of_late = |requests: f64| late(850.0, 1.0, &[(1000.0, requests), (3000.0, 60.0)]);
        let all = [0.0, 20.0, 30.0, 35.0, 60.0].map(of_late);
        assert!(all.is_sorted(), "{all:?}");
        // Until 23.8 requests of the last second, none waits.
        assert_eq!(all[0], all[1]);
        assert!(all[1] < 1e-3 && all[2] > 1e-3 && all[4] > 0.9, "{all:?}");
        let all = [900.0, 600.0, 300.0, 200.0].map(|left_ms| late(left_ms, 1.0, &[]));
        assert!(all.is_sorted() && all[3] > 0.1, "{all:?}");
    }

    #[test]
    fn known_arrivals_are_late_or_are_not() {
        // 14.2 requests are carried in the 598 ms left, 5.7 more than arrive until the horizon.
        assert_eq!(late(850.0, 0.0, &[(1000.0, 43.0)]), 0.0);
        assert_eq!(late(850.0, 0.0, &[(1000.0, 45.0)]), 1.0);
    }
}
