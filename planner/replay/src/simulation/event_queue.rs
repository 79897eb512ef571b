//! Event queue, by time and then insertion order, so that ties have the same order on every
//! machine.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Simulated event. An `attempt` is a [`super::Flight::attempt`]: events of an earlier one are void.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Rejected request arrives at the proxy again.
    Retry { request: u32 },
    /// Piece of a request's body arrives at the proxy; pieces count from 1.
    BodyPiece {
        request: u32,
        attempt: u16,
        piece: u32,
    },
    /// Last byte of a request arrives at a proxy without Weir.
    RequestComplete { request: u32, attempt: u16 },
    /// Request in flight reaches its timeout or its client's timeout.
    TimeLimit { request: u32, attempt: u16 },
    /// Client of a queued request disconnects.
    Disconnect { request: u32, attempt: u16 },
    /// Connection to a server that is down fails.
    ConnectionFailed { request: u32, attempt: u16 },
    /// Error answer of a server arrives at the proxy.
    ServerError { request: u32, attempt: u16 },
    /// Request arrives at its server.
    ServerArrival {
        request: u32,
        attempt: u16,
        server: u32,
    },
    /// Answer arrives at the proxy.
    Answer {
        request: u32,
        attempt: u16,
        variant: u16,
    },
    /// Rest of a slowly read answer arrives at the proxy.
    AnswerEnd { request: u32, attempt: u16 },
    /// Server has an execution to end or start.
    ServerWake { server: u32 },
    /// Timer of a worker fires.
    Tick { worker: u32 },
    /// Worker is notified.
    Notify { worker: u32 },
    /// Worker is notified that a variant has started or stopped failing.
    FailureNotice { worker: u32 },
    /// Answer of a probe, or its failure, arrives at the worker.
    ProbeResult { worker: u32, variant: u16 },
    /// Plan arrives at a worker.
    PlanArrival { worker: u32, plan: u32 },
    /// Cycle of the control plane begins.
    Cycle,
    /// Running cycle of the planner continues.
    ContinueCycle,
    /// Change of cores takes effect.
    CoresChanged { variant: u16, ticket: u32 },
    /// Changed cores are usable.
    CoresReady { variant: u16, ticket: u32 },
    /// Crashed server starts again.
    ServerRestart { server: u32 },
    /// Something may change at a replica.
    ReplicaDue { variant: u16, server: u32 },
    /// Replica that has not drained is killed.
    ReplicaKilled { server: u32 },
    /// Proxies learn that a replica has crashed.
    CrashNotice { server: u32 },
    /// Crashed replica is ready again.
    ReplicaRecovered { server: u32 },
    /// Fault begins.
    FaultBegin { fault: u32 },
    /// Fault ends.
    FaultEnd { fault: u32 },
    /// Second ends.
    SecondEnd,
}

impl Event {
    /// Request and attempt that it limits, if it is a limit: most requests have ended before.
    pub(crate) fn limits(&self) -> Option<(u32, u16)> {
        match *self {
            Event::TimeLimit { request, attempt } | Event::Disconnect { request, attempt } => {
                Some((request, attempt))
            }
            _ => None,
        }
    }
}

/// Length of a span of time, as a power of two: 17 ms.
const SPAN_BITS: u32 = 24;

/// Number of spans that are found by their place: 34 s, beyond the timeout of most clients, with which each request has
/// a limit.
const NEAR_MAX: u64 = 2048;

/// Pending events; times in ns. Those of the present span of time are in a heap, which so stays small; those of later
/// spans wait unordered. Most events are limits that lie seconds ahead.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    present: BinaryHeap<Pending>,
    /// Number of the present span.
    span: u64,
    /// Events of the spans that follow.
    near: VecDeque<Vec<Pending>>,
    /// Events of spans after these, by span.
    far: BTreeMap<u64, Vec<Pending>>,
    /// Buffers of spans that are over.
    spare: Vec<Vec<Pending>>,
    entered: u64,
}

/// Pending event, in the reverse order of its time and then of its insertion.
#[derive(Debug, Clone, Copy)]
struct Pending {
    /// Time, then the number of the insertion: one comparison orders both.
    key: u128,
    event: Event,
}

impl Pending {
    fn at(&self) -> u64 {
        (self.key >> u64::BITS) as u64
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Pending) -> bool {
        self.key == other.key
    }
}

