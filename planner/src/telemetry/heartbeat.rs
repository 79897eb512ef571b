//! Heartbeat of a service's control loop: a cycle that does not come back is noticed. A service that runs no
//! cycles has none to miss: a standby, or a leader that waits for the API server.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum time of a cycle, if that is more than [`CYCLES_LATE_MAX`] cycles.
pub const LATE_MAX: Duration = Duration::from_secs(60);
/// Number of cycles' lengths that one may take.
pub const CYCLES_LATE_MAX: u32 = 10;

/// Time of the latest sign of life of a control loop.
#[derive(Debug, Default)]
pub struct Heartbeat(Mutex<Option<Duration>>);

/// A control loop that runs. It counts as ended when dropped, unless by a panic.
#[derive(Debug)]
pub struct Running<'a>(&'a Heartbeat);

/// A cycle that has not come back in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    age: Duration,
    limit: Duration,
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (age, limit) = (self.age.as_secs(), self.limit.as_secs());
        write!(
            f,
            "a cycle has not come back for {age} s, more than the {limit} s that it may take"
        )
    }
}

impl Heartbeat {
    /// Starts a control loop.
    pub fn start(&self, now: Duration) -> Running<'_> {
        *self.latest() = Some(now);
        Running(self)
    }

    /// Returns the age of the latest sign of life, if it is beyond the limit for cycles of that length.
    pub fn late(&self, cycle: Duration, now: Duration) -> Option<Late> {
        let limit = LATE_MAX.max(cycle.saturating_mul(CYCLES_LATE_MAX));
        let age = now.saturating_sub((*self.latest())?);
        (age > limit).then_some(Late { age, limit })
    }

    fn latest(&self) -> MutexGuard<'_, Option<Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running<'_> {
    /// Records a sign of life.
    pub fn beat(&self, now: Duration) {
        *self.0.latest() = Some(now);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            *self.0.latest() = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn control_loop_is_late_beyond_limit_until_it_beats_or_ends() {
        let heartbeat = Heartbeat::default();
        let late = |cycle, now| {
            heartbeat
                .late(s(cycle), s(now))
                .map(|late| late.limit.as_secs())
        };
        assert_eq!(late(1, 1000), None, "no cycles run");
        let running = heartbeat.start(s(100));
        for (cycle, now, limit) in [
            (1, 160, None),
            (1, 161, Some(60)),
            (6, 161, Some(60)),
            (7, 170, None),
            (7, 171, Some(70)),
        ] {
            assert_eq!(late(cycle, now), limit, "{cycle} {now}");
        }
        running.beat(s(200));
        assert_eq!(late(1, 260), None);
        let shown = heartbeat.late(s(1), s(275)).unwrap().to_string();
        assert_eq!(
            shown,
            "a cycle has not come back for 75 s, more than the 60 s that it may take"
        );
        drop(running);
        assert_eq!(late(1, 1000), None);
    }

    #[test]
    fn panic_in_control_loop_is_noticed() {
        let heartbeat = Heartbeat::default();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _running = heartbeat.start(s(0));
            panic!("a bug");
        }));
        assert!(panicked.is_err() && heartbeat.late(s(1), s(61)).is_some());
    }
}
