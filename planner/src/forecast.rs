//! Rates measured so far → the demand λ to plan for. Pure: the time is an argument, intervals may be irregular.
//!
//! λ = headroom × the greatest rate of the [`Forecaster`]s: an exponential [average](ewma), the greatest rate of the
//! [window](window_max), the mean since a [rise](rise).
//!
//! Until the window has filled, only part of its greatest rate is known: the forecast is not *settled*, and cores that
//! carry it are not taken away. A load that has just begun looks small, and so does one whose planner has just started.
//!
//! The estimate moves from sample to sample though the load does not. Cores and shares therefore follow a rate that
//! falls with reason only ([`stable`]): shares the present rate, cores also bursts that will come again. A rise counts on
//! top of both; for cores by the rate it comes to until they are actual ([`trend`]).
//!
//! Beside these reactive estimates a forecast of the peak may be asked for ([`ahead`]): λ for cores is the greater.
//!
//! An interval without an observation adds nothing: the last demand holds.

mod ahead;
mod ewma;
mod history;
mod known;
mod past;
mod rise;
mod samples;
mod stable;
mod trend;
mod window_max;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Duration;

use ahead::Ahead;
use ewma::Ewma;
use rise::RiseDetector;
use samples::{Recent, Sample};
use stable::{Bursts, Level};
use trend::{Point, Trend};
use weir_api::Rps;
use window_max::WindowMax;

pub use ahead::{AheadRule, Forecasting, horizon};
pub use history::{HISTORY_MAX, HISTORY_SAMPLES_MAX, History, HistoryError, Measured};
pub use known::KnownLoad;
pub use past::Past;
pub use samples::{SAMPLE_INTERVAL_MIN, SAMPLES_MAX, WINDOW_MAX};
pub use stable::BURSTS_MAX;
pub use weir_forecast::learnt::{Learnt, LearntError};

/// Factor on the dispersion of a window's counts, because by chance it is found too small.
const DISPERSION: f64 = 1.5;

/// Settings of the forecast: λ = headroom × the greatest of a smoothed and a recent greatest rate.
#[derive(Debug, Clone, PartialEq)]
pub struct DemandRule {
    /// Time constant of the exponential average.
    pub smoothing: Duration,
    /// Span in which the greatest rate is looked for.
    pub window: Duration,
    /// Span over which that rate is a mean.
    pub moving: Duration,
    /// Factor on the rate, 1 or more.
    pub headroom: f64,
    /// Time for which bursts are remembered.
    pub bursts: Duration,
    /// Forecast of the peak; `None` for the reactive estimates alone.
    pub ahead: Option<AheadRule>,
}

/// Demand to plan for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// λ for cores, bursts that will come again included.
    pub demand: Rps,
    /// λ at present, for shares.
    pub present: Rps,
    /// Requests that arrive now, without headroom, by the line through the latest samples.
    pub arriving: Rps,
    /// Whether more is to come: the load rises, or a rise of it is expected.
    pub rises: bool,
    /// Whether the window has filled.
    pub window_full: bool,
    /// λ by the lowest rate of the window: the part of the demand that has lasted. `None` until the window has filled.
    pub lasted: Option<Rps>,
}

/// One way to estimate the rate. The forecast takes the greatest estimate.
trait Forecaster: Debug + Send + Sync {
    /// Takes in the latest sample.
    fn observe(&mut self, observed: &Observed<'_>);

    /// Greatest estimate by the samples that ended after `since`, requests/s; 0 without any.
    fn rate(&self, since: Duration) -> f64;

    /// Lowest estimate by these samples, requests/s; `None` where this forecaster makes none.
    fn sustained(&self, _since: Duration) -> Option<f64> {
        None
    }

    /// Whether its estimate may be chance, and is no rate to hold on to.
    fn is_tentative(&self) -> bool {
        false
    }

    /// Whether it sees the load rise.
    fn is_rising(&self) -> bool {
        false
    }
}

/// The latest sample, and those before it.
struct Observed<'a> {
    /// End of the sample.
    at: Duration,
    /// Mean rate of the sample, requests/s.
    rate: f64,
    /// Length of the sample; 0 for the first, which counts requests of an unknown time.
    seconds: f64,
    /// Greatest rate known before the sample.
    known: f64,
    /// All samples remembered, this one included.
    samples: &'a Recent<Sample>,
    /// Time before which samples are forgotten.
    oldest: Duration,
}

/// Memory of the rates.
#[derive(Debug)]
pub struct Demand {
    rule: DemandRule,
    first: Option<Duration>,
    /// Time until which the load is known, or is known to be unknown.
    last: Option<Duration>,
    /// End of the latest sample.
    sampled: Option<Duration>,
    history: History,
    samples: Recent<Sample>,
    average: Ewma,
    others: Vec<Box<dyn Forecaster>>,
    /// Rates that a rise comes to, falling, and the time until which each is expected.
    foreseen: VecDeque<(Duration, f64)>,
    bursts: Bursts,
    /// Rate to have cores for.
    level: Level,
    /// Rate at present.
    present: Level,
    ahead: Option<Ahead>,
}

