//! Executions of one variant whose start is known, in runs that began together.

use crate::time::{Mono, Span};

/// Maximum number of runs kept of a variant. With more lanes at once, the ends of some are not known.
pub const RUNS_MAX: usize = 16;
/// Executions that begin within this time of each other form one run.
const JOIN: Span = Span::from_micros(500);
/// Maximum number of executions in a run.
const RUN_BITS: u32 = 32;

/// Executions of one variant that began together: a single one, or a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Run {
    /// Ordinal of its first request.
    pub first: u32,
    /// Bit set of those still executing, by their distance from the first.
    pub present: u32,
    /// Start of the executions.
    pub began: Mono,
}

/// Runs of one variant, oldest first, with sums over their executions: each acquisition needs these sums.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Runs {
    list: Vec<Run>,
    /// Number of executions.
    executing: u32,
    /// Sum of their starts, ns, modulo 2⁶⁴.
    starts: u64,
}

impl Run {
    fn bit(&self, ordinal: u32) -> Option<u32> {
        let place = ordinal.wrapping_sub(self.first);
        (place < RUN_BITS).then(|| 1 << place)
    }

    /// Number of its executions.
    pub(super) fn size(&self) -> u32 {
        // Most often a single one. Processors may have no instruction for `count_ones`.
        let besides_first = self.present & self.present.wrapping_sub(1);
        if besides_first == 0 {
            u32::from(self.present != 0)
        } else {
            1 + besides_first.count_ones()
        }
    }

    /// Time since its start, ns; negative if it begins later.
    pub(super) fn age(&self, now: Mono) -> i64 {
        now.0.wrapping_sub(self.began.0).cast_signed()
    }
}

impl Runs {
    /// Runs, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Run> {
        self.list.iter()
    }

    /// Number of executions.
    pub(super) fn executing(&self) -> u32 {
        self.executing
    }

    /// Work left if each execution takes `mean` ns, in ns of one slot, modulo 2⁶⁴. An execution that has taken longer
    /// counts as less than none.
    pub(super) fn work_left(&self, mean: i64, now: Mono) -> u64 {
        let each = mean.cast_unsigned().wrapping_sub(now.0);
        let all = each.wrapping_mul(u64::from(self.executing));
        all.wrapping_add(self.starts)
    }

    /// Adds a run; returns whether it is one that may follow those before it, and there was a place for it.
    pub(super) fn push(&mut self, run: Run) -> bool {
        let is_latest = self.list.last().is_none_or(|last| last.began <= run.began);
        let fits = is_latest && run.present != 0 && self.list.len() < RUNS_MAX;
        if fits {
            self.list.push(run);
            self.add(run.size(), run.began);
        }
        fits
    }

    /// Runs that are sorted by their start, at most [`RUNS_MAX`].
    #[cfg(test)]
    pub(super) fn of(list: impl IntoIterator<Item = Run>) -> Runs {
        let mut runs = Runs::default();
        assert!(list.into_iter().all(|run| runs.push(run)));
        runs
    }

    /// Drops all runs; returns whether there were any.
    pub(super) fn clear(&mut self) -> bool {
        let any = !self.list.is_empty();
        self.list.clear();
        (self.executing, self.starts) = (0, 0);
        any
    }

    /// Records the start of an execution, if there is a place for it.
    pub(super) fn begin(&mut self, ordinal: u32, began: Mono) {
        let join = JOIN.as_nanos();
        let near =
            |run: &Run| (began.0.checked_sub(run.began.0)).is_some_and(|since| since <= join);
        let joined = self.list.iter_mut().filter(|run| near(run));
        let joined = joined
            .filter_map(|run| Some((run.bit(ordinal)?, run)))
            .next();
        if let Some((bit, run)) = joined {
            if run.present & bit == 0 {
                run.present |= bit;
                let began = run.began;
                self.add(1, began);
            }
        } else if self.list.len() < RUNS_MAX {
            let run = Run {
                first: ordinal,
                present: 1,
                began,
            };
            let before = self.list.iter().rposition(|run| run.began <= began);
            self.list.insert(before.map_or(0, |at| at + 1), run);
            self.add(1, began);
        }
    }

    /// Removes an execution; returns its start.
    pub(super) fn end(&mut self, ordinal: u32) -> Option<Mono> {
        let mut list = self.list.iter().enumerate();
        let (place, bit) = list.find_map(|(place, run)| {
            let bit = run.bit(ordinal)?;
            (run.present & bit != 0).then_some((place, bit))
        })?;
        self.remove(place, bit)
    }

    /// Removes one of the executions that began first.
    pub(super) fn drop_oldest(&mut self) -> Option<Mono> {
        let present = self.list.first()?.present;
        self.remove(0, present & present.wrapping_neg())
    }

    /// Removes from a run the execution with that bit; returns its start.
    fn remove(&mut self, place: usize, bit: u32) -> Option<Mono> {
        let run = self.list.get_mut(place)?;
        run.present &= !bit;
        let (began, is_over) = (run.began, run.present == 0);
        if is_over {
            self.list.remove(place);
        }
        self.executing = self.executing.wrapping_sub(1);
        self.starts = self.starts.wrapping_sub(began.0);
        Some(began)
    }

    fn add(&mut self, executions: u32, began: Mono) {
        self.executing = self.executing.wrapping_add(executions);
        let starts = began.0.wrapping_mul(u64::from(executions));
        self.starts = self.starts.wrapping_add(starts);
    }
}
