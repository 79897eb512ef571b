//! Time before a lane gets free at which the next request is sent to it, so that it lies at the server by then:
//! the **lead**.
//!
//! Between a server's answer and the next request it idles for the *gap*: the way of both, and what the
//! proxy takes. From here two times can be measured: of a request sent to an idle lane, dispatch to
//! answer, gap and service; of one that early_wait at the server when the one before it was answered, answer to
//! answer, the service idle. The gap is the difference of their means.
//!
//! What was sent early may not have lain there at all: the server has more lanes than slots are known of, or
//! it came too late for the lane. Then dispatch to answer is no longer than for one idle. Until it is, nothing
//! is known of the gap, the lead is that of [`UNCONFIRMED_PART`], and all times count from dispatch.
//!
//! A lane that gets free before its prediction idles the longer, and a request sent early goes before a more
//! urgent one that comes a moment later. So the lead is the gap, and as much of the service time's scatter
//! as makes the lanes idle for [`IDLE`] of their time, and never more than half of a service.
//!
//! All workers of a proxy share one [`Lead`] per variant (see [`VariantColumn`](crate::coordination::VariantColumn)), because each idle
//! sees few of a server's executions. The numbers are integers, so that slot tables can be compared.

use std::time::Duration;

use crate::time::{Mono, nanos};

mod mean;

pub use mean::Mean;
use mean::fade;

/// The share of its time for which a lane may idle.
const IDLE: f64 = 0.01;
/// Lateness of the timer, which counted whole ms, and of the workers' word to each other; added to the gap.
const MARGIN: Duration = Duration::from_millis(2);
/// While too little is known the lead is this share of the service time, and no more than [`FIRST_MAX`].
const FIRST_PART: u32 = 16;
const FIRST_MAX: Duration = Duration::from_millis(2);
/// The longest lead as a share of the service time.
const LEAD_MAX_PART: u32 = 2;
/// The lead while nobody was count to lie at the server, as a share of the service time.
const UNCONFIRMED_PART: u32 = 4;
/// Times measured of either kind, below which they say too little.
const SAMPLES_MIN: u16 = 4;
/// Time without a measurement of one kind until it is sought: by a request that is not sent early, or by
/// one that is.
const STALE: Duration = Duration::from_secs(5);
/// Requests sent early of which [`Lead::recent_wait`] is the mean.
const RECENT: u64 = 16;
/// Service times between two requests that are sent early while the gap seems too short by too few measurements.
const PROBE_INTERVAL: u32 = 8;

/// Measurements of one variant's gap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Lead {
    /// The plan's service time for which these were taken.
    pub planned: Duration,
    /// LaneReport to an idle lane: dispatch to answer.
    pub idle: Mean,
    /// LaneReport early: answer to answer.
    pub early: Mean,
    /// Mean time for which these early_wait at the server, or were on their way, ns.
    pub early_wait: u64,
    /// The same of the latest that were sent early, also of those that came too late for the lane, ns.
    pub recent_wait: u64,
    /// Whether these were count to lie at the server.
    pub confirmed: bool,
}

impl Lead {
    /// Returns a lead without measurements, for executions that the plan expects to take so long.
    #[must_use]
    pub fn new(planned: Duration) -> Lead {
        Lead {
            planned,
            ..Lead::default()
        }
    }

    /// One that was sent to an idle lane was answered after `took`.
    pub fn record_idle(&mut self, took: Duration, now: Mono) {
        self.idle.record(took, now);
        self.update_confirmed();
    }

    /// One that `early_wait` at its server, or was on its way there, when the one before it was answered, was
    /// answered so long after that.
    pub fn record_early(&mut self, took: Duration, early_wait: Duration, now: Mono) {
        // SlotShare of the time of a request that came too late for the lane is the gap. An estimate that is too short
        // does not tell such a request, so one that early_wait for less than recent_wait does not count either.
        let at_least = nanos(self.gap()).max(self.recent_wait);
        if self.early.count < SAMPLES_MIN || nanos(early_wait) >= at_least {
            let count = self.early.record(took, now);
            self.early_wait = fade(self.early_wait, nanos(early_wait), count);
        }
        let known = u64::from(self.early.count).min(RECENT);
        self.recent_wait = fade(self.recent_wait, nanos(early_wait), known);
        self.update_confirmed();
    }

