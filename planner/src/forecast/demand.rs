//! Memory of the rates, and the demand that follows from them. Pure.

use std::time::Duration;

use weir_api::Rps;

use super::ahead::{Ahead, Peak};
use super::ewma::Ewma;
use super::foreseen::Foreseen;
use super::rise::RiseDetector;
use super::samples::{Recent, Sample};
use super::slope::Slope;
use super::stable::{Bursts, Level};
use super::trend::{Point, Trend};
use super::window_max::WindowMax;
use super::{DemandRule, Forecast, Forecaster, History, Learnt, LearntError, Observed};

/// Factor on the dispersion of a window's counts, because by chance it is found too small.
const DISPERSION: f64 = 1.5;
/// Windows that the mean rate is of: over one, chance would change shares every few seconds.
const MEAN_WINDOWS: u32 = 3;

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
    pub(super) samples: Recent<Sample>,
    average: Ewma,
    others: Vec<Box<dyn Forecaster>>,
    /// Rates that a rise comes to by the time of changes in place.
    foreseen: Foreseen,
    /// Rates that a steep rise comes to by the time at which replicas that start serve.
    extrapolated: Foreseen,
    bursts: Bursts,
    /// Latest time of a rise.
    risen: Duration,
    /// Rate of bursts that will come again, after each sample; 0 for none.
    again: Recent<f64>,
    slope: Slope,
    /// Rate to have cores for.
    level: Level,
    /// Rate at present.
    present: Level,
    /// Mean rate of the last [`MEAN_WINDOWS`], or since the latest rise.
    mean: Level,
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
            foreseen: Foreseen::default(),
            extrapolated: Foreseen::default(),
            bursts: Bursts::default(),
            risen: Duration::ZERO,
            again: Recent::default(),
            slope: Slope::default(),
            level: Level::default(),
            present: Level::default(),
            mean: Level::default(),
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
        let longest = self.rule.window * MEAN_WINDOWS + self.rule.moving;
        self.samples.forget(at.saturating_sub(longest));
        if self.is_rising() {
            self.risen = at;
        }
        if seconds > 0.0 {
            self.slope.observe(at, rate.0, seconds, self.risen);
        }
        let known = self.known();
        let moving_s = self.rule.moving.as_secs_f64();
        self.present.follow(known, self.deviation(known, moving_s));
        let (mean, span_s) = self.mean_since(self.mean_begin());
        let span_s = span_s.min(self.rule.window.as_secs_f64());
        self.mean.follow(mean, self.deviation(mean, span_s));
        let (window, remembered) = (self.rule.window, self.rule.bursts);
        let again = self.bursts.follow(at, known, window, remembered);
        self.again.push(at, again, oldest);
        let expected = again.max(known);
        self.level
            .follow(expected, self.deviation(expected, moving_s));
    }

    /// Passes over the time until `at`, in which nobody observed: the next sample begins there. If that is as long as the
    /// window, what arrives is not known any more, and the window fills anew; bursts and what was learned stay.
    pub fn skip(&mut self, at: Duration) {
        let since = self.sampled.map(|end| at.saturating_sub(end));
        if since.is_some_and(|since| since >= self.rule.window) {
            self.first = None;
            self.samples = Recent::default();
            self.average = Ewma::new(self.rule.smoothing.as_secs_f64());
            self.slope = Slope::default();
            self.others = others(&self.rule);
            self.foreseen.clear();
            self.extrapolated.clear();
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

    /// Peak that the forecaster expects; `None` without one, or until it knows enough.
    pub fn ahead(&self) -> Option<Peak> {
        let task = self.rule.ahead.as_ref()?.task;
        self.ahead.as_ref()?.peak(task)
    }

    /// Rates measured of late.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Looks ahead, where cores that are requested now are actual after the `horizon`.
    pub fn foresee(&mut self, horizon: Duration) {
        let now = self.last.unwrap_or_default();
        let again = self.expected_burst();
        // A burst that comes again is expected to be as before.
        let beyond = self.trend().filter(|trend| trend.now() > again);
        let then = beyond.and_then(|trend| trend.after(horizon.as_secs_f64()));
        self.foreseen.follow(now, now + horizon, then);
    }

    /// Looks ahead, where replicas that are started now serve after the `lead`. What a rise comes to by then changes with
    /// its slope, and holds for `moving`.
    pub fn foresee_starts(&mut self, lead: Duration) {
        let now = self.last.unwrap_or_default();
        let again = self.expected_burst();
        let then = self.slope.after(lead).filter(|_| self.known() > again);
        self.extrapolated.follow(now, now + self.rule.moving, then);
    }

    /// Returns the forecast; `None` before the first observation.
    pub fn forecast(&self) -> Option<Forecast> {
        let (first, last) = (self.first?, self.last?);
        let max = self.max();
        let rate = self.level.rate().max(max).max(self.foreseen.rate());
        let present = self.present.rate().max(max);
        let window_full = last.saturating_sub(first) >= self.rule.window;
        let since = self.window_begin();
        let sustained = self.forecasters().filter_map(|one| one.sustained(since));
        let sustained = sustained.reduce(f64::min).filter(|_| window_full);
        let again = self.again.since(since).copied().reduce(f64::min);
        let lasted = sustained.map(|rate| rate.max(again.unwrap_or_default()));
        let arriving = self.trend().map_or(self.average.rate(since), Trend::now);
        let rises = self.is_rising() || !self.foreseen.is_empty();
        let expects_burst = self.expected_burst() > self.known();
        // The mean knows nothing of what is to come.
        let mean = match rises || expects_burst {
            true => rate,
            false => self.mean.rate().min(rate),
        };
        let with_headroom = |rate: f64| Rps(self.rule.headroom * rate);
        // The quantile of the peak is a margin itself.
        let ahead = self.ahead.as_ref().map_or(0.0, Ahead::upper);
        Some(Forecast {
            demand: Rps(with_headroom(rate).0.max(ahead)),
            present: with_headroom(present),
            mean: Rps(mean),
            average: with_headroom(self.average.rate(since)),
            growth: Rps(self.rule.headroom * self.slope.growth()),
            extrapolated: with_headroom(self.extrapolated.rate()),
            arriving: Rps(arriving),
            rises,
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

    /// Rate of bursts that will come again; 0 for none.
    fn expected_burst(&self) -> f64 {
        self.again.latest().next().map_or(0.0, |(_, rate)| *rate)
    }

    /// Begin of the samples that the mean is of: constant shares need many of them.
    fn mean_begin(&self) -> Duration {
        let last = self.last.unwrap_or_default();
        let begin = last.saturating_sub(self.rule.window * MEAN_WINDOWS);
        begin.max(self.risen)
    }

    /// Mean rate since a time, and the seconds that are known of it.
    fn mean_since(&self, begin: Duration) -> (f64, f64) {
        let samples = self.samples.since(begin);
        let (requests, seconds) = samples.fold((0.0, 0.0), |(requests, seconds), one| {
            (requests + one.requests, seconds + one.seconds)
        });
        match seconds > 0.0 {
            true => (requests / seconds, seconds),
            false => (0.0, 0.0),
        }
    }

    /// Standard deviation of a mean over `span_s` about that rate: as of Poisson arrivals, or less where the window's
    /// are more even.
    fn deviation(&self, rate: f64, span_s: f64) -> f64 {
        let (mean, _) = self.mean_since(self.window_begin());
        if mean <= 0.0 || span_s <= 0.0 {
            return 0.0;
        }
        let window = || self.samples.since(self.window_begin());
        let square = |one: &Sample| {
            let expected = mean * one.seconds;
            (one.requests - expected) * (one.requests - expected) / expected
        };
        let squares: f64 = window().map(square).sum();
        let dispersion = DISPERSION * squares / window().count() as f64;
        libm::sqrt(dispersion.min(1.0) * rate / span_s)
    }
}
