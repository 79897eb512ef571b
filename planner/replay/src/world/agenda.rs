//! What is to happen, by time and then in the order in which it was entered: so ties have one order
//! on every machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// A request that was refused is at the proxy again.
    Again { request: u32 },
    /// A piece of a request's body is at the proxy: which, from 1.
    Body {
        request: u32,
        attempt: u8,
        piece: u32,
    },
    /// All of a request is at a gateway that forwards what comes.
    Whole { request: u32, attempt: u8 },
    /// A request in flight meets its timeout or the end of its client's patience.
    Limit { request: u32, attempt: u8 },
    /// The client of a held request leaves.
    Leave { request: u32, attempt: u8 },
    /// A request was sent to a server that is down.
    Broken { request: u32, attempt: u8 },
    /// A server's error is with the proxy.
    Erred { request: u32, attempt: u8 },
    /// A request is with its server.
    Reach {
        request: u32,
        attempt: u8,
        variant: u16,
    },
    /// An answer is with the proxy.
    Answer {
        request: u32,
        attempt: u8,
        variant: u16,
    },
    /// The proxy has the rest of an answer that is read slowly.
    Rest { request: u32, attempt: u8 },
    /// A server has something to end or start.
    Server { variant: u16 },
    /// A worker's timer.
    Tick { worker: u32 },
    /// A worker is rung.
    Ring { worker: u32 },
    /// A worker is rung because a variant has begun or ceased to fail.
    News { worker: u32 },
    /// A probe's answer is with its worker, or word that there is none.
    Probed { worker: u32, variant: u16 },
    /// A plan is with a worker.
    Plan { worker: u32, plan: u32 },
    /// The control plane takes a turn.
    Turn,
    /// The planner's turn under way goes on.
    TurnOn,
    /// Cores are in force.
    Resized { variant: u16, ticket: u32 },
    /// And can be used.
    Ready { variant: u16, ticket: u32 },
    /// A fault begins.
    Begin { fault: u32 },
    /// A fault is over.
    Over { fault: u32 },
    /// A second is over.
    Second,
}

/// All that is to happen. Times in ns.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<(u64, u64, What)>>,
    entered: u64,
}

impl Agenda {
    /// Enters `what` for `at`.
    pub(crate) fn add(&mut self, at: u64, what: What) {
        self.entered += 1;
        self.heap.push(Reverse((at, self.entered, what)));
    }

    /// When the next is.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next.
    pub(crate) fn pop(&mut self) -> Option<(u64, What)> {
        self.heap.pop().map(|Reverse((at, _, what))| (at, what))
    }
}