impl Eq for Pending {}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Pending) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Pending) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl EventQueue {
    /// Adds an event at `at`.
    pub(crate) fn add(&mut self, at: u64, event: Event) {
        self.entered += 1;
        let key = u128::from(at) << u64::BITS | u128::from(self.entered);
        let (pending, span) = (Pending { key, event }, at >> SPAN_BITS);
        if span <= self.span {
            return self.present.push(pending);
        }
        let place = span - self.span - 1;
        if place >= NEAR_MAX {
            return self.far.entry(span).or_default().push(pending);
        }
        let place = place as usize;
        while self.near.len() <= place {
            self.near.push_back(self.spare.pop().unwrap_or_default());
        }
        if let Some(events) = self.near.get_mut(place) {
            events.push(pending);
        }
    }

    /// Time of the next event. Of a span that begins only the events are kept that `matter`.
    pub(crate) fn next_at(&mut self, matter: impl Fn(&Event) -> bool) -> Option<u64> {
        while self.present.is_empty() {
            self.begin_span(&matter)?;
        }
        self.present.peek().map(Pending::at)
    }

    /// Removes and returns the next event.
    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        self.next_at(|_| true)?;
        let next = self.present.pop()?;
        Some((next.at(), next.event))
    }

    /// Goes on to the next span with events; `None` if there is none.
    fn begin_span(&mut self, matter: impl Fn(&Event) -> bool) -> Option<()> {
        let place = self.near.iter().position(|events| !events.is_empty());
        let near = place.map(|place| self.span + 1 + place as u64);
        let far = self.far.first_key_value().map(|(span, _)| *span);
        let next = near.into_iter().chain(far).min()?;
        let mut begins = Vec::new();
        for _ in 0..(next - self.span).min(self.near.len() as u64) {
            let over = std::mem::replace(&mut begins, self.near.pop_front()?);
            if over.capacity() > 0 {
                self.spare.push(over);
            }
        }
        self.span = next;
        if far == Some(next)
            && let Some((_, mut events)) = self.far.pop_first()
        {
            begins.append(&mut events);
        }
        begins.retain(|pending| matter(&pending.event));
        let over = std::mem::replace(&mut self.present, BinaryHeap::from(begins));
        self.spare.push(over.into_vec());
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_insertion_order() {
        let mut queue = EventQueue::default();
        let order = [(7, 0), (u64::MAX, 1), (7, 2), (0, 3), (7, 4), (u64::MAX, 5)];
        for (at, worker) in order {
            queue.add(at, Event::Tick { worker });
        }
        assert_eq!(queue.next_at(|_| true), Some(0));
        let all = std::iter::from_fn(|| queue.pop());
        let all: Vec<_> = all.collect();
        let expected = [(0, 3), (7, 0), (7, 2), (7, 4), (u64::MAX, 1), (u64::MAX, 5)];
        assert_eq!(
            all,
            expected.map(|(at, worker)| (at, Event::Tick { worker }))
        );
    }

    #[test]
    fn events_that_do_not_matter_are_left_out_of_later_spans() {
        let mut queue = EventQueue::default();
        for span in [0, 1, 1, 3, NEAR_MAX + 5, NEAR_MAX + 5] {
            let worker = queue.entered as u32;
            queue.add(span << SPAN_BITS, Event::Tick { worker });
        }
        let odd = |event: &Event| matches!(event, Event::Tick { worker } if worker % 2 == 1);
        let mut left = Vec::new();
        while queue.next_at(odd).is_some() {
            left.extend(queue.pop().map(|(at, _)| at >> SPAN_BITS));
        }
        assert_eq!(
            left,
            [0, 1, 3, NEAR_MAX + 5],
            "those of the present span are kept"
        );
    }

    #[test]
    fn events_of_all_spans_come_in_one_order() {
        /// Half of a span: events are in the present span, at its edges, and in later ones.
        const HALF: u64 = 1 << (SPAN_BITS - 1);
        let mut queue = EventQueue::default();
        let mut expected = Vec::new();
        for worker in 0..200_u32 {
            let far = if worker % 50 == 7 { 2 * NEAR_MAX } else { 0 };
            let at = (u64::from(worker) * 7919 % 31 + far) * HALF;
            queue.add(at, Event::Tick { worker });
            expected.push((at, worker));
        }
        let mut popped = Vec::new();
        while let Some((at, Event::Tick { worker })) = queue.pop() {
            popped.push((at, worker));
            // Later events come while others are handled, in the present span and beyond it.
            if worker < 200 && worker.is_multiple_of(3) {
                let (again, at) = (worker + 1000, at + HALF / 2 * u64::from(worker % 5));
                queue.add(at, Event::Tick { worker: again });
                expected.push((at, again));
            }
        }
        assert_eq!(
            (popped.len(), queue.next_at(|_| true)),
            (expected.len(), None)
        );
        assert!(popped.is_sorted_by_key(|(at, _)| *at));
        expected.sort_by_key(|(at, _)| *at);
        assert_eq!(popped, expected);
    }
}
