//! Says a trouble once when it begins and once when it ends, and counts what is between: a proxy
//! that is down for an hour is two lines, not 3,600.

use std::collections::BTreeMap;
use std::fmt::Display;

/// The troubles that stand. Bounded by who can be in trouble: proxies and variants of one service. Whose
/// come and go has them left out with [`Troubles::keep`] when they are gone.
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

    /// Leaves out whoever is not there any more: nobody will say that they are well again.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.standing.retain(|who, count| {
            let stays = is_there(who);
            if !stays {
                tracing::info!("{who}: gone after {count} failures");
            }
            stays
        });
    }

    /// How often in a row `who` failed; `None` who is well.
    #[cfg(test)]
    pub(crate) fn count(&self, who: &str) -> Option<u64> {
        self.standing.get(who).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_stands_until_it_ends_or_who_has_it_is_gone() {
        let mut troubles = Troubles::default();
        for who in ["a", "b", "b", "c"] {
            troubles.failed(who, &"no answer", "nothing changes");
        }
        troubles.went_well("a");
        assert_eq!(
            ["a", "b", "c"].map(|who| troubles.count(who)),
            [None, Some(2), Some(1)]
        );
        troubles.keep(|who| who != "b");
        assert_eq!(
            ["a", "b", "c"].map(|who| troubles.count(who)),
            [None, None, Some(1)]
        );
    }
}
