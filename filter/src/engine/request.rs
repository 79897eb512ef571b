//! Requests of an engine, and their states.

use std::rc::Rc;

use super::StreamId;
use super::completion::LanePosition;
use super::timers::Timers;
use crate::explanation::Facts;
use crate::request::body::HeldBody;
use crate::request::deadline::{Deadline, InvalidHeaders};
use crate::request::protocol::Shape;
use crate::routing::fallback::VariantList;
use crate::routing::group_times::Group;
use crate::size::Size;
use crate::time::{Mono, Now, Span};
use crate::variant::VariantId;
use crate::waiting::class::ClassId;
use crate::waiting::queue::Place;

use super::served::PathHash;

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) deadline: Deadline,
    /// Time at which this stage's answer must leave: the deadline less the downstream time.
    pub(super) due: Mono,
    pub(super) arrived: Now,
    pub(super) min_accuracy: f64,
    pub(super) shape: Shape,
    /// Headers of it that are ignored because their values are invalid.
    pub(super) ignored: InvalidHeaders,
    /// Its path, hashed.
    pub(super) path: PathHash,
    /// Whether the client stated the time of sending.
    pub(super) stamped: bool,
    pub(super) class: ClassId,
    /// Size of its body: as it has come, or before that as stated.
    pub(super) size: Size,
    /// Whether it requested another class than it gets.
    pub(super) class_changed: bool,
    /// Variant that a router has chosen, at a gate.
    pub(super) routed_to: Option<VariantId>,
    /// Variants that the client lists. Few clients do, and then one allocation keeps the requests of all others
    /// small.
    pub(super) list: Option<Rc<VariantList>>,
    /// Sequence number of the arrival, so that equal deadlines keep their order.
    pub(super) arrival: u64,
    /// Network latency of its headers, if stated and valid.
    pub(super) age: Option<Span>,
    /// Time from the client's send to arrival, zero if not stated or not valid.
    pub(super) since_send: Span,
    /// Time of its last byte, or else of the decision.
    pub(super) complete_at: Mono,
    /// Hash of the sender, which bounds its share of the measurements.
    pub(super) sender: Option<u64>,
    /// Whether it counts as demand here, because no router has counted it.
    pub(super) counts_as_demand: bool,
    /// Whether its body is still incoming.
    pub(super) uploading: bool,
    /// Bytes of its body that are held.
    pub(super) body: HeldBody,
    pub(super) variant: VariantId,
    /// Time at which it was last moved to another variant's queue.
    pub(super) moved_at: Option<Mono>,
    pub(super) state: State,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum State {
    /// Its body is incoming; it is checked at `check_at`.
    Receiving {
        check_at: Mono,
    },
    /// It waits for a slot.
    Held,
    InFlight(Flight),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    /// Time from which the server could work: dispatch, or the request's last byte.
    pub(super) sent: Mono,
    /// Position among the requests sent to its variant's lanes, and predicted start.
    pub(super) lane: LanePosition,
    /// Requests in flight at dispatch, itself included.
    pub(super) in_flight: u32,
    /// Time from the latest end of an execution to dispatch, if others were in flight.
    pub(super) after_end: Span,
    /// Planned service time at dispatch.
    pub(super) planned: Span,
    /// Time after which an answer was expected with much certainty, at dispatch.
    pub(super) expected: Span,
    /// Whether upstream's answer is an error, which is no measurement of the service time.
    pub(super) failed: bool,
    /// Whether upstream's answer has begun: one that streams, with its first byte.
    pub(super) answered: bool,
    /// Progress of an answer that streams.
    pub(super) streamed: Streamed,
    /// Its timer: the end of its deadline, of an answer, or of the patience with a reader.
    pub(super) timer_at: Option<Mono>,
    /// Whether it still has its slot.
    pub(super) owns_slot: bool,
}

/// Progress of an answer that streams.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Streamed {
    /// Whether its headers have come, and its first byte has not.
    pub(super) awaits_byte: bool,
    /// Time of its first byte.
    pub(super) begun_at: Option<Mono>,
    /// Time at which it last filled Envoy's buffer.
    pub(super) filled_at: Option<Mono>,
    /// Shortest time in which it did.
    pub(super) quickest: Option<Span>,
    /// Whether its reader is behind, so that its slot is one that a client holds.
    pub(super) lags: bool,
}

impl Flight {
    /// Replaces its timer.
    pub(super) fn rearm(&mut self, timers: &mut Timers, stream: StreamId, at: Option<Mono>) {
        if let Some(before) = std::mem::replace(&mut self.timer_at, at) {
            timers.cancel(before, stream);
        }
        if let Some(at) = at {
            timers.set(at, stream);
        }
    }
}

/// Properties of a request that its refusal depends on.
#[derive(Debug, Clone)]
pub(super) struct RefusalContext {
    pub(super) class: ClassId,
    /// Whether the client reads a gRPC status: it speaks gRPC or gRPC-Web.
    pub(super) trailers_only: bool,
    /// Variant that it was routed to; `None` before routing.
    pub(super) variant: Option<VariantId>,
    pub(super) list: Option<Rc<VariantList>>,
    /// Headers that are ignored because their values are invalid.
    pub(super) ignored: InvalidHeaders,
    /// What explains it.
    pub(super) facts: Facts,
    /// Time after which another try makes sense, s; `None`: that of its reason.
    pub(super) retry_after_s: Option<u32>,
}

impl RefusalContext {
    pub(super) fn new(class: ClassId, shape: &Shape, ignored: InvalidHeaders) -> RefusalContext {
        RefusalContext {
            class,
            trailers_only: shape.grpc || shape.grpc_web,
            variant: None,
            list: None,
            ignored,
            facts: Facts::default(),
            retry_after_s: None,
        }
    }
}

impl Request {
    /// Context before the request is routed, without an explanation.
    pub(super) fn refusal_context(&self) -> RefusalContext {
        RefusalContext {
            list: self.list.clone(),
            ..RefusalContext::new(self.class, &self.shape, self.ignored)
        }
    }

    /// Variants that may serve it.
    pub(super) fn list(&self) -> &VariantList {
        self.list.as_deref().unwrap_or(&VariantList::EMPTY)
    }

    /// Its list, to record what becomes of it; `None` without one.
    pub(super) fn list_mut(&mut self) -> Option<&mut VariantList> {
        self.list.as_mut().map(Rc::make_mut)
    }

    /// Time by which its present variant must answer, if that is before its deadline: the end of the variant's own
    /// budget.
    pub(super) fn expires_at(&self) -> Option<Mono> {
        let after = self.list.as_ref()?.expiry(self.variant)?;
        Some(self.arrived.mono + after).filter(|at| *at < self.due)
    }

    /// Place in the variant's wait queue.
    pub(super) fn place(&self) -> Place {
        Place::new(self.due, self.arrival, self.size)
    }

    /// Requests with which its service time is measured.
    pub(super) fn group(&self) -> Group {
        Group {
            class: self.class,
            size: self.size,
        }
    }
}
