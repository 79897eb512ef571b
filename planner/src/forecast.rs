//! Rates measured so far → the demand λ to plan for:
//!
//! λ = headroom × max(exponential average, greatest moving mean, greatest certain rate),
//! the latter two over the window
//!
//! The average alone lags behind a rise; the recent greatest covers it and holds the cores for a
//! window after a fall. It is taken over means of `moving` (3 s), not over single seconds: at
//! 40 requests/s one second is Poisson with a deviation of 16 %, and the greatest of ten such
//! seconds lies 24 % above the true rate; means of three seconds lie about 10 % above it.
//!
//! A steep rise is over before three seconds have shown it. So a single second counts too, by what
//! is certain of it: two deviations below what was counted, (k − 2√k) / s. The greatest of ten such
//! bounds lies below the true rate while that is steady, and within a cycle of it when it doubles.
//!
//! Where proxies are looked at several times a second, a *rise* shows sooner: once what is certain of the last
//! two looks (three deviations) exceeds all that was known before, and each of them does so by
//! itself, the load is another one since, and its mean since then counts, not what is certain of it. The first
//! look to exceed it may be in the midst of the rise, and is left out where it is below the others. Each further
//! look joins the mean, which so comes closer to the rate, for as long as it takes until the moving mean is of the
//! new load alone. What the mean was with fewer looks counts no more: a rise is found where chance makes it look the
//! larger. Nor does the rise, once all looks since it together are not certain of it any more.
//!
//! Until the window has filled, its greatest is not known, only what there was of it: the forecast
//! is not *settled*, and cores that carry it are not taken away (a load that has just begun, or a
//! planner that has, looks small).
//!
//! The estimate moves from look to look though the load does not. What is planned for is a rate that falls with
//! reason only ([`stable`]): shares go by the rate as it is now, cores also by bursts that are to come again. A rise
//! counts on top of both, for cores by what it comes to until they are in force ([`trend`]).
//!
//! Pure: the time is an argument, intervals may be irregular. An interval without an observation
//! adds nothing: the last demand holds.

mod stable;
mod trend;

use std::collections::VecDeque;
use std::time::Duration;

use stable::{Bursts, Level};
use trend::{Look, Trend};
use weir_api::Rps;

use crate::service::{DemandRule, SCRAPE_INTERVAL_MIN, WINDOW_MAX};

/// Most intervals remembered: the longest window and mean of the shortest looks.
pub const INTERVALS_MAX: usize =
    2 * (WINDOW_MAX.as_millis() / SCRAPE_INTERVAL_MIN.as_millis()) as usize;

/// The least span whose count is taken for a rate by itself, s: shorter ones are bursts.
const SWIFT_S: f64 = 1.0;
/// The span that may show a rise, s: of two looks where they are a quarter of a second apart, with what their timers
/// may be off.
const RISE_S: f64 = 0.4;
/// How many deviations below its count a rate is certain.
const DEVIATIONS: f64 = 2.0;
/// The same for a rise: two looks are often high by chance.
const RISE_DEVIATIONS: f64 = 3.0;
/// Times that the dispersion of a window's counts is taken for, because by chance it is found too small.
const DISPERSION: f64 = 1.5;
/// How many deviations a look may be below the mean of a rise, of which it is the first, and count as a whole one.
const FIRST_DEVIATIONS: f64 = 0.5;

/// What to plan for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// λ that cores are for, bursts that are to come again included.
    pub demand: Rps,
    /// λ as it is now, which shares go by.
    pub present: Rps,
    /// Requests that arrive now, without headroom, by the line through the latest looks.
    pub arriving: Rps,
    /// Whether more is to come: the load rises, or a rise of it is waited for.
    pub rises: bool,
    /// Whether the window it is taken from has filled.
    pub settled: bool,
    /// λ as it would be by the least that the window has seen: what of the demand has lasted. `None` until
    /// the window has filled.
    pub lasted: Option<Rps>,
    /// Time that most requests have left at least, in ms; `None` where too few said when they were sent.
    pub left_ms: Option<f64>,
}

/// What is remembered of the rates.
#[derive(Debug, Clone)]
pub struct Demand {
    rule: DemandRule,
    average: Option<f64>,
    first: Option<Duration>,
    last: Option<Duration>,
    intervals: VecDeque<Interval>,
    rise: Option<Rise>,
    /// Rates that a rise comes to, falling, and until when each is waited for.
    foreseen: VecDeque<(Duration, f64)>,
    bursts: Bursts,
    /// Rate to have cores for.
    level: Level,
    /// Rate as it is now.
    present: Level,
}

