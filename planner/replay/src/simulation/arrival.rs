//! Arrival of a request at a proxy: its head, the pieces of its body, and retries after a rejection.

use rand::RngExt;
use weir_filter::engine::IncomingRequest;
use weir_filter::request::body::BodyChunk;
use weir_filter::verdict::Verdict;

use super::Simulation;
use super::event_queue::Event;
use super::flight::Place;
use super::lifecycle::{OVERFLOW, class_of, leaves_at};
use super::witness::Witness;
use crate::nanos;
use crate::plane::DataPlane;
use crate::request::{Fate, Request};
use crate::scenario::Plane;

/// Size of the body pieces that Envoy passes on, bytes.
const PIECE_BYTES: u64 = 65_536;
/// Maximum number of pieces of one body; larger bodies have larger pieces.
const PIECES_MAX: u64 = 64;

impl<W: Witness> Simulation<'_, W> {
    pub(super) fn retry(&mut self, request: u32) {
        let Some(known) = self.requests.get(request as usize) else {
            return;
        };
        let leaves = leaves_at(known);
        if leaves <= self.now {
            self.end(request, Fate::Disconnected, leaves);
        } else {
            self.arrive(request);
        }
    }

    /// Handles the arrival of a request's head at a proxy; schedules its body.
    pub(super) fn arrive(&mut self, request: u32) {
        let Some(known) = self.requests.get(request as usize) else {
            return;
        };
        let leaves = leaves_at(known);
        if leaves <= self.now {
            return self.end(request, Fate::Disconnected, leaves);
        }
        self.record_arrival(request);
        let worker_draw = self.spread.random::<u32>();
        let place = request as usize;
        let Some(flight) = self.flights.get_mut(place) else {
            return;
        };
        let (attempt, stage) = (flight.attempt, flight.stage);
        // The stages after the first get a complete request.
        let rest = match stage {
            0 => upload_time(known),
            _ => 0,
        };
        flight.whole = self.now.saturating_add(rest);
        match &mut self.plane {
            DataPlane::Weir(workers) => {
                let Some(span) = self.stages.get(usize::from(stage)) else {
                    return;
                };
                let count = span.workers.len() as u32;
                let index = span.workers.start + worker_draw % count.max(1);
                let Some(worker) = workers.get_mut(index as usize) else {
                    return;
                };
                let with_start = self.contender.plane != Plane::GatewayReceipt;
                let class = class_of(self.scenario, known);
                let passed_on = (stage > 0).then_some(flight.deadline_ms);
                let mut incoming = IncomingRequest {
                    body_follows: rest > 0,
                    ..IncomingRequest::default()
                };
                let wire = &mut incoming.wire;
                (self.headers).write(known, with_start, class, passed_on, wire);
                let Some(counted) = self.counted.get_mut(worker.proxy as usize) else {
                    return;
                };
                flight.worker = index;
                let verdict =
                    worker.on_request(request, &incoming, self.now, counted, &mut self.verdicts);
                if rest > 0 {
                    self.expect_piece(request, attempt, 1);
                }
                let waits = verdict == Verdict::Park;
                self.decided(index, request, verdict);
                if waits {
                    self.hold(request, leaves);
                }
            }
            DataPlane::Fifo(_) => {
                flight.worker = worker_draw;
                if rest > 0 {
                    let whole = Event::RequestComplete { request, attempt };
                    self.event_queue.add(self.now + rest, whole);
                } else {
                    self.forward_complete(request, attempt);
                }
            }
        }
    }

    /// Forwards a complete request at a proxy without Weir.
    pub(super) fn forward_complete(&mut self, request: u32, attempt: u16) {
        let place = request as usize;
        let (Some(known), Some(flight)) = (self.requests.get(place), self.flights.get_mut(place))
        else {
            return;
        };
        let stage = usize::from(flight.stage);
        let (DataPlane::Fifo(stages), Some(span)) = (&mut self.plane, self.stages.get(stage))
        else {
            return;
        };
        let Some(fifo) = stages.get_mut(stage) else {
            return;
        };
        if (flight.place, flight.attempt) != (Place::Away, attempt) {
            return;
        }
        let leaves = leaves_at(known);
        if leaves <= self.now {
            return self.end(request, Fate::Disconnected, leaves);
        }
        let count = span.proxies.len() as u32;
        let proxy = span.proxies.start + flight.worker % count.max(1);
        flight.worker = proxy;
        if let Some(counted) = self.counted.get_mut(proxy as usize) {
            counted.arrive();
        }
        let timeout = fifo.timeout;
        match fifo.choose() {
            Some(variant) => self.forward(request, variant as u16, timeout),
            None => self.refuse(request, OVERFLOW, 503, None),
        }
    }

    /// Handles the arrival of a piece of a request's body at the proxy.
    pub(super) fn receive(&mut self, request: u32, attempt: u16, piece: u32) {
        let place = request as usize;
        let (Some(known), Some(flight)) = (self.requests.get(place), self.flights.get(place))
        else {
            return;
        };
        let is_active = matches!(flight.place, Place::Held | Place::InFlight);
        if !is_active || flight.attempt != attempt {
            return;
        }
        let (index, pieces) = (flight.worker, pieces(known));
        let received = BodyChunk {
            bytes: known.bytes * u64::from(piece) / pieces,
            complete: u64::from(piece) >= pieces,
        };
        let DataPlane::Weir(workers) = &mut self.plane else {
            return;
        };
        let Some(worker) = workers.get_mut(index as usize) else {
            return;
        };
        let Some(counted) = self.counted.get_mut(worker.proxy as usize) else {
            return;
        };
        if received.complete {
            self.witness.on_last_byte(index as usize, request);
        }
        let verdict = worker.on_body(request, received, self.now, counted, &mut self.verdicts);
        if !received.complete {
            self.expect_piece(request, attempt, piece + 1);
        }
        // A request that is upstream already has no verdict: its body follows it.
        if let Some(verdict) = verdict {
            self.decided(index, request, verdict);
        }
    }

    /// Carries out a worker's verdict on the request of the current callback, and those on other requests.
    fn decided(&mut self, index: u32, request: u32, verdict: Verdict) {
        let DataPlane::Weir(workers) = &mut self.plane else {
            return;
        };
        let Some(worker) = workers.get(index as usize) else {
            return;
        };
        self.verdicts.push((request, verdict));
        self.witness
            .on_verdicts(index as usize, worker, &self.verdicts, self.now);
        let Some((_, verdict)) = self.verdicts.pop() else {
            return;
        };
        self.carry_out_verdicts(index, true);
        self.send_notifications(index);
        self.carry_out(request, &verdict);
        // A request in flight needs the timer too: its deadline may pass before the answer.
        self.arm(index);
    }

    fn expect_piece(&mut self, request: u32, attempt: u16, piece: u32) {
        let place = request as usize;
        let (Some(known), Some(flight)) = (self.requests.get(place), self.flights.get(place))
        else {
            return;
        };
        let takes = u128::from(upload_time(known));
        let pieces = u128::from(pieces(known));
        let left = takes - takes * u128::from(piece).min(pieces) / pieces;
        let at = flight.whole - u64::try_from(left).unwrap_or(0);
        let piece = Event::BodyPiece {
            request,
            attempt,
            piece,
        };
        self.event_queue.add(at, piece);
    }

    fn hold(&mut self, request: u32, leaves: u64) {
        if let Some(flight) = self.flights.get_mut(request as usize) {
            flight.place = Place::Held;
            let attempt = flight.attempt;
            self.event_queue
                .add(leaves, Event::Disconnect { request, attempt });
        }
    }

    /// Remaining upload time of a request's body, ns.
    pub(super) fn remaining_upload(&self, request: u32) -> u64 {
        let flight = self.flights.get(request as usize);
        flight.map_or(0, |flight| flight.whole.saturating_sub(self.now))
    }
}

/// Upload time of a request's body after its head, ns.
fn upload_time(request: &Request) -> u64 {
    nanos(request.arrives.saturating_sub(request.head))
}

fn pieces(request: &Request) -> u64 {
    request.bytes.div_ceil(PIECE_BYTES).clamp(1, PIECES_MAX)
}
