//! Executions measured by the proxies, compared with the profiles: the correction that the planner plans with, the
//! state of each variant, and profiles that no longer hold. Pure.
//!
//! Measured at the cores of one execution, a ratio to the profile is learnt for these ([`learnt`]). Executions do not
//! count
//! - after more replicas have become ready, until [`WARM_UP`] after the first execution: they are cold starts
//! - while other executions may still be those before a change of cores or of the batch
//! - while the variant's servers fail
//!
//! Executions that were cut off count by [`Executions::mean_ms`], with the time seen. Their times are only known from
//! below, so with any of them a variant is not faster than its profile. They lengthen the time that is planned with, but
//! the state and the drift go by answers ([`Estimate::of_answers`]).
//!
//! While all slots of a variant are taken, its rate is what its servers sustain, which counts more than times ([`full`]).
//!
//! A profile that is far off is replaced by what is measured ([`learnt`]). The variant's state is compared with that then:
//! what takes fifteen times its profile for good has a wrong profile, and no neighbour.
//!
//! A variant without a profile has a start value in its place, which what is measured replaces from the first estimate on.
//!
//! A profile whose times are not measured for `serviceTimes.driftAfter` is reported once, and in each reason.

mod far_off;
mod full;
mod learnt;
mod notes;
mod window;

use std::collections::VecDeque;
use std::time::Duration;

use super::Planner;
use super::known_times::KnownRatios;
use crate::capacity::Allocation;
use crate::observe::{ExecutionCounts, Executions, FullRate, FullRates, Scrape};
use crate::plan::{Expected, expected};
use crate::profile::Correction;
use crate::service::{
    Reading, Service, ServiceTimeRule, StateMachine, Variant, VariantState, slow_above,
};
use crate::telemetry::status::ServiceTimeReport;
use full::FullPart;
use learnt::Learnt;
pub(crate) use notes::far_off_note;
use notes::{drift_note, log_state, measured_note, no_profile_note, renewal};
use window::{Block, Estimate, WINDOW, Window, ratio, ratio_to_start};

/// Time after the first execution of new replicas for which they may be cold.
const WARM_UP: Duration = Duration::from_secs(10);
/// Part of the slots that must be taken on average for executions to be faster than the profile.
const BUSY: f64 = 0.5;
/// Part of the executions that may be cut off while the rate with all slots taken counts: under overload some are late.
const CUT_OFF_MAX: f64 = 0.1;

/// Measured service times of all variants.
#[derive(Debug, Default)]
pub(super) struct ServiceTimes {
    counts: ExecutionCounts,
    full: FullRates,
    variants: Vec<VariantTimes>,
}

/// Measured service times of one variant.
#[derive(Debug, Clone, Default)]
struct VariantTimes {
    window: Window,
    learnt: Learnt,
    machine: StateMachine,
    /// Present cores of one execution, in thousandths.
    millis: u32,
    allocation: Option<Allocation>,
    /// Largest batch, and the longest time that it takes, in ms.
    batch: (u32, f64),
    /// Mean time of that batch, in ms; `None` without cores.
    profile_ms: Option<f64>,
    /// Whether new replicas have not executed anything yet.
    cold: bool,
    /// Start from which executions count.
    counts_from: Duration,
    /// Time at which executions were last seen; at first that of the first cycle.
    seen: Option<Duration>,
    /// Executions of the last [`WINDOW`].
    rates: VecDeque<(Duration, f64)>,
    sustained_rps: f64,
    drifts_since: Option<Duration>,
}

impl ServiceTimes {
    /// Creates an empty record.
    pub(super) fn new(variants: &[Variant]) -> ServiceTimes {
        let times = |variant: &Variant| VariantTimes {
            learnt: match variant.has_profile() {
                true => Learnt::default(),
                false => Learnt::without_profile(),
            },
            ..VariantTimes::default()
        };
        ServiceTimes {
            counts: ExecutionCounts::default(),
            full: FullRates::default(),
            variants: variants.iter().map(times).collect(),
        }
    }

    /// Ratios of a variant that hold at `now`, for a later planner.
    pub(super) fn known(&self, variant: usize, now: Duration) -> KnownRatios {
        let known = self.variants.get(variant);
        known.map_or_else(KnownRatios::default, |times| times.learnt.known(now))
    }

    /// Continues from ratios that were known `age` before `now`.
    pub(super) fn restore(
        &mut self,
        variant: usize,
        known: &KnownRatios,
        (now, age): (Duration, Duration),
        rule: &ServiceTimeRule,
    ) {
        if let Some(times) = self.variants.get_mut(variant) {
            times.learnt = times.learnt.continuing(known, (now, age), rule);
        }
    }
}

/// Present condition of a variant.
#[derive(Debug, Clone, Copy)]
struct Present {
    allocation: Allocation,
    expected: Option<Expected>,
    fails: bool,
}

