//! Requests that wait at a proxy.

use std::collections::BTreeMap;

use crate::observe::Counts;

/// Requests that wait at a proxy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Waiting {
    /// All that the proxy holds; those whose bodies arrive are among them.
    pub held: f64,
    /// Those that wait for a variant, by its name.
    pub variants: BTreeMap<String, f64>,
}

impl Waiting {
    /// Returns the requests that wait by these counts.
    pub(super) fn at(counts: &Counts) -> Waiting {
        let outcomes = &counts.outcomes;
        let each = outcomes.variants.iter();
        Waiting {
            held: outcomes.held,
            variants: each
                .map(|(name, variant)| (name.clone(), variant.waiting))
                .collect(),
        }
    }
}
