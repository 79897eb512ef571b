//! Where a request is. Its life in the world: at a proxy, held, in flight, away between two
//! attempts, and ended exactly once.

use crate::request::{Fate, Outcome, Request};

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// With its client or on the way up.
    Away,
    /// Held by a worker.
    Held,
    /// Sent upstream.
    InFlight,
    /// Answered: the client reads, more slowly than the answer comes, and the proxy waits for it.
    Reading,
    /// Nowhere any more.
    Ended,
}

/// What the world knows of a request under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) place: Place,
    /// Counts the client's attempts, from 0.
    pub(crate) attempt: u8,
    /// The worker it is at.
    pub(crate) worker: u32,
    /// The variant it was sent to.
    pub(crate) variant: u16,
    /// Moment at which the last byte of its body is at the proxy, ns.
    pub(crate) whole: u64,
}

impl Flight {
    pub(crate) const NEW: Flight = Flight {
        place: Place::Away,
        attempt: 0,
        worker: 0,
        variant: 0,
        whole: 0,
    };
}

/// An outcome that is still to be filled in.
pub(crate) fn open(request: &Request) -> Outcome {
    Outcome {
        request: request.id,
        fate: Fate::Lost,
        ended: request.sent,
        dispatched: None,
    }
}
