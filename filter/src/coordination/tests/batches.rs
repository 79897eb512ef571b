//! Batches across workers: order of leaving, and no wait for absent workers.

use super::*;

mod any_order;

/// VMs with batches of this size.
fn batching(vms: u64, slots: u32, batch: u32) -> Proxy {
    let mut proxy = Proxy::new(vms, slots);
    proxy.batch = batch;
    (0..vms as usize).for_each(|vm| _ = proxy.renew(vm, 0));
    proxy
}

fn open(proxy: &Proxy) -> u32 {
    proxy.table().columns[0].open
}

/// Acquisition by a VM whose first request's batch window is over.
fn due(proxy: &mut Proxy, vm: usize, ms: u64) -> u32 {
    proxy.vms[vm].due = true;
    let granted = proxy.tick(vm, ms);
    proxy.vms[vm].due = false;
    granted
}

#[test]
fn incomplete_batch_does_not_leave() {
    let mut proxy = batching(2, 8, 3);
    assert_eq!(proxy.wait(0, &[500], 1), 0);
    assert_eq!(proxy.wait(1, &[600], 1), 0);
    assert_eq!(proxy.tick(0, 11), 0);
    assert!(proxy.notifies().is_empty(), "none may leave");
    // The third closes it; the most urgent goes first, wherever it waits.
    assert_eq!(proxy.wait(1, &[700], 12), 0);
    assert_eq!(proxy.notifies(), [0]);
    assert_eq!(proxy.acquire(0, false, 13).granted, 1);
    assert_eq!(proxy.notifies(), [1], "with it leave the others");
    assert_eq!(proxy.acquire(1, false, 14).granted, 2);
    assert_eq!((open(&proxy), proxy.notifies()), (0, vec![]));
}

#[test]
fn workers_of_a_closed_batch_are_notified_in_order() {
    let mut proxy = batching(4, 8, 3);
    let mut of = |vm, deadlines: &[u64]| proxy.wait(vm, deadlines, 1);
    assert_eq!(of(0, &[500]), 0);
    assert_eq!(of(1, &[900]), 0);
    assert_eq!(of(2, &[600, 700]), 0);
    assert_eq!(
        proxy.notifies(),
        [0],
        "workers behind it are notified once it has left"
    );
    assert_eq!(proxy.acquire(0, false, 2).granted, 1);
    assert_eq!(proxy.notifies(), [2]);
    assert_eq!(proxy.acquire(2, false, 2).granted, 2);
    assert_eq!(
        (open(&proxy), proxy.notifies()),
        (0, vec![]),
        "1 waits for its batch to fill"
    );
    // A worker that frees a slot without waiting requests notifies those that may leave.
    let mut proxy = batching(4, 3, 3);
    proxy.vms[3].taken = 3;
    proxy.acquire(3, false, 0);
    (0..3).for_each(|vm| _ = proxy.wait(vm, &[900 - 100 * vm as u64], 1));
    assert_eq!(open(&proxy), 0, "closed when there is a slot");
    proxy.free(3, 2, 2);
    assert_eq!((open(&proxy), proxy.notifies()), (3, vec![1, 2]));
}

#[test]
fn expired_batch_window_releases_all_waiting() {
    let mut proxy = batching(2, 8, 5);
    proxy.wait(0, &[500, 501], 1);
    proxy.wait(1, &[600], 1);
    assert_eq!(due(&mut proxy, 0, 2), 2);
    assert_eq!((open(&proxy), proxy.notifies()), (1, vec![1]));
    assert_eq!(proxy.acquire(1, false, 3).granted, 1);
    // Without a waiting request here no window is over here.
    proxy.wait(1, &[600], 4);
    assert_eq!((due(&mut proxy, 0, 5), open(&proxy)), (0, 0));
}

#[test]
fn several_full_batches_leave_in_one_acquisition() {
    let mut proxy = batching(1, 16, 3);
    proxy.slots = 0;
    proxy.wait(0, &[1, 2, 3, 4, 5, 6, 7].map(|ms| 500 + ms), 1);
    proxy.slots = 16;
    assert_eq!(proxy.tick(0, 2), 6);
    assert_eq!(open(&proxy), 0);
}

#[test]
fn rest_of_a_batch_leaves_with_the_next_free_slots() {
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
fn open_places_of_departed_requests_are_closed() {
    // All of a batch but one leave otherwise, or their VM dies; a newcomer then waits for its batch to fill.
    for dies in [false, true] {
        let mut proxy = batching(2, 2, 4);
        assert_eq!(proxy.wait(1, &[501, 502, 503, 504], 1), 2);
        assert_eq!(open(&proxy), 2);
        let mut ms = 2;
        if dies {
            ms += 2 * TIMEOUTS.lease.as_millis();
        } else {
            proxy.vms[1].waiting.clear();
            proxy.acquire(1, false, ms);
            assert_eq!(open(&proxy), 0);
            proxy.free(1, 2, ms);
        }
        assert_eq!(proxy.wait(0, &[ms + 500], ms), 0);
        assert_eq!(open(&proxy), 0);
    }
}

#[test]
fn limited_acquisition_reports_that_more_could_leave() {
    let mut proxy = batching(1, 8, 2);
    let mut request = |taken: u32, waiting_count: u32, limit: u32| {
        let request = AcquireRequest {
            uploads: 0,
            uploads_max: None,
            start: 1,
            explores: false,
            executions: EndedExecutions::default(),
            jumps: false,
            variant: VARIANT,
            slots: 8,
            taken,
            reported: taken,
            until: at(500),
            service: Span::ZERO,
            waiting: (0..u64::from(waiting_count)).map(due_at),
            waiting_count,
            limit,
            batch: 2,
            due: None,
            tick: false,
            lanes: None,
        };
        let outcome = proxy.vms[0].worker.acquire(request, at(0));
        (outcome.granted, outcome.more)
    };
    assert_eq!(request(0, 1, 1), (0, false));
    assert_eq!(request(0, 2, 1), (1, true));
    assert_eq!(request(1, 1, 1), (1, false));
    assert_eq!(request(2, 3, u32::MAX), (2, false));
}

#[test]
fn lost_notification_delays_a_batch_by_the_grace() {
    let mut proxy = batching(2, 8, 2);
    proxy.wait(0, &[500], 1);
    assert_eq!(proxy.wait(1, &[600], 1), 0);
    assert_eq!(proxy.notifies(), [0], "and is not heard");
    assert_eq!(proxy.tick(1, 5), 0);
    assert_eq!(proxy.tick(1, 6), 1);
    assert_eq!(proxy.tick(0, 11), 1, "its place in the batch is kept");
}

#[test]
fn uncoordinated_worker_forms_its_own_batches() {
    let mut proxy = Proxy::new(1, 4);
    proxy.batch = 3;
    proxy.vms[0].worker = Worker::new(Box::new(proxy.store.clone()), 1, Scope::Worker);
    assert_eq!(proxy.wait(0, &[500, 501], 0), 0);
    assert_eq!(proxy.wait(0, &[502, 503, 504], 0), 3);
    proxy.vms[0].waiting = vec![500, 501, 502];
    assert_eq!(proxy.acquire(0, false, 1).granted, 1, "as there are slots");
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
fn plan_without_batches_releases_waiting_requests() {
    let mut proxy = batching(1, 2, 4);
    proxy.wait(0, &[500, 501, 502, 503, 504], 0);
    assert_eq!(open(&proxy), 2);
    proxy.batch = 1;
    assert_eq!(proxy.free(0, 2, 1), 2);
    assert_eq!(open(&proxy), 0);
}
