//! Sums of a variant's service times by group of requests, over the present window and the one before it.
//!
//! Workers add up what each has measured. So the sums are integers, and windows begin at multiples of [`WINDOW`] on the
//! clock that all workers share: the result is the same in whatever order they add. What is older than two windows
//! counts no longer, whoever measured it.

use super::group_times::Group;
use super::service_time::{RATIO_MAX, WINDOW};
use crate::size::{SIZES, Size};
use crate::time::Mono;
use crate::waiting::class::{CLASSES_MAX, ClassId};
use weir_api::moments::Moments;

/// Number of groups: the sizes, then the classes.
pub const GROUPS: usize = SIZES + CLASSES_MAX;

/// The ratio 1 in fixed point.
const ONE: f64 = 16_384.0;
/// Maximum ratio in fixed point.
const RATIO_LIMIT: u64 = RATIO_MAX << 14;
const _: () = assert!(RATIO_LIMIT == RATIO_MAX * ONE as u64);
/// Length of a window in ns.
const WINDOW_NS: u64 = WINDOW.as_nanos();

/// Sums of one group: ratios of its times to the planned ones, in units of 1/16,384.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of executions.
    pub count: u32,
    /// Number of completed ones.
    pub completed: u32,
    /// Sum of the ratios.
    pub sum: u64,
    /// Sum of those of completed executions.
    pub completed_sum: u64,
    /// Sum of the ratios' squares.
    pub squares: u64,
}

impl Sums {
    /// Returns the sums of one execution.
    #[must_use]
    pub fn of(ratio: f64, completed: bool) -> Sums {
        // Saturates at 0 and at the maximum; an unknown ratio counts as 0.
        let ratio = ((ratio * ONE + 0.5) as u64).min(RATIO_LIMIT);
        Sums {
            count: 1,
            completed: u32::from(completed),
            sum: ratio,
            completed_sum: if completed { ratio } else { 0 },
            squares: ratio * ratio,
        }
    }

    /// Adds other executions. At its limits a sum stays.
    pub fn add(&mut self, other: &Sums) {
        self.count = self.count.saturating_add(other.count);
        self.completed = self.completed.saturating_add(other.completed);
        self.sum = self.sum.saturating_add(other.sum);
        self.completed_sum = self.completed_sum.saturating_add(other.completed_sum);
        self.squares = self.squares.saturating_add(other.squares);
    }

    /// Whether ratios within the limits have such sums: others are of another program.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let max = u64::from(self.count) * RATIO_LIMIT;
        let completed_max = u64::from(self.completed) * RATIO_LIMIT;
        self.completed <= self.count
            && self.sum <= max
            && self.completed_sum <= completed_max.min(self.sum)
            && self.squares <= max.saturating_mul(RATIO_LIMIT)
    }

    /// Moments of the ratios.
    #[must_use]
    pub fn moments(&self) -> Moments {
        Moments {
            count: f64::from(self.count),
            sum: self.sum as f64 / ONE,
            squares: self.squares as f64 / (ONE * ONE),
        }
    }

    /// Sum of the ratios in thousandths, and of their squares in millionths.
    #[must_use]
    pub fn permille(&self) -> (i64, i64) {
        let Moments { sum, squares, .. } = self.moments();
        ((sum * 1e3).round() as i64, (squares * 1e6).round() as i64)
    }

    /// Mean ratio of the completed executions; `None` without any.
    #[must_use]
    pub fn completed_mean(&self) -> Option<f64> {
        let count = f64::from(self.completed);
        (self.completed > 0).then(|| self.completed_sum as f64 / ONE / count)
    }
}

/// Sums of all groups of one variant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupSums {
    /// Number of the present window.
    window: u64,
    /// The present window, and the one before it.
    windows: [[Sums; GROUPS]; 2],
}

impl GroupSums {
    /// Forgets everything; the present window has this number.
    pub fn begin(&mut self, window: u64) {
        self.clear();
        self.window = window;
    }

