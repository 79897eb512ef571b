//! State of a request in the simulation: at a proxy, queued, in flight, away between two attempts, or
//! ended exactly once.

use crate::request::{Fate, Outcome, Request};

/// Place of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At its client or on the way to the proxy.
    Away,
    /// Queued at a worker.
    Held,
    /// Sent upstream.
    InFlight,
    /// Answered: the client reads more slowly than the answer arrives, and the proxy waits for it.
    Reading,
    /// Ended.
    Ended,
}

/// State of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) place: Place,
    /// Number of the stages entered, over all attempts of the client, less one: tells apart what belongs to each.
    pub(crate) attempt: u16,
    /// Retries of the client so far.
    pub(crate) retried: u8,
    /// Stage of the pipeline.
    pub(crate) stage: u16,
    /// Deadline that the stage before has passed on, Unix ms.
    pub(crate) deadline_ms: u64,
    /// Index of its worker.
    pub(crate) worker: u32,
    /// Index of the variant it was sent to.
    pub(crate) variant: u16,
    /// Index of the server it was sent to.
    pub(crate) server: u32,
    /// Time at which the last byte of its body is at the proxy, ns.
    pub(crate) whole: u64,
}

impl Flight {
    pub(crate) const NEW: Flight = Flight {
        place: Place::Away,
        attempt: 0,
        retried: 0,
        stage: 0,
        deadline_ms: 0,
        worker: 0,
        variant: 0,
        server: 0,
        whole: 0,
    };
}

/// Creates an outcome to be filled in.
pub(crate) fn open(request: &Request) -> Outcome {
    Outcome {
        request: request.id,
        fate: Fate::Lost,
        ended: request.sent,
        dispatched: None,
    }
}
