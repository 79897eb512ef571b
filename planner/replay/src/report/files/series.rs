//! Points of the figures, limited in number: time series are averaged in bins, distributions evaluated on
//! a grid. Times are in seconds of the scenario.

use std::time::Duration;

use weir_draw::Points;

use crate::report::summary::{Verdict, accuracy, paired};
use crate::request::{Fate, Play, Request, Second};
use crate::scenario::Scenario;

/// Maximum number of points of a line.
pub(super) const POINTS_MAX: usize = 600;
/// Maximum number of time bins: a step line has two points for each.
const BINS_MAX: usize = POINTS_MAX / 2;
/// Number of points of a distribution.
const GRID: usize = 300;

const _: () = assert!(GRID < POINTS_MAX);

/// Equal time bins of a replay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bins {
    width_s: usize,
    count: usize,
}

impl Bins {
    /// Creates bins of whole seconds over the scenario's length.
    pub(super) fn of(length: Duration) -> Bins {
        let seconds = (length.as_secs_f64().ceil() as usize).max(1);
        let width_s = seconds.div_ceil(BINS_MAX);
        Bins {
            width_s,
            count: seconds.div_ceil(width_s),
        }
    }

    /// End of the last bin, in seconds.
    pub(super) fn end_s(self) -> f64 {
        (self.width_s * self.count) as f64
    }

    /// Width of a bin, in seconds.
    pub(super) fn width_s(self) -> f64 {
        self.width_s as f64
    }

    /// Mean of the values in each bin, at the bin's middle; empty bins have no point.
    fn means(self, values: impl Iterator<Item = (usize, f64)>) -> Points {
        let mut sums = vec![(0.0, 0u64); self.count];
        for (second, value) in values {
            if let Some((sum, count)) = sums.get_mut(second / self.width_s) {
                *sum += value;
                *count += 1;
            }
        }
        let middle = |bin: usize| (bin as f64 + 0.5) * self.width_s();
        let filled = sums.iter().enumerate().filter(|(_, (_, count))| *count > 0);
        filled
            .map(|(bin, (sum, count))| (middle(bin), sum / *count as f64))
            .collect()
    }

    /// Mean of the values in each bin, as a step line.
    fn steps(self, values: impl Iterator<Item = (usize, f64)>) -> Points {
        let half = self.width_s() / 2.0;
        let means = self.means(values).into_iter();
        means
            .flat_map(|(at, value)| [(at - half, value), (at + half, value)])
            .collect()
    }
}

/// Requests sent per second.
pub(super) fn offered(requests: &[Request], bins: Bins) -> Points {
    let mut counts = vec![0u32; bins.width_s * bins.count];
    for request in requests {
        if let Some(count) = counts.get_mut(request.sent.as_secs() as usize) {
            *count += 1;
        }
    }
    bins.steps(counts.into_iter().map(f64::from).enumerate())
}

/// Percentage on time of the requests sent in each bin.
pub(super) fn on_time(
    scenario: &Scenario,
    requests: &[Request],
    play: &Play,
    bins: Bins,
) -> Points {
    bins.means(paired(requests, play).map(|(request, outcome)| {
        let is_on_time = Verdict::of(scenario, request, outcome, play) == Verdict::OnTime;
        let value = if is_on_time { 100.0 } else { 0.0 };
        (request.sent.as_secs() as usize, value)
    }))
}

/// Mean accuracy of the answers to the requests sent in each bin.
pub(super) fn accuracies(
    scenario: &Scenario,
    requests: &[Request],
    play: &Play,
    bins: Bins,
) -> Points {
    bins.means(paired(requests, play).filter_map(|(request, outcome)| {
        if !matches!(outcome.fate, Fate::Answered(_)) {
            return None;
        }
        let second = request.sent.as_secs() as usize;
        Some((second, accuracy(scenario, play, outcome)))
    }))
}

/// Values of the control plane as a step line; empty if it has none.
pub(super) fn control(play: &Play, bins: Bins, value: impl Fn(&Second) -> Option<f64>) -> Points {
    let seconds = play.seconds.iter().enumerate();
    bins.steps(seconds.filter_map(|(second, state)| Some((second, value(state)?))))
}

/// Latencies of the answers, ms, sorted.
pub(super) fn latencies_ms(requests: &[Request], play: &Play) -> Vec<f64> {
    let answered = paired(requests, play)
        .filter(|(_, outcome)| matches!(outcome.fate, Fate::Answered(_)))
        .map(|(request, outcome)| outcome.ended.saturating_sub(request.sent));
    sorted(answered.map(|latency| latency.as_secs_f64() * 1e3))
}

/// Slack of the requests when sent upstream, ms, sorted; negative if too late.
pub(super) fn slacks_ms(requests: &[Request], play: &Play) -> Vec<f64> {
    sorted(paired(requests, play).filter_map(|(request, outcome)| {
        let dispatched = outcome.dispatched?.as_secs_f64();
        Some((request.due().as_secs_f64() - dispatched) * 1e3)
    }))
}

/// Cumulative distribution: percentage of `of` at or below each point of a grid from `from` to `to`.
pub(super) fn distribution(sorted: &[f64], of: usize, from: f64, to: f64) -> Points {
    let point = |step: usize| {
        let at = from + (to - from) * step as f64 / GRID as f64;
        let below = sorted.partition_point(|value| *value <= at);
        (at, 100.0 * below as f64 / of.max(1) as f64)
    };
    (0..=GRID).map(point).collect()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_long_replay_stays_within_point_limit() {
        for (length_s, width_s, count) in [(0, 1, 1), (60, 1, 60), (300, 1, 300), (301, 2, 151)] {
            let bins = Bins::of(Duration::from_secs(length_s));
            assert_eq!((bins.width_s, bins.count), (width_s, count), "{length_s}");
        }
        let day = Bins::of(Duration::from_secs(86_400));
        let points = day.steps((0..86_400).map(|second| (second, 1.0)));
        assert_eq!(points.len(), POINTS_MAX);
        assert_eq!(points.last(), Some(&(86_400.0, 1.0)));
    }

    #[test]
    fn bins_are_means_and_empty_bins_have_no_point() {
        let bins = Bins::of(Duration::from_secs(600));
        let values = [(0, 1.0), (1, 3.0), (5, 7.0), (600, 9.0)];
        assert_eq!(bins.means(values.into_iter()), [(1.0, 2.0), (5.0, 7.0)]);
        let steps = bins.steps(values.into_iter());
        assert_eq!(steps, [(0.0, 2.0), (2.0, 2.0), (4.0, 7.0), (6.0, 7.0)]);
    }

    #[test]
    fn distribution_is_relative_to_all_requests() {
        let points = distribution(&[10.0, 20.0], 4, 0.0, 30.0);
        assert_eq!(points.first(), Some(&(0.0, 0.0)));
        assert_eq!(points[100], (10.0, 25.0));
        assert_eq!(points.last(), Some(&(30.0, 50.0)));
    }
}
