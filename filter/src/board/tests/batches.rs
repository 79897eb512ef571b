//! Batches across workers: who leaves with whom, and that nobody waits for those who do not come.

use proptest::prelude::*;

use super::*;

/// VMs that let go so many together.
fn batching(vms: u64, slots: u32, batch: u32) -> Proxy {
    let mut proxy = Proxy::new(vms, slots);
    proxy.batch = batch;
    (0..vms as usize).for_each(|vm| _ = proxy.renew(vm, 0));
    proxy
}

fn open(proxy: &Proxy) -> u32 {
    proxy.board().columns[0].open
}

/// A turn of a VM whose first can wait no longer for company.
fn due(proxy: &mut Proxy, vm: usize, ms: u64) -> u32 {
    proxy.vms[vm].due = true;
    let granted = proxy.tick(vm, ms);
    proxy.vms[vm].due = false;
    granted
}

#[test]
fn nobody_leaves_before_a_batch_is_full() {
    let mut proxy = batching(2, 8, 3);
    assert_eq!(proxy.wait(0, &[500], 1), 0);
    assert_eq!(proxy.wait(1, &[600], 1), 0);
    assert_eq!(proxy.tick(0, 11), 0);
    assert!(proxy.rings().is_empty(), "nobody may leave");
    // The third closes it; the most urgent goes first, wherever it waits.
    assert_eq!(proxy.wait(1, &[700], 12), 0);
    assert_eq!(proxy.rings(), [0]);
    assert_eq!(proxy.turn(0, false, 13).granted, 1);
    assert_eq!(proxy.rings(), [1], "with it leave the others");
    assert_eq!(proxy.turn(1, false, 14).granted, 2);
    assert_eq!((open(&proxy), proxy.rings()), (0, vec![]));
}

#[test]
fn all_who_make_up_the_batch_are_rung_in_order_and_no_more() {
    let mut proxy = batching(4, 8, 3);
    let mut of = |vm, deadlines: &[u64]| proxy.wait(vm, deadlines, 1);
    assert_eq!(of(0, &[500]), 0);
    assert_eq!(of(1, &[900]), 0);
    assert_eq!(of(2, &[600, 700]), 0);
    assert_eq!(
        proxy.rings(),
        [0],
        "what stands after its own it rings when it has left"
    );
    assert_eq!(proxy.turn(0, false, 2).granted, 1);
    assert_eq!(proxy.rings(), [2]);
    assert_eq!(proxy.turn(2, false, 2).granted, 2);
    assert_eq!(
        (open(&proxy), proxy.rings()),
        (0, vec![]),
        "1 waits for company"
    );
    // Who frees a slot and has nobody rings as many as may leave.
    let mut proxy = batching(4, 3, 3);
    proxy.vms[3].taken = 3;
    proxy.turn(3, false, 0);
    (0..3).for_each(|vm| _ = proxy.wait(vm, &[900 - 100 * vm as u64], 1));
    assert_eq!(open(&proxy), 0, "closed when there is a slot");
    proxy.free(3, 2, 2);
    assert_eq!((open(&proxy), proxy.rings()), (3, vec![1, 2]));
}

#[test]
fn who_can_wait_no_longer_takes_all_who_wait_with_it() {
    let mut proxy = batching(2, 8, 5);
    proxy.wait(0, &[500, 501], 1);
    proxy.wait(1, &[600], 1);
    assert_eq!(due(&mut proxy, 0, 2), 2);
    assert_eq!((open(&proxy), proxy.rings()), (1, vec![1]));
    assert_eq!(proxy.turn(1, false, 3).granted, 1);
    // Without anybody here nobody here is due.
    proxy.wait(1, &[600], 4);
    assert_eq!((due(&mut proxy, 0, 5), open(&proxy)), (0, 0));
}

#[test]
fn one_batch_after_another_leaves_in_one_turn() {
    let mut proxy = batching(1, 16, 3);
    proxy.slots = 0;
    proxy.wait(0, &[1, 2, 3, 4, 5, 6, 7].map(|ms| 500 + ms), 1);
    proxy.slots = 16;
    assert_eq!(proxy.tick(0, 2), 6);
    assert_eq!(open(&proxy), 0);
}

#[test]
fn slots_bound_what_leaves_and_the_rest_of_the_batch_is_next() {
    let mut proxy = batching(2, 2, 4);
    assert_eq!(proxy.wait(0, &[501, 502, 503, 504], 1), 2);
    assert_eq!(open(&proxy), 2);
    assert_eq!(proxy.free(0, 1, 2), 1);
    assert_eq!(proxy.free(0, 1, 3), 1);
    assert_eq!(open(&proxy), 0);
    proxy.wait(0, &[505], 4);
    assert_eq!(proxy.free(0, 1, 5), 0, "alone");
}

