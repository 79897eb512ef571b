//! Arrivals second by second, of the last ten minutes.

use std::collections::VecDeque;

/// Seconds that are remembered.
const SECONDS_MAX: usize = 600;

/// Requests that arrived in each of the last seconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct PerSecond {
    before: Option<u64>,
    seconds: VecDeque<u64>,
    all: u64,
    lasted: u64,
}

impl PerSecond {
    /// Takes in the requests that have arrived so far; called once a second.
    pub(crate) fn observe(&mut self, arrivals: u64) {
        let Some(before) = self.before.replace(arrivals) else {
            return;
        };
        let new = arrivals.saturating_sub(before);
        (self.all, self.lasted) = (self.all + new, self.lasted + 1);
        self.seconds.push_back(new);
        if self.seconds.len() > SECONDS_MAX {
            self.seconds.pop_front();
        }
    }

    /// Greatest rates of the last intervals of that many seconds, at most `count`, the oldest first. The last
    /// interval may be shorter.
    pub(crate) fn maxima(&self, interval: usize, count: usize) -> Vec<f64> {
        let seconds: Vec<u64> = self.seconds.iter().copied().collect();
        let recent = seconds.len().saturating_sub(interval * count);
        let recent = seconds.get(recent..).unwrap_or_default();
        let each = recent.chunks(interval.max(1));
        let max = |chunk: &[u64]| chunk.iter().copied().max().unwrap_or_default() as f64;
        each.map(max).collect()
    }

    /// Mean rate since the beginning, requests/s.
    pub(crate) fn mean(&self) -> f64 {
        self.all as f64 / self.lasted.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maxima_of_the_last_intervals() {
        let mut seconds = PerSecond::default();
        let mut all = 0;
        for second in 0..=700_u64 {
            seconds.observe(all);
            all += second;
        }
        // Seconds 100 to 699, in ten minutes.
        let maxima = seconds.maxima(60, 10);
        assert_eq!((maxima.len(), maxima[0], maxima[9]), (10, 159.0, 699.0));
        assert_eq!(seconds.maxima(50, 2), [649.0, 699.0]);
        assert_eq!(seconds.mean(), 349.5);
        assert!(PerSecond::default().maxima(60, 10).is_empty());
    }
}
