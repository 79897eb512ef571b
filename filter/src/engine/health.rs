//! Failing variants: avoided at once, probed or tried, and used again.
//!
//! A failing variant counts as one without slots. If *every* variant that could take a request fails, none
//! counts as failing for it: a client that provokes errors everywhere does not stop the service.

use std::cell::Cell;
use std::rc::Rc;

use weir_api::metrics::Metric;

use super::{Engine, State, StreamId};
use crate::config::Role;
use crate::coordination::Notification;
use crate::health::{Health, HealthSignal, PROBE_PERIOD, ProbeResult};
use crate::routing::router::Requirements;
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::variant::VariantId;
use crate::variant::VariantKey;
use crate::verdict::Verdict;

/// Probe to send: a GET of [`Policy::path`](crate::health::Policy::path), or of `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Variant.
    pub variant: VariantKey,
    /// Envoy cluster of the variant.
    pub cluster: Rc<str>,
    /// Its servers' own name for the model, which replaces one in the path.
    pub model: Option<Rc<str>>,
}

/// Variants that a request must avoid.
#[derive(Debug, Clone, Copy)]
pub(super) enum Avoid {
    /// None: all are healthy, or all that could take it fail.
    None,
    /// All that fail.
    Failing,
}

impl Avoid {
    /// Whether a variant in this health must be avoided.
    pub(super) fn excludes(self, health: &Health) -> bool {
        match self {
            Avoid::None => false,
            Avoid::Failing => health.failing.is_some(),
        }
    }
}

impl Engine {
    /// Returns the variants that a request with these requirements must avoid.
    pub(super) fn avoid(&self, requirements: Requirements<'_>) -> Avoid {
        let fails = |health: &Health| health.failing.is_some();
        if !self.variants.iter().any(|variant| fails(&variant.health)) {
            return Avoid::None;
        }
        let all = (0..).map(VariantId).zip(self.variants.iter());
        let mut able = all
            .filter(|(id, variant)| variant.slots.total() > 0 && variant.fits(*id, requirements));
        if able.any(|(_, variant)| !fails(&variant.health)) {
            Avoid::Failing
        } else {
            Avoid::None
        }
    }

    /// Claims the due trial of a failing variant, one of `allowed`, for a request with these requirements. The
    /// variant's share is ignored: it may be zero because it fails.
    pub(super) fn take_trial(
        &mut self,
        requirements: Requirements<'_>,
        avoid: Avoid,
        mut allowed: impl Iterator<Item = VariantId>,
        now: Mono,
    ) -> Option<VariantId> {
        if matches!(avoid, Avoid::None) {
            return None;
        }
        let policy = self.config.health.clone();
        let id = allowed.find(|id| {
            self.variants.get(*id).is_some_and(|variant| {
                variant.health.wants_trial(now, &policy)
                    && variant.slots.total() > 0
                    && variant.fits(*id, requirements)
            })
        })?;
        let claimed = Cell::new(false);
        self.note_health(id, now, |health| {
            claimed.set(health.take_trial(now, &policy));
        });
        claimed.get().then_some(id)
    }

    /// Records the health signal of an answer, or of its absence.
    pub(super) fn observe(&mut self, id: VariantId, sign: HealthSignal, now: Mono) {
        if !self.tracks_health() {
            return;
        }
        if matches!(sign, HealthSignal::Erred | HealthSignal::Unreachable) {
            self.stats.count(Metric::Failures, Label::Variant(id));
        }
        let Some(variant) = self.variants.get(id) else {
            return;
        };
        let mut after = variant.health;
        after.observe(sign, now, &self.config.health);
        if after != variant.health {
            let policy = self.config.health.clone();
            self.note_health(id, now, |health| health.observe(sign, now, &policy));
        }
    }

    /// Probes to send now, if this VM is the one that reports.
    pub fn probes(&mut self, now: Mono) -> Vec<Probe> {
        let mut probes = Vec::new();
        if !self.sends_probes || !self.tracks_health() {
            return probes;
        }
        for index in 0..self.variants.len() {
            let Some(variant) = self.variants.get_mut(VariantId(index)) else {
                continue;
            };
            let waits = variant
                .probed_at
                .is_some_and(|last| now < last + PROBE_PERIOD);
            if variant.is_planned()
                && variant.health.wants_probe(now, &self.config.health)
                && !waits
            {
                variant.probed_at = Some(now);
                probes.push(Probe {
                    variant: variant.key,
                    cluster: variant.port(false).cluster(false).clone(),
                    model: variant.ports.model().cloned(),
                });
            }
        }
        probes
    }

