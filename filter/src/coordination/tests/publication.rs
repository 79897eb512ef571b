//! Publication of a usage while no slot is free.

use super::lanes::{AFTER, SERVICE, Vm};
use super::*;
use proptest::prelude::*;

/// Publication of a VM that holds no slot, with `waiting_count` requests.
fn waiting(waiting_count: u32) -> Publication {
    Publication {
        variant: VARIANT,
        slots: 1,
        usage: Usage {
            uploads: 0,
            waiting_count,
            head: (waiting_count > 0).then(|| due_at(300)),
            ..Usage::default()
        },
        after: AFTER,
        mean: SERVICE,
    }
}

/// Two VMs: an execution of the first began at 0, and a request waits at the second.
fn full() -> (Memory, Vm, Vm) {
    let store = Memory::default();
    let (mut a, mut b) = (Vm::of(&store, 1, 1), Vm::of(&store, 2, 1));
    assert_eq!(a.acquire(&[], &[], 1, 0).granted, 1);
    assert_eq!(b.acquire(&[], &[], 1, 1).granted, 0);
    (store, a, b)
}

#[test]
fn others_learn_what_waits_while_no_slot_is_free() {
    let (store, mut a, mut b) = full();
    let others = b.worker.publish_if_full(waiting(3), at(2));
    let taken_by_first = OtherWorkers {
        uploads: 0,
        taken: 1,
        waiting: 0,
    };
    assert_eq!(others, Some(taken_by_first));
    assert!(a.worker.load());
    assert_eq!(a.worker.waiting(VARIANT, at(2)), 3);
    // The slot is kept for it.
    assert_eq!(a.acquire(&[1], &[], 0, 20).granted, 0);
    assert_eq!(store.take_notifications(), [(1, Notification::Slot)]);
}

#[test]
fn unchanged_usage_is_not_written() {
    let (store, _, mut b) = full();
    b.worker.publish_if_full(waiting(3), at(2)).unwrap();
    store.fail_swaps(1);
    assert!(b.worker.publish_if_full(waiting(3), at(3)).is_some());
    assert_eq!(
        b.worker.publish_if_full(waiting(4), at(4)),
        None,
        "a lost swap"
    );
    assert_eq!(b.acquire(&[], &[], 4, 5).conflicts, 1);
}

/// While an execution will end soon a request may be sent early, but not if it takes twice its mean.
#[test]
fn slot_that_may_be_free_needs_an_acquisition() {
    for (ms, is_full) in [(14, true), (15, false), (39, false), (40, true)] {
        let (.., mut b) = full();
        let others = b.worker.publish_if_full(waiting(1), at(ms));
        assert_eq!(others.is_some(), is_full, "{ms} ms");
    }
    let (.., mut b) = full();
    let two = Publication {
        slots: 2,
        ..waiting(1)
    };
    assert_eq!(b.worker.publish_if_full(two, at(2)), None, "a free slot");
    let other = Publication {
        variant: VariantKey(77),
        ..waiting(1)
    };
    assert_eq!(b.worker.publish_if_full(other, at(2)), None, "no column");
}

#[test]
fn end_of_idling_is_recorded_by_an_acquisition() {
    let (store, mut a, mut b) = full();
    a.acquire(&[1], &[], 0, 20);
    // The slot is free for the second, until the first takes it again.
    let table = || {
        let mut table = SlotTable::default();
        table.read(&store.bytes().unwrap()).unwrap();
        table
    };
    assert_eq!(table().columns[0].idle_since, Some(at(20)));
    let taken = Publication {
        usage: Usage {
            uploads: 0,
            taken: 1,
            ..waiting(1).usage
        },
        ..waiting(1)
    };
    assert_eq!(b.worker.publish_if_full(taken, at(21)), None);
}

#[test]
fn publication_clears_the_notification() {
    let (store, mut a, mut b) = full();
    a.acquire(&[1], &[], 0, 20);
    assert_eq!(a.acquire(&[], &[], 1, 30).granted, 1, "after the grace");
    assert_eq!(store.take_notifications().len(), 1);
    let notified_at = |store: &Memory| {
        let mut table = SlotTable::default();
        table.read(&store.bytes().unwrap()).unwrap();
        table.rows[1].notified_at
    };
    assert_eq!(notified_at(&store), at(20));
    assert!(b.worker.publish_if_full(waiting(1), at(31)).is_some());
    assert_eq!(notified_at(&store), Mono(0));
}

/// A worker of incarnation `1 + vm` on a copy of the store.
fn copy(store: &Memory, vm: usize, slots: u32, taken: u32) -> (Memory, Vm) {
    let copied = Memory::default();
    copied.overwrite(store.bytes().unwrap());
    let vm = Vm::of(&copied, 1 + vm as u64, slots).with_taken(taken);
    (copied, vm)
}

proptest! {
    /// If a usage is published, an acquisition would have granted nothing and left the same table.
    #[test]
    fn publication_does_what_an_acquisition_would(
        slots in 1..4_u32,
        steps in prop::collection::vec((0..3_usize, 0..3_u32, 0..2_usize, 0..12_u64), 1..30),
        waits in 0..3_u32,
    ) {
        let store = Memory::default();
        let mut vms = [1, 2, 3].map(|incarnation| Vm::of(&store, incarnation, slots));
        let mut running: [Vec<u32>; 3] = Default::default();
        let mut ms = 0;
        for (vm, waiting, ends, later) in steps {
            ms += later;
            let ends = ends.min(running[vm].len());
            let ended: Vec<u32> = running[vm].drain(..ends).collect();
            let SyncResult { granted, lanes, .. } = vms[vm].acquire(&ended, &[], waiting, ms);
            running[vm].extend((0..granted).map(|place| lanes.first.wrapping_add(place)));
        }
        for (vm, running) in running.iter().enumerate() {
            let taken = running.len() as u32;
            let usage = Usage {
                uploads: 0,
                taken,
                waiting_count: waits,
                until: at(ms),
                head: (waits > 0).then(|| due_at(0)),
            };
            let publication = Publication { slots, usage, ..waiting(0) };
            let (published, mut one) = copy(&store, vm, slots, taken);
            if one.worker.publish_if_full(publication, at(ms)).is_none() {
                continue;
            }
            let (acquired, mut other) = copy(&store, vm, slots, taken);
            prop_assert_eq!(other.acquire(&[], &[], waits, ms).granted, 0);
            let tables = [published, acquired].map(|store| {
                let mut table = SlotTable::default();
                table.read(&store.bytes().unwrap()).unwrap();
                table
            });
            prop_assert_eq!(&tables[0], &tables[1]);
        }
    }
}