/// Looks of a load that is another one since.
#[derive(Debug, Clone, Copy)]
struct Rise {
    /// The greatest that the rate could be taken for before.
    known: f64,
    requests: f64,
    seconds: f64,
}

#[derive(Debug, Clone, Copy)]
struct Interval {
    end: Duration,
    seconds: f64,
    requests: f64,
    /// The mean rate over `moving` up to its end.
    mean: f64,
    /// The greatest that the rate could be taken for at its end, rises aside.
    greatest: f64,
    /// The mean since the rise of which it is the latest.
    risen: f64,
    /// Whether it exceeds all that was known at its begin.
    exceeds: bool,
}

impl Demand {
    /// Nothing known yet.
    pub fn new(rule: DemandRule) -> Demand {
        Demand {
            rule,
            average: None,
            first: None,
            last: None,
            intervals: VecDeque::new(),
            rise: None,
            foreseen: VecDeque::new(),
            bursts: Bursts::default(),
            level: Level::default(),
            present: Level::default(),
        }
    }

    /// Takes in the mean rate since the last observation.
    pub fn observe(&mut self, at: Duration, rate: Rps) {
        let seconds = self
            .last
            .map_or(0.0, |last| at.saturating_sub(last).as_secs_f64());
        self.first = self.first.or(Some(at));
        self.last = Some(at);
        let known = self.greatest();
        let weight = 1.0 - libm::exp(-seconds / self.rule.smoothing.as_secs_f64());
        self.average = Some(
            self.average
                .map_or(rate.0, |average| average + weight * (rate.0 - average)),
        );
        if seconds > 0.0 {
            self.intervals.push_back(Interval {
                end: at,
                seconds,
                requests: rate.0 * seconds,
                mean: 0.0,
                greatest: 0.0,
                risen: 0.0,
                exceeds: rate.0 > known,
            });
            self.follow_rise(known, rate, seconds);
            let risen = self.rise.map_or(0.0, |rise| rise.requests / rise.seconds);
            let mean = self.moving_mean();
            let greatest = mean.max(self.certain_rate());
            if let Some(latest) = self.intervals.back_mut() {
                (latest.mean, latest.greatest, latest.risen) = (mean, greatest, risen);
            }
        }
        let oldest = at.saturating_sub(self.rule.window + self.rule.moving);
        while self
            .intervals
            .front()
            .is_some_and(|first| first.end < oldest)
            || self.intervals.len() > INTERVALS_MAX
        {
            self.intervals.pop_front();
        }
        let (known, rule) = (self.known(), self.rule);
        self.present.follow(known, self.deviation(known));
        let expected = self.bursts.follow(at, known, rule.window, rule.bursts);
        self.level.follow(expected, self.deviation(expected));
    }

    /// Looks ahead, where cores that are asked for now are in force that much later. A rise that is foreseen is waited for
    /// until then: single looks of it say too little to change cores and change them back.
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

    /// λ; `None` before the first observation.
    pub fn forecast(&self) -> Option<Forecast> {
        let (first, last) = (self.first?, self.last?);
        let greatest = self.greatest();
        let trend = self.trend();
        let foreseen = self.foreseen.front().map_or(0.0, |(_, rate)| *rate);
        let rate = self.level.rate().max(greatest).max(foreseen);
        let demand = Rps(self.rule.headroom * rate);
        let present = Rps(self.rule.headroom * self.present.rate().max(greatest));
        let settled = last.saturating_sub(first) >= self.rule.window;
        let least = self.recent().map(|interval| interval.mean);
        let least = least.fold(f64::INFINITY, f64::min);
        Some(Forecast {
            demand,
            present,
            arriving: Rps(trend.map_or(self.average.unwrap_or_default(), Trend::now)),
            rises: self.is_rising() || !self.foreseen.is_empty(),
            settled,
            lasted: (settled && least.is_finite()).then_some(Rps(self.rule.headroom * least)),
            left_ms: None,
        })
    }

    /// Line through the latest `moving`.
    fn trend(&self) -> Option<Trend> {
        let (now, span) = (self.last.unwrap_or_default(), self.rule.moving);
        let looks = self.intervals.iter().rev().map(|interval| Look {
            requests: interval.requests,
            seconds: interval.seconds,
            ago_s: now.saturating_sub(interval.end).as_secs_f64(),
        });
        let latest = looks.take_while(|look| look.ago_s < span.as_secs_f64() * 0.999);
        Trend::of(latest, self.is_rising())
    }

    /// Greatest of all that the rate may be taken for.
    fn greatest(&self) -> f64 {
        let risen = self.recent().map(|interval| interval.risen);
        risen.fold(self.known(), f64::max)
    }

