//! Where a request is. Its life in the world: at a proxy, held, in flight, away between two
//! attempts, and ended exactly once.

use crate::replay::request::{Fate, Outcome, Request};

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::replay) enum Place {
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
pub(in crate::replay) struct Flight {
    pub(in crate::replay) place: Place,
    /// Counts the client's attempts, from 0.
    pub(in crate::replay) attempt: u8,
    /// The worker it is at.
    pub(in crate::replay) worker: u32,
    /// The variant it was sent to.
    pub(in crate::replay) variant: u16,
    /// Moment at which the last byte of its body is at the proxy, ns.
    pub(in crate::replay) whole: u64,
}

impl Flight {
    pub(in crate::replay) const NEW: Flight = Flight {
        place: Place::Away,
        attempt: 0,
        worker: 0,
        variant: 0,
        whole: 0,
    };
}

/// An outcome that is still to be filled in.
pub(in crate::replay) fn open(request: &Request) -> Outcome {
    Outcome {
        request: request.id,
        fate: Fate::Lost,
        ended: request.sent,
        dispatched: None,
    }
}
