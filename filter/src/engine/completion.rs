//! Lessons of a server's part in a request, once it is over.

use std::time::Duration;

use weir_api::metrics::Metric;

use super::{End, Engine, Flight, Request, StreamId};
use crate::coordination::{CompletedExecution, LaneReport};
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::variant::VariantId;

/// A request's place among those sent to its variant's lanes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LanePosition {
    /// Its ordinal; 0 where it has none.
    pub(super) ordinal: u32,
    /// Time for which it should lie behind others at the server; `None`: it was sent to an idle lane.
    pub(super) server_wait: Option<Duration>,
}

/// An execution that is over; when it began the board has yet to say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Completion {
    sent: Mono,
    at: Mono,
    lane: LanePosition,
    planned: Duration,
    answered: bool,
    /// Whether its time says what the server takes.
    is_measurement: bool,
}

impl LanePosition {
    /// That of number `place` of `granted`.
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
    /// Returns the execution for the board to learn from; `None` where the board does not know of it.
    pub(super) fn completed(&self) -> Option<CompletedExecution> {
        (self.lane.ordinal > 0).then_some(CompletedExecution {
            ordinal: self.lane.ordinal,
            sent: self.sent,
            at: self.at,
            was_idle: self.lane.server_wait.is_none(),
            is_measurement: self.answered && self.is_measurement,
        })
    }
}

impl Engine {
    /// The server's part in a request is over, or its slot is left to a ghost.
    pub(super) fn free_slot(
        &mut self,
        stream: StreamId,
        request: &Request,
        flight: Flight,
        end: End,
        now: Now,
    ) {
        let id = request.variant;
        // One that no turn has told of yet.
        self.record_service_time(id, None, now.mono);
        let Some(variant) = self.variants.get_mut(id) else {
            return;
        };
        variant.uploads = variant.uploads.saturating_sub(u32::from(request.uploading));
        let lane = flight.lane;
        let ghost = matches!(end, End::TimedOut | End::Gone) && !variant.cancels;
        if ghost {
            // The server may be slower this once than most executions were: what the plan
            // foresaw counts where that is longer.
            let service = variant.predicted.high.max(flight.planned);
            let end = flight.sent + lane.server_wait.unwrap_or_default() + service;
            let unique = u64::from(stream);
            variant.slots.orphan(now.mono, end, unique, lane.ordinal);
        } else {
            variant.slots.release(lane.ordinal);
        }
        // What was given up took at least so long. While the body still came the time was the client's.
        let measured = matches!(end, End::Answered | End::TimedOut) && !flight.failed;
        variant.completion = Some(Completion {
            sent: flight.sent,
            at: now.mono,
            lane,
            planned: flight.planned,
            answered: end == End::Answered,
            is_measurement: measured && !request.uploading,
        });
        if ghost {
            self.record_service_time(id, None, now.mono);
        }
    }

    /// Learns how long the last execution that is over took, which `began` by the board's word.
    pub(super) fn record_service_time(&mut self, id: VariantId, began: Option<Mono>, now: Mono) {
        let Some(variant) = self.variants.get_mut(id) else {
            return;
        };
        let Some(completion) = variant.completion.take() else {
            return;
        };
        let alone = completion.lane.server_wait.is_none();
        let counts_from = match began {
            _ if alone => completion.sent + variant.lead().known_gap(),
            _ if !variant.lead().is_confirmed() => completion.sent,
            Some(began) => began.max(completion.sent),
            // Of one that lay behind others nobody says for how long: as long as was foreseen.
            None => completion.sent + completion.lane.server_wait.unwrap_or_default(),
        };
        let took = completion.at.since(counts_from);
        if self.config.correct && completion.is_measurement {
            variant.observe(completion.planned, took, now);
        }
        if completion.answered {
            let label = Label::Variant(id);
            self.stats.time(Metric::ServiceMs, label, took);
        }
    }
}