    /// Sets the sums of the group with that index; the second window's groups follow those of the present one.
    pub fn set(&mut self, index: usize, sums: Sums) {
        if let Some(of_group) = self.windows.as_flattened_mut().get_mut(index) {
            *of_group = sums;
        }
    }

    /// Number of the present window.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Sums of the present window, and of the one before it.
    #[must_use]
    pub fn windows(&self) -> &[[Sums; GROUPS]; 2] {
        &self.windows
    }

    /// Whether nothing counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.windows.iter().flatten().all(|sums| sums.count == 0)
    }

    /// Whether executions of a known size count.
    #[must_use]
    pub fn has_sizes(&self) -> bool {
        let known = |window: &[Sums; GROUPS]| {
            let sizes = window.iter().take(SIZES).skip(1);
            sizes.map(|sums| sums.count).any(|count| count > 0)
        };
        self.windows.iter().any(known)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.windows = [[Sums::default(); GROUPS]; 2];
    }

    /// Drops what is older than two windows; returns whether a window has ended. Another worker may have begun the next
    /// window a moment ago, so that it is not over. Windows after that are of a clock that has been set back, and are
    /// dropped too.
    pub fn expire(&mut self, now: Mono) -> bool {
        let window = now.0 / WINDOW_NS;
        if window == self.window {
            return false;
        }
        if self.window > window + 1 {
            self.clear();
            self.window = window;
            return true;
        }
        self.advance(window)
    }

    /// Makes a window the present one if it is later; returns whether it is.
    fn advance(&mut self, window: u64) -> bool {
        if window <= self.window {
            return false;
        }
        let [current, before] = &mut self.windows;
        *before = if window == self.window + 1 {
            *current
        } else {
            [Sums::default(); GROUPS]
        };
        *current = [Sums::default(); GROUPS];
        self.window = window;
        true
    }

    /// Adds what another worker has measured, each window to its own. The later of the two present windows counts.
    pub fn add(&mut self, other: &GroupSums) {
        if other.is_empty() {
            return;
        }
        self.advance(other.window);
        let [current, before] = &mut self.windows;
        let [other_current, other_before] = &other.windows;
        match self.window - other.window {
            0 => {
                add_each(current, other_current);
                add_each(before, other_before);
            }
            1 => add_each(before, other_current),
            _ => {}
        }
    }

    /// Records an execution of a group, by its size, and by its class if `by_class`.
    pub fn record(&mut self, group: Group, by_class: bool, one: &Sums) {
        let [current, _] = &mut self.windows;
        if let Some(of_size) = current.get_mut(group.size.index()) {
            of_size.add(one);
        }
        if by_class && let Some(of_class) = current.get_mut(index_of_class(group.class)) {
            of_class.add(one);
        }
    }

    /// Sums of a size over both windows.
    #[must_use]
    pub fn of_size(&self, size: Size) -> Sums {
        self.at(size.index())
    }

    /// Sums of a class over both windows.
    #[must_use]
    pub fn of_class(&self, class: ClassId) -> Sums {
        self.at(index_of_class(class))
    }

    /// Sums of all sizes over both windows.
    #[must_use]
    pub fn sizes(&self) -> [Sums; SIZES] {
        std::array::from_fn(|index| self.at(index))
    }

    fn at(&self, index: usize) -> Sums {
        let [current, before] = &self.windows;
        let mut sums = current.get(index).copied().unwrap_or_default();
        if let Some(before) = before.get(index) {
            sums.add(before);
        }
        sums
    }
}

pub(super) fn index_of_class(class: ClassId) -> usize {
    SIZES + usize::from(class.0)
}

