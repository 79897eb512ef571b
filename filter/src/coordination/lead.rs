//! **Lead**: the time before a lane is free at which the next request is sent to it, so that it waits at
//! the server by then.
//!
//! Between an answer and the next request a server idles for the *gap*: the network latency of both, and
//! the proxy's own time. The proxy can measure two times. For a request sent to an idle lane, dispatch to
//! answer is gap and service. For a request that waited at the server when the previous one was answered,
//! answer to answer is the service alone. The gap is the difference of their means.
//!
//! A request sent early may not have waited at the server: the server may have more lanes than known slots,
//! or the request came too late. Then its time from dispatch to answer is no longer than that of a request
//! to an idle lane. Until it is longer, the gap is unknown, the lead is set by [`UNCONFIRMED_PART`], and
//! all times count from dispatch.
//!
//! A lane that is free before its prediction idles longer. A request sent early goes before a more urgent
//! one that comes a moment later. So the lead is the gap plus enough of the service time's scatter that
//! lanes idle for at most [`IDLE`] of their time, and never more than half a service time.
//!
//! All workers of a proxy share one [`Lead`] per variant (see
//! [`VariantColumn`](crate::coordination::VariantColumn)), because each one sees few of a server's
//! executions. The numbers are integers, so that slot tables can be compared.

use crate::time::{Mono, Span};

mod mean;
mod times;

pub use mean::Mean;
use mean::fade;
pub use times::LeadTimes;

/// Fraction of its time for which a lane may idle.
const IDLE: f64 = 0.01;
/// Lateness of the timer, which counts whole ms, and of notifications between workers; added to the gap.
const MARGIN: Span = Span::from_millis(2);
/// Lead while too little is known, as a part of the service time; at most [`FIRST_MAX`].
const FIRST_PART: u32 = 16;
const FIRST_MAX: Span = Span::from_millis(2);
/// Longest lead, as a part of the service time.
const LEAD_MAX_PART: u32 = 2;
/// Lead while no request is known to have waited at the server, as a part of the service time.
const UNCONFIRMED_PART: u32 = 4;
/// Minimum number of measurements of either kind.
const SAMPLES_MIN: u16 = 4;
/// Time without a measurement of one kind, after which one is sought by sending a request early, or not
/// early.
const STALE: Span = Span::from_secs(5);
/// Minimum number of measurements of both kinds together for [`Lead::measured`].
pub const MEASURED_MIN: u32 = 8;
/// Time after the latest measurement of one kind for which it counts for [`Lead::measured`]: a mean that has grown too
/// large for any request to be sent expires by itself.
pub const MEASURED_FOR: Span = Span::from_secs(5);
/// Number of early requests that [`Lead::recent_wait`] averages.
const RECENT: u64 = 16;
/// Service times between two early requests while too few measurements suggest that no lead is needed.
const PROBE_INTERVAL: u32 = 8;

/// Measurements of one variant's gap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Lead {
    /// Planned service time for which they were taken.
    pub planned: Span,
    /// Requests sent to an idle lane: dispatch to answer.
    pub idle: Mean,
    /// Requests sent early: answer to answer.
    pub early: Mean,
    /// Mean wait of these at the server, or on their way to it, ns.
    pub early_wait: u64,
    /// The same for the latest early requests, including those that came too late for the lane, ns.
    pub recent_wait: u64,
    /// Whether early requests are known to wait at the server.
    pub confirmed: bool,
}

/// Service time that all workers of a proxy measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Mean.
    pub mean: Span,
    /// Standard deviation.
    pub deviation: Span,
}

impl Lead {
    /// Returns a lead without measurements, for executions with this planned service time.
    #[must_use]
    pub fn new(planned: Span) -> Lead {
        Lead {
            planned,
            ..Lead::default()
        }
    }

    /// Records a request that was sent to an idle lane and answered after `took`.
    pub fn record_idle(&mut self, took: Span, now: Mono) {
        self.idle.record(took, now);
        self.update_confirmed();
    }

