//! What a host keeps between Envoy and the [`engine`](crate::engine): the streams whose verdicts have still to be carried
//! out, and how many of them one callback may carry out.
//!
//! Envoy queues what a filter does to other streams until its callback has returned. Each of these actions may call the
//! filter again, and the end of *that* call runs the next one, nested in it. Some 300 together exhaust the stack of the VM,
//! which traps. So verdicts go into an [`Outbox`], and at most [`ACTIONS_MAX`] of them are carried out before Envoy has
//! returned to its event loop.
//!
//! A stream whose verdict waits there stays paused, whatever comes for it: its next chunk would else release its headers,
//! and send it to a server before it has a cluster, or after its slot was given to another.

use crate::engine::{Answer, End, Engine, IncomingRequest, StreamId, Tags};
use crate::reason::Reason;
use crate::request::body::BodyChunk;
use crate::time::{Mono, Now};
use crate::verdict::{BodyVerdict, Refusal, Verdict};

mod budget;
mod outbox;

pub use budget::{ACTIONS_MAX, ActionBudget};
pub use outbox::{Kinds, Outbox};

/// Phase of a stream, as its own callbacks know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// It is no service's, passes untouched, or its answer has ended.
    #[default]
    Passing,
    /// The engine has decided that it is sent upstream or held, and has not heard of its end.
    Open,
    /// It is refused: nothing of it goes on.
    Refused,
}

impl Phase {
    /// Phase after a verdict in one of its own callbacks.
    #[must_use]
    pub fn after(verdict: &Verdict) -> Phase {
        match verdict {
            Verdict::Pass | Verdict::PassTo(_) => Phase::Passing,
            Verdict::Forward(_) | Verdict::Park => Phase::Open,
            Verdict::Reject(_) => Phase::Refused,
        }
    }
}

/// Engine of one service in one VM, and its verdicts that have still to be carried out.
#[derive(Debug)]
pub struct Shell {
    /// The engine. What it decides on other streams belongs into [`Shell::put`].
    pub engine: Engine,
    outbox: Outbox,
}

impl Shell {
    /// Creates the shell of an engine.
    #[must_use]
    pub fn new(engine: Engine) -> Shell {
        Shell {
            engine,
            outbox: Outbox::default(),
        }
    }

    /// Handles a new request and returns its verdict, to be carried out in this callback.
    pub fn on_request(
        &mut self,
        stream: StreamId,
        incoming: &IncomingRequest<'_>,
        now: Now,
    ) -> Verdict {
        let mut others = Vec::new();
        let verdict = self.engine.on_request(stream, incoming, now, &mut others);
        self.put(others);
        verdict
    }

    /// Handles a chunk of a request's body, or its end, in a callback of that stream. `source`: see [`Engine::on_body`].
    pub fn on_body(
        &mut self,
        stream: StreamId,
        phase: Phase,
        received: BodyChunk,
        source: impl FnMut(StreamId) -> Option<u64>,
        now: Now,
    ) -> BodyVerdict {
        match phase {
            Phase::Passing => return BodyVerdict::Follows,
            Phase::Refused => return BodyVerdict::Unknown,
            Phase::Open => {}
        }
        let mut others = Vec::new();
        let verdict = self
            .engine
            .on_body(stream, received, source, now, &mut others);
        self.put(others);
        if self.outbox.on_body(stream, received) {
            return BodyVerdict::Unknown;
        }
        verdict
    }

    /// Handles the headers of a response from upstream; returns its tags.
    pub fn on_answer(&mut self, stream: StreamId, answer: Answer, now: Now) -> Option<Tags> {
        // It came before its refusal could leave: the client gets the answer, and not both.
        self.outbox.cancel(stream);
        self.engine.on_answer(stream, answer, now)
    }

    /// Handles the first byte of a response that streams.
    pub fn on_first_byte(&mut self, stream: StreamId, now: Now) {
        self.outbox.cancel(stream);
        self.engine.on_first_byte(stream, now);
    }

    /// Refusal in place of an answer of the host's own for this reason, whose end counts it: the one that was pending, if
    /// the host's timer was quicker.
    #[must_use]
    pub fn refusal_instead(&self, stream: StreamId, reason: Reason, now: Mono) -> Option<Refusal> {
        let pending = self.outbox.refusal(stream).cloned();
        pending.or_else(|| self.engine.refusal_in_flight(stream, reason, now))
    }

    /// Handles the end of a stream.
    pub fn on_end(&mut self, stream: StreamId, end: End, now: Now) {
        let end = match self.outbox.cancel(stream) {
            Some(Verdict::Forward(_)) => End::Unsent,
            _ => end,
        };
        let mut verdicts = Vec::new();
        self.engine.on_end(stream, end, now, &mut verdicts);
        self.put(verdicts);
    }

    /// Handles a response that exceeds Envoy's buffer.
    pub fn on_response_exceeds_buffer(&mut self, stream: StreamId, now: Now) {
        let mut verdicts = Vec::new();
        self.engine
            .on_response_exceeds_buffer(stream, now, &mut verdicts);
        self.put(verdicts);
    }

    /// Handles a tick or a notification.
    pub fn release(&mut self, now: Now) {
        let mut verdicts = Vec::new();
        self.engine.release(now, &mut verdicts);
        self.put(verdicts);
    }

    /// Keeps verdicts on held streams until they can be carried out.
    pub fn put(&mut self, verdicts: Vec<(StreamId, Verdict)>) {
        for (stream, verdict) in verdicts {
            self.outbox.put(stream, verdict);
        }
    }

    /// Returns the next verdict of these kinds to carry out; `None` if there is none, or the budget of actions is spent.
    pub fn next(&mut self, kinds: Kinds, budget: &ActionBudget) -> Option<(StreamId, Verdict)> {
        if budget.is_spent() {
            return None;
        }
        let next = self.outbox.pop(kinds)?;
        budget.spend();
        Some(next)
    }

    /// Whether verdicts have still to be carried out.
    #[must_use]
    pub fn has_verdicts(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Latest time for the next tick; `None` if there is nothing to wait for.
    #[must_use]
    pub fn next_wake(&self, now: Mono) -> Option<Mono> {
        if self.has_verdicts() {
            return Some(now);
        }
        self.engine.next_wake(now)
    }
}
