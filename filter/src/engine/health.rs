//! Failing variants: avoided at once, probed or tried, and used again.
//!
//! A failing variant counts as one without slots. If *every* variant that could take a request fails, none
//! counts as failing for it: a client that provokes errors everywhere does not stop the service.

use std::cell::Cell;
use std::rc::Rc;

use weir_api::metrics::Metric;

use super::{Engine, Request, State, StreamId};
use crate::config::Role;
use crate::coordination::Notification;
use crate::health::{Client, Health, HealthSignal, Healths, PROBE_PERIOD, ProbeResult, Source};
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
    /// Whether it fails for gRPC; else for REST.
    pub grpc: bool,
    /// Envoy cluster of the variant, of the port for that protocol.
    pub cluster: Rc<str>,
    /// Its servers' own name for the model, which replaces one in the path.
    pub model: Option<Rc<str>>,
}

/// Variants that a request must avoid.
#[derive(Debug, Clone, Copy)]
pub(super) enum Avoid {
    /// None: all are healthy, or all that could take it fail.
    None,
    /// All that fail for this client.
    Failing(Client),
}

impl Avoid {
    /// Whether a variant in this health must be avoided.
    pub(super) fn excludes(self, health: &Healths) -> bool {
        match self {
            Avoid::None => false,
            Avoid::Failing(client) => health.fail_for(client),
        }
    }
}

impl Engine {
    /// Returns the variants that a request with these requirements, of this client, must avoid.
    pub(super) fn avoid(&self, requirements: Requirements<'_>, client: Client) -> Avoid {
        let fails = |health: &Healths| health.fail_for(client);
        if !self.variants.iter().any(|variant| fails(&variant.health)) {
            return Avoid::None;
        }
        let all = (0..).map(VariantId).zip(self.variants.iter());
        let mut able = all
            .filter(|(id, variant)| variant.slots.total() > 0 && variant.fits(*id, requirements));
        if able.any(|(_, variant)| !fails(&variant.health)) {
            Avoid::Failing(client)
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
        let Avoid::Failing(Client { grpc, .. }) = avoid else {
            return None;
        };
        let policy = self.config.health.clone();
        let id = allowed.find(|id| {
            self.variants.get(*id).is_some_and(|variant| {
                variant.health.of(grpc).wants_trial(now, &policy)
                    && variant.slots.total() > 0
                    && variant.fits(*id, requirements)
            })
        })?;
        if !self.may_try(id, grpc, now) {
            return None;
        }
        let claimed = Cell::new(false);
        self.note_health(id, grpc, now, |health| {
            claimed.set(health.take_trial(now, &policy));
        });
        claimed.get().then_some(id)
    }

    /// Records the health signal of an answer, or of its absence, to a request of this client.
    pub(super) fn observe(
        &mut self,
        id: VariantId,
        Client { grpc, source }: Client,
        sign: HealthSignal,
        now: Mono,
    ) {
        // What is not answered at all is not by what a client has sent.
        let is_answer = matches!(sign, HealthSignal::Erred | HealthSignal::NotFound);
        let source = source.filter(|_| is_answer);
        if !self.tracks_health() {
            return;
        }
        if !matches!(sign, HealthSignal::Served | HealthSignal::Answered) {
            self.stats.count(Metric::Failures, Label::Variant(id));
        }
        let Some(variant) = self.variants.get(id) else {
            return;
        };
        let before = variant.health.of(grpc);
        let mut after = *before;
        after.observe(sign, source, now, &self.config.health);
        if after != *before {
            let policy = self.config.health.clone();
            self.note_health(id, grpc, now, |health| {
                health.observe(sign, source, now, &policy)
            });
        }
    }

    /// Probes to send now, if this VM is the one that reports.
    pub fn probes(&mut self, now: Mono) -> Vec<Probe> {
        let mut probes = Vec::new();
        if !self.sends_probes || !self.tracks_health() {
            return probes;
        }
        let both = (0..self.variants.len()).flat_map(|index| [(index, false), (index, true)]);
        for (index, grpc) in both {
            let Some(variant) = self.variants.get_mut(VariantId(index)) else {
                continue;
            };
            let policy = &self.config.health;
            let wants = variant.is_planned() && variant.health.of(grpc).wants_probe(now, policy);
            let Some(probed_at) = variant.probed_at.get_mut(usize::from(grpc)) else {
                continue;
            };
            let waits = probed_at.is_some_and(|last| now < last + PROBE_PERIOD);
            if wants && !waits {
                *probed_at = Some(now);
                // The configured path is one of REST.
                let port = variant.port(grpc && policy.path.is_none());
                probes.push(Probe {
                    variant: variant.key,
                    grpc,
                    cluster: port.cluster(false).clone(),
                    model: variant.ports.model().cloned(),
                });
            }
        }
        probes
    }

    /// Handles the result of a probe of a variant, for gRPC or REST.
    pub fn on_probe(
        &mut self,
        (variant, grpc): (VariantKey, bool),
        probed: ProbeResult,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let place = self.variants.iter().position(|v| v.key == variant);
        if let Some(place) = place {
            let policy = self.config.health.clone();
            let id = VariantId(place as u16);
            self.note_health(id, grpc, now.mono, |health| {
                health.on_probe(probed, &policy);
            });
        }
        self.reroute_on_health_change(now, verdicts);
    }

    /// Reads the health seen by other workers from the slot table.
    pub(super) fn read_health(&mut self) {
        for index in 0..self.variants.len() {
            if let Some(variant) = self.variants.get_mut(VariantId(index))
                && let Some(health) = self.worker.health(variant.key)
            {
                self.health_changed |= differ(&health, &variant.health);
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
        variants.map(|variant| (&variant.name, variant.health.fails()))
    }

    /// Changes a variant's health for one protocol, for all workers.
    fn note_health(&mut self, id: VariantId, grpc: bool, now: Mono, change: impl Fn(&mut Health)) {
        let change = |healths: &mut Healths| change(healths.of_mut(grpc));
        let Some(variant) = self.variants.get_mut(id) else {
            return;
        };
        let (noted, outcome) = self.worker.note_health(variant.key, now, change);
        let before = variant.health;
        variant.health = noted.unwrap_or_else(|| {
            // The others learn it from the next signal.
            let mut health = before;
            change(&mut health);
            health
        });
        if differ(&variant.health, &before) {
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
        let grpc = request.shape.grpc;
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
        let client = Client { grpc, source: None };
        self.observe(from, client, HealthSignal::Unreachable, now);
    }

    /// Whether this filter tracks health: a gate has no other variant to send to.
    pub(super) fn tracks_health(&self) -> bool {
        self.config.health.eject && self.config.role != Role::Gate
    }
}

impl Request {
    /// Its client.
    pub(super) fn client(&self) -> Client {
        Client {
            grpc: self.shape.grpc,
            source: self.sender.map(Source::of),
        }
    }
}

/// Whether a variant fails for somebody by one of these alone.
fn differ(one: &Healths, other: &Healths) -> bool {
    let outage = |healths: &Healths, grpc: bool| {
        let health = healths.of(grpc);
        health.failing.map(|_| health.sources)
    };
    [false, true]
        .iter()
        .any(|grpc| outage(one, *grpc) != outage(other, *grpc))
}
