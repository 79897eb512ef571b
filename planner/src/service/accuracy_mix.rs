//! Accuracies that the requests of a service require, by their shares of the demand.

use crate::solve::infaas::ACCURACIES_MAX;

/// Shares of the demand by the accuracy that they require exactly. Their sum is at most 1; the rest requires none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AccuracyMix {
    /// Accuracy in percent, rising, and share; unused places have the share 0.
    shares: [(f64, f64); ACCURACIES_MAX],
}

impl AccuracyMix {
    /// Creates a mix. Beyond [`ACCURACIES_MAX`] accuracies, those of small shares count as the next higher one.
    pub fn new(shares: impl IntoIterator<Item = (f64, f64)>) -> AccuracyMix {
        let mut known: Vec<(f64, f64)> = shares.into_iter().filter(|one| one.1 > 0.0).collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        known.dedup_by(|next, first| {
            let same = next.0 <= first.0;
            first.1 += if same { next.1 } else { 0.0 };
            same
        });
        while known.len() > ACCURACIES_MAX {
            let but_last = known.len() - 1;
            let each = known.iter().take(but_last).enumerate();
            let smallest = each.min_by(|(_, a), (_, b)| a.1.total_cmp(&b.1));
            let Some(place) = smallest.map(|(place, _)| place) else {
                break;
            };
            let (_, share) = known.remove(place);
            if let Some(next) = known.get_mut(place) {
                next.1 += share;
            }
        }
        let mut mix = AccuracyMix::default();
        for (place, one) in mix.shares.iter_mut().zip(known) {
            *place = one;
        }
        mix
    }

    /// Returns the accuracies that are required, in percent, rising, with the share that requires exactly each.
    pub fn shares(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.shares.iter().copied().filter(|one| one.1 > 0.0)
    }

    /// Returns the mix of the accuracies that pass a test; demand of the others counts as of none.
    #[must_use]
    pub fn only(&self, passes: impl Fn(f64) -> bool) -> AccuracyMix {
        AccuracyMix::new(self.shares().filter(|one| passes(one.0)))
    }

    /// Share that requires this accuracy or a higher one.
    pub fn above(&self, percent: f64) -> f64 {
        let above = self.shares().filter(|one| one.0 >= percent);
        above.map(|one| one.1).sum::<f64>().min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_rise_by_accuracy_and_equal_ones_add_up() {
        let mix = AccuracyMix::new([(80.0, 0.2), (70.0, 0.25), (90.0, 0.0), (80.0, 0.3)]);
        let shares: Vec<_> = mix.shares().collect();
        assert_eq!(shares, [(70.0, 0.25), (80.0, 0.5)]);
        for (percent, above) in [
            (0.0, 0.75),
            (70.0, 0.75),
            (70.1, 0.5),
            (80.0, 0.5),
            (81.0, 0.0),
        ] {
            assert_eq!(mix.above(percent), above, "{percent}");
        }
        assert_eq!(mix.only(|percent| percent < 80.0).above(0.0), 0.25);
    }

    #[test]
    fn small_shares_beyond_the_limit_count_as_the_next_higher_accuracy() {
        // The share of 10 % and that of 20 %, to which it is added, are the smallest.
        let many = (1..=ACCURACIES_MAX + 2).map(|n| (n as f64 * 10.0, n as f64 * 0.01));
        let mix = AccuracyMix::new(many);
        let shares: Vec<_> = mix.shares().collect();
        assert_eq!(shares.len(), ACCURACIES_MAX);
        assert_eq!(shares[0].0, 30.0);
        assert!((shares[0].1 - 0.06).abs() < 1e-12, "{shares:?}");
        assert!((mix.above(0.0) - 0.55).abs() < 1e-12);
    }
}
