//! Latest executions of a variant on its present cores → ratio of their time to the profile's. Pure.
//!
//! A block is the executions that the proxies counted between two cycles, with the ratio of their mean time to the
//! profile's mean. The estimate is the median of the blocks, weighted by executions: half of the blocks may be off, by a
//! stall or a few slow requests, and it holds. Means are compared because capacity follows from the mean, and because a
//! histogram gives its mean whatever its buckets are.
//!
//! The rate while all slots were taken counts instead, if that was for long enough ([`full`]).
//!
//! Executions that were cut off say that a variant takes at least as long, and not that it is slow: the filter also cuts
//! off what has waited for other requests. The ratio for a state is therefore the median weighted by answers, and there is
//! none with fewer than [`EXECUTIONS_MIN`] of them.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::full::{self, FullPart};

/// Time for which blocks count.
pub(super) const WINDOW: Duration = Duration::from_secs(15);
/// Executions for an estimate. With fewer in a [`WINDOW`], older blocks count too.
pub(super) const EXECUTIONS_MIN: f64 = 20.0;
/// Age beyond which no block counts.
const BLOCK_AGE_MAX: Duration = Duration::from_secs(300);
/// Maximum number of blocks: two windows of the shortest cycles.
const BLOCKS_MAX: usize = 512;
/// Deviation in ms that is none: proxies report whole ms, rounded up, and the network adds some.
const TOLERANCE_MS: f64 = 2.0;

/// Executions between two cycles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Block {
    pub(super) at: Duration,
    pub(super) ratio: f64,
    pub(super) executions: f64,
    /// Those of them that were cut off.
    pub(super) cut_off: f64,
    /// Part of it with all slots taken.
    pub(super) full: Option<FullPart>,
}

/// Ratio, and the executions it is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) ratio: f64,
    /// Ratio for the state; `None` with too few answers. The other is a lower bound then.
    pub(super) of_answers: Option<f64>,
    pub(super) executions: f64,
    /// Those of them that were cut off.
    pub(super) cut_off: f64,
}

impl Block {
    fn answered(&self) -> f64 {
        self.executions - self.cut_off
    }
}

/// Blocks, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Window(VecDeque<Block>);

impl Window {
    pub(super) fn add(&mut self, block: Block) {
        self.0.push_back(block);
        while self.0.len() > BLOCKS_MAX {
            self.0.pop_front();
        }
    }

