//! Faults: lost swaps, an unreadable or missing table, VMs that come back.

use super::*;

/// Attempts of a single serving VM on the table as it left it.
const GUESS: u32 = 1;

/// A write by another since then is neither lost nor overlooked.
#[test]
fn wrong_version_guess_costs_one_attempt() {
    let store = Memory::default();
    let vm = |incarnation| Worker::new(Box::new(store.clone()), incarnation, Scope::Proxy);
    let (mut first, mut second) = (vm(1), vm(2));
    let request = |taken, waiting: Option<u64>| AcquireRequest {
        uploads: 0,
        uploads_max: None,
        start: 1,
        explores: false,
        executions: EndedExecutions::default(),
        jumps: false,
        variant: VariantKey(1),
        slots: 2,
        taken,
        reported: taken,
        until: at(1000),
        service: Span::ZERO,
        waiting: waiting.into_iter().map(due_at),
        waiting_count: u32::from(waiting.is_some()),
        limit: u32::MAX,
        batch: 1,
        due: None,
        tick: false,
        lanes: None,
    };
    assert_eq!(first.acquire(request(0, Some(500)), at(0)).granted, 1);
    // It serves for the first time, so the first still assumes that it is alone.
    assert_eq!(second.acquire(request(0, Some(600)), at(0)).granted, 1);
    let outcome = first.acquire(request(1, Some(400)), at(0));
    assert_eq!(
        (outcome.granted, outcome.conflicts),
        (0, 0),
        "both slots are taken"
    );
    assert_eq!(second.taken(VariantKey(1), at(0)), 2);
    // An acquisition without a change is not trusted on a guess either.
    second.acquire(request(0, None), at(1));
    assert_eq!(first.acquire(request(1, Some(400)), at(1)).granted, 1);
}

#[test]
fn exhausted_attempts_are_repaired_by_the_next_write() {
    let mut proxy = queued([500, 400]);
    // The first attempt is on a guess, which may fail without cost.
    proxy.store.fail_swaps(GUESS + TRIES_MAX);
    proxy.vms[0].taken = 0;
    let outcome = proxy.acquire(0, false, 1);
    assert_eq!((outcome.conflicts, outcome.contended), (TRIES_MAX, true));
    assert_eq!(
        (proxy.counted(1), proxy.notifies()),
        (1, vec![]),
        "no worker was notified"
    );
    proxy.acquire(0, false, 2);
    assert_eq!((proxy.counted(2), proxy.notifies()), (0, vec![2]));
}

#[test]
fn failed_attempts_before_the_last_do_not_matter() {
    let mut proxy = queued([500, 400]);
    proxy.store.fail_swaps(GUESS + TRIES_MAX - 1);
    proxy.vms[0].taken = 0;
    let outcome = proxy.acquire(0, false, 1);
    assert_eq!(
        (outcome.conflicts, outcome.contended),
        (TRIES_MAX - 1, false)
    );
    assert_eq!(proxy.notifies(), [2]);
}

#[test]
fn one_of_two_workers_creates_the_table() {
    let (mut first, mut second) = (Memory::default(), Memory::default());
    assert!(first.swap(b"one", None));
    second.clone_from(&first);
    assert!(!second.swap(b"two", None), "there is one by now");
    assert_eq!(second.bytes().unwrap(), b"one");
}

#[test]
fn unreadable_table_is_reset_with_quarantine() {
    let mut proxy = Proxy::new(3, 3);
    proxy.wait(0, &[900, 901, 902], 0);
    proxy.wait(1, &[400], 1);
    proxy.store.overwrite(b"weirslt".to_vec());
    let outcome = proxy.acquire(1, true, 2);
    assert_eq!((outcome.reset, outcome.granted), (true, 0));
    assert_eq!(proxy.table().resets, 1);
    // A slot freed meanwhile serves only requests of the same worker.
    proxy.wait(0, &[500], 3);
    assert_eq!(proxy.free(0, 1, 4), 1, "although another is earlier");
    proxy.free(0, 1, 5);
    assert!(
        proxy.notifies().is_empty(),
        "of no use to the notified worker"
    );
    let quarantine_end = 2 + TIMEOUTS.quarantine.as_millis();
    proxy.renew(0, quarantine_end - 100);
    assert_eq!(proxy.tick(1, quarantine_end - 1), 0);
    assert_eq!(proxy.tick(1, quarantine_end), 1);
}

#[test]
fn renewal_republishes_usage_after_a_reset() {
    let mut proxy = Proxy::new(2, 3);
    proxy.wait(0, &[900, 901, 902], 0);
    proxy.store.overwrite(Vec::new());
    proxy.wait(1, &[400], 1);
    // The first changes nothing: its engine has nothing to report.
    proxy.renew(0, 2);
    assert_eq!(proxy.counted(3), 3);
    let quarantine_end = 1 + TIMEOUTS.quarantine.as_millis();
    proxy.renew(0, quarantine_end);
    assert_eq!(proxy.tick(1, quarantine_end + 1), 0);
}

#[test]
fn missing_table_is_reset_by_workers_that_had_a_row() {
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
fn first_table_has_no_quarantine() {
    let mut proxy = Proxy::new(1, 1);
    assert!(!proxy.renew(0, 0).1.reset);
    assert_eq!(proxy.wait(0, &[400], 0), 1);
}

#[test]
fn stalled_worker_without_a_row_republishes_its_usage() {
    let mut proxy = Proxy::new(2, 2);
    proxy.wait(0, &[900, 901], 0);
    let long = 10 * TIMEOUTS.lease.as_millis();
    proxy.replace(1, 9);
    proxy.renew(1, long);
    assert_eq!(proxy.table().rows.len(), 1, "its row belongs to another");
    proxy.renew(0, long + 1);
    assert_eq!((proxy.table().rows.len(), proxy.counted(long + 1)), (2, 2));
}

#[test]
fn worker_with_its_old_row_reclaims_its_queue() {
    let mut proxy = Proxy::new(1, 1);
    proxy.renew(0, 0);
    let lease = TIMEOUTS.lease.as_millis();
    let mut other = Vm::new(&proxy.store, 9);
    other.worker.renew(false, at(lease));
    assert_eq!(proxy.store.take_claimed_rows(), [0, 0]);
    proxy.renew(0, 2 * lease);
    assert_eq!(proxy.store.take_claimed_rows(), [0], "the other had it");
    proxy.renew(0, 2 * lease + 60);
    assert!(proxy.store.take_claimed_rows().is_empty());
}

#[test]
fn old_clock_reading_only_denies_slots() {
    // The first reads the clock and is delayed; the second dies meanwhile, its execution still going on.
    let mut proxy = Proxy::new(2, 1);
    proxy.wait(1, &[900], 0);
    let lease_end = TIMEOUTS.lease.as_millis();
    assert_eq!(
        proxy.wait(0, &[400], lease_end - 1),
        0,
        "alive by the old reading"
    );
    assert_eq!(proxy.tick(0, lease_end), 1);
}
