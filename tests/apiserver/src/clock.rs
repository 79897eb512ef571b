//! The emulator's clock: tokio's, so that a paused one pauses it, told as Kubernetes writes times.

use k8s_openapi::jiff::Timestamp;
use std::time::Duration;
use tokio::time::Instant;

/// When it started, on both clocks.
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

    /// Since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The instant so long after the start.
    pub(super) fn instant(&self, after: Duration) -> Instant {
        self.started + after
    }

    /// Now, in whole seconds, as `metav1.Time` is written.
    pub(super) fn now(&self) -> String {
        self.after(Duration::ZERO)
    }

    /// So long from now.
    pub(super) fn after(&self, wait: Duration) -> String {
        let time = self.epoch + self.elapsed() + wait;
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}
