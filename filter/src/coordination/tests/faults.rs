//! What goes wrong: lost swaps, a table that is unreadable or gone, VMs that come back.

use super::*;

/// A VM that alone serves tries once on the table as it left it.
const GUESS: u32 = 1;

/// What another has written since is neither lost nor overlooked.
#[test]
fn a_guess_that_is_wrong_costs_a_try_and_nothing_else() {
    let store = Memory::default();
    let vm = |incarnation| Worker::new(Box::new(store.clone()), incarnation, Scope::Proxy);
    let (mut first, mut second) = (vm(1), vm(2));
    let ask = |taken, waiting: Option<u64>| AcquireRequest {
        variant: VariantKey(1),
        slots: 2,
        taken,
        reported: taken,
        until: at(1000),
        service: Duration::ZERO,
        waiting: waiting.into_iter().map(due_at),
        waiting_count: u32::from(waiting.is_some()),
        limit: u32::MAX,
        batch: 1,
        due: None,
        tick: false,
        lanes: None,
    };
    assert_eq!(first.acquire(ask(0, Some(500)), at(0)).granted, 1);
    // It serves for the first time, so that the first still thinks itself alone.
    assert_eq!(second.acquire(ask(0, Some(600)), at(0)).granted, 1);
    let outcome = first.acquire(ask(1, Some(400)), at(0));
    assert_eq!(
        (outcome.granted, outcome.conflicts),
        (0, 0),
        "both slots are taken"
    );
    assert_eq!(second.taken(VariantKey(1), at(0)), 2);
    // A turn that changes nothing is not believed on a guess either.
    second.acquire(ask(0, None), at(1));
    assert_eq!(first.acquire(ask(1, Some(400)), at(1)).granted, 1);
}

#[test]
fn after_so_many_lost_swaps_a_turn_is_given_up_and_the_next_repairs_it() {
    let mut proxy = queued([500, 400]);
    // The first is made on a guess, which may be wrong for nothing.
    proxy.store.fail_swaps(GUESS + TRIES_MAX);
    proxy.vms[0].taken = 0;
    let outcome = proxy.turn(0, false, 1);
    assert_eq!((outcome.conflicts, outcome.contended), (TRIES_MAX, true));
    assert_eq!(
        (proxy.counted(1), proxy.notifies()),
        (1, vec![]),
        "nobody has heard"
    );
    proxy.turn(0, false, 2);
    assert_eq!((proxy.counted(2), proxy.notifies()), (0, vec![2]));
}

#[test]
fn a_swap_lost_before_the_last_try_changes_nothing() {
    let mut proxy = queued([500, 400]);
    proxy.store.fail_swaps(GUESS + TRIES_MAX - 1);
    proxy.vms[0].taken = 0;
    let outcome = proxy.turn(0, false, 1);
    assert_eq!(
        (outcome.conflicts, outcome.contended),
        (TRIES_MAX - 1, false)
    );
    assert_eq!(proxy.notifies(), [2]);
}

#[test]
fn of_two_that_find_no_board_one_creates_it() {
    let (mut first, mut second) = (Memory::default(), Memory::default());
    assert!(first.swap(b"one", None));
    second.clone_from(&first);
    assert!(!second.swap(b"two", None), "there is one by now");
    assert_eq!(second.bytes().unwrap(), b"one");
}

#[test]
fn an_unreadable_board_is_begun_anew_and_nobody_takes_more_while_it_settles() {
    let mut proxy = Proxy::new(3, 3);
    proxy.wait(0, &[900, 901, 902], 0);
    proxy.wait(1, &[400], 1);
    proxy.store.overwrite(b"weirbrd".to_vec());
    let outcome = proxy.turn(1, true, 2);
    assert_eq!((outcome.reset, outcome.granted), (true, 0));
    assert_eq!(proxy.table().resets, 1);
    // What is freed meanwhile serves who waiting_count with the one that had it, and no other.
    proxy.wait(0, &[500], 3);
    assert_eq!(proxy.free(0, 1, 4), 1, "although another is earlier");
    proxy.free(0, 1, 5);
    assert!(
        proxy.notifies().is_empty(),
        "the rung could do nothing with it"
    );
    let settled = 2 + TIMEOUTS.quarantine.as_millis() as u64;
    proxy.renew(0, settled - 100);
    assert_eq!(proxy.tick(1, settled - 1), 0);
    assert_eq!(proxy.tick(1, settled), 1);
}

#[test]
fn what_a_quiet_vm_has_taken_is_known_again_once_it_renews() {
    let mut proxy = Proxy::new(2, 3);
    proxy.wait(0, &[900, 901, 902], 0);
    proxy.store.overwrite(Vec::new());
    proxy.wait(1, &[400], 1);
    // Nothing changes at the first: its engine has nothing to say.
    proxy.renew(0, 2);
    assert_eq!(proxy.counted(3), 3);
    let settled = 1 + TIMEOUTS.quarantine.as_millis() as u64;
    proxy.renew(0, settled);
    assert_eq!(proxy.tick(1, settled + 1), 0);
}

#[test]
fn a_board_that_is_gone_is_begun_anew_by_those_who_had_an_entry() {
    let mut proxy = Proxy::new(2, 1);
    proxy.wait(0, &[900], 0);
    proxy.renew(1, 0);
    proxy.store.clear();
    let (_, outcome) = proxy.renew(1, 1);
    assert!(outcome.reset);
    assert_eq!(proxy.wait(1, &[400], 2), 0, "in quarantine");
    proxy.renew(0, 3);
    assert_eq!(proxy.counted(3), 1);
}

#[test]
fn a_first_board_does_not_settle() {
    let mut proxy = Proxy::new(1, 1);
    assert!(!proxy.renew(0, 0).1.reset);
    assert_eq!(proxy.wait(0, &[400], 0), 1);
}

#[test]
fn a_vm_that_stalled_and_lost_its_entry_says_anew_what_it_has() {
    let mut proxy = Proxy::new(2, 2);
    proxy.wait(0, &[900, 901], 0);
    let long = 10 * TIMEOUTS.lease.as_millis() as u64;
    proxy.follow(1, 9);
    proxy.renew(1, long);
    assert_eq!(proxy.table().rows.len(), 1, "its row belongs to another");
    proxy.renew(0, long + 1);
    assert_eq!((proxy.table().rows.len(), proxy.counted(long + 1)), (2, 2));
}

#[test]
fn a_vm_that_has_its_old_entry_again_owns_its_queue_again() {
    let mut proxy = Proxy::new(1, 1);
    proxy.renew(0, 0);
    let lease = TIMEOUTS.lease.as_millis() as u64;
    let mut other = Vm::new(&proxy.store, 9);
    other.worker.renew(false, at(lease));
    assert_eq!(proxy.store.take_claimed_rows(), [0, 0]);
    proxy.renew(0, 2 * lease);
    assert_eq!(proxy.store.take_claimed_rows(), [0], "the other had it");
    proxy.renew(0, 2 * lease + 60);
    assert!(proxy.store.take_claimed_rows().is_empty());
}

#[test]
fn an_old_clock_reading_only_makes_a_vm_careful() {
    // The first reads the clock and is held up; the second dies meanwhile, its work still going on.
    let mut proxy = Proxy::new(2, 1);
    proxy.wait(1, &[900], 0);
    let gone = TIMEOUTS.lease.as_millis() as u64;
    assert_eq!(
        proxy.wait(0, &[400], gone - 1),
        0,
        "alive by the old reading"
    );
    assert_eq!(proxy.tick(0, gone), 1);
}