    /// Records a request that was answered `took` after the previous answer, having spent `early_wait` at its
    /// server, or on its way, before that.
    pub fn record_early(&mut self, took: Span, early_wait: Span, now: Mono) {
        // A request that came too late for the lane includes part of the gap. An estimate that is too short
        // does not reveal such a request, so one that waited less than usual does not count either.
        let at_least = self.gap().as_nanos().max(self.recent_wait);
        if self.early.count < SAMPLES_MIN || early_wait.as_nanos() >= at_least {
            let count = self.early.record(took, now);
            self.early_wait = fade(self.early_wait, early_wait.as_nanos(), count);
        }
        let known = u64::from(self.early.count).min(RECENT);
        self.recent_wait = fade(self.recent_wait, early_wait.as_nanos(), known);
        self.update_confirmed();
    }

    /// Whether early requests are known to wait at the server: then their time counts from the previous answer.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    fn update_confirmed(&mut self) {
        let from_sending = self.early.mean.saturating_add(self.early_wait);
        let known = self.early.count >= SAMPLES_MIN && self.idle.count > 0;
        // A confirmed state is not given up by chance.
        let margin = if self.confirmed {
            0
        } else {
            self.early_wait / 4
        };
        self.confirmed = known && from_sending > self.idle.mean.saturating_add(margin);
    }

    /// Mean time between answers of early requests; `predicted` while unknown.
    #[must_use]
    pub fn service(&self, predicted: Span) -> Span {
        if self.early.count < SAMPLES_MIN {
            return predicted;
        }
        self.early.time()
    }

    /// Returns the service time by all measurements, if the latest one is younger than [`MEASURED_FOR`]; `None` with
    /// fewer than [`MEASURED_MIN`].
    #[must_use]
    pub fn measured(&self, now: Mono) -> Option<Measured> {
        let gap = self.known_gap().as_nanos();
        // Early requests that may not have waited at the server count from dispatch, as those to an idle lane.
        let early_wait = if self.confirmed { 0 } else { self.early_wait };
        let (mut count, mut mean, mut scatter) = (0_u64, 0_u64, 0_u64);
        for (one, time) in [
            (&self.idle, self.idle.mean.saturating_sub(gap)),
            (&self.early, self.early.mean.saturating_add(early_wait)),
        ] {
            if one.count > 0 && now.since(one.at) < MEASURED_FOR {
                let samples = u64::from(one.count);
                count += samples;
                mean = mean.saturating_add(time.saturating_mul(samples));
                scatter = scatter.saturating_add(one.scatter.saturating_mul(samples));
            }
        }
        if count < u64::from(MEASURED_MIN) {
            return None;
        }
        Some(Measured {
            mean: Span::from_nanos(mean / count),
            // Of normally distributed times the standard deviation is 1.25 mean absolute ones.
            deviation: Span::from_nanos(scatter / count / 4 * 5),
        })
    }

    /// Extra time of a request that is sent to an idle lane.
    #[must_use]
    pub fn difference(&self) -> Span {
        if self.early.count < SAMPLES_MIN || self.idle.count == 0 {
            return Span::ZERO;
        }
        let mut gap = self.idle.mean.saturating_sub(self.early.mean);
        if self.idle.count < SAMPLES_MIN {
            // Few samples may differ by chance.
            let chance = 1.25 * self.scatter() / f64::from(self.idle.count).sqrt();
            gap = gap.saturating_sub(chance as u64);
        }
        Span::from_nanos(gap)
    }

    /// Time between an answer here and the start of the next request at the server, if that is sent only then.
    #[must_use]
    pub fn gap(&self) -> Span {
        if self.is_confirmed() {
            self.difference()
        } else {
            Span::ZERO
        }
    }

    /// Part of the gap that chance does not explain.
    #[must_use]
    pub fn known_gap(&self) -> Span {
        let chance = Span::from_nanos((self.scatter() * 0.4) as u64);
        self.gap().saturating_sub(chance)
    }

    /// Mean absolute deviation of a service time.
    fn scatter(&self) -> f64 {
        self.early.scatter as f64
    }
}

#[cfg(test)]
mod tests;
