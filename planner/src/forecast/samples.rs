//! Samples of what arrived between two scrapes, the latest last. Bounded in number and age. Pure.

use std::collections::VecDeque;
use std::time::Duration;

/// Longest demand window: with the shortest cycle it holds 6,000 samples.
pub const WINDOW_MAX: Duration = Duration::from_secs(600);
/// Shortest time between two samples.
pub const SAMPLE_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Most samples remembered: the longest window and the longest moving mean of the shortest intervals.
pub const SAMPLES_MAX: usize =
    2 * (WINDOW_MAX.as_millis() / SAMPLE_INTERVAL_MIN.as_millis()) as usize;

/// Requests between two scrapes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) requests: f64,
    pub(super) seconds: f64,
}

/// One value for each of the latest samples, the latest last.
#[derive(Debug, Clone)]
pub(super) struct Recent<T>(VecDeque<(Duration, T)>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Recent(VecDeque::new())
    }
}

impl<T> Recent<T> {
    /// Adds the value of the sample that ended `at`, and forgets those of samples that ended before `oldest`.
    pub(super) fn push(&mut self, at: Duration, value: T, oldest: Duration) {
        self.0.push_back((at, value));
        self.forget(oldest);
    }

    /// Forgets the values of samples that ended before `oldest`.
    pub(super) fn forget(&mut self, oldest: Duration) {
        while self.0.front().is_some_and(|(end, _)| *end < oldest) || self.0.len() > SAMPLES_MAX {
            self.0.pop_front();
        }
    }

    /// Values of the samples that ended after `since`, the latest first.
    pub(super) fn since(&self, since: Duration) -> impl Iterator<Item = &T> {
        let latest = self.0.iter().rev();
        latest
            .take_while(move |(end, _)| *end > since)
            .map(|(_, value)| value)
    }

    /// Ends and values, the latest first.
    pub(super) fn latest(&self) -> impl Iterator<Item = (Duration, &T)> {
        self.0.iter().rev().map(|(end, value)| (*end, value))
    }

    /// Value of the latest sample but `skipped`.
    pub(super) fn latest_mut(&mut self, skipped: usize) -> Option<&mut T> {
        self.0.iter_mut().nth_back(skipped).map(|(_, value)| value)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Recent<Sample> {
    /// Requests and seconds of the latest samples, back over `span` s.
    pub(super) fn count(&self, span: f64) -> (f64, f64) {
        let (mut requests, mut seconds) = (0.0, 0.0);
        for (_, sample) in self.latest() {
            if seconds >= span * 0.999 {
                break;
            }
            requests += sample.requests;
            seconds += sample.seconds;
        }
        (requests, seconds)
    }
}
