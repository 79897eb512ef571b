//! Detection of a rise from single samples. Pure.
//!
//! A rise is confirmed when the lower bound (three deviations) of the last 0.4 s exceeds the greatest rate known before,
//! and each of its samples does so by itself. The load is another one since, and its mean since then counts, not the
//! lower bound. The first sample may lie in the midst of the rise; it is left out where it is below the others.
//!
//! Each further sample joins the mean, until the moving mean is of the new load alone. The mean with fewer samples no
//! longer counts: a rise is found where chance makes it look larger. The rise itself no longer counts once all samples
//! since it together are not certain of it.

use std::time::Duration;

use super::samples::{Recent, Sample};
use super::{Forecaster, Observed};

/// Span that may show a rise, s: two samples a quarter of a second apart, less the tolerance of their timers.
const RISE_S: f64 = 0.4;
/// Deviations from a count down to the lower bound that a rise keeps.
const DEVIATIONS: f64 = 2.0;
/// The same for a rise that begins: two samples are often high by chance.
const BEGIN_DEVIATIONS: f64 = 3.0;
/// Deviations by which the first sample of a rise may lie below its mean, and count as a whole one.
const FIRST_DEVIATIONS: f64 = 0.5;

/// Finds rises, and follows the latest one.
#[derive(Debug, Clone)]
pub(super) struct RiseDetector {
    moving_s: f64,
    rise: Option<Rise>,
    marks: Recent<Mark>,
}

/// Samples since the load became another one.
#[derive(Debug, Clone, Copy)]
struct Rise {
    /// Greatest rate known before.
    known: f64,
    requests: f64,
    seconds: f64,
}

/// State after a sample.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// Whether the sample's rate exceeds all that was known at its begin.
    exceeds: bool,
    /// Mean since the rise of which it is the latest sample; 0 without a rise.
    mean: f64,
}

impl RiseDetector {
    /// No rise known yet.
    pub(super) fn new(moving_s: f64) -> RiseDetector {
        RiseDetector {
            moving_s,
            rise: None,
            marks: Recent::default(),
        }
    }

    /// Finds a rise above the rate `known` that begins with the latest samples.
    fn begun(&self, known: f64, samples: &Recent<Sample>) -> Option<Rise> {
        let mut rise = Rise {
            known,
            requests: 0.0,
            seconds: 0.0,
        };
        let mut first = None::<&Sample>;
        for ((_, sample), (_, mark)) in samples.latest().zip(self.marks.latest()) {
            if rise.seconds >= RISE_S {
                let whole = mark.exceeds || first.is_some_and(|first| rise.is_like(first));
                return Some(rise).filter(|rise| whole && rise.is_certain(BEGIN_DEVIATIONS));
            }
            first = Some(sample);
            if sample.requests <= known * sample.seconds {
                return None;
            }
            rise.requests += sample.requests;
            rise.seconds += sample.seconds;
        }
        None
    }

    /// Finds a rise, or follows the one there is.
    fn follow(&mut self, observed: &Observed<'_>) {
        if let Some(begun) = self.begun(observed.known, observed.samples) {
            self.rise = Some(begun);
            return;
        }
        let Some(rise) = self.rise.take() else {
            return;
        };
        if rise.seconds >= self.moving_s {
            return;
        }
        let longer = Rise {
            requests: rise.requests + observed.rate * observed.seconds,
            seconds: rise.seconds + observed.seconds,
            ..rise
        };
        self.rise = Some(longer).filter(|rise| rise.is_certain(DEVIATIONS));
        if let Some(before) = self.marks.latest_mut(1) {
            before.mean = 0.0;
        }
    }
}

impl Forecaster for RiseDetector {
    fn observe(&mut self, observed: &Observed<'_>) {
        if observed.seconds > 0.0 {
            let mark = Mark {
                exceeds: observed.rate > observed.known,
                mean: 0.0,
            };
            self.marks.push(observed.at, mark, Duration::ZERO);
            self.follow(observed);
            let mean = self.rise.map_or(0.0, |rise| rise.requests / rise.seconds);
            if let Some(latest) = self.marks.latest_mut(0) {
                latest.mean = mean;
            }
        }
        self.marks.forget(observed.oldest);
    }

    fn rate(&self, since: Duration) -> f64 {
        let means = self.marks.since(since).map(|mark| mark.mean);
        means.fold(0.0, f64::max)
    }

    fn is_tentative(&self) -> bool {
        true
    }

    fn is_rising(&self) -> bool {
        self.rise.is_some()
    }
}

impl Rise {
    /// Whether its lower bound exceeds the rate known before.
    fn is_certain(&self, deviations: f64) -> bool {
        self.requests - deviations * self.requests.sqrt() > self.known * self.seconds
    }

    /// Whether that sample is one of several, and no lower than the others but for chance.
    fn is_like(&self, sample: &Sample) -> bool {
        let mean = self.requests / self.seconds * sample.seconds;
        self.seconds > sample.seconds && sample.requests >= mean - FIRST_DEVIATIONS * mean.sqrt()
    }
}