#[test]
fn what_those_leave_open_who_go_otherwise_is_for_nobody() {
    // All of a batch but one go otherwise, or their VM dies; who comes then waits for company.
    for dies in [false, true] {
        let mut proxy = batching(2, 2, 4);
        assert_eq!(proxy.wait(1, &[501, 502, 503, 504], 1), 2);
        assert_eq!(open(&proxy), 2);
        let mut ms = 2;
        if dies {
            ms += 2 * TERMS.lease.as_millis() as u64;
        } else {
            proxy.vms[1].waiting.clear();
            proxy.turn(1, false, ms);
            assert_eq!(open(&proxy), 0);
            proxy.free(1, 2, ms);
        }
        assert_eq!(proxy.wait(0, &[ms + 500], ms), 0);
        assert_eq!(open(&proxy), 0);
    }
}

#[test]
fn how_many_more_would_go_is_said_where_not_all_were_asked_for() {
    let mut proxy = batching(1, 8, 2);
    let mut ask = |taken: u32, waits: u32, most: u32| {
        let ask = Ask {
            variant: VARIANT,
            slots: 8,
            taken,
            posted: taken,
            until: at(500),
            service: Duration::ZERO,
            waiting: (0..u64::from(waits)).map(due_at),
            waits,
            most,
            batch: 2,
            due: false,
            tick: false,
        };
        let outcome = proxy.vms[0].member.settle(ask, at(0));
        (outcome.granted, outcome.more)
    };
    assert_eq!(ask(0, 1, 1), (0, false));
    assert_eq!(ask(0, 2, 1), (1, true));
    assert_eq!(ask(1, 1, 1), (1, false));
    assert_eq!(ask(2, 3, u32::MAX), (2, false));
}

#[test]
fn a_lost_ring_holds_a_batch_up_for_a_grace() {
    let mut proxy = batching(2, 8, 2);
    proxy.wait(0, &[500], 1);
    assert_eq!(proxy.wait(1, &[600], 1), 0);
    assert_eq!(proxy.rings(), [0], "and is not heard");
    assert_eq!(proxy.tick(1, 5), 0);
    assert_eq!(proxy.tick(1, 6), 1);
    assert_eq!(proxy.tick(0, 11), 1, "its place in the batch is kept");
}

#[test]
fn who_waits_for_itself_has_batches_of_its_own() {
    let mut proxy = Proxy::new(1, 4);
    proxy.batch = 3;
    proxy.vms[0].member = Member::new(Box::new(proxy.store.clone()), 1, Scope::Worker);
    assert_eq!(proxy.wait(0, &[500, 501], 0), 0);
    assert_eq!(proxy.wait(0, &[502, 503, 504], 0), 3);
    proxy.vms[0].waiting = vec![500, 501, 502];
    assert_eq!(proxy.turn(0, false, 1).granted, 1, "as there are slots");
    proxy.vms[0].waiting = vec![];
    proxy.free(0, 4, 2);
    assert_eq!(
        proxy.wait(0, &[600], 3),
        0,
        "what was open has left otherwise"
    );
    assert_eq!(due(&mut proxy, 0, 4), 1);
}

#[test]
fn another_plan_without_batches_lets_all_go() {
    let mut proxy = batching(1, 2, 4);
    proxy.wait(0, &[500, 501, 502, 503, 504], 0);
    assert_eq!(open(&proxy), 2);
    proxy.batch = 1;
    assert_eq!(proxy.free(0, 2, 1), 2);
    assert_eq!(open(&proxy), 0);
}

/// What may happen to a proxy within 10 ms.
#[derive(Debug, Clone, Copy)]
enum Event {
    Wait(usize, u64),
    Free(usize),
    Leave(usize),
    Hear(usize),
    Die(usize),
    Nothing,
}

fn event() -> impl Strategy<Value = Event> {
    let vm = || any::<prop::sample::Index>().prop_map(|vm| vm.index(1 << 16));
    prop_oneof![
        6 => (vm(), 1..2000u64).prop_map(|(vm, left)| Event::Wait(vm, left)),
        4 => vm().prop_map(Event::Free),
        2 => vm().prop_map(Event::Leave),
        4 => vm().prop_map(Event::Hear),
        1 => vm().prop_map(Event::Die),
        6 => Just(Event::Nothing),
    ]
}