/// Forecasters beside the exponential average.
fn others(rule: &DemandRule) -> Vec<Box<dyn Forecaster>> {
    let moving_s = rule.moving.as_secs_f64();
    vec![
        Box::new(WindowMax::new(moving_s)),
        Box::new(RiseDetector::new(moving_s)),
    ]
}

impl Demand {
    /// No rate known yet.
    pub fn new(rule: DemandRule) -> Demand {
        Demand {
            first: None,
            last: None,
            sampled: None,
            history: History::of(&rule),
            samples: Recent::default(),
            average: Ewma::new(rule.smoothing.as_secs_f64()),
            others: others(&rule),
            foreseen: VecDeque::new(),
            bursts: Bursts::default(),
            level: Level::default(),
            present: Level::default(),
            ahead: rule.ahead.as_ref().map(Ahead::new),
            rule,
        }
    }

    /// Takes in the mean rate since the last observation.
    pub fn observe(&mut self, at: Duration, rate: Rps) {
        let since_last = self
            .last
            .map_or(Duration::ZERO, |last| at.saturating_sub(last));
        let seconds = since_last.as_secs_f64();
        if let Some(ahead) = &mut self.ahead {
            ahead.observe(at.saturating_sub(since_last), at, rate.0);
        }
        self.history.push(at.saturating_sub(since_last), at, rate.0);
        self.first = self.first.or(Some(at));
        (self.last, self.sampled) = (Some(at), Some(at));
        let known = self.max();
        let oldest = at.saturating_sub(self.rule.window + self.rule.moving);
        if seconds > 0.0 {
            let sample = Sample {
                requests: rate.0 * seconds,
                seconds,
            };
            // One older sample stays for now: the moving mean may need its part.
            self.samples.push(at, sample, Duration::ZERO);
        }
        let observed = Observed {
            at,
            rate: rate.0,
            seconds,
            known,
            samples: &self.samples,
            oldest,
        };
        self.average.observe(&observed);
        for forecaster in &mut self.others {
            forecaster.observe(&observed);
        }
        self.samples.forget(oldest);
        let known = self.known();
        self.present.follow(known, self.deviation(known));
        let (window, remembered) = (self.rule.window, self.rule.bursts);
        let expected = self.bursts.follow(at, known, window, remembered);
        self.level.follow(expected, self.deviation(expected));
    }

    /// Passes over the time until `at`, in which nobody observed: the next sample begins there. If that is as long as the
    /// window, what arrives is not known any more, and the window fills anew; bursts and what was learned stay.
    pub fn skip(&mut self, at: Duration) {
        let since = self.sampled.map(|end| at.saturating_sub(end));
        if since.is_some_and(|since| since >= self.rule.window) {
            self.first = None;
            self.samples = Recent::default();
            self.average = Ewma::new(self.rule.smoothing.as_secs_f64());
            self.others = others(&self.rule);
            self.foreseen.clear();
        }
        self.last = Some(at);
    }

    /// Takes in a history as if it began at `begin`, with rises extrapolated over the `horizon`.
    pub fn replay(&mut self, history: &History, begin: Duration, horizon: Duration) {
        let mut at = begin;
        for one in history.samples() {
            let is_first = self.sampled.is_none();
            if !one.gap.is_zero() || (is_first && !one.span.is_zero()) {
                at += one.gap;
                self.skip(at);
            }
            at += one.span;
            self.observe(at, Rps(one.rate));
            self.foresee(horizon);
        }
    }

    /// Numbers that the forecast ahead has learned until the end of the history; `None` without such a forecast, or
    /// before the first rate.
    pub fn learnt(&self) -> Option<Learnt> {
        let ahead = self.ahead.as_ref().filter(|_| !self.history.is_empty())?;
        Some(ahead.learnt(self.history.end()))
    }

    /// Takes over numbers that were learned `age` before `now`, by the time of this demand, and forgets what it has
    /// learned by itself. Of what is replayed afterwards nothing is to be learned: [`Demand::relearn`] restores them.
    ///
    /// # Errors
    /// Fails, and takes nothing over, if they do not fit.
    pub fn begin_with(
        &mut self,
        learnt: &Learnt,
        now: Duration,
        age: Duration,
    ) -> Result<(), LearntError> {
        if let Some(rule) = &self.rule.ahead {
            self.ahead = Some(Ahead::continuing(rule, learnt, now, age)?);
        }
        Ok(())
    }

