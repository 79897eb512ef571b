//! The wall clock, read in this one place. Everything else takes the time as an argument.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Now, on the two clocks a turn needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time since the planner started; never goes back. Rates and ages are counted on it.
    pub at: Duration,
    /// Unix time in ms; may jump. Only revisions and what people read are made from it.
    pub unix_ms: u64,
}

impl Now {
    /// So much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Now {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Now {
            at: self.at.saturating_add(time),
            unix_ms: self.unix_ms.saturating_add(ms),
        }
    }
}

/// A running clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: tokio::time::Instant,
}

impl Clock {
    /// A clock whose [`Now::at`] is zero now.
    pub fn start() -> Clock {
        Clock {
            start: tokio::time::Instant::now(),
        }
    }

    /// Now.
    pub fn now(&self) -> Now {
        Now {
            at: self.start.elapsed(),
            unix_ms: unix_ms(),
        }
    }
}

/// The time since this call, as the machine's clock has it, in a virtual world too: how long a solver
/// computes is real.
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
