//! Rates that a rise comes to, each expected until its time. Pure.
//!
//! Single samples of a rise say too little to change capacity and change it back, so an extrapolated rate holds for a
//! while.

use std::collections::VecDeque;
use std::time::Duration;

/// Rates, falling, and the time until which each is expected.
#[derive(Debug, Clone, Default)]
pub(super) struct Foreseen(VecDeque<(Duration, f64)>);

impl Foreseen {
    /// Forgets the rates expected before `now`, and expects another one until `until`.
    pub(super) fn follow(&mut self, now: Duration, until: Duration, rate: Option<f64>) {
        while self.0.pop_front_if(|(at, _)| *at < now).is_some() {}
        if let Some(rate) = rate {
            while self.0.pop_back_if(|(_, one)| *one <= rate).is_some() {}
            self.0.push_back((until, rate));
        }
    }

    /// Highest rate expected; 0 for none.
    pub(super) fn rate(&self) -> f64 {
        self.0.front().map_or(0.0, |(_, rate)| *rate)
    }

    /// Whether no rise is expected.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highest_rate_is_expected_until_its_time() {
        let mut foreseen = Foreseen::default();
        let ahead = Duration::from_secs(5);
        let mut rate = |second, then| {
            let now = Duration::from_secs(second);
            foreseen.follow(now, now + ahead, then);
            foreseen.rate()
        };
        assert_eq!(rate(0, None), 0.0);
        assert_eq!(rate(1, Some(80.0)), 80.0);
        assert_eq!(rate(2, Some(60.0)), 80.0);
        assert_eq!(rate(3, Some(70.0)), 80.0);
        assert_eq!(rate(6, None), 80.0);
        assert_eq!(rate(7, None), 70.0);
        assert_eq!(rate(9, None), 0.0);
    }
}