/// A turn, with what must hold of it: nobody leaves but from a closed batch, and none stays open for
/// nobody.
fn fair(proxy: &mut Proxy, vm: usize, tick: bool, ms: u64) -> Result<u32, TestCaseError> {
    let board = proxy.board();
    let column = board.column(VARIANT);
    let open = |board: &Board| board.column(VARIANT).map_or(0, |at| board.columns[at].open);
    let own = (board.entries.iter()).position(|entry| entry.incarnation == proxy.vms[vm].started);
    let elsewhere = column.map_or(0, |column| {
        let others = board.others_of(own.unwrap_or(usize::MAX), column, at(ms));
        others.waiting
    });
    let waiting = elsewhere + proxy.vms[vm].waiting.len() as u32;
    let granted = proxy.turn(vm, tick, ms).granted;
    let full = waiting.saturating_sub(open(&board)) / proxy.batch * proxy.batch;
    prop_assert!(
        proxy.vms[vm].due || granted <= open(&board) + full,
        "{granted} of {waiting} left, {} were to",
        open(&board),
    );
    let after = proxy.board();
    let left = after
        .column(VARIANT)
        .map_or(0, |column| after.waiting(column, at(ms)));
    prop_assert!(open(&after) <= left, "{} may leave of {left}", open(&after));
    let taken: u32 = proxy.vms.iter().map(|vm| vm.taken).sum();
    prop_assert!(taken <= proxy.slots, "{taken} taken");
    Ok(granted)
}

/// Only who waits although a slot is free all the time is passed over.
fn forget_where_none_was_free(proxy: &mut Proxy, vm: usize, ms: u64) {
    let full = proxy.counted(ms) >= proxy.slots;
    for (index, one) in proxy.vms.iter_mut().enumerate() {
        if full || one.waiting.is_empty() || (index == vm && one.taken > 0) {
            one.passed_over = 0;
        }
    }
}

proptest! {
    #[test]
    fn in_any_order_of_events_batches_are_kept_and_nobody_waits_for_ever(
        (vms, slots, batch) in (2..=4u64, 1..=6u32, 1..=4u32),
        events in proptest::collection::vec(event(), 1..120),
    ) {
        let mut proxy = batching(vms, slots, batch);
        let (mut ms, mut starts) = (0, 100);
        for event in events {
            let vm = match event {
                Event::Wait(vm, _) | Event::Free(vm) | Event::Leave(vm) | Event::Hear(vm)
                | Event::Die(vm) => vm % vms as usize,
                Event::Nothing => 0,
            };
            ms += 2;
            match event {
                Event::Wait(_, left) => {
                    proxy.vms[vm].waiting.push(ms + left);
                    proxy.vms[vm].waiting.sort_unstable();
                    fair(&mut proxy, vm, false, ms)?;
                }
                Event::Free(_) => {
                    proxy.vms[vm].taken -= proxy.vms[vm].taken.min(1);
                    fair(&mut proxy, vm, false, ms)?;
                }
                Event::Leave(_) => {
                    proxy.vms[vm].waiting.pop();
                    fair(&mut proxy, vm, false, ms)?;
                }
                Event::Hear(_) => _ = fair(&mut proxy, vm, true, ms)?,
                Event::Die(_) => {
                    // Its work ends with it here; the board cannot know so soon.
                    starts += 1;
                    proxy.follow(vm, starts);
                }
                Event::Nothing => ms += 8,
            }
            for vm in 0..vms as usize {
                proxy.renew(vm, ms);
            }
        }
        // Nobody who is due waits longer than two looks for those who do not come.
        ms += 2 * TERMS.lease.as_millis() as u64 + 200;
        (0..vms as usize).for_each(|vm| _ = proxy.renew(vm, ms));
        for look in 0..200 {
            ms += 10;
            for vm in 0..vms as usize {
                proxy.renew(vm, ms);
                proxy.vms[vm].due = true;
                let granted = fair(&mut proxy, vm, true, ms)?;
                if granted == 0 && look > 0 && !proxy.vms[vm].waiting.is_empty() {
                    proxy.vms[vm].passed_over += 1;
                }
                forget_where_none_was_free(&mut proxy, vm, ms);
                // Each VM that comes and is held off costs one more.
                prop_assert!(proxy.vms[vm].passed_over <= vms as u32, "passed over");
                let all = proxy.vms[vm].taken;
                proxy.free(vm, all, ms);
                forget_where_none_was_free(&mut proxy, vm, ms);
            }
        }
        prop_assert!(proxy.vms.iter().all(|vm| vm.waiting.is_empty()));
        (0..vms as usize).for_each(|vm| _ = proxy.free(vm, proxy.vms[vm].taken, ms));
        prop_assert_eq!(proxy.counted(ms), 0);
        prop_assert_eq!(proxy.board().columns.iter().map(|column| column.open).max().unwrap_or(0), 0);
    }
}
