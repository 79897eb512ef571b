//! Choice among forecasters by pinball loss, without flapping.
//!
//! Each forecaster's mean loss is remembered with a long memory. The choice goes to the one with the lowest mean once
//! that is lower than the current's by a margin: a fixed part of it, and [`DEVIATIONS`] of the mean difference of the
//! two, as in a paired test, so that neither chance nor an advantage that comes and goes changes it. Between two changes
//! are [`HORIZONS_MIN`] at least.

use crate::learnt::{LearntChoice, LearntLosses};

/// Horizons that the mean losses remember: half of all so far, because models learn, and as many as this at most.
pub const MEMORY_MAX: f64 = 2000.0;
/// Minimum of the horizons remembered.
pub const MEMORY_MIN: f64 = 200.0;
/// Part of the current's mean loss that another must be better by.
pub const MARGIN: f64 = 0.003;
/// Standard deviations of the mean difference that another must be better by in addition.
pub const DEVIATIONS: f64 = 1.0;
/// Minimum number of horizons between two changes, and before the first.
pub const HORIZONS_MIN: f64 = 15.0;

/// Choice among a fixed number of forecasters.
#[derive(Debug, Clone)]
pub struct Choice {
    members: Vec<Memory>,
    current: usize,
    /// Horizons so far.
    horizons: f64,
    /// Horizons since the last change.
    since: f64,
    changes: u64,
    per_horizon: f64,
}

/// Sums that forget.
#[derive(Debug, Clone, Default)]
struct Memory {
    losses: f64,
    horizons: f64,
    /// Squares of the differences to each forecaster, and the horizons in which both had forecasts.
    squares: Vec<(f64, f64)>,
}

impl Choice {
    /// Begins with the forecaster `first` of `count`, whose outcomes come `per_horizon` times in a horizon.
    pub fn new(count: usize, first: usize, per_horizon: f64) -> Choice {
        Choice {
            members: vec![
                Memory {
                    squares: vec![(0.0, 0.0); count],
                    ..Memory::default()
                };
                count
            ],
            current: first.min(count.saturating_sub(1)),
            horizons: 0.0,
            since: 0.0,
            changes: 0,
            per_horizon: per_horizon.max(1.0),
        }
    }

    /// Forecaster to follow.
    pub fn current(&self) -> usize {
        self.current
    }

    /// Number of changes so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Losses so far, and the forecaster that is followed.
    pub(crate) fn learnt(&self) -> LearntChoice {
        let losses = |memory: &Memory| LearntLosses {
            losses: memory.losses,
            horizons: memory.horizons,
            squares: memory.squares.clone(),
        };
        LearntChoice {
            current: self.current,
            horizons: self.horizons,
            since: self.since,
            changes: self.changes,
            members: self.members.iter().map(losses).collect(),
        }
    }

    /// Takes over losses of as many forecasters.
    pub(crate) fn relearn(&mut self, learnt: &LearntChoice) {
        self.current = learnt.current;
        self.horizons = learnt.horizons;
        self.since = learnt.since;
        self.changes = learnt.changes;
        for (memory, losses) in self.members.iter_mut().zip(&learnt.members) {
            memory.losses = losses.losses;
            memory.horizons = losses.horizons;
            memory.squares.clone_from(&losses.squares);
        }
    }

    /// Takes in the losses of the same moment, by forecaster; `None` or not finite without a forecast then.
    pub fn observe(&mut self, losses: &[Option<f64>]) {
        let horizons = 1.0 / self.per_horizon;
        self.horizons += horizons;
        let memory = (self.horizons / 2.0).clamp(MEMORY_MIN, MEMORY_MAX);
        let kept = 1.0 - horizons / memory;
        self.since += horizons;
        let valid = |loss: &Option<f64>| loss.filter(|loss| loss.is_finite());
        for (memory, loss) in self.members.iter_mut().zip(losses) {
            let Some(loss) = valid(loss) else {
                continue;
            };
            memory.losses = memory.losses * kept + loss * horizons;
            memory.horizons = memory.horizons * kept + horizons;
            for ((squares, both), other) in memory.squares.iter_mut().zip(losses) {
                if let Some(other) = valid(other) {
                    let difference = loss - other;
                    *squares = *squares * kept + difference * difference * horizons;
                    *both = *both * kept + horizons;
                }
            }
        }
        if self.since < HORIZONS_MIN {
            return;
        }
        let Some((best, memory)) = self.best() else {
            return;
        };
        let own = self.members.get(self.current);
        let better = own.is_none_or(|own| {
            let margin = MARGIN * own.mean() + DEVIATIONS * memory.deviation(self.current);
            !own.mean().is_finite() || memory.mean() < own.mean() - margin
        });
        if better && best != self.current {
            self.current = best;
            self.since = 0.0;
            self.changes += 1;
        }
    }

    /// Forecaster with the lowest mean loss among those known for long enough.
    fn best(&self) -> Option<(usize, &Memory)> {
        let known = |(_, memory): &(usize, &Memory)| memory.horizons >= HORIZONS_MIN;
        let members = self.members.iter().enumerate().filter(known);
        members.min_by(|(_, a), (_, b)| a.mean().total_cmp(&b.mean()))
    }
}

impl Memory {
    /// Mean loss; without any limit before the first.
    fn mean(&self) -> f64 {
        if self.horizons > 0.0 {
            self.losses / self.horizons
        } else {
            f64::INFINITY
        }
    }

    /// Standard deviation of the mean difference to another.
    fn deviation(&self, other: usize) -> f64 {
        let (squares, horizons) = self.squares.get(other).copied().unwrap_or_default();
        if horizons > 0.0 {
            libm::sqrt(squares / horizons / horizons)
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests;
