//! How long a solve may take. The clock is the caller's.

use std::time::Duration;

/// A limit, and what has passed of it.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    limit: Duration,
    elapsed: &'a dyn Fn() -> Duration,
}

impl<'a> Patience<'a> {
    /// `elapsed` tells the time since the solve began; it never goes back.
    pub fn new(limit: Duration, elapsed: &'a dyn Fn() -> Duration) -> Patience<'a> {
        Patience { limit, elapsed }
    }

    /// What is left.
    pub fn left(&self) -> Duration {
        self.limit.saturating_sub((self.elapsed)())
    }

    /// Whether nothing is left. Ask every few hundred steps: a clock costs some 30 ns.
    pub fn is_over(&self) -> bool {
        (self.elapsed)() >= self.limit
    }

    /// A part of what is left, from now on: for a solve within a solve.
    #[must_use]
    pub fn part(&self, fraction: f64) -> Patience<'a> {
        let now = (self.elapsed)();
        let part = self
            .limit
            .saturating_sub(now)
            .mul_f64(fraction.clamp(0.0, 1.0));
        Patience {
            limit: now + part,
            elapsed: self.elapsed,
        }
    }
}

impl std::fmt::Debug for Patience<'_> {
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
    fn it_runs_out_and_parts_end_before_the_whole() {
        let at = Cell::new(0);
        let clock = || Duration::from_millis(at.get());
        let patience = Patience::new(Duration::from_millis(100), &clock);
        at.set(40);
        let part = patience.part(0.5);
        assert_eq!(
            (patience.left().as_millis(), part.left().as_millis()),
            (60, 30)
        );
        at.set(70);
        assert!(part.is_over() && !patience.is_over());
        at.set(500);
        assert!(patience.is_over() && patience.left().is_zero() && patience.part(1.0).is_over());
    }
}