    /// Takes over learned numbers once more, after a replay of rates that were learned from already.
    ///
    /// # Errors
    /// Fails if they do not fit.
    pub fn relearn(&mut self, learnt: &Learnt) -> Result<(), LearntError> {
        self.ahead
            .as_mut()
            .map_or(Ok(()), |ahead| ahead.relearn(learnt))
    }

    /// Rates measured of late.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Looks ahead, where cores that are requested now are actual after the `horizon`. A rise that is foreseen is
    /// expected until then: single samples of it say too little to change cores and change them back.
    pub fn foresee(&mut self, horizon: Duration) {
        let now = self.last.unwrap_or_default();
        while self.foreseen.pop_front_if(|(at, _)| *at < now).is_some() {}
        let then = self.trend();
        let then = then.and_then(|trend| trend.after(horizon.as_secs_f64()));
        if let Some(then) = then {
            while self
                .foreseen
                .pop_back_if(|(_, rate)| *rate <= then)
                .is_some()
            {}
            self.foreseen.push_back((now + horizon, then));
        }
    }

    /// Returns the forecast; `None` before the first observation.
    pub fn forecast(&self) -> Option<Forecast> {
        let (first, last) = (self.first?, self.last?);
        let max = self.max();
        let foreseen = self.foreseen.front().map_or(0.0, |(_, rate)| *rate);
        let rate = self.level.rate().max(max).max(foreseen);
        let present = self.present.rate().max(max);
        let window_full = last.saturating_sub(first) >= self.rule.window;
        let since = self.window_begin();
        let sustained = self.forecasters().filter_map(|one| one.sustained(since));
        let lasted = sustained.reduce(f64::min).filter(|_| window_full);
        let arriving = self.trend().map_or(self.average.rate(since), Trend::now);
        let with_headroom = |rate: f64| Rps(self.rule.headroom * rate);
        // The quantile of the peak is a margin itself.
        let ahead = self.ahead.as_ref().map_or(0.0, Ahead::upper);
        Some(Forecast {
            demand: Rps(with_headroom(rate).0.max(ahead)),
            present: with_headroom(present),
            arriving: Rps(arriving),
            rises: self.is_rising() || !self.foreseen.is_empty(),
            window_full,
            lasted: lasted.map(with_headroom),
        })
    }

    /// Whether the load is seen to rise: more than before is certain, and not only for a moment.
    pub fn is_rising(&self) -> bool {
        self.forecasters().any(|one| one.is_rising())
    }

    fn forecasters(&self) -> impl Iterator<Item = &dyn Forecaster> {
        let others = self.others.iter().map(|one| &**one);
        std::iter::once(&self.average as &dyn Forecaster).chain(others)
    }

    /// Line through the latest `moving`.
    fn trend(&self) -> Option<Trend> {
        let (now, span) = (self.last.unwrap_or_default(), self.rule.moving);
        let points = self.samples.latest().map(|(end, sample)| Point {
            requests: sample.requests,
            seconds: sample.seconds,
            ago_s: now.saturating_sub(end).as_secs_f64(),
        });
        let latest = points.take_while(|point| point.ago_s < span.as_secs_f64() * 0.999);
        Trend::of(latest, self.is_rising())
    }

    /// Greatest of all estimates.
    fn max(&self) -> f64 {
        self.max_of(|_| true)
    }

    /// Greatest of all estimates but the tentative ones.
    fn known(&self) -> f64 {
        self.max_of(|forecaster| !forecaster.is_tentative())
    }

    fn max_of(&self, counts: impl Fn(&dyn Forecaster) -> bool) -> f64 {
        let since = self.window_begin();
        let counting = self.forecasters().filter(|one| counts(*one));
        counting.map(|one| one.rate(since)).fold(0.0, f64::max)
    }

    /// Time before which samples are not of the window.
    fn window_begin(&self) -> Duration {
        let last = self.last.unwrap_or_default();
        last.saturating_sub(self.rule.window)
    }

    /// Standard deviation of a mean over `moving` about that rate: as of Poisson arrivals, or less where the window's
    /// are more even.
    fn deviation(&self, rate: f64) -> f64 {
        let window = || self.samples.since(self.window_begin());
        let sum = |(requests, seconds): (f64, f64), one: &Sample| {
            (requests + one.requests, seconds + one.seconds)
        };
        let (requests, seconds) = window().fold((0.0, 0.0), sum);
        if requests <= 0.0 {
            return 0.0;
        }
        let mean = requests / seconds;
        let square = |one: &Sample| {
            let expected = mean * one.seconds;
            (one.requests - expected) * (one.requests - expected) / expected
        };
        let squares: f64 = window().map(square).sum();
        let dispersion = DISPERSION * squares / window().count() as f64;
        libm::sqrt(dispersion.min(1.0) * rate / self.rule.moving.as_secs_f64())
    }
}

#[cfg(test)]
mod tests;