    /// Whether those sent early were count to lie at the server: then their time counted from the answer before.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    fn update_confirmed(&mut self) {
        let from_sending = self.early.mean.saturating_add(self.early_wait);
        let known = self.early.count >= SAMPLES_MIN && self.idle.count > 0;
        // What was count once is not given up by chance.
        let margin = if self.confirmed {
            0
        } else {
            self.early_wait / 4
        };
        self.confirmed = known && from_sending > self.idle.mean.saturating_add(margin);
    }

    /// Mean time between the answers of requests sent early; `predicted` while it is not known.
    #[must_use]
    pub fn service(&self, predicted: Duration) -> Duration {
        if self.early.count < SAMPLES_MIN {
            return predicted;
        }
        self.early.time()
    }

    /// Time that a request sent to an idle lane takes longer than that.
    #[must_use]
    pub fn difference(&self) -> Duration {
        if self.early.count < SAMPLES_MIN || self.idle.count == 0 {
            return Duration::ZERO;
        }
        // Few, and far apart, may differ by chance.
        let chance = 1.25 * self.scatter() / f64::from(self.idle.count).sqrt();
        let gap = self.idle.time().saturating_sub(self.early.time());
        if self.idle.count < SAMPLES_MIN {
            gap.saturating_sub(Duration::from_nanos(chance as u64))
        } else {
            gap
        }
    }

    /// Time between an answer here and the next request's beginning at the server, if it is sent then.
    #[must_use]
    pub fn gap(&self) -> Duration {
        if self.is_confirmed() {
            self.difference()
        } else {
            Duration::ZERO
        }
    }

    /// The gap as far as it is no chance.
    #[must_use]
    pub fn known_gap(&self) -> Duration {
        let chance = Duration::from_nanos((self.scatter() * 0.4) as u64);
        self.gap().saturating_sub(chance)
    }

    /// Time before an execution's predicted end at which the next is sent.
    #[must_use]
    pub fn lead(&self, predicted: Duration, now: Mono) -> Duration {
        let service = self.service(predicted);
        let first = (service / FIRST_PART).min(FIRST_MAX);
        if self.early.count < SAMPLES_MIN || self.early.is_stale(now) {
            return first;
        }
        if self.idle.is_stale(now) {
            return Duration::ZERO;
        }
        if !self.is_confirmed() {
            return service / UNCONFIRMED_PART;
        }
        let lead = self.covering(self.gap(), service);
        let has_few_samples = self.idle.has_few_samples() || self.early.has_few_samples();
        if lead.is_zero() && has_few_samples && now.since(self.early.at) > service * PROBE_INTERVAL
        {
            // The estimate may be too short by chance. Without requests sent early it would stay so.
            return first;
        }
        lead
    }

    /// Lead that covers a gap and the scatter; zero where the lane idles for less than [`IDLE`] without one.
    fn covering(&self, gap: Duration, service: Duration) -> Duration {
        // The lane idles for the gap at most, by the chance that it gets free before the next is there.
        let chance = IDLE * nanos(service) as f64 / nanos(gap).max(1) as f64;
        let early = 1.25 * self.scatter() * deviations(chance);
        let lead = nanos(gap + gap / 4) as f64 + early;
        if chance >= 1.0 || lead <= 0.0 {
            return Duration::ZERO;
        }
        let lead = Duration::from_nanos(lead as u64) + MARGIN;
        lead.min(service / LEAD_MAX_PART)
    }

    /// Standard deviation of the time that so many executions one after the other, and one more, take.
    #[must_use]
    pub fn spread(&self, count: u32) -> Duration {
        let one = 1.25 * self.scatter();
        Duration::from_nanos((one * (f64::from(count) + 1.0).sqrt()) as u64)
    }

    /// Mean deviations of a service time from the mean.
    fn scatter(&self) -> f64 {
        self.early.scatter as f64
    }
}

