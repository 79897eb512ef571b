//! Error log without repetition: logs an error when it begins and when it ends, and counts the occurrences
//! between. A proxy that is down for an hour yields two lines, not 3,600.

use std::collections::BTreeMap;
use std::fmt::Display;

/// Current errors by source. Bounded by the number of sources: proxies and variants of one service. Sources
/// that come and go must be removed with [`ErrorLog::retain`].
#[derive(Debug, Default)]
pub struct ErrorLog {
    failing: BTreeMap<String, u64>,
}

impl ErrorLog {
    /// Records a failure of `source`.
    pub fn failed(&mut self, source: &str, error: &dyn Display, fallback: &str) {
        let count = self.failing.entry(source.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            tracing::warn!("{source}: {error}; {fallback} (said once, then counted)");
        }
    }

    /// Records a success of `source`.
    pub fn went_well(&mut self, source: &str) {
        if let Some(count) = self.failing.remove(source) {
            tracing::info!("{source}: well again after {count} failures");
        }
    }

    /// Removes sources that no longer exist: no success will ever be recorded for them.
    pub fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.failing.retain(|source, count| {
            let stays = exists(source);
            if !stays {
                tracing::info!("{source}: gone after {count} failures");
            }
            stays
        });
    }

    /// Returns the number of consecutive failures of `source`; `None` if the last attempt succeeded.
    #[cfg(test)]
    pub(crate) fn count(&self, source: &str) -> Option<u64> {
        self.failing.get(source).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_stands_until_success_or_source_is_removed() {
        let mut log = ErrorLog::default();
        for source in ["a", "b", "b", "c"] {
            log.failed(source, &"no answer", "nothing changes");
        }
        log.went_well("a");
        assert_eq!(
            ["a", "b", "c"].map(|source| log.count(source)),
            [None, Some(2), Some(1)]
        );
        log.retain(|source| source != "b");
        assert_eq!(
            ["a", "b", "c"].map(|source| log.count(source)),
            [None, None, Some(1)]
        );
    }
}