    /// Greatest of the average, the moving means and the certain rates: without rises, which may be chance.
    fn known(&self) -> f64 {
        let greatest = self.recent().map(|interval| interval.greatest);
        greatest.fold(self.average.unwrap_or_default(), f64::max)
    }

    /// Standard deviation of a mean over `moving` about that rate: as of Poisson arrivals, or less where the window's
    /// are more even.
    fn deviation(&self, rate: f64) -> f64 {
        let sum = |(requests, seconds): (f64, f64), one: &Interval| {
            (requests + one.requests, seconds + one.seconds)
        };
        let (requests, seconds) = self.recent().fold((0.0, 0.0), sum);
        if requests <= 0.0 {
            return 0.0;
        }
        let mean = requests / seconds;
        let square = |one: &Interval| {
            let expected = mean * one.seconds;
            (one.requests - expected) * (one.requests - expected) / expected
        };
        let squares: f64 = self.recent().map(square).sum();
        let dispersion = DISPERSION * squares / self.recent().count() as f64;
        libm::sqrt(dispersion.min(1.0) * rate / self.rule.moving.as_secs_f64())
    }

    /// Whether the load is seen to rise: more than before is certain, and not only for a moment.
    pub fn is_rising(&self) -> bool {
        self.rise.is_some()
    }

    /// A rise above what was `known`, where the latest intervals are certain of it.
    fn risen(&self, known: f64) -> Option<Rise> {
        let mut rise = Rise {
            known,
            requests: 0.0,
            seconds: 0.0,
        };
        let mut first = None::<&Interval>;
        for interval in self.intervals.iter().rev() {
            if rise.seconds >= RISE_S {
                let whole = interval.exceeds || first.is_some_and(|first| rise.is_like(first));
                return Some(rise).filter(|rise| whole && rise.is_certain(RISE_DEVIATIONS));
            }
            first = Some(interval);
            if interval.requests <= known * interval.seconds {
                return None;
            }
            rise.requests += interval.requests;
            rise.seconds += interval.seconds;
        }
        None
    }

    /// Finds a rise, or goes on with the one there is.
    fn follow_rise(&mut self, known: f64, rate: Rps, seconds: f64) {
        if let Some(found) = self.risen(known) {
            self.rise = Some(found);
            return;
        }
        let Some(rise) = self.rise.take() else {
            return;
        };
        if rise.seconds >= self.rule.moving.as_secs_f64() {
            return;
        }
        let longer = Rise {
            requests: rise.requests + rate.0 * seconds,
            seconds: rise.seconds + seconds,
            ..rise
        };
        self.rise = Some(longer).filter(|rise| rise.is_certain(DEVIATIONS));
        if let Some(before) = self.intervals.iter_mut().nth_back(1) {
            before.risen = 0.0;
        }
    }

    /// The intervals of the window, the latest first.
    fn recent(&self) -> impl Iterator<Item = &Interval> {
        let since = self
            .last
            .unwrap_or_default()
            .saturating_sub(self.rule.window);
        let latest = self.intervals.iter().rev();
        latest.take_while(move |interval| interval.end > since)
    }

    /// The mean rate over the latest `moving`, or over what there is.
    fn moving_mean(&self) -> f64 {
        let (requests, seconds) = self.count(self.rule.moving.as_secs_f64());
        requests / seconds
    }

    /// What the rate over the last second was at least.
    fn certain_rate(&self) -> f64 {
        let (requests, seconds) = self.count(SWIFT_S);
        (requests - DEVIATIONS * requests.sqrt()) / seconds.max(SWIFT_S)
    }

    /// Requests and seconds of the latest intervals, back over `span` s.
    fn count(&self, span: f64) -> (f64, f64) {
        let (mut requests, mut seconds) = (0.0, 0.0);
        for interval in self.intervals.iter().rev() {
            if seconds >= span * 0.999 {
                break;
            }
            requests += interval.requests;
            seconds += interval.seconds;
        }
        (requests, seconds)
    }
}

impl Rise {
    fn is_certain(&self, deviations: f64) -> bool {
        self.requests - deviations * self.requests.sqrt() > self.known * self.seconds
    }

    /// Whether that interval of it is one of several, and no lower than the others but for chance.
    fn is_like(&self, interval: &Interval) -> bool {
        let mean = self.requests / self.seconds * interval.seconds;
        self.seconds > interval.seconds
            && interval.requests >= mean - FIRST_DEVIATIONS * mean.sqrt()
    }
}

#[cfg(test)]
mod tests;
