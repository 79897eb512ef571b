//! Waiting counts: reports to others, frequency of writes, and order in the table.

use super::*;

/// Deadlines of `count` requests, one after another from `ms`.
fn some(count: u64, ms: u64) -> Vec<u64> {
    (ms..ms + count).collect()
}

#[test]
fn tier_precedes_deadline() {
    let late = Mono(u64::MAX);
    assert_eq!(Urgency::of(0, at(5)).0, at(5).0);
    assert!(Urgency::of(0, late) < Urgency::of(1, Mono(0)));
    assert!(Urgency::of(1, at(5)) < Urgency::of(1, at(6)));
    assert!(Urgency::of(14, late) < Urgency::of(15, Mono(0)));
    assert_eq!(Urgency::of(200, at(5)), Urgency::of(15, at(5)));
}

#[test]
fn acquisition_reports_usage_of_others() {
    let mut proxy = Proxy::new(3, 1);
    let outcome = |proxy: &mut Proxy, vm| proxy.acquire(vm, false, 2).others;
    proxy.wait(0, &some(1, 900), 0);
    proxy.wait(1, &some(3, 500), 1);
    proxy.wait(2, &some(2, 600), 1);
    for (vm, taken, waiting) in [(0, 0, 5), (1, 1, 2), (2, 1, 3)] {
        let others = outcome(&mut proxy, vm);
        assert_eq!(
            others,
            OtherWorkers {
                taken,
                waiting,
                uploads: 0
            },
            "{vm}"
        );
    }
    assert_eq!(
        proxy.vms[1].worker.waiting(VARIANT, at(2)),
        5,
        "its own too"
    );
    assert_eq!(proxy.vms[1].worker.waiting(VariantKey(1), at(2)), 0);
    // Requests at a dead VM wait no more, but its executions go on.
    let lease_end = TIMEOUTS.lease.as_millis();
    proxy.vms[0].until = at(2 * lease_end);
    proxy.acquire(0, false, 3);
    proxy.renew(1, lease_end - 1);
    let others = proxy.acquire(1, false, lease_end + 3).others;
    assert_eq!(
        others,
        OtherWorkers {
            uploads: 0,
            taken: 1,
            waiting: 0
        }
    );
    assert_eq!(proxy.vms[1].worker.waiting(VARIANT, at(lease_end + 3)), 3);
}

#[test]
fn without_a_table_others_have_no_usage() {
    let store = Memory::default();
    let mut members: Vec<Worker> = (1..3)
        .map(|index| Worker::new(Box::new(store.clone()), index, Scope::Worker))
        .collect();
    for worker in &mut members {
        let request = AcquireRequest {
            uploads: 0,
            uploads_max: None,
            start: 1,
            explores: false,
            executions: EndedExecutions::default(),
            jumps: false,
            variant: VARIANT,
            slots: 1,
            taken: 0,
            reported: 0,
            until: Mono(0),
            service: Span::ZERO,
            waiting: (0..9).map(due_at),
            waiting_count: 9,
            limit: u32::MAX,
            batch: 1,
            due: None,
            tick: false,
            lanes: None,
        };
        assert_eq!(
            worker.acquire(request, at(0)).others,
            OtherWorkers::default()
        );
        worker.renew(false, at(0));
    }
    assert_eq!(members[1].waiting(VARIANT, at(0)), 16, "for the gauge");
}

#[test]
fn waiting_count_is_written_beyond_its_tolerance() {
    // Count in the table, actual count, and whether that alone is written.
    let cases = [
        (1, 9, false),
        (1, 10, true),
        (10, 2, false),
        (10, 1, true),
        (100, 125, false),
        (100, 126, true),
        (100, 74, true),
    ];
    for (before, after, written) in cases {
        let mut proxy = Proxy::new(2, 1);
        proxy.wait(0, &[100], 0);
        proxy.wait(1, &some(before, 300), 0);
        let bytes = proxy.store.bytes();
        proxy.vms[1].waiting = some(after, 300);
        proxy.tick(1, 1);
        assert_eq!(proxy.store.bytes() != bytes, written, "{before} → {after}");
        let waits = if written { after } else { before };
        assert_eq!(u64::from(proxy.table().usage(1, 0).waiting_count), waits);
        proxy.wait(1, &[200], 2);
        let waits = u64::from(proxy.table().usage(1, 0).waiting_count);
        assert_eq!(waits, after + 1, "with another head");
    }
}

#[test]
fn waiting_count_is_written_exactly_with_batches() {
    let mut proxy = Proxy::new(2, 1);
    proxy.wait(0, &[100], 0);
    proxy.batch = 4;
    proxy.wait(1, &some(1, 300), 0);
    proxy.wait(1, &some(1, 301), 0);
    assert_eq!(proxy.table().usage(1, 0).waiting_count, 2);
}
