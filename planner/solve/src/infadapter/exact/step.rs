//! One step of the search: a label extended by a choice of the next variant.

use super::super::capacity::CapacityBound;
use super::super::dual::Bound;
use super::super::item::Item;
use super::super::labels::Label;
use super::{Level, Search};

/// Load below which the rest is a rounding error.
const NOTHING: f64 = 1e-9;

/// Decision of one variant.
pub(super) struct Step<'a> {
    pub(super) item: &'a Item,
    pub(super) bounds: &'a [Bound],
    /// Capacity of the variants after it.
    reach: &'a CapacityBound,
    /// Variants decided before it.
    pub(super) decided: usize,
    core_cost: f64,
    pub(super) loading: f64,
}

impl<'a> Step<'a> {
    pub(super) fn new(
        search: &Search<'_>,
        level: &'a Level,
        decided: usize,
        bounds: &'a [Bound],
        tails: &'a [CapacityBound],
    ) -> Option<Step<'a>> {
        Some(Step {
            item: level.items.get(decided)?,
            bounds,
            reach: tails.get(decided + 1)?,
            decided,
            core_cost: search.core_cost,
            loading: level.loading,
        })
    }

    /// Returns the label after that choice; `None` if the demand can then no longer be carried.
    pub(super) fn child(&self, (from, label): (usize, &Label), option: usize) -> Option<Label> {
        let (got, carried) = *self.item.options.get(option)?;
        let cores = label.cores.checked_sub(got)?;
        let served = carried.min(label.load);
        let load = label.load - served;
        let value = label.value + self.item.value * served - self.core_cost * f64::from(got);
        let left = f64::from(cores);
        if load > self.reach.at(left) + NOTHING {
            return None;
        }
        let bounds = self.bounds.iter();
        let above = bounds.map(|bound| bound.at(self.decided + 1, left, load));
        Some(Label {
            cores,
            load,
            value,
            bound: value + above.fold(f64::INFINITY, f64::min) - self.loading,
            from: u32::try_from(from).unwrap_or(u32::MAX),
            got,
        })
    }
}
