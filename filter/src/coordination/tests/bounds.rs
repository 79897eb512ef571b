//! Limits of the table: reuse, and overflow.

use proptest::prelude::*;

use super::*;

const LEASE_MS: u64 = TIMEOUTS.lease.as_millis();

#[test]
fn row_of_a_dead_worker_is_reused_after_its_executions() {
    let mut proxy = Proxy::new(1, 1);
    proxy.vms[0].until = at(2 * LEASE_MS);
    (proxy.vms[0].taken, proxy.vms[0].reported) = (1, 1);
    proxy.acquire(0, false, 0);
    for (ms, rows) in [(LEASE_MS, 2), (2 * LEASE_MS, 2), (3 * LEASE_MS, 2)] {
        proxy.replace(0, ms + 2);
        proxy.renew(0, ms);
        assert_eq!(proxy.table().rows.len(), rows, "{ms} ms");
    }
}

#[test]
fn restarts_do_not_grow_the_table() {
    let mut proxy = Proxy::new(1, 1);
    for start in 0..1000 {
        proxy.replace(0, start + 1);
        proxy.wait(0, &[u64::MAX / MS / 2], start * (LEASE_MS + 200));
    }
    assert_eq!(proxy.table().rows.len(), 1);
}

#[test]
fn worker_beyond_the_table_has_one_slot_and_is_not_notified() {
    let mut proxy = Proxy::new(ROWS_MAX as u64 + 1, 4);
    (0..ROWS_MAX).for_each(|vm| _ = proxy.renew(vm, 0));
    assert_eq!(proxy.renew(ROWS_MAX, 1).0, None);
    assert_eq!(proxy.wait(ROWS_MAX, &[400, 401], 2), 1);
    assert_eq!(
        proxy.acquire(ROWS_MAX, true, 3).granted,
        0,
        "it has its one"
    );
    assert_eq!(proxy.table().rows.len(), ROWS_MAX);
    assert_eq!(proxy.wait(0, &[500, 501, 502, 503], 4), 4);
    // Once one is gone it joins, with its usage.
    proxy.vms[ROWS_MAX].until = at(LEASE_MS + 500);
    proxy.acquire(ROWS_MAX, true, 3);
    assert!(proxy.renew(ROWS_MAX, LEASE_MS).0.is_some());
    assert_eq!(proxy.table().taken(0, at(LEASE_MS)), 1);
}

#[test]
fn variant_beyond_the_table_has_one_slot_per_worker() {
    let mut proxy = Proxy::new(1, 0);
    proxy.vms[0].waiting = vec![400, 401];
    for key in 0..COLUMNS_MAX as u64 {
        proxy.acquire_variant(0, VariantKey(1000 + key), false, at(0));
    }
    proxy.slots = 4;
    assert_eq!(proxy.acquire(0, false, 1).granted, 1);
    assert_eq!(proxy.table().columns.len(), COLUMNS_MAX);
    assert_eq!(proxy.table().column(VARIANT), None);
}

#[test]
fn unused_column_is_reused() {
    let mut proxy = Proxy::new(1, 4);
    let idle = TIMEOUTS.column_idle.as_millis();
    proxy.acquire_variant(0, VariantKey(1), false, at(0));
    proxy.vms[0].waiting = vec![u64::MAX / MS / 2];
    proxy.acquire_variant(0, VariantKey(2), false, at(0));
    proxy.acquire_variant(0, VariantKey(3), false, at(idle - 1));
    assert_eq!(proxy.table().columns.len(), 3);
    proxy.acquire_variant(0, VariantKey(4), false, at(idle));
    let keys = proxy
        .table()
        .columns
        .iter()
        .map(|column| column.key.0)
        .collect::<Vec<_>>();
    assert_eq!(keys, [4, 2, 3], "2 is still taken, 3 not idle for long");
}