impl VariantTimes {
    /// Takes in the executions since the last cycle; returns the state before if it has changed.
    fn see(
        &mut self,
        now: Duration,
        new: Executions,
        full: Option<FullRate>,
        present: Present,
        rule: &ServiceTimeRule,
    ) -> Option<VariantState> {
        self.change(now, present);
        self.rates.push_back((now, new.ended()));
        let is_old = |(at, _): &(Duration, f64)| now.saturating_sub(*at) >= WINDOW;
        while self.rates.front().is_some_and(is_old) {
            self.rates.pop_front();
        }
        let measured = self.measure(now, new, full, present);
        self.window.expire(now);
        let estimate = self.window.estimate();
        if let Some(estimate) = estimate.filter(|_| measured) {
            self.learn(now, estimate, rule);
        }
        let ratio = estimate.and_then(|estimate| estimate.of_answers);
        let replaces = !self.learnt.has_profile() || self.learnt.is_far_off(now);
        let planned = if replaces { self.correction(now) } else { 1.0 };
        let reading = self.reading(now, ratio.map(|ratio| ratio / planned));
        let changed = self.machine.see(now, reading, rule);
        self.drift(now, ratio, rule);
        changed
    }

    /// Takes over an estimate. A lower bound only lengthens the time that is planned with.
    fn learn(&mut self, now: Duration, estimate: Estimate, rule: &ServiceTimeRule) {
        if estimate.of_answers.is_some() || estimate.ratio > self.correction(now) {
            let measured = (estimate.ratio, estimate.of_answers);
            self.learnt.learn(self.millis, measured, now, rule);
        }
    }

    /// Takes in a change of cores or replicas.
    fn change(&mut self, now: Duration, present: Present) {
        self.sustained_rps = present.expected.map_or(0.0, |it| it.sustained_rps);
        self.profile_ms = present.expected.map(|it| it.batch_ms());
        let before = self.allocation.replace(present.allocation);
        let before = before.unwrap_or(present.allocation);
        let batch = present
            .expected
            .map_or((0, 0.0), |it| (it.largest, it.longest_ms));
        let batch_before = std::mem::replace(&mut self.batch, batch);
        if before == present.allocation && batch_before.0 == batch.0 && self.seen.is_some() {
            return;
        }
        self.seen = self.seen.or(Some(now));
        self.cold |= present.allocation.replicas() > before.replicas();
        let millis = present.expected.map_or(0, |expected| expected.millis);
        if millis != self.millis {
            self.window.clear();
        }
        self.millis = millis;
        let longest_s = batch_before.1.max(batch.1) / 1e3;
        self.counts_from = now + Duration::try_from_secs_f64(longest_s).unwrap_or_default();
    }

    /// Takes in executions; returns whether they count.
    fn measure(
        &mut self,
        now: Duration,
        new: Executions,
        full: Option<FullRate>,
        present: Present,
    ) -> bool {
        let Some(mean_ms) = new.mean_ms() else {
            return false;
        };
        let begin = self.seen.replace(now).unwrap_or(now);
        if std::mem::take(&mut self.cold) {
            self.counts_from = self.counts_from.max(now + WARM_UP);
        }
        let Some(expected) = present.expected else {
            return false;
        };
        if begin < self.counts_from || present.fails {
            return false;
        }
        let length_s = (now - begin).as_secs_f64();
        let slots_ms = f64::from(expected.slots) * length_s * 1e3;
        let taken = (new.total_ms / slots_ms).min(1.0);
        let is_busy = new.cut_off == 0.0 && taken >= BUSY;
        // With several slots, of which some are free, an execution may be fast because it has the server for itself. By
        // this time the slots carry what was measured, and no more.
        let full_ms = if expected.slots > 1 {
            mean_ms / taken
        } else {
            mean_ms
        };
        let full_ms = is_busy.then_some(full_ms);
        let ratio = match self.learnt.has_profile() {
            true => ratio(mean_ms, full_ms, &expected.mean_ms(new.together())),
            false => ratio_to_start(mean_ms, expected.single_ms),
        };
        let full = full.filter(|_| new.cut_off <= CUT_OFF_MAX * new.ended());
        let full = full.and_then(|full| FullPart::of(full, (length_s, taken), &expected));
        let full = full.filter(|part| new.cut_off == 0.0 || part.is_slow());
        self.window.add(Block {
            at: now,
            ratio,
            executions: new.ended(),
            cut_off: new.cut_off,
            full,
        });
        true
    }

    fn reading(&self, now: Duration, ratio: Option<f64>) -> Reading {
        let executions: f64 = self.rates.iter().map(|(_, executions)| executions).sum();
        let rps = executions / WINDOW.as_secs_f64();
        let is_known = self.sustained_rps > 0.0;
        Reading {
            idle: now.saturating_sub(self.seen.unwrap_or(now)),
            ratio,
            load: if is_known {
                rps / self.sustained_rps
            } else {
                0.0
            },
        }
    }

