//! Dispatch of a request, and the end of its flight.

use weir_api::metrics::Metric;

use super::request::Streamed;
use super::{End, Engine, Flight, LanePosition, Request, State, StreamId};
use crate::config::Role;
use crate::reason::Reason;
use crate::stats::Label;
use crate::time::Now;
use crate::verdict::{Dispatch, StageHeader, Verdict};

impl Engine {
    /// Sends a request of the table upstream. One that the table does not have stays where it is.
    pub(super) fn dispatch(&mut self, stream: StreamId, lane: LanePosition, now: Now) -> Verdict {
        let owns_slots = self.owns_slots();
        let Some(request) = self.requests.get_mut(&stream) else {
            return Verdict::Park;
        };
        let label = Label::Variant(request.variant);
        let fails_over = self.config.failover.is_some() && self.variants.may_fail_over(request);
        // Each refused connection costs a retry.
        let others = if fails_over {
            self.variants.len().saturating_sub(1)
        } else {
            0
        };
        let others = u8::try_from(others).unwrap_or(u8::MAX);
        let max_retries = self.config.max_retries.max(others);
        let Some(variant) = self.variants.get_mut(request.variant) else {
            let context = request.refusal_context();
            self.requests.remove(&stream);
            return self.refuse(Reason::NoCapacity, context);
        };
        let remaining = request.deadline.at.since(now.mono);
        let stage = request.due.since(now.mono);
        let in_flight = variant.slots.in_flight().saturating_add(1);
        let after_end = variant.after_end(now.mono);
        let server_wait = lane.server_wait.unwrap_or_default();
        let service = variant.predicted_of(request.group(), now.mono).high;
        if owns_slots {
            variant.slots.take(now.mono + server_wait + service);
            if request.uploading || request.shape.stream {
                variant.slots.mark_open_ended(lane.ordinal);
            }
            variant.uploads += u32::from(request.uploading);
            self.stats.count(Metric::Dispatched, label);
            let waited = now.mono.since(request.complete_at);
            self.stats.time(Metric::WaitMs, Label::None, waited);
            self.stats.time(Metric::DispatchSlackMs, Label::None, stage);
        }
        if let Some(first) = request.list().passed_over() {
            self.stats.count(Metric::Fallbacks, Label::Variant(first));
        }
        let mut flight = Flight {
            sent: now.mono,
            lane,
            in_flight,
            after_end,
            planned: variant.planned,
            expected: server_wait + service.max(variant.planned),
            failed: false,
            answered: false,
            streamed: Streamed::default(),
            timer_at: None,
            owns_slot: owns_slots,
        };
        let ends_at = request.deadline.client_at + self.host_timer;
        flight.rearm(&mut self.timers, stream, Some(ends_at));
        request.state = State::InFlight(flight);
        self.ledger.release(&mut request.body);
        let class = self.class_names.get(usize::from(request.class.0));
        let class = class.filter(|_| request.class_changed).cloned();
        Verdict::Forward(Dispatch {
            variant: request.variant,
            name: variant.name.clone(),
            cluster: (self.config.role != Role::Gate)
                .then(|| variant.port(request.shape.grpc).cluster(fails_over).clone()),
            model: variant.ports.own_model(&request.shape),
            path: variant.ports.path(&request.shape).cloned(),
            body_follows: request.uploading,
            remaining,
            lists_variants: request.shape.lists_variants,
            stage: match (self.downstream.is_zero(), request.shape.stage) {
                (false, _) => StageHeader::Set(stage),
                (true, true) => StageHeader::Remove,
                (true, false) => StageHeader::Absent,
            },
            begins: (self.config.max_retries == 0)
                .then(|| request.deadline.client_at.since(now.mono)),
            deadline: request.deadline.client_wall,
            grpc_timeout: request.shape.grpc_timeout,
            class,
            max_retries,
        })
    }

    pub(super) fn finish_flight(
        &mut self,
        stream: StreamId,
        request: &Request,
        flight: Flight,
        end: End,
        now: Now,
    ) {
        if let Some(at) = flight.timer_at {
            self.timers.cancel(at, stream);
        }
        if flight.owns_slot {
            self.free_slot(stream, request, flight, end, now);
        }
        self.count_outcome(request, flight, end, now);
    }

    /// Counts the outcome of a request. Gates count outcomes; a router counts only its own refusals, and the latency of
    /// what it has counted as demand.
    fn count_outcome(&mut self, request: &Request, flight: Flight, end: End, now: Now) {
        // Of an answer that streams its first byte counts.
        let answered_at = flight.streamed.begun_at.unwrap_or(now.mono);
        if end == End::Answered && !flight.failed && request.counts_as_demand {
            let here = answered_at.since(request.arrived.mono);
            let latency = request.since_send + here;
            self.stats.time(Metric::LatencyMs, Label::None, latency);
        }
        let label = Label::Variant(request.variant);
        match end {
            _ if !self.owns_slots() => {
                if matches!(end, End::Failed | End::Unreachable) {
                    self.count_refused(Reason::NoBackend, request.class);
                }
            }
            End::Answered => {
                self.stats.count(Metric::Served, label);
                if answered_at > request.deadline.client_at {
                    self.stats.count(Metric::Late, label);
                } else if !flight.failed {
                    self.stats.count(Metric::OnTime, label);
                    self.count_class(Metric::ClassOnTime, request.class);
                }
            }
            End::Failed | End::Unreachable => self.count_refused(Reason::NoBackend, request.class),
            End::TimedOut => self.count_refused(Reason::Expired, request.class),
            End::Disconnected | End::Unsent => {
                self.stats.count(Metric::ClientDisconnects, Label::None);
            }
        }
    }
}
