//! Stopwatch where there is no clock, as in a browser: no solver's time limit ever passes there.

use std::time::Duration;

/// Returns no time, however long ago this call was.
pub fn stopwatch() -> impl Fn() -> Duration {
    || Duration::ZERO
}
