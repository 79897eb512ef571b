//! Variants in the form that the search uses: useful choices, and their concave hull.

use super::hull::{Corner, upper};
use super::{Candidate, Choice, Problem};

/// Variant with its useful choices, as the search uses it.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Index in the problem.
    pub(super) index: usize,
    /// Value of serving the whole demand by it.
    pub(super) value: f64,
    /// Cores and the load they carry, both rising.
    pub(super) options: Vec<(u32, f64)>,
    /// Concave hull of the options.
    pub(super) hull: Vec<Corner>,
}

impl Item {
    pub(super) fn new(
        problem: &Problem,
        index: usize,
        variant: &Candidate,
        unloaded: bool,
    ) -> Item {
        let allowed = |option: &&Choice| !unloaded || option.cores == 0;
        let mut options: Vec<(u32, f64)> = Vec::new();
        for option in variant.options.iter().filter(allowed) {
            let load = (option.capacity_rps / problem.demand_rps).clamp(0.0, 1.0);
            // More cores that carry no more load only cost.
            if options.last().is_none_or(|last| load > last.1) {
                options.push((option.cores, load));
            }
        }
        let corners = options.iter().map(|(cores, load)| Corner {
            cores: f64::from(*cores),
            load: *load,
        });
        Item {
            index,
            value: problem.value_of(variant.accuracy),
            hull: upper(corners),
            options,
        }
    }
}
