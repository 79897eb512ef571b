//! Ratio of measured execution times to the profile's, by the cores of one execution. Pure.
//!
//! A ratio holds for the cores at which it was measured. For other cores it is that of the nearest measured ones, by
//! ratio of the cores, and the larger of two equally near: a slow machine or neighbour slows down any number of cores,
//! until a measurement at those cores says otherwise. Where a solver takes one latency model for all cores, the
//! largest ratio counts, so that cores which turned out slow are not chosen again for their better ratio elsewhere.
//!
//! Ratios are whole percents, so that equal corrections give equal decisions.

/// Maximum numbers of cores whose ratios are kept.
pub const POINTS_MAX: usize = 4;
/// Ratio of a profile that holds, in percent.
pub const HOLDS_PERCENT: u32 = 100;

/// Ratio at one number of cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ratio {
    /// Cores of one execution, in thousandths.
    pub millis: u32,
    /// Measured time relative to the profile's, in percent.
    pub percent: u32,
}

/// Correction of a profile; by default none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Correction([Option<Ratio>; POINTS_MAX]);

impl Correction {
    /// No correction: the profile holds.
    pub const NONE: Correction = Correction([None; POINTS_MAX]);

    /// Correction by the first [`POINTS_MAX`] of these ratios.
    pub fn of(ratios: impl IntoIterator<Item = Ratio>) -> Correction {
        let mut correction = Correction::NONE;
        for (place, ratio) in correction.0.iter_mut().zip(ratios) {
            *place = Some(ratio);
        }
        correction
    }

    /// Factor on the time of an execution on `cores`.
    pub fn factor(&self, cores: f64) -> f64 {
        let distance = |ratio: &Ratio| {
            let (one, other) = (f64::from(ratio.millis) / 1e3, cores);
            (one / other).max(other / one)
        };
        let nearest = self.0.iter().flatten().min_by(|a, b| {
            let by_distance = distance(a).total_cmp(&distance(b));
            by_distance.then(b.percent.cmp(&a.percent))
        });
        nearest.map_or(1.0, |ratio| part(ratio.percent))
    }

    /// Largest factor on any number of cores.
    pub fn largest(&self) -> f64 {
        let percents = self.0.iter().flatten().map(|ratio| ratio.percent);
        part(percents.max().unwrap_or(HOLDS_PERCENT))
    }
}

fn part(percent: u32) -> f64 {
    f64::from(percent) / f64::from(HOLDS_PERCENT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn correction(ratios: &[(u32, u32)]) -> Correction {
        let ratio = |(cores, percent): &(u32, u32)| Ratio {
            millis: cores * 1000,
            percent: *percent,
        };
        Correction::of(ratios.iter().map(ratio))
    }

    #[test]
    fn ratio_holds_for_its_cores_and_the_nearest_for_others() {
        let learnt = [(1, 130), (4, 100), (8, 160)];
        for (ratios, cores, factor) in [
            (&[][..], 4.0, 1.0),
            (&learnt[..1], 1.0, 1.3),
            // Nothing is known of four cores yet: the ratio goes on, not the time.
            (&learnt[..1], 4.0, 1.3),
            (&learnt[..2], 4.0, 1.0),
            (&learnt[..2], 1.0, 1.3),
            (&learnt[..2], 0.5, 1.3),
            (&learnt[..2], 3.0, 1.0),
            (&learnt[..2], 16.0, 1.0),
            // Two cores are as near to one as to four: the larger ratio.
            (&learnt[..2], 2.0, 1.3),
            (&learnt[..], 16.0, 1.6),
        ] {
            assert_eq!(
                correction(ratios).factor(cores),
                factor,
                "{ratios:?} {cores}"
            );
        }
        assert_eq!(correction(&[]).largest(), 1.0);
        assert_eq!(correction(&learnt[..2]).largest(), 1.3);
        assert_eq!(correction(&[(2, 60)]).largest(), 0.6);
    }

    proptest! {
        #[test]
        fn factor_is_among_the_measured_ones(
            ratios in prop::collection::vec((1_u32..64, 50_u32..400), 1..8),
            millis in 1_u32..64_000,
        ) {
            let kept = &ratios[..ratios.len().min(POINTS_MAX)];
            let factor = correction(&ratios).factor(f64::from(millis) / 1e3);
            prop_assert!(kept.iter().any(|(_, percent)| part(*percent) == factor), "{factor}");
            prop_assert!(factor <= correction(&ratios).largest());
        }
    }
}
