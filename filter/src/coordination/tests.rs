//! Single acquisitions; `model` tries them in every order.

use super::*;
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::VariantKey;

mod batches;
mod bounds;
mod codec;
mod faults;
mod full;
mod groups;
mod in_place;
mod lanes;
mod publication;
mod runs;
mod waits;

const VARIANT: VariantKey = VariantKey(7);
const MS: u64 = 1_000_000;

/// `ms` after some moment.
fn at(ms: u64) -> Mono {
    Mono((1000 + ms) * MS)
}

/// Urgency of that deadline.
fn due_at(ms: u64) -> Urgency {
    Urgency::of(0, at(ms))
}

/// A VM as its engine sees it: slots taken, requests waiting, and its last report.
#[derive(Debug)]
struct Vm {
    worker: Worker,
    /// Incarnation.
    started: u64,
    taken: u32,
    reported: u32,
    waiting: Vec<u64>,
    /// Whether the batch window of its first request is over.
    due: bool,
    /// Number of ticks in a row at which it was passed over.
    passed_over: u32,
    /// Time of its last acquisition.
    came: Mono,
    until: Mono,
}

/// VMs of one proxy with `slots` slots, sharing one table.
#[derive(Debug)]
struct Proxy {
    store: Memory,
    slots: u32,
    batch: u32,
    vms: Vec<Vm>,
}

impl Proxy {
    fn new(vms: u64, slots: u32) -> Proxy {
        let store = Memory::default();
        let vms = (0..vms).map(|index| Vm::new(&store, index + 1)).collect();
        Proxy {
            store,
            slots,
            batch: 1,
            vms,
        }
    }

    /// Adds waiting requests with these deadlines (in ms) to a VM, which then acquires.
    fn wait(&mut self, vm: usize, deadlines: &[u64], ms: u64) -> u32 {
        self.vms[vm].waiting.extend(deadlines);
        self.vms[vm].waiting.sort_unstable();
        self.acquire(vm, false, ms).granted
    }

    /// Ends `count` of a VM's executions.
    fn free(&mut self, vm: usize, count: u32, ms: u64) -> u32 {
        self.vms[vm].taken -= count;
        self.acquire(vm, false, ms).granted
    }

    fn tick(&mut self, vm: usize, ms: u64) -> u32 {
        self.acquire(vm, true, ms).granted
    }

    fn acquire(&mut self, vm: usize, tick: bool, ms: u64) -> SyncResult {
        self.acquire_variant(vm, VARIANT, tick, at(ms))
    }

    fn acquire_variant(
        &mut self,
        vm: usize,
        variant: VariantKey,
        tick: bool,
        now: Mono,
    ) -> SyncResult {
        let vm = &mut self.vms[vm];
        let request = AcquireRequest {
            uploads: 0,
            uploads_max: None,
            start: 1,
            explores: false,
            executions: EndedExecutions::default(),
            jumps: false,
            variant,
            slots: self.slots,
            taken: vm.taken,
            reported: vm.reported,
            until: vm.until,
            service: Span::from_millis(100),
            waiting: vm.waiting.iter().map(|ms| due_at(*ms)),
            waiting_count: vm.waiting.len() as u32,
            limit: u32::MAX,
            batch: self.batch,
            due: vm.due.then_some(Urgency(u64::MAX)),
            tick,
            lanes: None,
        };
        let outcome = vm.worker.acquire(request, now);
        vm.came = now;
        vm.waiting.drain(..outcome.granted as usize);
        vm.taken += outcome.granted;
        if outcome.granted > 0 {
            vm.until = now + Span::from_millis(100);
        }
        if !outcome.contended {
            vm.reported = vm.taken;
        }
        outcome
    }

    fn renew(&mut self, vm: usize, ms: u64) -> (Option<Membership>, SyncResult) {
        self.vms[vm].worker.renew(true, at(ms))
    }

    /// Replaces a dead VM.
    fn replace(&mut self, vm: usize, incarnation: u64) {
        self.vms[vm] = Vm::new(&self.store, incarnation);
    }

    fn table(&self) -> SlotTable {
        let mut table = SlotTable::default();
        table.read(&self.store.bytes().unwrap()).unwrap();
        table
    }

    fn counted(&self, ms: u64) -> u32 {
        self.table().taken(0, at(ms))
    }

    fn head(&self, row: usize) -> Option<Urgency> {
        self.table().usage(row, 0).head
    }

    /// Returns the rows notified of a slot since the last call.
    fn notifies(&self) -> Vec<usize> {
        let notifies = self.store.take_notifications().into_iter();
        notifies.map(|(row, _)| row).collect()
    }
}

