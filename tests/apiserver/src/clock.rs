//! The emulator's clock: tokio's, so that it pauses with it, formatted like Kubernetes timestamps.

use k8s_openapi::jiff::Timestamp;
use std::time::Duration;
use tokio::time::Instant;

/// The start, on both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    started: Instant,
    epoch: Timestamp,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock {
            started: Instant::now(),
            epoch: Timestamp::now(),
        }
    }

    /// Time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The instant `after` the start.
    pub(super) fn instant(&self, after: Duration) -> Instant {
        self.started + after
    }

    /// Current time in whole seconds, in the format of `metav1.Time`.
    pub(super) fn now(&self) -> String {
        self.after(Duration::ZERO)
    }

    /// The time after `wait` from now.
    pub(super) fn after(&self, wait: Duration) -> String {
        let time = self.epoch + self.elapsed() + wait;
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}