    /// Drops the blocks that no longer count at `now`.
    pub(super) fn expire(&mut self, now: Duration) {
        let mut executions: f64 = self.0.iter().map(|block| block.executions).sum();
        while let Some(oldest) = self.0.front() {
            let age = now.saturating_sub(oldest.at);
            let suffices = executions - oldest.executions >= EXECUTIONS_MIN;
            if age < WINDOW || (!suffices && age < BLOCK_AGE_MAX) {
                return;
            }
            executions -= oldest.executions;
            self.0.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Weighted median of the ratios, or the ratio with all slots taken; `None` with too few executions.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        let sum = |of: fn(&Block) -> f64| self.0.iter().map(of).sum::<f64>();
        let executions = sum(|block| block.executions);
        let by_time = self.median(|block| block.executions)?;
        let is_answered = sum(Block::answered) >= EXECUTIONS_MIN;
        let of_answers = self.median(Block::answered).filter(|_| is_answered);
        (executions >= EXECUTIONS_MIN).then(|| Estimate {
            // Both are lower bounds of it.
            ratio: full::ratio(&self.0, by_time.max(of_answers.unwrap_or(0.0))),
            of_answers: of_answers.map(|by_time| full::state_ratio(&self.0, by_time)),
            executions,
            cut_off: sum(|block| block.cut_off),
        })
    }

    /// Median of the ratios; `None` without weight.
    fn median(&self, weight: fn(&Block) -> f64) -> Option<f64> {
        let mut blocks: Vec<&Block> = self.0.iter().filter(|block| weight(block) > 0.0).collect();
        blocks.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let half = blocks.iter().map(|block| weight(block)).sum::<f64>() / 2.0;
        let mut up_to = 0.0;
        let middle = blocks.into_iter().find(|block| {
            up_to += weight(block);
            up_to >= half
        });
        middle.map(|block| block.ratio)
    }
}

/// Ratio of a measured mean to the range that the profile allows; 1 within it. `full_ms` is an upper bound of the mean
/// with all slots taken, which is what a variant may be faster by; without it, it is never faster than its profile.
pub(super) fn ratio(mean_ms: f64, full_ms: Option<f64>, profile: &RangeInclusive<f64>) -> f64 {
    let (low, high) = (*profile.start(), *profile.end());
    if low <= 0.0 {
        return 1.0;
    }
    if mean_ms > high + TOLERANCE_MS {
        return mean_ms / high;
    }
    match full_ms {
        Some(full_ms) if full_ms + TOLERANCE_MS < low => full_ms / low,
        _ => 1.0,
    }
}

/// Ratio of a measured mean to a start value, which no difference is too small for.
pub(super) fn ratio_to_start(mean_ms: f64, start_ms: f64) -> f64 {
    match start_ms > 0.0 {
        true => mean_ms / start_ms,
        false => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(second: u64, ratio: f64, executions: f64) -> Block {
        Block {
            at: Duration::from_secs(second),
            ratio,
            executions,
            cut_off: 0.0,
            full: None,
        }
    }

    fn estimate(blocks: &[(u64, f64, f64)], now: u64) -> Option<(f64, f64)> {
        let mut window = Window::default();
        for (second, ratio, executions) in blocks {
            window.add(block(*second, *ratio, *executions));
        }
        window.expire(Duration::from_secs(now));
        window.estimate().map(|one| (one.ratio, one.executions))
    }

    #[test]
    fn median_is_weighted_by_executions() {
        for (blocks, now, expected) in [
            (&[][..], 0, None),
            (&[(0, 1.5, 19.0)], 0, None),
            (&[(0, 1.5, 20.0)], 0, Some((1.5, 20.0))),
            // A stall of one block, however long, is not the estimate.
            (
                &[(0, 1.1, 10.0), (1, 90.0, 9.0), (2, 1.2, 10.0)],
                2,
                Some((1.2, 29.0)),
            ),
            (&[(0, 1.0, 10.0), (1, 2.0, 30.0)], 1, Some((2.0, 40.0))),
            // Older blocks count while the newer ones are too few.
            (&[(0, 1.0, 30.0), (20, 2.0, 30.0)], 20, Some((2.0, 30.0))),
            (&[(0, 1.0, 30.0), (20, 2.0, 10.0)], 20, Some((1.0, 40.0))),
            (&[(0, 1.0, 30.0), (300, 2.0, 10.0)], 300, None),
        ] {
            assert_eq!(estimate(blocks, now), expected, "{blocks:?}");
        }
    }

    /// Ratio to plan with, and for the state, by blocks of a ratio, executions, and those of them that were cut off.
    #[test]
    fn state_needs_answers() {
        for (blocks, ratio, of_answers) in [
            (&[(1.5, 19.0, 0.0)][..], None, None),
            (&[(1.5, 20.0, 0.0)], Some(1.5), Some(1.5)),
            (&[(3.0, 25.0, 25.0)], Some(3.0), None),
            // The example of a server with dynamic batching: 25 executions, 14 of them cut off.
            (&[(2.56, 25.0, 14.0)], Some(2.56), None),
            (&[(2.56, 45.0, 25.0)], Some(2.56), Some(2.56)),
            // Most are cut off, and what is answered takes the profile's time.
            (&[(1.0, 20.0, 0.0), (3.0, 50.0, 50.0)], Some(3.0), Some(1.0)),
            // Cut off with little time left.
            (&[(3.0, 20.0, 0.0), (1.0, 50.0, 50.0)], Some(3.0), Some(3.0)),
        ] {
            let mut window = Window::default();
            for (ratio, executions, cut_off) in blocks {
                window.add(Block {
                    cut_off: *cut_off,
                    ..block(0, *ratio, *executions)
                });
            }
            let found = window.estimate();
            assert_eq!(found.map(|one| one.ratio), ratio, "{blocks:?}");
            let of_state = found.and_then(|one| one.of_answers);
            assert_eq!(of_state, of_answers, "{blocks:?}");
        }
    }

    #[test]
    fn ratio_is_one_within_profile_and_tolerance() {
        for (mean_ms, full_ms, low, high, expected) in [
            (60.0, None, 30.0, 40.0, 1.5),
            (42.0, None, 30.0, 40.0, 1.0),
            (35.0, Some(35.0), 30.0, 40.0, 1.0),
            (28.0, Some(28.0), 30.0, 40.0, 1.0),
            (15.0, Some(15.0), 30.0, 40.0, 0.5),
            // Two of three slots were taken, and then all that were free.
            (15.0, Some(22.5), 30.0, 40.0, 0.75),
            (15.0, Some(30.0), 30.0, 40.0, 1.0),
            // Faster with few requests says nothing.
            (15.0, None, 30.0, 40.0, 1.0),
            // Whole ms of a fast model, and a profile without a time.
            (3.0, None, 1.0, 1.0, 1.0),
            (50.0, Some(50.0), 0.0, 0.0, 1.0),
        ] {
            assert_eq!(
                ratio(mean_ms, full_ms, &(low..=high)),
                expected,
                "{mean_ms} {full_ms:?}"
            );
        }
    }

    proptest! {
        /// With more than half of the executions around a ratio, the estimate is there, whatever the rest is.
        #[test]
        fn estimate_withstands_a_minority(
            good in prop::collection::vec((1.4_f64..1.6, 10.0_f64..50.0), 8..20),
            bad in prop::collection::vec((0.01_f64..100.0, 1.0_f64..9.0), 0..8),
        ) {
            let mut blocks: Vec<_> = good.into_iter().chain(bad).collect();
            blocks.sort_by(|a, b| a.1.total_cmp(&b.1));
            let blocks: Vec<_> = blocks.into_iter().map(|(ratio, n)| (0, ratio, n)).collect();
            let (ratio, _) = estimate(&blocks, 0).unwrap();
            prop_assert!((1.4..1.6).contains(&ratio), "{ratio}");
        }

        #[test]
        fn window_is_bounded_and_its_executions_are_positive(
            blocks in prop::collection::vec((0_u64..5, 0.1_f64..9.0), 0..1500),
        ) {
            let (mut window, mut now) = (Window::default(), 0);
            for (pause, executions) in blocks {
                now += pause;
                window.add(block(now, 1.0, executions));
                window.expire(Duration::from_secs(now));
                prop_assert!(window.0.len() <= BLOCKS_MAX);
                let oldest = window.0.front().unwrap().at;
                prop_assert!(Duration::from_secs(now) - oldest < BLOCK_AGE_MAX);
            }
        }
    }
}
