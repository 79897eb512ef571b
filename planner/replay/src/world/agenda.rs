//! Event queue, by time and then insertion order, so that ties have the same order on every
//! machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Simulated event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// Rejected request arrives at the proxy again.
    Again { request: u32 },
    /// Piece of a request's body arrives at the proxy; pieces count from 1.
    Body {
        request: u32,
        attempt: u8,
        piece: u32,
    },
    /// Last byte of a request arrives at a proxy without Weir.
    Whole { request: u32, attempt: u8 },
    /// Request in flight reaches its timeout or the end of its client's patience.
    Limit { request: u32, attempt: u8 },
    /// Client of a queued request disconnects.
    Leave { request: u32, attempt: u8 },
    /// Connection to a server that is down fails.
    Broken { request: u32, attempt: u8 },
    /// Error answer of a server arrives at the proxy.
    Erred { request: u32, attempt: u8 },
    /// Request arrives at its server.
    Reach {
        request: u32,
        attempt: u8,
        variant: u16,
    },
    /// Answer arrives at the proxy.
    Answer {
        request: u32,
        attempt: u8,
        variant: u16,
    },
    /// Rest of a slowly read answer arrives at the proxy.
    Rest { request: u32, attempt: u8 },
    /// Server has an execution to end or start.
    Server { variant: u16 },
    /// Timer of a worker fires.
    Tick { worker: u32 },
    /// Worker is notified.
    Ring { worker: u32 },
    /// Worker is notified that a variant has started or stopped failing.
    News { worker: u32 },
    /// Answer of a probe, or its failure, arrives at the worker.
    Probed { worker: u32, variant: u16 },
    /// Plan arrives at a worker.
    Plan { worker: u32, plan: u32 },
    /// Cycle of the control plane begins.
    Turn,
    /// Running cycle of the planner continues.
    TurnOn,
    /// Change of cores takes effect.
    Resized { variant: u16, ticket: u32 },
    /// Changed cores are usable.
    Ready { variant: u16, ticket: u32 },
    /// Fault begins.
    Begin { fault: u32 },
    /// Fault ends.
    Over { fault: u32 },
    /// Second ends.
    Second,
}

/// Pending events; times in ns.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<(u64, u64, What)>>,
    entered: u64,
}

impl Agenda {
    /// Adds an event at `at`.
    pub(crate) fn add(&mut self, at: u64, what: What) {
        self.entered += 1;
        self.heap.push(Reverse((at, self.entered, what)));
    }

    /// Time of the next event.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Removes and returns the next event.
    pub(crate) fn pop(&mut self) -> Option<(u64, What)> {
        self.heap.pop().map(|Reverse((at, _, what))| (at, what))
    }
}