impl Vm {
    fn new(store: &Memory, incarnation: u64) -> Vm {
        Vm {
            worker: Worker::new(Box::new(store.clone()), incarnation, Scope::Proxy),
            started: incarnation,
            taken: 0,
            reported: 0,
            waiting: Vec::new(),
            due: false,
            passed_over: 0,
            came: Mono(0),
            until: Mono(0),
        }
    }
}

/// One slot, taken by the first VM; the second and third wait for it.
fn queued(deadlines: [u64; 2]) -> Proxy {
    let mut proxy = Proxy::new(3, 1);
    assert_eq!(proxy.wait(0, &[900], 0), 1);
    assert_eq!(proxy.wait(1, &deadlines[..1], 0), 0);
    assert_eq!(proxy.wait(2, &deadlines[1..], 0), 0);
    assert!(proxy.notifies().is_empty(), "nothing is free");
    proxy
}

#[test]
fn free_slot_goes_to_the_earliest_deadline() {
    for (deadlines, first) in [([500, 400], 2), ([400, 500], 1)] {
        let mut proxy = queued(deadlines);
        assert_eq!(proxy.free(0, 1, 1), 0);
        assert_eq!(proxy.notifies(), [first]);
        let second = 3 - first;
        assert_eq!(proxy.acquire(second, false, 2).granted, 0, "the other's");
        assert_eq!(proxy.acquire(first, false, 3).granted, 1);
        assert_eq!(proxy.acquire(second, false, 4).granted, 0, "taken");
    }
}

#[test]
fn releasing_worker_with_the_earliest_deadline_takes_the_slot() {
    let mut proxy = queued([500, 400]);
    proxy.wait(0, &[300], 1);
    assert_eq!(proxy.free(0, 1, 2), 1);
    assert_eq!(proxy.counted(2), 1);
    assert!(proxy.notifies().is_empty());
}

#[test]
fn more_urgent_arrival_precedes_a_notified_worker() {
    let mut proxy = queued([500, 400]);
    proxy.free(0, 1, 1);
    assert_eq!(proxy.wait(0, &[300], 2), 1);
    assert_eq!(proxy.acquire(2, false, 3).granted, 0);
    assert_eq!(proxy.head(2), Some(due_at(400)), "it keeps its place");
}

#[test]
fn notified_worker_is_not_notified_again() {
    let mut proxy = Proxy::new(2, 2);
    proxy.wait(0, &[900, 901], 0);
    proxy.wait(1, &[500, 501], 0);
    proxy.free(0, 1, 1);
    assert_eq!(proxy.notifies(), [1]);
    proxy.free(0, 1, 2);
    assert!(
        proxy.notifies().is_empty(),
        "the pending notification serves both"
    );
    assert_eq!(proxy.acquire(1, false, 3).granted, 2);
}

#[test]
fn notified_worker_loses_its_reservation_after_the_grace() {
    let mut proxy = queued([500, 400]);
    proxy.free(0, 1, 1);
    assert_eq!(proxy.acquire(1, false, 5).granted, 0, "within the grace");
    assert_eq!(proxy.head(2), Some(due_at(400)));
    assert_eq!(proxy.acquire(1, false, 6).granted, 1);
    assert_eq!(proxy.head(2), None, "struck off");
}

#[test]
fn renewal_does_not_clear_a_notification() {
    let mut proxy = queued([500, 400]);
    proxy.free(0, 1, 1);
    proxy.renew(2, 5);
    assert_eq!(
        proxy.acquire(1, false, 6).granted,
        1,
        "it has not come for it"
    );
}

#[test]
fn revoked_worker_regains_its_reservation() {
    let mut proxy = queued([500, 400]);
    proxy.free(0, 1, 1);
    proxy.acquire(1, false, 6);
    proxy.wait(0, &[600], 7);
    assert_eq!(proxy.tick(2, 10), 0);
    assert_eq!(proxy.head(2), Some(due_at(400)));
    proxy.notifies();
    proxy.free(1, 1, 11);
    assert_eq!(proxy.notifies(), [2]);
    assert_eq!(proxy.tick(2, 12), 1);
}

#[test]
fn tick_notifies_all_more_urgent_workers_and_the_next_passes_them_over() {
    let mut proxy = Proxy::new(4, 1);
    proxy.wait(3, &[900], 0);
    for (vm, deadline) in [(0, 400), (1, 300), (2, 200)] {
        proxy.wait(vm, &[deadline], 0);
    }
    // The VM with the slot dies; no other is notified.
    let lease_end = TIMEOUTS.lease.as_millis();
    (0..3).for_each(|vm| _ = proxy.renew(vm, lease_end - 1));
    assert_eq!(proxy.tick(0, lease_end), 0);
    assert_eq!(
        proxy.notifies(),
        [2, 3],
        "by row: the fourth worker came first"
    );
    assert_eq!(proxy.tick(0, lease_end + 10), 1);
}

