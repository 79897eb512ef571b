//! Completion of executions, and the measurements they yield.

use weir_api::metrics::Metric;

use super::variant::{ENDED_MAX, Variant};
use super::{End, Engine, Flight, Request, StreamId};
use crate::coordination::{CompletedExecution, LaneReport, SyncResult};
use crate::routing::group_times::Group;
use crate::routing::service_time::Took;
use crate::stats::Label;
use crate::time::{Mono, Now, Span};
use crate::variant::{VariantId, VariantKey};

/// Time between two reports of service times by group.
const GROUP_REPORT_EVERY: Span = Span::from_secs(1);

/// Time without an answer after which a server counts as one that takes longer than anything known.
const SILENCE: Span = Span::from_secs(2);
/// Part of that time for which the slot of an execution that was cut off then stays taken at least.
const SILENCE_PART: u32 = 4;

/// Position of a request among those sent to its variant's lanes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LanePosition {
    /// Ordinal; 0 if it has none.
    pub(super) ordinal: u32,
    /// Predicted wait behind others at the server; `None` if it was sent to an idle lane.
    pub(super) server_wait: Option<Span>,
}

/// Completed execution whose start the slot table has still to report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Completion {
    sent: Mono,
    at: Mono,
    lane: LanePosition,
    in_flight: u32,
    after_end: Span,
    left: Span,
    planned: Span,
    group: Group,
    answered: bool,
    /// Whether its duration is a valid measurement of the server's time.
    is_measurement: bool,
    is_error: bool,
}

impl LanePosition {
    /// Position of request number `place` of `granted`.
    pub(super) fn new(sent: &LaneReport, place: u32, granted: u32) -> LanePosition {
        if sent.first == 0 {
            return LanePosition::default();
        }
        let server_wait = place + sent.behind >= granted;
        LanePosition {
            ordinal: sent.first.wrapping_add(place),
            server_wait: server_wait.then_some(sent.first_wait),
        }
    }
}

impl Completion {
    /// Returns the execution for the slot table's measurements.
    pub(super) fn execution(&self) -> CompletedExecution {
        CompletedExecution {
            ordinal: self.lane.ordinal,
            sent: self.sent,
            at: self.at,
            in_flight: self.in_flight,
            after_end: self.after_end,
            left: self.left,
            planned: self.planned,
            was_idle: self.lane.server_wait.is_none(),
            is_measurement: self.answered && self.is_measurement,
            is_cut_off: !self.answered,
            is_error: self.is_error,
        }
    }
}

impl Engine {
    /// Frees the slot of a request whose execution is over, or leaves it orphaned.
    pub(super) fn free_slot(
        &mut self,
        stream: StreamId,
        request: &Request,
        flight: Flight,
        end: End,
        now: Now,
    ) {
        let id = request.variant;
        // The previous completion, if no acquisition has reported it yet.
        self.record_service_time(id, None, now.mono);
        let Some(variant) = self.variants.get_mut(id) else {
            return;
        };
        let client_held = request.uploading || flight.streamed.lags;
        variant.uploads = variant.uploads.saturating_sub(u32::from(client_held));
        let lane = flight.lane;
        if end == End::Answered {
            variant.answered_at = now.mono;
            if !request.shape.stream {
                variant.note_end(flight.sent, now.mono);
                if !variant.is_flat {
                    variant.slots.release_passed(flight.sent);
                }
            }
        }
        let orphaned = matches!(end, End::TimedOut | End::Disconnected) && !variant.cancels;
        if orphaned {
            // This execution may take longer than most, so the planned time counts if it is longer.
            let predicted =
                variant.predicted_at(flight.in_flight, flight.after_end, request.group());
            let service = predicted.high.max(flight.planned);
            let end = flight.sent + lane.server_wait.unwrap_or_default() + service;
            // If it has taken longer already, it takes a while yet.
            let end = end.max(now.mono + predicted.safe.saturating_sub(predicted.mean) / 2);
            // The longer a server is silent, the fewer are sent, or its queue would grow without an end.
            let silent = now.mono.since(variant.answered_at.max(flight.sent));
            let is_silent = flight.streamed.begun_at.is_none() && silent > SILENCE.max(service * 4);
            let end = if is_silent {
                end.max(now.mono + silent / SILENCE_PART)
            } else if variant.is_flat {
                end
            } else {
                // It is known to have ended when one that was sent later does.
                end.max(flight.sent + predicted.safe)
            };
            let (unique, sent) = (u64::from(stream), flight.sent);
            variant
                .slots
                .orphan(now.mono, end, unique, lane.ordinal, sent);
        } else {
            variant.slots.release(lane.ordinal);
        }
        // An aborted execution took at least this long. While the body was incoming, the time was the client's.
        // How long a stream goes on says nothing of when it begins, which is measured with its first byte.
        let measured = match end {
            End::Answered => !flight.failed && !request.shape.stream,
            End::TimedOut => !flight.failed,
            End::Unreachable | End::Failed | End::Disconnected | End::Unsent => false,
        };
        variant.completion = Some(Completion {
            sent: flight.sent,
            at: now.mono,
            lane,
            in_flight: flight.in_flight,
            after_end: flight.after_end,
            left: request
                .due
                .since(request.arrived.mono.max(request.complete_at)),
            planned: flight.planned,
            group: request.group(),
            answered: end == End::Answered,
            is_measurement: measured && !request.uploading,
            is_error: flight.failed,
        });
        let measured = variant.completion.filter(|it| it.is_measurement);
        if let Some(measured) = measured
            && variant.ended.len() < ENDED_MAX
        {
            variant.ended.push(measured.execution());
        }
        if orphaned {
            self.record_service_time(id, None, now.mono);
        }
    }

