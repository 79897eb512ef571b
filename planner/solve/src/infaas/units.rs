//! Amounts of all resource types as a vector.

/// Maximum number of resource types.
pub const RESOURCES_MAX: usize = 8;

/// One amount per resource type, in the order of the problem; 0 for unused entries.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Units(pub(super) [f64; RESOURCES_MAX]);

impl Units {
    pub(super) fn collect(amounts: impl IntoIterator<Item = f64>) -> Units {
        let mut units = Units::default();
        for (unit, amount) in units.0.iter_mut().zip(amounts) {
            *unit = amount;
        }
        units
    }

    /// Creates a vector with `amount` of type `index` alone.
    pub(super) fn only(index: usize, amount: f64) -> Units {
        let mut units = Units::default();
        if let Some(unit) = units.0.get_mut(index) {
            *unit = amount;
        }
        units
    }

    pub(super) fn at(&self, index: usize) -> f64 {
        self.0.get(index).copied().unwrap_or_default()
    }

    pub(super) fn dot(&self, other: &Units) -> f64 {
        self.0.iter().zip(&other.0).map(|(a, b)| a * b).sum()
    }

    /// self + times · other.
    pub(super) fn plus(&self, other: &Units, times: f64) -> Units {
        let mut units = *self;
        for (unit, more) in units.0.iter_mut().zip(&other.0) {
            *unit += times * more;
        }
        units
    }

    pub(super) fn min(&self, other: &Units) -> Units {
        Units::collect(self.0.iter().zip(&other.0).map(|(a, b)| a.min(*b)))
    }

    pub(super) fn within(&self, most: &Units) -> bool {
        self.0.iter().zip(&most.0).all(|(a, b)| a <= b)
    }
}