/// Standard deviations by which a time is shorter than the mean with that chance at most.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    /// A lane with that gap, always busy: each request is sent by the lead before the predicted answer, or
    /// with the answer. The share of its time for which the lane idles.
    fn learn(lead: &mut Lead, service: impl Fn(u32) -> f64, gap: f64, count: u32) -> f64 {
        let (mut answered, mut answer, mut idle) = (0.0, service(0), 0.0);
        let at = |now: f64| Mono((now * 1e6) as u64);
        for turn in 1..=count {
            let predicted = ms(service(0));
            let early = lead
                .service(predicted)
                .saturating_sub(lead.lead(predicted, at(answered)));
            let sent = (answered + early.as_secs_f64() * 1e3).min(answer);
            let early_wait = answer - sent;
            let late = (gap - early_wait).max(0.0);
            let next = answer + late + service(turn);
            if early_wait > 0.0 {
                lead.record_early(ms(next - answer), ms(early_wait), at(next));
            } else {
                lead.record_idle(ms(next - sent), at(next));
            }
            (answered, answer, idle) = (answer, next, idle + late);
        }
        idle / answered
    }

    #[test]
    fn learns_a_gap_of_a_server_that_is_always_busy() {
        let mut lead = Lead::default();
        lead.record_idle(ms(28.0), Mono(0));
        learn(&mut lead, |_| 25.0, 3.0, 1000);
        assert!((ms(2.9)..ms(3.2)).contains(&lead.gap()), "{:?}", lead.gap());
        let idle = learn(&mut lead, |_| 25.0, 3.0, 1000);
        assert!(idle < 0.002, "idle for {idle}");
    }

    #[test]
    fn covers_the_scatter_of_service_times() {
        let scattered = |turn: u32| {
            let mixed = u64::from(turn + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let chance = (mixed >> 40) as f64 / f64::from(1 << 24);
            25.0 * (0.5 + chance)
        };
        let mut lead = Lead::default();
        learn(&mut lead, scattered, 3.0, 2000);
        let idle = learn(&mut lead, scattered, 3.0, 5000);
        assert!(idle < 0.02, "idle for {idle}, {lead:?}");
        let longest = lead.lead(ms(25.0), Mono(0));
        assert!(longest <= ms(12.5) + MARGIN, "{longest:?}");
    }

    #[test]
    fn starts_small_and_never_exceeds_half_of_the_service() {
        let mut lead = Lead::default();
        assert_eq!(lead.lead(ms(25.0), Mono(0)), ms(25.0) / 16);
        assert_eq!(lead.lead(ms(1000.0), Mono(0)), FIRST_MAX);
        for _ in 0..100 {
            lead.record_idle(ms(50.0), Mono(0));
            lead.record_early(ms(25.0), ms(40.0), Mono(0));
        }
        let lead = lead.lead(ms(25.0), Mono(0));
        assert!(ms(12.4) < lead && lead <= ms(12.5), "{lead:?}");
    }

    /// The server has two lanes where one slot is known of.
    #[test]
    fn where_nobody_lies_at_the_server_times_count_from_sending() {
        let mut lead = Lead::default();
        for _ in 0..1000 {
            lead.record_idle(ms(28.0), Mono(0));
            let early = lead.lead(ms(28.0), Mono(0)).as_secs_f64() * 1e3;
            lead.record_early(ms(28.0 - early), ms(early), Mono(0));
        }
        assert!(!lead.is_confirmed());
        assert_eq!(lead.gap(), Duration::ZERO);
        assert!(lead.lead(ms(28.0), Mono(0)) <= ms(7.0));
    }

    #[test]
    fn chance_is_no_reason_to_send_nobody_early() {
        let mut lead = Lead::default();
        for took in [15.0, 35.0, 15.0, 35.0] {
            lead.record_idle(ms(took), Mono(0));
            lead.record_early(ms(took), ms(5.0), Mono(0));
        }
        assert_eq!(lead.gap(), Duration::ZERO);
        assert_eq!(lead.lead(ms(25.0), Mono(0)), Duration::ZERO);
        let later = Mono(0) + ms(25.0) * PROBE_INTERVAL + ms(1.0);
        assert_eq!(lead.lead(ms(25.0), later), ms(25.0) / FIRST_PART);
    }

    #[test]
    fn is_none_where_no_gap_is_worth_it_and_seeks_what_it_has_not_seen_for_long() {
        let mut lead = Lead::default();
        for _ in 0..100 {
            lead.record_idle(ms(25.1), Mono(0));
            lead.record_early(ms(25.0), ms(5.0), Mono(0));
        }
        assert_eq!(lead.lead(ms(25.0), Mono(0)), Duration::ZERO);
        let later = Mono(0) + STALE + ms(1.0);
        assert!(lead.lead(ms(25.0), later) > Duration::ZERO, "no early one");
        let mut busy = Lead::default();
        for _ in 0..100 {
            busy.record_idle(ms(28.0), Mono(0));
            busy.record_early(ms(25.0), ms(5.0), later);
        }
        assert!(busy.lead(ms(25.0), Mono(0)) > ms(3.0));
        assert_eq!(busy.lead(ms(25.0), later), Duration::ZERO, "no idle lane");
    }
}
