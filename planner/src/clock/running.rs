//! Clock and stopwatch of this machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Now;

/// A running clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: tokio::time::Instant,
}

impl Clock {
    /// Starts a clock whose [`Now::at`] is zero now.
    pub fn start() -> Clock {
        Clock {
            start: tokio::time::Instant::now(),
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Now {
        Now {
            at: self.start.elapsed(),
            unix_ms: unix_ms(),
        }
    }
}

/// Returns the time since this call on the machine's clock, even in a simulation: the solver's run time is
/// real.
#[allow(
    clippy::disallowed_methods,
    reason = "the one place that reads a clock"
)]
pub fn stopwatch() -> impl Fn() -> Duration {
    let start = std::time::Instant::now();
    move || start.elapsed()
}

#[allow(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
fn unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