#[test]
fn slots_of_a_dead_worker_count_until_lease_and_predicted_end() {
    let lease = TIMEOUTS.lease.as_millis();
    for until in [lease / 2, 2 * lease] {
        let mut proxy = Proxy::new(2, 1);
        proxy.vms[0].until = at(until);
        (proxy.vms[0].taken, proxy.vms[0].reported) = (1, 1);
        proxy.acquire(0, false, 0);
        let released_at = lease.max(until);
        assert_eq!(proxy.wait(1, &[5000], released_at - 1), 0);
        assert_eq!(proxy.tick(1, released_at), 1);
    }
}

#[test]
fn idle_time_of_a_slot_is_reported() {
    let mut proxy = queued([500, 400]);
    proxy.free(0, 1, 1);
    let taken = proxy.acquire(2, false, 4);
    assert_eq!(taken.idle, Some(Span::from_millis(3)));
    assert_eq!(proxy.table().columns[0].idle_since, None);
}

#[test]
fn excess_slots_after_a_plan_are_not_granted() {
    let mut proxy = Proxy::new(2, 3);
    proxy.wait(0, &[900, 901, 902], 0);
    proxy.slots = 1;
    proxy.wait(1, &[500], 1);
    assert_eq!(proxy.free(0, 1, 2), 0);
    assert_eq!(proxy.tick(1, 3), 0);
    proxy.free(0, 2, 4);
    assert_eq!(proxy.tick(1, 5), 1);
}

#[test]
fn dead_poller_is_replaced() {
    let mut proxy = Proxy::new(2, 1);
    let polls = |(membership, _): (Option<Membership>, SyncResult)| membership.unwrap().polls;
    assert!(polls(proxy.renew(0, 0)));
    assert!(!polls(proxy.renew(1, 1)));
    let lease = TIMEOUTS.poller_lease.as_millis();
    assert!(!polls(proxy.renew(1, lease - 1)));
    assert!(polls(proxy.renew(1, lease)));
    assert!(!polls(proxy.renew(0, lease + 1)));
}

#[test]
fn dead_reporter_is_replaced_by_a_serving_worker() {
    let mut proxy = Proxy::new(3, 1);
    let mut reports = |vm: usize, ms: u64, serves: bool| {
        if serves {
            proxy.vms[vm].worker.mark_serving();
        }
        let (membership, _) = proxy.renew(vm, ms);
        membership.unwrap().reports
    };
    // None serves: the poller reports.
    assert!(reports(0, 0, false));
    assert!(!reports(1, 1, false) && !reports(2, 1, false));
    // A serving VM reports, whether or not it polls.
    assert!(reports(2, 2, true));
    assert!(!reports(0, 3, false) && !reports(1, 3, false));
    assert!(reports(1, 4, true), "the first row that serves");
    assert!(!reports(2, 5, false) && !reports(0, 5, false));
    let lease_end = 4 + TIMEOUTS.lease.as_millis();
    assert!(reports(2, lease_end, false));
    assert!(!reports(0, lease_end, false));
    assert!(reports(1, lease_end + 1, false), "back again");
}

#[test]
fn live_workers_are_notified_of_a_plan() {
    let mut proxy = Proxy::new(3, 1);
    (0..3).for_each(|vm| _ = proxy.renew(vm, 0));
    let lease = TIMEOUTS.lease.as_millis();
    (1..3).for_each(|vm| _ = proxy.renew(vm, lease - 1));
    proxy.vms[1]
        .worker
        .notify_others(Notification::Plan, at(lease));
    assert_eq!(
        proxy.store.take_notifications(),
        [(2, Notification::Plan)],
        "0 is dead"
    );
}

#[test]
fn health_is_shared_and_kept_after_lost_swaps() {
    let mut proxy = Proxy::new(2, 1);
    let mut note = |vm: usize, ms, errors| {
        let worker = &mut proxy.vms[vm].worker;
        let (health, _) =
            worker.note_health(VARIANT, at(ms), |health| health.rest.errors += errors);
        health.map(|health| health.rest.errors)
    };
    assert_eq!((note(0, 0, 1), note(1, 1, 2)), (Some(1), Some(3)));
    proxy.store.fail_swaps(TRIES_MAX + 1);
    let (health, outcome) = proxy.vms[0]
        .worker
        .note_health(VARIANT, at(2), |health| health.rest.errors += 1);
    assert_eq!((health, outcome.contended), (None, true));
    proxy.renew(0, 3);
    let seen = proxy.vms[0].worker.health(VARIANT).unwrap();
    assert_eq!(seen.rest.errors, 3);
}
