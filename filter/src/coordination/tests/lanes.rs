//! Lanes in the table: executions with their start, and requests waiting at the servers.

use super::*;
use crate::coordination::lead::Lead;

pub(super) const SERVICE: Span = Span::from_millis(20);
pub(super) const AFTER: Span = Span::from_millis(15);

/// Lane request of a VM whose completed executions are no measurements.
pub(super) fn lanes<'a>(ended: &'a [u32], open_ended: &'a [u32]) -> LaneRequest<'a> {
    let completed = ended.last().map(|ordinal| CompletedExecution {
        in_flight: 1,
        after_end: Span::ZERO,
        left: Span::from_secs(1),
        planned: Span::ZERO,
        ordinal: *ordinal,
        sent: at(0),
        at: at(0),
        was_idle: false,
        is_measurement: false,
        is_cut_off: false,
        is_error: false,
    });
    LaneRequest {
        after: AFTER,
        gap: Span::ZERO,
        mean: SERVICE,
        completed,
        planned: SERVICE,
        ended,
        open_ended,
    }
}

/// A VM with this number of slots, in batches of that many requests.
pub(super) struct Vm {
    pub(super) worker: Worker,
    slots: u32,
    pub(super) batch: u32,
    taken: u32,
}

impl Vm {
    pub(super) fn of<S: Store + Clone + 'static>(store: &S, incarnation: u64, slots: u32) -> Vm {
        Vm {
            worker: Worker::new(Box::new(store.clone()), incarnation, Scope::Proxy),
            slots,
            batch: 1,
            taken: 0,
        }
    }

    /// The same with these slots taken.
    pub(super) fn with_taken(self, taken: u32) -> Vm {
        Vm { taken, ..self }
    }

    /// Measurements of the gap, as it sees them.
    fn lead(&self, planned: Span) -> Lead {
        self.worker.lead(VARIANT, planned).unwrap()
    }

    /// Acquires for `waiting_count` requests after the executions `ended`.
    pub(super) fn acquire(
        &mut self,
        ended: &[u32],
        open_ended: &[u32],
        waiting_count: u32,
        ms: u64,
    ) -> SyncResult {
        self.acquire_with(lanes(ended, open_ended), waiting_count, ms)
    }

    pub(super) fn acquire_with(
        &mut self,
        lanes: LaneRequest<'_>,
        waiting_count: u32,
        ms: u64,
    ) -> SyncResult {
        self.taken -= lanes.ended.len() as u32;
        let request = AcquireRequest {
            uploads: 0,
            uploads_max: None,
            start: 1,
            explores: false,
            executions: EndedExecutions::default(),
            jumps: false,
            variant: VARIANT,
            slots: self.slots,
            taken: self.taken,
            reported: self.taken,
            until: at(ms),
            service: SERVICE,
            waiting: (0..waiting_count).map(|place| due_at(u64::from(place))),
            waiting_count,
            limit: u32::MAX,
            batch: self.batch,
            due: None,
            tick: true,
            lanes: Some(lanes),
        };
        let outcome = self.worker.acquire(request, at(ms));
        self.taken += outcome.granted;
        outcome
    }
}

#[test]
fn next_request_is_sent_within_the_lead_and_begins_with_the_answer() {
    let store = Memory::default();
    let (mut a, mut b) = (Vm::of(&store, 1, 1), Vm::of(&store, 2, 1));
    let first = a.acquire(&[], &[], 1, 0);
    assert_eq!(
        (first.granted, first.lanes.first, first.lanes.behind),
        (1, 1, 0)
    );
    let early = b.acquire(&[], &[], 1, 14);
    assert_eq!((early.granted, early.lanes.lead_at), (0, Some(at(15))));
    let second = b.acquire(&[], &[], 2, 15);
    assert_eq!((second.granted, second.lanes.behind), (1, 1));
    assert_eq!(second.lanes.first_wait, Span::from_millis(5));
    assert_eq!(second.lanes.backlog.rest, Span::from_millis(25));
    assert_eq!(b.acquire(&[], &[], 1, 19).granted, 0, "one lane at most");
    let answer = a.acquire(&[1], &[], 1, 22);
    assert_eq!((answer.granted, answer.lanes.began), (0, Some(at(0))));
    // The second began with the first's answer, whichever VM received that.
    assert_eq!(answer.lanes.lead_at, Some(at(37)));
    let next = b.acquire(&[2], &[], 1, 42);
    assert_eq!((next.granted, next.lanes.began), (1, Some(at(22))));
    assert_eq!(
        (next.lanes.first, next.lanes.behind),
        (1, 0),
        "to an idle lane"
    );
}

