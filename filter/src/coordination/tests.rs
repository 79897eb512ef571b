//! The turns, one by one; `model` tries them in every order.

use super::*;
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::VariantKey;

mod batches;
mod bounds;
mod codec;
mod faults;
mod lanes;
mod waits;

const VARIANT: VariantKey = VariantKey(7);
const MS: u64 = 1_000_000;

/// `ms` after some moment.
fn at(ms: u64) -> Mono {
    Mono((1000 + ms) * MS)
}

/// The urgency of that deadline.
fn due_at(ms: u64) -> Urgency {
    Urgency::of(0, at(ms))
}

/// A VM as its engine sees it: what it has taken, who waiting_count, what the table last heard.
#[derive(Debug)]
struct Vm {
    worker: Worker,
    /// Its incarnation.
    started: u64,
    taken: u32,
    reported: u32,
    waiting: Vec<u64>,
    /// Whether its first can wait no longer for company.
    due: bool,
    /// At how many looks on end it was passed over.
    passed_over: u32,
    /// When it last had a turn.
    came: Mono,
    until: Mono,
}

/// VMs of one proxy with `slots` slots, at one table.
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

    /// Requests with these deadlines (in ms) come to wait at a VM, which asks for slots.
    fn wait(&mut self, vm: usize, deadlines: &[u64], ms: u64) -> u32 {
        self.vms[vm].waiting.extend(deadlines);
        self.vms[vm].waiting.sort_unstable();
        self.turn(vm, false, ms).granted
    }

    /// So many of a VM's executions end.
    fn free(&mut self, vm: usize, count: u32, ms: u64) -> u32 {
        self.vms[vm].taken -= count;
        self.turn(vm, false, ms).granted
    }

    fn tick(&mut self, vm: usize, ms: u64) -> u32 {
        self.turn(vm, true, ms).granted
    }

    fn turn(&mut self, vm: usize, tick: bool, ms: u64) -> SyncResult {
        self.ask(vm, VARIANT, tick, at(ms))
    }

    fn ask(&mut self, vm: usize, variant: VariantKey, tick: bool, now: Mono) -> SyncResult {
        let vm = &mut self.vms[vm];
        let ask = AcquireRequest {
            variant,
            slots: self.slots,
            taken: vm.taken,
            reported: vm.reported,
            until: vm.until,
            service: Duration::from_millis(100),
            waiting: vm.waiting.iter().map(|ms| due_at(*ms)),
            waiting_count: vm.waiting.len() as u32,
            limit: u32::MAX,
            batch: self.batch,
            due: vm.due.then_some(Urgency(u64::MAX)),
            tick,
            lanes: None,
        };
        let outcome = vm.worker.acquire(ask, now);
        vm.came = now;
        vm.waiting.drain(..outcome.granted as usize);
        vm.taken += outcome.granted;
        if outcome.granted > 0 {
            vm.until = now + Duration::from_millis(100);
        }
        if !outcome.contended {
            vm.reported = vm.taken;
        }
        outcome
    }

    fn renew(&mut self, vm: usize, ms: u64) -> (Option<Membership>, SyncResult) {
        self.vms[vm].worker.renew(true, at(ms))
    }

    /// Another VM in the place of one that is dead.
    fn follow(&mut self, vm: usize, incarnation: u64) {
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

    /// Whom to notified for a slot since last asked.
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

/// One slot, taken by the first; the second and third wait for it.
fn queued(deadlines: [u64; 2]) -> Proxy {
    let mut proxy = Proxy::new(3, 1);
    assert_eq!(proxy.wait(0, &[900], 0), 1);
    assert_eq!(proxy.wait(1, &deadlines[..1], 0), 0);
    assert_eq!(proxy.wait(2, &deadlines[1..], 0), 0);
    assert!(proxy.notifies().is_empty(), "nothing is free");
    proxy
}

#[test]
fn a_slot_goes_to_the_earliest_deadline_whoever_holds_it() {
    for (deadlines, first) in [([500, 400], 2), ([400, 500], 1)] {
        let mut proxy = queued(deadlines);
        assert_eq!(proxy.free(0, 1, 1), 0);
        assert_eq!(proxy.notifies(), [first]);
        let second = 3 - first;
        assert_eq!(proxy.turn(second, false, 2).granted, 0, "the other's");
        assert_eq!(proxy.turn(first, false, 3).granted, 1);
        assert_eq!(proxy.turn(second, false, 4).granted, 0, "taken");
    }
}

#[test]
fn who_frees_a_slot_and_holds_the_earliest_takes_it_in_the_same_swap() {
    let mut proxy = queued([500, 400]);
    proxy.wait(0, &[300], 1);
    assert_eq!(proxy.free(0, 1, 2), 1);
    assert_eq!(proxy.counted(2), 1);
    assert!(proxy.notifies().is_empty());
}

#[test]
fn an_arrival_with_an_earlier_deadline_goes_before_the_one_that_was_rung() {
    let mut proxy = queued([500, 400]);
    proxy.free(0, 1, 1);
    assert_eq!(proxy.wait(0, &[300], 2), 1);
    assert_eq!(proxy.turn(2, false, 3).granted, 0);
    assert_eq!(proxy.head(2), Some(due_at(400)), "it keeps its place");
}

#[test]
fn nobody_is_rung_twice_until_it_comes() {
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
    assert_eq!(proxy.turn(1, false, 3).granted, 2);
}

#[test]
fn who_was_rung_and_does_not_come_is_passed_over_after_the_grace() {
    let mut proxy = queued([500, 400]);
    proxy.free(0, 1, 1);
    assert_eq!(proxy.turn(1, false, 5).granted, 0, "within the grace");
    assert_eq!(proxy.head(2), Some(due_at(400)));
    assert_eq!(proxy.turn(1, false, 6).granted, 1);
    assert_eq!(proxy.head(2), None, "struck off");
}

#[test]
fn a_renewal_does_not_answer_a_ring() {
    let mut proxy = queued([500, 400]);
    proxy.free(0, 1, 1);
    proxy.renew(2, 5);
    assert_eq!(proxy.turn(1, false, 6).granted, 1, "it has not come for it");
}

#[test]
fn who_was_struck_off_says_it_anew_and_has_its_right_again() {
    let mut proxy = queued([500, 400]);
    proxy.free(0, 1, 1);
    proxy.turn(1, false, 6);
    proxy.wait(0, &[600], 7);
    assert_eq!(proxy.tick(2, 10), 0);
    assert_eq!(proxy.head(2), Some(due_at(400)));
    proxy.notifies();
    proxy.free(1, 1, 11);
    assert_eq!(proxy.notifies(), [2]);
    assert_eq!(proxy.tick(2, 12), 1);
}

#[test]
fn a_tick_rings_all_who_stand_before_and_the_next_passes_them_over() {
    let mut proxy = Proxy::new(4, 1);
    proxy.wait(3, &[900], 0);
    for (vm, deadline) in [(0, 400), (1, 300), (2, 200)] {
        proxy.wait(vm, &[deadline], 0);
    }
    // The one with the slot dies; nobody is told.
    let gone = TIMEOUTS.lease.as_millis() as u64;
    (0..3).for_each(|vm| _ = proxy.renew(vm, gone - 1));
    assert_eq!(proxy.tick(0, gone), 0);
    assert_eq!(
        proxy.notifies(),
        [2, 3],
        "by row: the fourth worker came first"
    );
    assert_eq!(proxy.tick(0, gone + 10), 1);
}

#[test]
fn the_dead_keep_their_slots_until_the_lease_and_the_predicted_end_are_past() {
    let lease = TIMEOUTS.lease.as_millis() as u64;
    for until in [lease / 2, 2 * lease] {
        let mut proxy = Proxy::new(2, 1);
        proxy.vms[0].until = at(until);
        (proxy.vms[0].taken, proxy.vms[0].reported) = (1, 1);
        proxy.turn(0, false, 0);
        let gone = lease.max(until);
        assert_eq!(proxy.wait(1, &[5000], gone - 1), 0);
        assert_eq!(proxy.tick(1, gone), 1);
    }
}

#[test]
fn a_slot_is_free_for_so_long() {
    let mut proxy = queued([500, 400]);
    proxy.free(0, 1, 1);
    let taken = proxy.turn(2, false, 4);
    assert_eq!(taken.idle, Some(Duration::from_millis(3)));
    assert_eq!(proxy.table().columns[0].idle_since, None);
}

#[test]
fn fewer_slots_in_a_new_plan_are_not_granted_again_until_enough_are_free() {
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
fn one_polls_and_another_when_it_is_gone() {
    let mut proxy = Proxy::new(2, 1);
    let polls = |(membership, _): (Option<Membership>, SyncResult)| membership.unwrap().polls;
    assert!(polls(proxy.renew(0, 0)));
    assert!(!polls(proxy.renew(1, 1)));
    let lease = TIMEOUTS.poller_lease.as_millis() as u64;
    assert!(!polls(proxy.renew(1, lease - 1)));
    assert!(polls(proxy.renew(1, lease)));
    assert!(!polls(proxy.renew(0, lease + 1)));
}

#[test]
fn one_that_serves_reports_and_another_when_it_is_gone() {
    let mut proxy = Proxy::new(3, 1);
    let mut reports = |vm: usize, ms: u64, serves: bool| {
        if serves {
            proxy.vms[vm].worker.mark_serving();
        }
        let (membership, _) = proxy.renew(vm, ms);
        membership.unwrap().reports
    };
    // Nobody serves: whoever polls.
    assert!(reports(0, 0, false));
    assert!(!reports(1, 1, false) && !reports(2, 1, false));
    // Whoever serves, whether it polls or not.
    assert!(reports(2, 2, true));
    assert!(!reports(0, 3, false) && !reports(1, 3, false));
    assert!(reports(1, 4, true), "the first row that serves");
    assert!(!reports(2, 5, false) && !reports(0, 5, false));
    let gone = 4 + TIMEOUTS.lease.as_millis() as u64;
    assert!(reports(2, gone, false));
    assert!(!reports(0, gone, false));
    assert!(reports(1, gone + 1, false), "back again");
}

#[test]
fn all_others_that_live_are_rung_for_a_plan() {
    let mut proxy = Proxy::new(3, 1);
    (0..3).for_each(|vm| _ = proxy.renew(vm, 0));
    let lease = TIMEOUTS.lease.as_millis() as u64;
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
fn a_variants_health_is_for_all_and_lost_swaps_leave_it_as_it_was() {
    let mut proxy = Proxy::new(2, 1);
    let mut note = |vm: usize, ms, errors| {
        let worker = &mut proxy.vms[vm].worker;
        let (health, _) = worker.note_health(VARIANT, at(ms), |health| health.errors += errors);
        health.map(|health| health.errors)
    };
    assert_eq!((note(0, 0, 1), note(1, 1, 2)), (Some(1), Some(3)));
    proxy.store.fail_swaps(TRIES_MAX + 1);
    let (health, outcome) = proxy.vms[0]
        .worker
        .note_health(VARIANT, at(2), |health| health.errors += 1);
    assert_eq!((health, outcome.contended), (None, true));
    proxy.renew(0, 3);
    let seen = proxy.vms[0].worker.health(VARIANT).unwrap();
    assert_eq!(seen.errors, 3);
}