    /// Handles the result of a probe.
    pub fn on_probe(
        &mut self,
        variant: VariantKey,
        probed: ProbeResult,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let place = self.variants.iter().position(|v| v.key == variant);
        if let Some(place) = place {
            let policy = self.config.health.clone();
            let id = VariantId(place as u16);
            self.note_health(id, now.mono, |health| health.on_probe(probed, &policy));
        }
        self.reroute_on_health_change(now, verdicts);
    }

    /// Reads the health seen by other workers from the slot table.
    pub(super) fn read_health(&mut self) {
        for index in 0..self.variants.len() {
            if let Some(variant) = self.variants.get_mut(VariantId(index))
                && let Some(health) = self.worker.health(variant.key)
            {
                self.health_changed |= health.failing.is_some() != variant.health.failing.is_some();
                variant.health = health;
            }
        }
    }

    /// Routes waiting requests again after a variant has started or stopped failing.
    pub(super) fn reroute_on_health_change(
        &mut self,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        if std::mem::take(&mut self.health_changed) {
            self.reroute_waiting(now, verdicts);
        }
    }

    /// Variants, and whether each fails.
    pub fn health(&self) -> impl Iterator<Item = (&Rc<str>, bool)> {
        let variants = self.variants.iter();
        variants.map(|variant| (&variant.name, variant.health.failing.is_some()))
    }

    /// Changes a variant's health for all workers.
    fn note_health(&mut self, id: VariantId, now: Mono, change: impl Fn(&mut Health)) {
        let Some(variant) = self.variants.get_mut(id) else {
            return;
        };
        let (noted, outcome) = self.worker.note_health(variant.key, now, &change);
        let before = variant.health;
        variant.health = noted.unwrap_or_else(|| {
            // The others learn it from the next signal.
            let mut health = before;
            change(&mut health);
            health
        });
        if variant.health.failing.is_some() != before.failing.is_some() {
            self.health_changed = true;
            self.worker.notify_others(Notification::Health, now);
        }
        self.count(&outcome);
    }

    /// Moves a request in flight, and its slot, to variant `by`, after its own variant refused the connection.
    pub(super) fn reassign(&mut self, stream: StreamId, by: VariantId, now: Mono) {
        let Some(request) = self.requests.get_mut(&stream) else {
            return;
        };
        let State::InFlight(flight) = &mut request.state else {
            return;
        };
        let from = std::mem::replace(&mut request.variant, by);
        if from == by {
            return;
        }
        if let Some(list) = request.list.as_mut().map(Rc::make_mut) {
            list.fail_over(by);
        }
        let (uploads, owns_slot) = (u32::from(request.uploading), flight.owns_slot);
        // It has no position among the requests sent to the other variant's lanes.
        let lane = std::mem::take(&mut flight.lane);
        if let Some(variant) = self.variants.get(by) {
            flight.planned = variant.planned;
            flight.in_flight = variant.slots.in_flight().saturating_add(1);
            flight.after_end = variant.after_end(now);
        }
        if let Some(variant) = self.variants.get_mut(from).filter(|_| owns_slot) {
            variant.uploads = variant.uploads.saturating_sub(uploads);
            variant.slots.release(lane.ordinal);
        }
        if let Some(variant) = self.variants.get_mut(by).filter(|_| owns_slot) {
            variant.uploads += uploads;
            let service = variant.predicted_of(request.group(), now).high;
            variant.slots.take(now + service);
            // The slot table is updated on the next check, at once.
            variant.slots.reported.stale = true;
        }
        self.stats.count(Metric::Failovers, Label::Variant(from));
        self.observe(from, HealthSignal::Unreachable, now);
    }

    /// Whether this filter tracks health: a gate has no other variant to send to.
    pub(super) fn tracks_health(&self) -> bool {
        self.config.health.eject && self.config.role != Role::Gate
    }
}
