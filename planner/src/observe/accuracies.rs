//! Accuracies that arriving requests require, as proxies count them: by the least accurate variant that has it. Shares
//! are of the latest requests, which fade with time. Pure: the time is an argument.

use std::time::Duration;

use super::Scrape;
use super::proxies::Proxies;
use crate::service::AccuracyMix;

/// Time constant with which requests fade.
const MEMORY: Duration = Duration::from_secs(60);
/// Minimum number of requests that count.
const REQUESTS_MIN: f64 = 20.0;
/// Step to which shares are rounded up, so that decisions repeat.
const STEP: f64 = 0.01;

/// Last counters of each proxy, and the fading sums of their growth.
#[derive(Debug, Clone)]
pub struct Accuracies {
    /// Names and accuracies of the variants, in percent.
    variants: Vec<(String, f64)>,
    /// Counters in the variants' order.
    proxies: Proxies<Vec<f64>>,
    /// Fading sums, in the variants' order.
    sums: Vec<f64>,
    /// Time of the latest scrape.
    at: Duration,
}

impl Accuracies {
    /// Creates a record of variants with these names and accuracies that knows no request yet.
    pub fn new(variants: impl Iterator<Item = (String, f64)>) -> Accuracies {
        let variants: Vec<_> = variants.collect();
        Accuracies {
            sums: vec![0.0; variants.len()],
            proxies: Proxies::default(),
            variants,
            at: Duration::ZERO,
        }
    }

    /// Adds one scrape of all proxies.
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape]) {
        let passed_s = at.saturating_sub(self.at).as_secs_f64();
        self.at = at;
        let fading = libm::exp(-passed_s / MEMORY.as_secs_f64());
        let (variants, sums) = (&self.variants, &mut self.sums);
        sums.iter_mut().for_each(|sum| *sum *= fading);
        self.proxies.observe(at, scrapes, |last, _, counts| {
            let of = |(name, _): &(String, f64)| counts.accuracies.get(name).copied();
            let now: Vec<f64> = variants.iter().map(|one| of(one).unwrap_or(0.0)).collect();
            for (sum, (now, last)) in sums
                .iter_mut()
                .zip(now.iter().zip(last.into_iter().flatten()))
            {
                // A counter that fell belongs to a restarted proxy.
                *sum += if now < last { *now } else { now - last };
            }
            now
        });
    }

    /// Returns the accuracies that the latest requests require. Of each accuracy, the share that requires it or a higher
    /// one is too large by a standard deviation of the estimate. `None` until enough is known.
    pub fn mix(&self) -> Option<AccuracyMix> {
        let all: f64 = self.sums.iter().sum();
        if all < REQUESTS_MIN {
            return None;
        }
        let each = self.variants.iter().zip(&self.sums);
        let mut falling: Vec<(f64, f64)> =
            each.map(|((_, percent), sum)| (*percent, *sum)).collect();
        falling.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut counted, mut before) = (0.0, 0.0);
        let shares = falling.into_iter().map(|(percent, sum)| {
            counted += sum;
            let share = f64::min(counted / all, 1.0);
            let deviation = libm::sqrt(share * (1.0 - share) / all);
            // A rounding error is no whole step.
            let steps = ((share + deviation) / STEP - 1e-6).ceil();
            let above = (steps * STEP).clamp(before, 1.0);
            let exactly = above - before;
            before = above;
            (percent, exactly)
        });
        Some(AccuracyMix::new(shares.collect::<Vec<_>>()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, ScrapeError};
    use super::*;

    fn accuracies() -> Accuracies {
        let variants = [("a", 70.0), ("b", 80.0), ("c", 90.0)];
        Accuracies::new(
            variants
                .map(|(name, percent)| (name.to_owned(), percent))
                .into_iter(),
        )
    }

    fn scrape(from: &str, counts: [f64; 3]) -> Scrape {
        let named = ["a", "b", "c"].map(String::from).into_iter().zip(counts);
        Scrape {
            from: from.into(),
            at: Duration::ZERO,
            counts: Ok(Counts {
                accuracies: named.collect(),
                ..Counts::default()
            }),
        }
    }

    fn above(mix: Option<AccuracyMix>) -> Option<[f64; 3]> {
        let round = |share: f64| (share * 1e4).round() / 1e4;
        mix.map(|mix| [70.0, 80.0, 90.0].map(|percent| round(mix.above(percent))))
    }

    #[test]
    fn shares_are_of_growth_over_all_proxies_rounded_up() {
        let mut known = accuracies();
        let at = Duration::from_secs;
        known.observe(
            at(1),
            &[scrape("one", [900.0, 0.0, 0.0]), scrape("two", [0.0; 3])],
        );
        assert_eq!(known.mix(), None, "counted before ours");
        // 5000, 3000 and 2000 more, 30 and 20 % with deviations of 0.5 and 0.4 points.
        let lost = Scrape {
            counts: Err(ScrapeError::Status(503)),
            ..scrape("two", [0.0; 3])
        };
        known.observe(at(1), &[scrape("one", [3400.0, 3000.0, 0.0]), lost]);
        known.observe(
            at(1),
            &[
                scrape("one", [3400.0, 3000.0, 0.0]),
                scrape("two", [2500.0, 0.0, 2000.0]),
            ],
        );
        assert_eq!(above(known.mix()), Some([1.0, 0.51, 0.21]));
        // 7000 more of b; a counter that fell has begun anew at zero.
        known.observe(at(1), &[scrape("one", [0.0, 10_000.0, 0.0])]);
        assert_eq!(above(known.mix()), Some([1.0, 0.71, 0.13]));
    }

    #[test]
    fn requests_fade_and_few_do_not_count() {
        let mut known = accuracies();
        known.observe(Duration::ZERO, &[scrape("one", [0.0; 3])]);
        known.observe(Duration::ZERO, &[scrape("one", [0.0, 0.0, 60.0])]);
        assert_eq!(above(known.mix()), Some([1.0, 1.0, 1.0]));
        known.observe(MEMORY, &[scrape("one", [0.0, 0.0, 60.0])]);
        assert_eq!(above(known.mix()), Some([1.0, 1.0, 1.0]), "22 of 60");
        known.observe(2 * MEMORY, &[scrape("one", [0.0, 0.0, 60.0])]);
        assert_eq!(known.mix(), None);
    }
}