    /// Takes over the service times that all workers have measured together, from the slot table. A worker that serves
    /// alone has measured them all itself, and its own estimator knows more of them.
    pub(super) fn read_measured(&mut self, now: Mono) {
        let takes = self.config.correct && self.workers > 1;
        for index in 0..self.variants.len() {
            if let Some(variant) = self.variants.get_mut(VariantId(index)) {
                let measured =
                    takes.then(|| self.worker.measured(variant.key, variant.planned, now));
                variant.observe_common(measured.flatten());
            }
        }
    }

    /// Adds the measurements by class and by size to those of all workers, and takes these over. A worker that serves
    /// alone has measured them all itself.
    pub(super) fn share_group_times(&mut self, now: Mono) {
        if !self.config.correct || self.workers <= 1 {
            return;
        }
        // Classes of another configuration have other records.
        let classes = self.config.classes.fingerprint();
        let key = |variant: &Variant| VariantKey(variant.key.0 ^ classes);
        let own = self.variants.iter();
        let own = own.map(|variant| (key(variant), variant.group_times.own()));
        let (is_shared, conflicts) = self.worker.share_groups(own, now);
        self.count(&SyncResult {
            conflicts,
            ..SyncResult::default()
        });
        if !is_shared {
            return;
        }
        for index in 0..self.variants.len() {
            if let Some(variant) = self.variants.get_mut(VariantId(index)) {
                let groups = self.worker.groups();
                let all = groups.get(key(variant));
                variant.group_times.observe_common(all);
            }
        }
    }

    /// Reports the executions by class and by size since the last report.
    pub(super) fn report_groups(&mut self, now: Mono) {
        if now < self.groups_reported_from {
            return;
        }
        self.groups_reported_from = now + GROUP_REPORT_EVERY;
        let stats = &mut self.stats;
        for index in 0..self.variants.len() {
            let id = VariantId(index);
            let Some(variant) = self.variants.get_mut(id) else {
                continue;
            };
            variant.group_times.unreported().take(|group, sums| {
                let label = Label::Group(id, group);
                let (ratios, squares) = sums.permille();
                stats.by(Metric::GroupExecutions, label, i64::from(sums.count));
                stats.by(Metric::GroupRatioPermille, label, ratios);
                stats.by(Metric::GroupRatioSquares, label, squares);
            });
        }
    }

    /// Records the service time of the last completed execution, which `began` then by the slot table. Most times
    /// there is none.
    #[inline]
    pub(super) fn record_service_time(&mut self, id: VariantId, began: Option<Mono>, now: Mono) {
        let variant = self.variants.get(id);
        if variant.is_some_and(|variant| variant.completion.is_some()) {
            self.record_completion(id, began, now);
        }
    }

    fn record_completion(&mut self, id: VariantId, began: Option<Mono>, now: Mono) {
        let Some(variant) = self.variants.get_mut(id) else {
            return;
        };
        let Some(completion) = variant.completion.take() else {
            return;
        };
        let alone = completion.lane.server_wait.is_none();
        let counts_from = match began {
            _ if alone => completion.sent + variant.lead.known_gap(),
            _ if !variant.lead.measured().is_confirmed() => completion.sent,
            Some(began) => began.max(completion.sent),
            // For a request that waited behind others, the start is unknown: the predicted wait counts.
            None => completion.sent + completion.lane.server_wait.unwrap_or_default(),
        };
        let took = completion.at.since(counts_from);
        if self.config.correct && completion.is_measurement {
            let Completion { group, planned, .. } = completion;
            let took = Took {
                time: took,
                completed: completion.answered,
            };
            // One that was cut off sooner than most end says nothing.
            let explored = alone && completion.in_flight > variant.slots.total();
            if !explored && (took.completed || took.time > variant.predicted.mean) {
                variant.observe(group, planned, took, now);
            }
        }
        // An error says nothing of the time that the model takes.
        if completion.is_measurement {
            let metric = match completion.answered {
                true => Metric::ServiceMs,
                false => Metric::CutOffMs,
            };
            // Beyond the planned slots the servers hold more than the plan counts with: the time counts per planned slot.
            let planned = variant.slots.planned();
            let took = if alone && planned > 0 && completion.in_flight > planned {
                took.mul_f64(f64::from(planned) / f64::from(completion.in_flight))
            } else {
                took
            };
            self.stats.time(metric, Label::Variant(id), took);
        }
    }
}
