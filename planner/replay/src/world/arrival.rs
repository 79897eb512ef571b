//! A request's arrival at a proxy: its head, the pieces of its body, and again after a refusal.

use rand::RngExt;
use weir_filter::request::body::BodyChunk;
use weir_filter::verdict::Verdict;

use super::agenda::What;
use super::flight::Place;
use super::life::{OVERFLOW, class_of, leaves_at};
use super::witness::Witness;
use super::{World, nanos};
use crate::plane::DataPlane;
use crate::request::{Fate, Request};
use crate::scenario::Plane;

/// Bytes of a body that Envoy hands on at a time.
const PIECE_BYTES: u64 = 65_536;
/// Most pieces of one body; beyond it they get larger.
const PIECES_MAX: u64 = 64;

impl<W: Witness> World<'_, W> {
    pub(super) fn arrive_again(&mut self, request: u32) {
        let Some(known) = self.requests.get(request as usize) else {
            return;
        };
        let leaves = leaves_at(known);
        if leaves <= self.now {
            self.end(request, Fate::Gone, leaves);
        } else {
            self.arrive(request);
        }
    }

    /// A request's head is at a proxy; its body comes from now on.
    pub(super) fn arrive(&mut self, request: u32) {
        let Some(known) = self.requests.get(request as usize) else {
            return;
        };
        let leaves = leaves_at(known);
        if leaves <= self.now {
            return self.end(request, Fate::Gone, leaves);
        }
        let rest = uploads_for(known);
        let turn = self.spread.random::<u32>();
        let place = request as usize;
        let Some(flight) = self.flights.get_mut(place) else {
            return;
        };
        let attempt = flight.attempt;
        flight.whole = self.now.saturating_add(rest);
        match &mut self.plane {
            DataPlane::Weir(workers) => {
                let index = turn % (workers.len() as u32).max(1);
                let Some(worker) = workers.get_mut(index as usize) else {
                    return;
                };
                let with_start = self.contender.plane != Plane::GatewayReceipt;
                let class = class_of(self.scenario, known);
                let wire = self.headers.write(known, with_start, class);
                let Some(counted) = self.counted.get_mut(worker.proxy as usize) else {
                    return;
                };
                flight.worker = index;
                let head = (&wire, rest > 0);
                let verdict =
                    worker.on_request(request, head, self.now, counted, &mut self.verdicts);
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
                flight.worker = turn;
                if rest > 0 {
                    let whole = What::Whole { request, attempt };
                    self.agenda.add(self.now + rest, whole);
                } else {
                    self.pass_on(request, attempt);
                }
            }
        }
    }

    /// A proxy without Weir has all of a request and forwards it.
    pub(super) fn pass_on(&mut self, request: u32, attempt: u8) {
        let place = request as usize;
        let (Some(known), Some(flight)) = (self.requests.get(place), self.flights.get_mut(place))
        else {
            return;
        };
        let DataPlane::Fifo(fifo) = &mut self.plane else {
            return;
        };
        if (flight.place, flight.attempt) != (Place::Away, attempt) {
            return;
        }
        let leaves = leaves_at(known);
        if leaves <= self.now {
            return self.end(request, Fate::Gone, leaves);
        }
        let proxy = flight.worker as usize % self.counted.len().max(1);
        flight.worker = proxy as u32;
        if let Some(counted) = self.counted.get_mut(proxy) {
            counted.arrive();
        }
        let timeout = fifo.timeout;
        match fifo.choose() {
            Some(variant) => self.forward(request, variant as u16, timeout),
            None => self.refuse(request, OVERFLOW, 503, None),
        }
    }

    /// A piece of a request's body is at the proxy.
    pub(super) fn receive(&mut self, request: u32, attempt: u8, piece: u32) {
        let place = request as usize;
        let (Some(known), Some(flight)) = (self.requests.get(place), self.flights.get(place))
        else {
            return;
        };
        let is_there = matches!(flight.place, Place::Held | Place::InFlight);
        if !is_there || flight.attempt != attempt {
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
            self.witness.whole(index as usize, request);
        }
        let verdict = worker.on_body(request, received, self.now, counted, &mut self.verdicts);
        if !received.complete {
            self.expect_piece(request, attempt, piece + 1);
        }
        // Not told while it is upstream: its body follows it.
        if let Some(verdict) = verdict {
            self.decided(index, request, verdict);
        }
    }

    /// Carries out what a worker has decided of a request in its own callback, and of others beside.
    fn decided(&mut self, index: u32, request: u32, verdict: Verdict) {
        let DataPlane::Weir(workers) = &mut self.plane else {
            return;
        };
        let Some(worker) = workers.get(index as usize) else {
            return;
        };
        self.verdicts.push((request, verdict));
        self.witness
            .told(index as usize, worker, &self.verdicts, self.now);
        let Some((_, verdict)) = self.verdicts.pop() else {
            return;
        };
        self.obey(index, true);
        self.send_rings(index);
        self.carry_out(request, &verdict);
        // What goes upstream has a timer too, by which it is ended without an answer.
        self.arm(index);
    }

    fn expect_piece(&mut self, request: u32, attempt: u8, piece: u32) {
        let place = request as usize;
        let (Some(known), Some(flight)) = (self.requests.get(place), self.flights.get(place))
        else {
            return;
        };
        let takes = u128::from(uploads_for(known));
        let pieces = u128::from(pieces(known));
        let left = takes - takes * u128::from(piece).min(pieces) / pieces;
        let at = flight.whole - u64::try_from(left).unwrap_or(0);
        let piece = What::Body {
            request,
            attempt,
            piece,
        };
        self.agenda.add(at, piece);
    }

    fn hold(&mut self, request: u32, leaves: u64) {
        if let Some(flight) = self.flights.get_mut(request as usize) {
            flight.place = Place::Held;
            let attempt = flight.attempt;
            self.agenda.add(leaves, What::Leave { request, attempt });
        }
    }

    /// Time that the rest of a request's body still takes to the proxy, ns.
    pub(super) fn still_comes(&self, request: u32) -> u64 {
        let flight = self.flights.get(request as usize);
        flight.map_or(0, |flight| flight.whole.saturating_sub(self.now))
    }
}

/// Time that a request's body takes after its head, ns.
fn uploads_for(request: &Request) -> u64 {
    nanos(request.arrives.saturating_sub(request.head))
}

fn pieces(request: &Request) -> u64 {
    request.bytes.div_ceil(PIECE_BYTES).clamp(1, PIECES_MAX)
}
