//! Limit on the samples that one source adds to shared measurements: [`PER_SECOND`] values a second per
//! worker, and as many at once. Planners use high percentiles, which the busiest source would otherwise
//! determine alone.
//!
//! A source's allowance is a point in time: each value advances it by its part of a second. While it is a
//! whole second ahead of now, no more values are taken (GCRA). Past allowances carry no information and are
//! dropped.

use std::collections::HashMap;

use crate::time::{Mono, Span};

/// Maximum number of values of a source per second.
pub const PER_SECOND: u32 = 20;
/// Maximum number of sources in that time; values of further ones are dropped.
pub const SOURCES_MAX: usize = 1024;
const SECOND: Span = Span::from_secs(1);

/// Allowances of sources.
#[derive(Debug, Default)]
pub struct SampleLimit {
    /// The standard library's seeded hasher, because clients choose the keys.
    allowances: HashMap<u64, Mono>,
}

impl SampleLimit {
    /// Whether a value of this source is taken now.
    pub fn admits(&mut self, source: u64, now: Mono) -> bool {
        if self.allowances.len() >= SOURCES_MAX && !self.allowances.contains_key(&source) {
            self.allowances.retain(|_, until| *until > now);
            if self.allowances.len() >= SOURCES_MAX {
                return false;
            }
        }
        let until = self.allowances.entry(source).or_insert(now);
        let next = (*until).max(now) + SECOND / PER_SECOND;
        let admits = next <= now + SECOND;
        if admits {
            *until = next;
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Mono {
        Mono(ms * 1_000_000)
    }

    #[test]
    fn busiest_source_adds_at_most_its_allowance() {
        let mut samples = SampleLimit::default();
        let mut taken = |source, from_ms: u64| {
            let moments = (0..1000).map(|ms| at(from_ms + ms));
            moments.filter(|now| samples.admits(source, *now)).count()
        };
        let burst = PER_SECOND as usize;
        assert_eq!(
            taken(1, 10_000),
            2 * burst - 1,
            "those at once, and a second's"
        );
        assert_eq!(taken(1, 11_000), burst);
        assert_eq!(
            taken(2, 11_000),
            2 * burst - 1,
            "another's allowance is its own"
        );
        assert_eq!(taken(1, 20_000), 2 * burst - 1, "after a pause");
    }

    #[test]
    fn table_is_bounded_and_drops_silent_sources() {
        let mut samples = SampleLimit::default();
        let many = SOURCES_MAX as u64;
        assert!((0..many).all(|source| samples.admits(source, at(5))));
        assert!(!samples.admits(many, at(5)));
        assert!(samples.admits(0, at(5)), "it has an allowance");
        assert!(samples.admits(many, at(5) + SECOND));
        assert!(samples.allowances.len() <= 2);
    }

    proptest! {
        /// Any second has at most twice the allowance, for any arrival of values.
        #[test]
        fn samples_of_any_second_are_bounded(gaps in prop::collection::vec(0..200_u64, 1..400)) {
            let mut samples = SampleLimit::default();
            let mut now_ms = 1_000;
            let mut taken: Vec<u64> = Vec::new();
            for gap_ms in gaps {
                now_ms += gap_ms;
                if samples.admits(7, at(now_ms)) {
                    taken.push(now_ms);
                }
                let second = taken.iter().filter(|ms| **ms + 1_000 > now_ms).count();
                prop_assert!(second <= 2 * PER_SECOND as usize);
            }
        }
    }
}
