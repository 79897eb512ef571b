//! Error log without repetition: logs an error when it begins and when it ends, and counts the occurrences
//! between. A proxy that is down for an hour yields two lines, not 3,600. An error that comes and goes is one error
//! until its source has been well [`WELL_AFTER`] times in a row; its 10th, 100th … occurrence is logged too. Another
//! error of the same source is logged at once.

use std::collections::BTreeMap;
use std::fmt::Display;

/// Number of successes in a row after which a failure is a new error.
const WELL_AFTER: u32 = 10;

/// Maximum number of different errors of one source that are logged.
const TEXTS_MAX: usize = 8;

/// Current errors by source. Bounded by the number of sources: proxies and variants of one service. Sources
/// that come and go must be removed with [`ErrorLog::retain`].
#[derive(Debug, Default)]
pub struct ErrorLog {
    failing: BTreeMap<String, Failures>,
}

/// Failures of one source.
#[derive(Debug, Default)]
struct Failures {
    /// Number since the first, which was logged.
    count: u64,
    /// Number since the last success.
    in_a_row: u64,
    /// Successes since the last failure.
    successes: u32,
    /// Whether it has failed again after a success.
    comes_and_goes: bool,
    /// Its different errors, without numbers.
    texts: Vec<String>,
}

impl ErrorLog {
    /// Records a failure of `source`.
    pub fn failed(&mut self, source: &str, error: &dyn Display, fallback: &str) {
        let is_new = self.is_new(source, &error.to_string());
        match self.count_failure(source) {
            _ if is_new => {
                tracing::warn!("{source}: {error}; {fallback} (said once, then counted)");
            }
            Some(count) => {
                tracing::warn!(
                    "{source}: {error}; {fallback} ({count} times now; it comes and goes)"
                );
            }
            None => {}
        }
    }

    /// Records a success of `source`.
    pub fn went_well(&mut self, source: &str) {
        if let Some(count) = self.count_success(source) {
            tracing::info!("{source}: well again after {count} failures");
        }
    }

    /// Whether this error is another one than the earlier ones of its source. Numbers in it do not count.
    fn is_new(&mut self, source: &str, error: &str) -> bool {
        let text = error.chars().filter(|one| !one.is_ascii_digit());
        let text: String = text.collect();
        let known = self.failing.entry(source.to_owned()).or_default();
        let is_new = known.texts.len() < TEXTS_MAX && !known.texts.contains(&text);
        if is_new {
            known.texts.push(text);
        }
        is_new
    }

    /// Counts a failure; returns the count if it is to be logged.
    fn count_failure(&mut self, source: &str) -> Option<u64> {
        let known = self.failing.entry(source.to_owned()).or_default();
        known.comes_and_goes |= known.successes > 0;
        known.successes = 0;
        known.count += 1;
        known.in_a_row += 1;
        let again = known.comes_and_goes && is_power_of_ten(known.count);
        (known.count == 1 || again).then_some(known.count)
    }

    /// Counts a success; returns the count of failures if the end of the error is to be logged.
    fn count_success(&mut self, source: &str) -> Option<u64> {
        let known = self.failing.get_mut(source)?;
        known.successes += 1;
        known.in_a_row = 0;
        let (count, ends) = (known.count, known.successes >= WELL_AFTER);
        let logs = match known.comes_and_goes {
            true => ends,
            false => known.successes == 1,
        };
        if ends {
            self.failing.remove(source);
        }
        logs.then_some(count)
    }

    /// Removes sources that no longer exist: no success will ever be recorded for them.
    pub fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.failing.retain(|source, known| {
            let stays = exists(source);
            if !stays && known.successes == 0 {
                tracing::info!("{source}: gone after {} failures", known.count);
            }
            stays
        });
    }

    /// Returns the number of consecutive failures of `source`; `None` if the last attempt succeeded.
    #[cfg(test)]
    pub(crate) fn count(&self, source: &str) -> Option<u64> {
        let known = self.failing.get(source)?;
        (known.in_a_row > 0).then_some(known.in_a_row)
    }
}

fn is_power_of_ten(count: u64) -> bool {
    10_u64.checked_pow(count.ilog10()) == Some(count)
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

    /// Logs failures (`f`) and successes (`s`) of one source; returns the count in each line, which is negative at the
    /// end of an error.
    fn logged(attempts: &str) -> Vec<i64> {
        let mut log = ErrorLog::default();
        let each = attempts.chars().filter_map(|attempt| match attempt {
            'f' => log.count_failure("a").map(|count| count as i64),
            _ => log.count_success("a").map(|count| -(count as i64)),
        });
        each.collect()
    }

    #[test]
    fn another_error_is_new_and_other_numbers_are_not() {
        let mut log = ErrorLog::default();
        for (error, is_new) in [
            ("took 12 ms", true),
            ("took 15 ms", false),
            ("no answer", true),
            ("took 9 ms", false),
        ] {
            assert_eq!(log.is_new("a", error), is_new, "{error}");
        }
        for of in 'a'..='z' {
            log.is_new("a", &of.to_string());
        }
        assert!(!log.is_new("a", "one more"), "no more than the maximum");
        assert!(log.is_new("b", "took 9 ms"));
    }

    #[test]
    fn error_that_comes_and_goes_is_logged_once_and_counted() {
        let wells = |count: u32| "s".repeat(count as usize);
        assert_eq!(logged("ffffs"), [1, -4]);
        // Each cycle fails, and the next one finds the change done.
        assert_eq!(logged(&"fs".repeat(9)), [1, -1]);
        assert_eq!(logged(&"fs".repeat(99)), [1, -1, 10]);
        let over = format!("{}{}", "fs".repeat(3), wells(WELL_AFTER - 1));
        assert_eq!(logged(&over), [1, -1, -3]);
        // It is another error then.
        assert_eq!(logged(&format!("f{}f", wells(WELL_AFTER))), [1, -1, 1]);
        assert_eq!(logged(&format!("f{}f", wells(WELL_AFTER - 1))), [1, -1]);
        assert_eq!(logged(&"f".repeat(1000)), [1], "it does not come and go");
    }
}
