//! Time with all slots taken, from one end of an execution to the next.

use super::lanes::{Vm, lanes};
use super::*;

/// Time and number of ends that an outcome reports, in ms.
fn full(outcome: &SyncResult) -> Option<(u64, u32)> {
    let full = outcome.full?;
    Some((full.time.as_millis(), full.ended))
}

/// The second of two VMs with an execution each in two slots. A third request waits at it when the first
/// VM's execution ends, after 20 ms.
fn slot_for_the_second() -> Vm {
    let store = Memory::default();
    let (mut a, mut b) = (Vm::of(&store, 1, 2), Vm::of(&store, 2, 2));
    a.acquire(&[], &[], 1, 0);
    b.acquire(&[], &[], 1, 1);
    assert_eq!(b.acquire(&[], &[], 1, 2).granted, 0, "both are taken");
    let first = a.acquire_with(lanes(&[1], &[]), 0, 20);
    assert_eq!((first.granted, full(&first)), (0, None));
    b
}

#[test]
fn slot_that_waits_for_another_worker_counts_as_taken() {
    let mut b = slot_for_the_second();
    assert_eq!(b.acquire(&[], &[], 1, 22).granted, 1);
    let second = b.acquire(&[2], &[], 0, 90);
    assert_eq!(full(&second), Some((70, 1)));
    // Nobody waits for the slot that is free now.
    assert_eq!(full(&b.acquire(&[3], &[], 0, 100)), None);
}

#[test]
fn slot_that_nobody_takes_any_more_ends_the_time() {
    let mut b = slot_for_the_second();
    // The request that waited is gone, and the next one comes later.
    b.acquire(&[], &[], 0, 21);
    assert_eq!(b.acquire(&[], &[], 1, 60).granted, 1);
    assert_eq!(full(&b.acquire(&[2], &[], 0, 90)), None);
}

#[test]
fn error_counts_neither_as_execution_nor_its_time() {
    let store = Memory::default();
    let mut vm = Vm::of(&store, 1, 1);
    vm.acquire(&[], &[], 1, 0);
    for (ordinal, is_error, ms, expected) in [
        (1, false, 20, None),
        (2, false, 40, Some((20, 1))),
        (3, true, 41, None),
        (4, false, 61, Some((20, 1))),
    ] {
        let ended = [ordinal];
        let mut request = lanes(&ended, &[]);
        if let Some(completed) = &mut request.completed {
            completed.is_error = is_error;
        }
        let outcome = vm.acquire_with(request, 1, ms);
        assert_eq!(
            (outcome.granted, full(&outcome)),
            (1, expected),
            "{ordinal}"
        );
    }
}

/// The answers of a batch come one by one. If they come sooner than predicted, the first of them frees a slot that no other
/// batch can use.
#[test]
fn executions_in_batches_are_not_counted() {
    let store = Memory::default();
    let mut vm = Vm::of(&store, 1, 2);
    vm.batch = 2;
    assert_eq!(vm.acquire(&[], &[], 8, 0).granted, 2);
    for (batch, ms) in [(0, 12), (1, 32), (2, 44)] {
        let first = vm.acquire(&[2 * batch + 1], &[], 6, ms);
        let second = vm.acquire(&[2 * batch + 2], &[], 6, ms);
        assert_eq!(first.granted + second.granted, 2, "{ms} ms");
        assert_eq!((full(&first), full(&second)), (None, None), "{ms} ms");
    }
}