fn add_each(to: &mut [Sums; GROUPS], from: &[Sums; GROUPS]) {
    // Few groups have executions.
    for (to, from) in to.iter_mut().zip(from).filter(|(_, from)| from.count > 0) {
        to.add(from);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn large() -> Size {
        Size::of(1_000_000)
    }

    /// One execution, by the window in which it ends, its size, class and ratio.
    fn one(window: u64, bytes: u64, class: u8, ratio: f64, completed: bool) -> GroupSums {
        let mut sums = GroupSums::default();
        sums.expire(Mono(window * WINDOW_NS));
        let (class, size) = (ClassId(class), Size::of(bytes));
        sums.record(Group { class, size }, true, &Sums::of(ratio, completed));
        sums
    }

    #[test]
    fn ratios_count_for_one_to_two_windows() {
        let mut sums = one(3, 1_000_000, 1, 0.5, true);
        let recorded = |sums: &GroupSums| [sums.of_size(large()), sums.of_class(ClassId(1))];
        for (ns, ends, count) in [
            (3 * WINDOW_NS, false, 1),
            (4 * WINDOW_NS - 1, false, 1),
            (4 * WINDOW_NS, true, 1),
            (5 * WINDOW_NS - 1, false, 1),
            (5 * WINDOW_NS, true, 0),
        ] {
            assert_eq!(sums.expire(Mono(ns)), ends, "{ns}");
            assert_eq!(recorded(&sums).map(|of| of.count), [count; 2], "{ns}");
        }
    }

    #[test]
    fn clock_set_back_drops_what_is_more_than_a_window_ahead() {
        for (window, count) in [(9, 1), (8, 1), (7, 0), (0, 0)] {
            let mut sums = one(9, 1_000_000, 0, 0.5, true);
            sums.expire(Mono(window * WINDOW_NS));
            assert_eq!(sums.of_size(large()).count, count, "{window}");
        }
        let mut sums = one(9, 1_000_000, 0, 0.5, true);
        sums.expire(Mono(u64::MAX));
        assert!(sums.is_empty());
    }

    #[test]
    fn moments_are_those_of_the_ratios() {
        let mut sums = one(0, 1_000_000, 0, 0.5, true);
        sums.add(&one(0, 1_000_000, 0, 1.5, false));
        let of = sums.of_size(large());
        let expected = Moments::of(0.5) + Moments::of(1.5);
        assert_eq!((of.moments(), of.completed_mean()), (expected, Some(0.5)));
        assert_eq!(Sums::default().completed_mean(), None);
        for ratio in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert!(Sums::of(ratio, true).is_sound(), "{ratio}");
        }
    }

    fn executions() -> impl Strategy<Value = Vec<GroupSums>> {
        let each = (
            0..4_u64,
            0..5_000_000_u64,
            0..8_u8,
            0.0..5000.0_f64,
            any::<bool>(),
        );
        let each = each.prop_map(|(window, bytes, class, ratio, completed)| {
            one(window, bytes, class, ratio, completed)
        });
        prop::collection::vec(each, 0..60)
    }

    proptest! {
        /// Workers may add in any order, and groups of them may add up first: the sums are the same.
        #[test]
        fn sums_do_not_depend_on_the_order(
            executions in executions(), other in executions(), parts in prop::collection::vec(0..4_usize, 60),
        ) {
            let mut forward = GroupSums::default();
            executions.iter().for_each(|one| forward.add(one));
            let mut backward = GroupSums::default();
            executions.iter().rev().for_each(|one| backward.add(one));
            prop_assert_eq!(&forward, &backward);
            let mut workers = vec![GroupSums::default(); 4];
            for (one, part) in executions.iter().zip(parts) {
                workers[part].add(one);
            }
            let mut all = GroupSums::default();
            workers.iter().rev().for_each(|worker| all.add(worker));
            prop_assert_eq!(&forward, &all);
            let mut both = GroupSums::default();
            other.iter().for_each(|one| both.add(one));
            let mut mixed = both.clone();
            mixed.add(&forward);
            forward.add(&both);
            prop_assert_eq!(&mixed, &forward);
            prop_assert!(mixed.windows().iter().flatten().all(Sums::is_sound));
        }
    }
}