#[test]
fn slot_shares_sum_to_all_slots() {
    for (workers, slots) in [(1, 5), (2, 5), (3, 5), (3, 6), (4, 4)] {
        let store = Memory::default();
        let worker = |index: u64| Worker::new(Box::new(store.clone()), index + 1, Scope::Worker);
        let mut members: Vec<Worker> = (0..workers).map(worker).collect();
        for _ in 0..2 {
            for worker in &mut members {
                worker.mark_serving();
                worker.renew(false, at(0));
            }
        }
        for variant in 0..5 {
            let granted = members
                .iter_mut()
                .map(|worker| granted_alone(worker, VariantKey(variant), slots));
            assert_eq!(
                granted.sum::<u32>(),
                slots,
                "{workers} workers, variant {variant}"
            );
        }
    }
}

#[test]
fn uncoordinated_worker_has_at_least_one_slot() {
    let store = Memory::default();
    for index in 0..3 {
        let mut worker = Worker::new(Box::new(store.clone()), index + 1, Scope::Worker);
        worker.mark_serving();
        worker.renew(false, at(0));
        assert_eq!(granted_alone(&mut worker, VARIANT, 1), 1);
        assert_eq!(granted_alone(&mut worker, VARIANT, 0), 0);
    }
}

fn granted_alone(worker: &mut Worker, variant: VariantKey, slots: u32) -> u32 {
    let request = AcquireRequest {
        uploads: 0,
        uploads_max: None,
        start: 1,
        explores: false,
        executions: EndedExecutions::default(),
        jumps: false,
        variant,
        slots,
        taken: 0,
        reported: 0,
        until: Mono(0),
        service: Span::ZERO,
        waiting: (0..100).map(due_at),
        waiting_count: 100,
        limit: u32::MAX,
        batch: 1,
        due: None,
        tick: false,
        lanes: None,
    };
    worker.acquire(request, at(0)).granted
}

/// Events of a proxy of three VMs within 10 ms.
#[derive(Debug, Clone, Copy)]
enum Event {
    Wait(usize),
    Free(usize),
    Spoil(usize, u8),
    Cut(usize),
    Nothing,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3usize).prop_map(Event::Wait),
        4 => (0..3usize).prop_map(Event::Free),
        1 => (any::<usize>(), 1..=255u8).prop_map(|(at, bits)| Event::Spoil(at, bits)),
        1 => any::<usize>().prop_map(Event::Cut),
        4 => Just(Event::Nothing),
    ]
}

proptest! {
    #[test]
    fn corrupted_table_neither_doubles_nor_loses_slots(
        events in proptest::collection::vec(event(), 1..200),
    ) {
        let mut proxy = Proxy::new(3, 3);
        let mut ms = 0;
        for event in events {
            ms += 10;
            match event {
                Event::Wait(vm) => _ = proxy.wait(vm, &[ms + 5000], ms),
                Event::Free(vm) => {
                    let any = proxy.vms[vm].taken.min(1);
                    proxy.free(vm, any, ms);
                }
                Event::Spoil(place, bits) => {
                    if let Some(mut bytes) = proxy.store.bytes() {
                        let place = place % bytes.len();
                        bytes[place] ^= bits;
                        proxy.store.overwrite(bytes);
                    }
                }
                Event::Cut(length) => {
                    if let Some(mut bytes) = proxy.store.bytes() {
                        bytes.truncate(length % bytes.len());
                        proxy.store.overwrite(bytes);
                    }
                }
                Event::Nothing => {}
            }
            (0..3).for_each(|vm| { proxy.renew(vm, ms); proxy.tick(vm, ms); });
            prop_assert!(proxy.vms.iter().map(|vm| vm.taken).sum::<u32>() <= 3);
        }
        // All executions end; the table learns it.
        for _ in 0..200 {
            ms += 10;
            (0..3).for_each(|vm| {
                proxy.vms[vm].taken = 0;
                proxy.renew(vm, ms);
                proxy.tick(vm, ms);
            });
        }
        prop_assert!(proxy.vms.iter().all(|vm| vm.waiting.is_empty()));
        (0..3).for_each(|vm| _ = proxy.free(vm, proxy.vms[vm].taken, ms));
        prop_assert_eq!(proxy.counted(ms), 0);
    }
}