    /// Notes since when the profile has not held.
    fn drift(&mut self, now: Duration, ratio: Option<f64>, rule: &ServiceTimeRule) {
        let above = slow_above(self.drifts_since.is_some(), rule);
        let holds = |ratio: f64| (1.0 / above..=above).contains(&ratio);
        let is_inactive = self.machine.state() == VariantState::Inactive;
        match ratio.map(holds) {
            _ if is_inactive || !self.learnt.has_profile() => self.drifts_since = None,
            Some(true) => self.drifts_since = None,
            Some(false) => self.drifts_since = self.drifts_since.or(Some(now)),
            None => {}
        }
    }

    /// Time for which the profile has not held, from `serviceTimes.driftAfter` on.
    fn drifted(&self, now: Duration, rule: &ServiceTimeRule) -> Option<Duration> {
        let lasts = now.saturating_sub(self.drifts_since?);
        (lasts >= rule.drift_after).then_some(lasts)
    }

    /// Factor at the actual cores; without cores, the latest measured one.
    fn correction(&self, now: Duration) -> f64 {
        let latest = self.learnt.ratios(now).last().map(|ratio| ratio.millis);
        let millis = match self.millis {
            0 => latest.unwrap_or_default(),
            millis => millis,
        };
        Correction::of(self.learnt.ratios(now)).factor(f64::from(millis) / 1e3)
    }

    fn report(&self, now: Duration, rule: &ServiceTimeRule) -> ServiceTimeReport {
        let estimate = self.window.estimate();
        let correction = if rule.correct {
            self.correction(now)
        } else {
            1.0
        };
        let ms = |lasts: Duration| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
        ServiceTimeReport {
            state: self.machine.state(),
            measured_ratio: estimate.map(|estimate| estimate.ratio),
            executions: estimate.map_or(0, |estimate| estimate.executions as u64),
            cut_off: estimate.map_or(0, |estimate| estimate.cut_off as u64),
            is_bound: estimate.is_some_and(|estimate| estimate.of_answers.is_none()),
            correction,
            profile_ms: self.profile_ms,
            has_profile: self.learnt.has_profile(),
            replaces_profile: rule.correct && self.learnt.is_far_off(now),
            drift_ms: self.drifted(now, rule).map(ms),
        }
    }
}

impl Planner {
    /// Compares the executions since the last cycle with the profiles, and corrects these.
    pub(super) fn see_service_times(&mut self, scrapes: &[Scrape]) {
        let (now, rule) = (self.now, self.service.service_times);
        let ready = self.rollout.ready();
        let confirmed = self.rollout.batches.confirmed();
        let expected = expected(&self.service, &ready, self.planned, confirmed);
        let failing = self.observations.failing_since();
        let times = &mut self.measured.service_times;
        let mut new = times.counts.observe(now, scrapes);
        let full = times.full.observe(now, scrapes);
        let present = ready.into_iter().zip(expected).zip(failing);
        let each = self.service.variants.iter().zip(&mut times.variants);
        for ((variant, times), ((allocation, expected), fails)) in each.zip(present) {
            let present = Present {
                allocation,
                expected,
                fails: fails.is_some(),
            };
            let new = new.remove(&variant.name).unwrap_or_default();
            let full = full.get(&variant.name).copied();
            let changed = times.see(now, new, full, present, &rule);
            let report = times.report(now, &rule);
            if let Some(before) = changed {
                log_state(&variant.name, before, &report);
            }
            let profile = format!("profile of {}", variant.name);
            match report.drift_ms {
                Some(_) => self.troubles.failed(
                    &profile,
                    &"it no longer holds",
                    &renewal(&self.service.name, &variant.name),
                ),
                None => self.troubles.went_well(&profile),
            }
        }
        self.correct();
    }

    /// Takes over the corrections that hold now.
    fn correct(&mut self) {
        if !self.service.service_times.correct {
            return;
        }
        let now = self.now;
        let times = self.measured.service_times.variants.iter();
        let corrections: Vec<Correction> = times
            .map(|times| Correction::of(times.learnt.ratios(now)))
            .collect();
        let known = self.service.variants.iter();
        let known = known.map(|variant| variant.profile.correction);
        if known.eq(corrections.iter().copied()) {
            return;
        }
        let mut service = Service::clone(&self.service);
        for (variant, correction) in service.variants.iter_mut().zip(corrections) {
            variant.profile.correction = correction;
        }
        self.service = service.into();
    }

    /// Service time of a variant, for the status.
    pub(super) fn service_time(&self, variant: usize) -> ServiceTimeReport {
        let times = self.measured.service_times.variants.get(variant);
        times.map_or_else(ServiceTimeReport::default, |times| {
            times.report(self.now, &self.service.service_times)
        })
    }

    /// Names the variants that do not take the times of their profiles.
    pub(super) fn service_time_notes(&self) -> String {
        let each = self.service.variants.iter().enumerate();
        each.map(|(index, variant)| {
            let (name, report) = (&variant.name, self.service_time(index));
            let note = no_profile_note(name, &report).or_else(|| far_off_note(name, &report));
            let measured = match note {
                Some(note) => format!("; {note}"),
                None => measured_note(name, &report),
            };
            measured + &drift_note(&self.service.name, &variant.name, &report)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
