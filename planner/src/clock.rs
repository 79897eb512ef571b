//! The clock, read only in this folder, and only with the feature `serve`. All other code takes the time as an argument.

#[cfg(feature = "serve")]
mod running;
#[cfg(not(feature = "serve"))]
mod stopped;

use std::time::Duration;

#[cfg(feature = "serve")]
pub use running::{Clock, stopwatch};
#[cfg(not(feature = "serve"))]
pub use stopped::stopwatch;

/// The current time on the two clocks that a cycle needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time since the planner started; never goes back. Used for rates and ages.
    pub at: Duration,
    /// Unix time in ms; may jump. Used only for revisions and output for people.
    pub unix_ms: u64,
}

impl Now {
    /// Returns the time `time` later.
    #[must_use]
    pub fn after(self, time: Duration) -> Now {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Now {
            at: self.at.saturating_add(time),
            unix_ms: self.unix_ms.saturating_add(ms),
        }
    }
}