#[test]
fn measurements_of_the_same_plan_are_shared() {
    let store = Memory::default();
    let (mut a, mut b) = (Vm::of(&store, 1, 1), Vm::of(&store, 2, 1));
    let completed = |ordinal, sent, end, was_idle| CompletedExecution {
        in_flight: 1,
        after_end: Span::ZERO,
        left: Span::from_secs(1),
        planned: Span::ZERO,
        ordinal,
        sent: at(sent),
        at: at(end),
        was_idle,
        is_measurement: true,
        is_cut_off: false,
        is_error: false,
    };
    let ended = |ended, completed| LaneRequest {
        completed: Some(completed),
        ..lanes(ended, &[])
    };
    a.acquire(&[], &[], 1, 0);
    b.acquire(&[], &[], 1, 16);
    a.acquire_with(ended(&[1], completed(1, 0, 23, true)), 0, 23);
    let Lead { idle, .. } = a.lead(SERVICE);
    assert_eq!((idle.mean, idle.count), (23_000_000, 1));
    b.acquire_with(ended(&[2], completed(2, 16, 43, false)), 0, 43);
    let Lead {
        idle,
        early,
        early_wait,
        ..
    } = b.lead(SERVICE);
    assert_eq!((idle.count, early.count), (1, 1));
    // From the previous answer, until which it waited at the server.
    assert_eq!((early.mean, early_wait), (20_000_000, 7_000_000));
    a.acquire(&[], &[], 0, 44);
    assert_eq!(a.lead(SERVICE), b.lead(SERVICE));
    let planned = SERVICE * 2;
    let other = LaneRequest {
        planned,
        ..lanes(&[], &[])
    };
    a.acquire_with(other, 0, 45);
    assert_eq!(a.lead(planned), Lead::new(planned));
}

#[test]
fn each_lane_gets_one_early_request() {
    let store = Memory::default();
    let mut vm = Vm::of(&store, 1, 2);
    assert_eq!(vm.acquire(&[], &[], 1, 0).granted, 1);
    assert_eq!(vm.acquire(&[], &[], 1, 10).granted, 1);
    assert_eq!(vm.acquire(&[], &[], 5, 15).granted, 1);
    assert_eq!(vm.acquire(&[], &[], 5, 25).granted, 1);
    assert_eq!(vm.acquire(&[], &[], 5, 30).granted, 0);
    // Whichever ends, the first that waits at the server begins.
    assert_eq!(vm.acquire(&[2], &[], 0, 31).granted, 0);
    let ended = vm.acquire(&[1], &[], 0, 33);
    assert_eq!(ended.lanes.began, Some(at(0)));
    assert_eq!(vm.acquire(&[3], &[], 0, 50).lanes.began, Some(at(31)));
    assert_eq!(vm.acquire(&[4], &[], 0, 51).lanes.began, Some(at(33)));
}

#[test]
fn open_ended_or_hanging_execution_gets_no_early_request() {
    let store = Memory::default();
    let mut vm = Vm::of(&store, 1, 1);
    vm.acquire(&[], &[], 1, 0);
    assert_eq!(vm.acquire(&[], &[1], 1, 19).granted, 0, "open-ended");
    assert_eq!(vm.acquire(&[1], &[], 1, 20).granted, 1);
    assert_eq!(vm.acquire(&[], &[], 1, 60).granted, 0, "hangs");
}

#[test]
fn runs_of_dead_workers_are_trimmed_to_taken_slots() {
    let store = Memory::default();
    let (mut a, mut b) = (Vm::of(&store, 1, 2), Vm::of(&store, 2, 2));
    assert_eq!(a.acquire(&[], &[], 2, 0).granted, 2);
    // Its lease and the predicted ends of its executions are past.
    let after = b.acquire(&[], &[], 2, 1000);
    assert_eq!((after.granted, after.lanes.behind), (2, 0));
    let mut table = SlotTable::default();
    table.read(&store.bytes().unwrap()).unwrap();
    assert_eq!(table.runs[0].executing(), 2);
    assert!(table.runs[0].iter().all(|run| run.began == at(1000)));
}

#[test]
fn time_with_all_slots_taken_counts_over_all_workers() {
    let store = Memory::default();
    let (mut a, mut b) = (Vm::of(&store, 1, 2), Vm::of(&store, 2, 2));
    let full = |time_ms: u64, ended| {
        Some(FullTime {
            time: Span::from_millis(time_ms),
            ended,
        })
    };
    a.acquire(&[], &[], 1, 0);
    b.acquire(&[], &[], 1, 5);
    // Requests that wait end nothing.
    assert_eq!(a.acquire(&[], &[], 1, 7).full, None);
    // The execution that ends first was under way when the last slot was taken.
    let first = a.acquire(&[1], &[], 1, 20);
    assert_eq!((first.granted, first.full), (1, None));
    let second = b.acquire(&[2], &[], 1, 40);
    assert_eq!((second.granted, second.full), (1, full(20, 1)));
    assert_eq!(a.acquire(&[3], &[], 0, 55).full, full(15, 1));
    assert_eq!(b.acquire(&[4], &[], 0, 90).full, None, "one was free");
    // A worker that died left the slots taken.
    a.acquire(&[], &[], 2, 100);
    a.acquire(&[5], &[], 1, 120);
    let late = 120 + 10 * 60_000;
    assert_eq!(a.acquire(&[6], &[], 0, late).full, full(60_000, 1));
}

#[test]
fn request_granted_in_place_of_an_unknown_execution_has_an_ordinal_of_its_own() {
    let store = Memory::default();
    let mut vm = Vm::of(&store, 1, 3);
    assert_eq!(vm.acquire(&[], &[], 3, 0).granted, 3);
    // The next table knows that three slots are taken, but not the executions.
    store.clear();
    assert!(vm.acquire(&[], &[], 1, 1).reset);
    let later = 1 + TIMEOUTS.quarantine.as_millis();
    let ordinals = [1, 2, 3].map(|ended| {
        let outcome = vm.acquire(&[ended], &[], 1, later);
        assert_eq!(outcome.granted, 1);
        outcome.lanes.first
    });
    assert_eq!(ordinals, [1, 2, 3]);
}
