//! Request rates, second by second, and the arrivals drawn from them.
//!
//! Arrivals are a Poisson process whose rate is constant within a second, drawn from one seed.

use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::REQUESTS_MAX;
use crate::chance::poisson_events;

/// Maximum length of a run, in seconds: a day.
pub const SECONDS_MAX: usize = 86_400;
/// Maximum rate, in requests per second.
pub const RATE_MAX_RPS: f64 = 100_000.0;

/// Requests per second for each second of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates(Vec<f64>);

impl Rates {
    /// Creates rates from one value for each second.
    ///
    /// # Errors
    /// No seconds, more than [`SECONDS_MAX`], or a rate that is not 0 to [`RATE_MAX_RPS`], by number.
    pub fn new(rates_rps: Vec<f64>) -> anyhow::Result<Rates> {
        let seconds = rates_rps.len();
        anyhow::ensure!(
            (1..=SECONDS_MAX).contains(&seconds),
            "{seconds} seconds; there must be 1 to {SECONDS_MAX}"
        );
        let bad = rates_rps
            .iter()
            .position(|rate| !(0.0..=RATE_MAX_RPS).contains(rate));
        if let Some((second, rate)) = bad.and_then(|at| Some((at, rates_rps.get(at)?))) {
            anyhow::bail!("second {second}: {rate} requests/s must be 0 to {RATE_MAX_RPS}");
        }
        Ok(Rates(rates_rps))
    }

    /// The same rate throughout.
    ///
    /// # Errors
    /// As [`Rates::new`].
    pub fn constant(rps: f64, seconds: usize) -> anyhow::Result<Rates> {
        Rates::new(vec![rps; seconds])
    }

    /// `low` for the first third; up to `high` along half a cosine and back within the middle third
    /// (the crest is held for the middle third of that third); `low` again.
    ///
    /// # Errors
    /// As [`Rates::new`].
    pub fn swell(low_rps: f64, high_rps: f64, seconds: usize) -> anyhow::Result<Rates> {
        let rate = |second: usize| {
            let at = (second as f64 + 0.5) / seconds as f64;
            // 0 at the ends of the middle third, 1 at the middle of the run.
            let inward = ((at - 1.0 / 3.0).min(2.0 / 3.0 - at) * 6.0).clamp(0.0, 1.0);
            let ramp = (inward * 1.5).min(1.0);
            low_rps + (high_rps - low_rps) * (1.0 - libm::cos(std::f64::consts::PI * ramp)) / 2.0
        };
        Rates::new((0..seconds).map(rate).collect())
    }

    /// Multiplies every rate by `factor`.
    ///
    /// # Errors
    /// As [`Rates::new`].
    pub fn scaled(&self, factor: f64) -> anyhow::Result<Rates> {
        Rates::new(self.0.iter().map(|rate| rate * factor).collect())
    }

    /// Takes the first `seconds`; a shorter trace is repeated from its beginning.
    ///
    /// # Errors
    /// As [`Rates::new`].
    pub fn fitted(&self, seconds: usize) -> anyhow::Result<Rates> {
        Rates::new(self.0.iter().copied().cycle().take(seconds).collect())
    }

    /// Rates in requests/s, one for each second.
    pub fn rps(&self) -> &[f64] {
        &self.0
    }

    /// Draws the send times, ascending, since the start of the run.
    ///
    /// # Errors
    /// The expected number exceeds [`REQUESTS_MAX`].
    pub fn arrivals(&self, seed: u64) -> anyhow::Result<Vec<Duration>> {
        let expected: f64 = self.0.iter().sum();
        anyhow::ensure!(
            expected <= REQUESTS_MAX as f64,
            "{expected:.0} requests; at most {REQUESTS_MAX}"
        );
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut arrivals = Vec::new();
        for (second, rate) in (0..).zip(&self.0) {
            let at = |within: f64| Duration::new(second, (within * 1e9) as u32);
            arrivals.extend(poisson_events(&mut rng, *rate).map(at));
        }
        Ok(arrivals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_follow_rate_and_seed() {
        let rates =
            Rates::new([vec![200.0; 100], vec![0.0; 10], vec![20.0; 100]].concat()).unwrap();
        let arrivals = rates.arrivals(3).unwrap();
        assert_eq!(arrivals, rates.arrivals(3).unwrap());
        assert_ne!(arrivals, rates.arrivals(4).unwrap());
        assert!(arrivals.is_sorted());
        let count = |from, to| {
            let within = Duration::from_secs(from)..Duration::from_secs(to);
            arrivals.iter().filter(|at| within.contains(at)).count() as f64
        };
        // Four standard deviations on either side.
        assert!((count(0, 100) - 20_000.0).abs() < 4.0 * 20_000f64.sqrt());
        assert!((count(110, 210) - 2000.0).abs() < 4.0 * 2000f64.sqrt());
        assert_eq!(count(100, 110), 0.0);
    }

    #[test]
    fn gaps_are_exponential() {
        let arrivals = Rates::constant(100.0, 200).unwrap().arrivals(1).unwrap();
        let gaps: Vec<f64> = arrivals
            .windows(2)
            .map(|w| (w[1] - w[0]).as_secs_f64())
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance =
            gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / gaps.len() as f64;
        let variation = variance.sqrt() / mean;
        assert!(
            (0.95..1.05).contains(&variation),
            "coefficient of variation {variation}"
        );
    }

    #[test]
    fn swell_rises_and_falls_in_the_middle_third() {
        let swell = Rates::swell(40.0, 280.0, 60).unwrap();
        let at = |second: usize| swell.rps()[second];
        assert_eq!((at(0), at(19), at(40), at(59)), (40.0, 40.0, 40.0, 40.0));
        assert_eq!((at(29), at(30)), (280.0, 280.0));
        assert!(swell.rps()[20..30].is_sorted());
        assert!((20..40).all(|second| (at(second) - at(59 - second)).abs() < 1e-9));
    }

    #[test]
    fn rates_are_looped_and_scaled() {
        let rates = Rates::new(vec![3.0, 5.0, 4.0]).unwrap();
        assert_eq!(rates.fitted(5).unwrap().rps(), [3.0, 5.0, 4.0, 3.0, 5.0]);
        assert_eq!(rates.scaled(2.0).unwrap().rps(), [6.0, 10.0, 8.0]);
        assert!(rates.scaled(1e5).is_err());
    }

    #[test]
    fn too_many_expected_requests_are_refused_before_drawing() {
        let seconds = REQUESTS_MAX / RATE_MAX_RPS as usize;
        let rates = |seconds| Rates::constant(RATE_MAX_RPS, seconds).unwrap();
        let most = rates(seconds).arrivals(1).unwrap();
        assert!(most.is_sorted() && most.last().unwrap().as_secs() == seconds as u64 - 1);
        let refused = rates(seconds + 1).arrivals(1).unwrap_err().to_string();
        assert_eq!(refused, "5100000 requests; at most 5000000");
    }
}
