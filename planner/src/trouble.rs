//! Says a trouble once when it begins and once when it ends, and counts what is between: a proxy
//! that is down for an hour is two lines, not 3,600.

use std::collections::BTreeMap;
use std::fmt::Display;

/// The troubles that stand. Bounded by who can be in trouble: proxies and variants of one service.
#[derive(Debug, Default)]
pub struct Troubles {
    standing: BTreeMap<String, u64>,
}

impl Troubles {
    /// `who` failed.
    pub fn failed(&mut self, who: &str, error: &dyn Display, fallback: &str) {
        let count = self.standing.entry(who.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            tracing::warn!("{who}: {error}; {fallback} (said once, then counted)");
        }
    }

    /// `who` did not fail.
    pub fn went_well(&mut self, who: &str) {
        if let Some(count) = self.standing.remove(who) {
            tracing::info!("{who}: well again after {count} failures");
        }
    }
}
