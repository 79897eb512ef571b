//! Rate of a variant while all its slots are taken → ratio of its time to the profile's, as its capacity has it. Pure.
//!
//! With all slots taken for all of the time, it is the ratio of the times of executions (Little's law), without their
//! rounding to whole ms. At a lower load it is closer to the capacity than these: a server that executes one request after
//! another answers faster while a slot is free. Servers that execute all slots at once then count as up to a tenth faster
//! than they are, because the time begins at the end of an execution; so do servers that make batches, by more. A rate at a
//! lower load is therefore an upper bound of the capacity, and none makes a variant faster.
//!
//! For the capacity the rate counts as it is. For the state of a variant it may be lower by what the server's own batches
//! explain ([`Expected::own_batches`]).

use std::collections::VecDeque;

use super::window::Block;
use crate::observe::FullRate;
use crate::plan::Expected;

/// Part of the time for which all slots must be taken, and part of the slots that must be taken on average: a proxy
/// without requests may have slots, too.
const SHARE_MIN: f64 = 0.5;
/// Part of the time from which the rate is that of an overloaded variant.
const OVERLOADED: f64 = 0.8;
/// The same for servers that make batches: of a batch, several executions end in no time.
const OVERLOADED_BY_BATCHES: f64 = 0.95;
/// Executions for a ratio. Its standard error is 10 % if times are exponential, 3 % if they vary by 30 %.
const EXECUTIONS_MIN: f64 = 100.0;
/// Factor from the median beyond which a block is a stall and does not count.
const STALLS: f64 = 2.0;

/// Part of a block with all slots taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FullPart {
    /// Time of an execution by the rate, relative to the profile's of the planned batch.
    ratio: f64,
    /// Ratios that agree with the profile: of its largest batch, and of its measured capacity.
    agrees: (f64, f64),
    /// Ratio that the server's own batches explain.
    own_batches: f64,
    /// Part of the time from which the ratio may make the variant faster.
    overloaded: f64,
    executions: f64,
    seconds: f64,
    /// Length of the block in seconds.
    length_s: f64,
}

impl FullPart {
    /// Part of a block of `length_s`, in which `taken` of the slots were taken on average; `None` if it says nothing.
    pub(super) fn of(
        full: FullRate,
        (length_s, taken): (f64, f64),
        expected: &Expected,
    ) -> Option<FullPart> {
        let executed_rps = expected.executed_rps;
        let bounds_rps = [full.rps, expected.fastest_rps(), expected.sustained_rps];
        let is_known = executed_rps > 0.0 && bounds_rps.iter().all(|rps| *rps > 0.0);
        let is_full = full.seconds >= SHARE_MIN * length_s && taken >= SHARE_MIN;
        let [ratio, fastest, slowest] = bounds_rps.map(|rps| executed_rps / rps);
        (is_known && is_full).then_some(FullPart {
            ratio,
            agrees: (fastest.min(1.0), slowest.max(1.0)),
            own_batches: expected.own_batches(),
            overloaded: match expected.by_server {
                true => OVERLOADED_BY_BATCHES,
                false => OVERLOADED,
            },
            executions: full.executions,
            seconds: full.seconds,
            length_s,
        })
    }

    /// Whether it makes the variant no faster than its profile.
    pub(super) fn is_slow(&self) -> bool {
        self.ratio >= 1.0
    }
}

/// Ratio by the blocks with all slots taken, where they say more than `by_time`, that of the times of executions.
pub(super) fn ratio(blocks: &VecDeque<Block>, by_time: f64) -> f64 {
    ratio_beyond(blocks, by_time, |_| 1.0)
}

/// The same for the state: above the profile's only by what the server's own batches do not explain.
pub(super) fn state_ratio(blocks: &VecDeque<Block>, by_time: f64) -> f64 {
    ratio_beyond(blocks, by_time, |part| part.own_batches)
}

/// Ratio, where a slower one is divided by what is explained, down to 1.
fn ratio_beyond(blocks: &VecDeque<Block>, by_time: f64, explained: fn(&FullPart) -> f64) -> f64 {
    let mut parts: Vec<FullPart> = blocks.iter().filter_map(|block| block.full).collect();
    parts.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let sum = |parts: &[FullPart], of: fn(&FullPart) -> f64| parts.iter().map(of).sum::<f64>();
    let half = sum(&parts, |part| part.executions) / 2.0;
    let mut up_to = 0.0;
    let middle = parts.iter().find(|part| {
        up_to += part.executions;
        up_to >= half
    });
    let Some(middle) = middle.copied() else {
        return by_time;
    };
    let factors = 1.0 / STALLS..=STALLS;
    parts.retain(|part| factors.contains(&(part.ratio / middle.ratio)));
    let executions = sum(&parts, |part| part.executions);
    if executions < EXECUTIONS_MIN {
        return by_time;
    }
    let ratio = sum(&parts, |part| part.ratio * part.executions) / executions;
    let share = sum(&parts, |part| part.seconds) / sum(&parts, |part| part.length_s);
    let (fastest, slowest) = middle.agrees;
    let ratio = match ratio {
        ratio if ratio < fastest => ratio / fastest,
        ratio if ratio > slowest => (ratio / explained(&middle)).max(1.0),
        _ => return by_time,
    };
    match share >= middle.overloaded {
        true => ratio,
        false => ratio.max(by_time),
    }
}
