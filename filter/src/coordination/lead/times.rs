//! Times that follow from the measurements of a variant's gap, worked out once for all forecasts until the next lane
//! report.

use super::{
    FIRST_MAX, FIRST_PART, IDLE, LEAD_MAX_PART, Lead, MARGIN, PROBE_INTERVAL, SAMPLES_MIN,
    UNCONFIRMED_PART,
};
use crate::time::{Mono, Span};

/// Measurements of one variant's gap, with the times that follow from them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeadTimes {
    measured: Lead,
    difference: Span,
    known_gap: Span,
    /// Lead for confirmed measurements.
    covering: Span,
}

impl LeadTimes {
    /// Works out the times.
    #[must_use]
    pub fn new(measured: Lead) -> LeadTimes {
        LeadTimes {
            difference: measured.difference(),
            known_gap: measured.known_gap(),
            covering: covering(&measured),
            measured,
        }
    }

    /// Measurements.
    #[must_use]
    pub fn measured(&self) -> &Lead {
        &self.measured
    }

    /// Extra time of a request that is sent to an idle lane.
    #[must_use]
    pub fn difference(&self) -> Span {
        self.difference
    }

    /// Part of the gap that chance does not explain.
    #[must_use]
    pub fn known_gap(&self) -> Span {
        self.known_gap
    }

    /// Mean time between answers of early requests; `predicted` while unknown.
    #[must_use]
    pub fn service(&self, predicted: Span) -> Span {
        self.measured.service(predicted)
    }

    /// Time before an execution's predicted end at which the next request is sent.
    #[must_use]
    pub fn lead(&self, predicted: Span, now: Mono) -> Span {
        let Lead { idle, early, .. } = &self.measured;
        let service = || self.service(predicted);
        let first = || (service() / FIRST_PART).min(FIRST_MAX);
        if early.count < SAMPLES_MIN || early.is_stale(now) {
            return first();
        }
        if idle.is_stale(now) {
            return Span::ZERO;
        }
        if !self.measured.is_confirmed() {
            return service() / UNCONFIRMED_PART;
        }
        let may_probe = || {
            let has_few_samples = idle.has_few_samples() || early.has_few_samples();
            has_few_samples && now > early.at + service() * PROBE_INTERVAL
        };
        if self.covering.is_zero() && may_probe() {
            // The estimate may be too short by chance, and would stay so without early requests.
            return first();
        }
        self.covering
    }

    /// Standard deviation of the time that `count` + 1 executions take one after the other.
    #[must_use]
    pub fn spread(&self, count: u32) -> Span {
        let one = 1.25 * self.measured.scatter();
        Span::from_nanos((one * (f64::from(count) + 1.0).sqrt()) as u64)
    }
}

/// Lead that covers the gap and the scatter; zero if the lane idles for less than [`IDLE`] without one.
fn covering(measured: &Lead) -> Span {
    let (gap, service) = (measured.gap().as_nanos(), measured.early.mean);
    // The lane idles for at most the gap, with the chance that it is free before the next request arrives.
    let chance = IDLE * service as f64 / gap.max(1) as f64;
    let early = 1.25 * measured.scatter() * deviations(chance);
    let lead = gap.saturating_add(gap / 4) as f64 + early;
    if chance >= 1.0 || lead <= 0.0 {
        return Span::ZERO;
    }
    let lead = (lead as u64).saturating_add(MARGIN.as_nanos());
    Span::from_nanos(lead.min(service / u64::from(LEAD_MAX_PART)))
}

/// Standard deviations below the mean that a time falls short of with at most this chance.
fn deviations(chance: f64) -> f64 {
    const TABLE: [(f64, f64); 8] = [
        (0.01, 2.33),
        (0.05, 1.64),
        (0.1, 1.28),
        (0.2, 0.84),
        (0.3, 0.52),
        (0.5, 0.0),
        (0.7, -0.52),
        (0.9, -1.28),
    ];
    let row = TABLE.iter().find(|(of, _)| chance <= *of);
    row.map_or(-2.33, |(_, deviations)| *deviations)
}
