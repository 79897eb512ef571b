//! Time limit of a solve. The caller provides the clock.

use std::time::Duration;

/// Time limit, with the clock that measures it.
#[derive(Clone, Copy)]
pub struct TimeLimit<'a> {
    limit: Duration,
    elapsed: &'a dyn Fn() -> Duration,
}

impl<'a> TimeLimit<'a> {
    /// Creates a limit. `elapsed` returns the time since the solve began; it never decreases.
    pub fn new(limit: Duration, elapsed: &'a dyn Fn() -> Duration) -> TimeLimit<'a> {
        TimeLimit { limit, elapsed }
    }

    /// Time left.
    pub fn left(&self) -> Duration {
        self.limit.saturating_sub((self.elapsed)())
    }

    /// Whether no time is left. Call it every few hundred steps: reading a clock costs some 30 ns.
    pub fn is_over(&self) -> bool {
        (self.elapsed)() >= self.limit
    }

    /// Returns a limit of a fraction of the time left, from now on: for a solve within a solve.
    #[must_use]
    pub fn part(&self, fraction: f64) -> TimeLimit<'a> {
        let now = (self.elapsed)();
        let part = self
            .limit
            .saturating_sub(now)
            .mul_f64(fraction.clamp(0.0, 1.0));
        TimeLimit {
            limit: now + part,
            elapsed: self.elapsed,
        }
    }
}

impl std::fmt::Debug for TimeLimit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn limit_expires_and_parts_expire_before_it() {
        let at = Cell::new(0);
        let clock = || Duration::from_millis(at.get());
        let time_limit = TimeLimit::new(Duration::from_millis(100), &clock);
        at.set(40);
        let part = time_limit.part(0.5);
        assert_eq!(
            (time_limit.left().as_millis(), part.left().as_millis()),
            (60, 30)
        );
        at.set(70);
        assert!(part.is_over() && !time_limit.is_over());
        at.set(500);
        assert!(
            time_limit.is_over() && time_limit.left().is_zero() && time_limit.part(1.0).is_over()
        );
    }
}
