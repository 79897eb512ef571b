//! What an answer is tagged with, and what is learnt from it.

use std::rc::Rc;
use std::time::Duration;

use super::{Engine, State, StreamId};
use crate::config::Role;
use crate::time::{Now, Wall};

/// An answer from upstream, as the shell has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Answer {
    /// Whether it is an error (4xx, 5xx): it says nothing of the service time.
    pub failed: bool,
    /// What the gate before the server says a request takes there (`x-slo-expected-ms`).
    pub expected: Option<Duration>,
}

/// What an answer from upstream is tagged with.
#[derive(Debug, Clone, PartialEq)]
pub struct Tags {
    /// The variant that answered (`x-slo-variant`).
    pub variant: Rc<str>,
    /// Time left (`x-slo-remaining-ms`).
    pub remaining: Duration,
    /// Time held (`server-timing: queue;dur=…`); a router holds nobody.
    pub waited: Option<Duration>,
    /// What a request that came now would take here, wait and service (`x-slo-expected-ms`): for the
    /// router before this gate.
    pub expected: Option<Duration>,
    /// When the request came, for a client that says when it sends (`x-slo-clock`).
    pub came: Option<Wall>,
}

impl Engine {
    /// The answer's headers have come from upstream: what to tag them with.
    pub fn on_answer(&mut self, stream: StreamId, answer: Answer, now: Now) -> Option<Tags> {
        let role = self.config.role;
        let request = self.requests.get_mut(&stream)?;
        let State::InFlight(flight) = &mut request.state else {
            return None;
        };
        flight.failed = answer.failed;
        let (flight, request) = (*flight, *request);
        let variant = self.variants.get_mut(request.variant)?;
        if let Some(expected) = answer.expected.filter(|_| role == Role::Router) {
            variant.hear(expected, now.mono);
        }
        Some(Tags {
            variant: variant.name.clone(),
            remaining: request.deadline.client_at.since(now.mono),
            waited: (role != Role::Router).then(|| flight.sent.since(request.arrived.mono)),
            expected: (role == Role::Gate).then(|| variant.expected()),
            came: request.stamped.then_some(request.arrived.wall),
        })
    }
}
