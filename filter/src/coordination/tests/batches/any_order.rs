//! Batches under any events of their VMs: at each acquisition only requests that may leave do so, and all
//! of them. Then, without notifications and with dead VMs still counted as alive, every request leaves in
//! the end.

use proptest::prelude::*;

use super::*;

/// Maximum number of ticks in a row at which a VM may be passed over: the first that finds a slot free, and
/// one at which a more urgent VM has come too and was held off (docs/explanation/slot-table.md, promise 3).
const PASSED_OVER_MAX: u32 = 2;
/// Maximum number of events in a case.
const EVENTS_MAX: usize = 120;
/// Number of ticks after which none waits: among so many in a row one request leaves.
const TICKS_MAX: u32 = (PASSED_OVER_MAX + 1) * EVENTS_MAX as u32;

/// Events of a proxy within 10 ms.
#[derive(Debug, Clone, Copy)]
enum Event {
    Wait(usize, u64),
    Free(usize),
    Leave(usize),
    Notified(usize),
    Die(usize),
    Nothing,
}

fn event() -> impl Strategy<Value = Event> {
    let vm = || any::<prop::sample::Index>().prop_map(|vm| vm.index(1 << 16));
    prop_oneof![
        6 => (vm(), 1..2000u64).prop_map(|(vm, left)| Event::Wait(vm, left)),
        4 => vm().prop_map(Event::Free),
        2 => vm().prop_map(Event::Leave),
        4 => vm().prop_map(Event::Notified),
        1 => vm().prop_map(Event::Die),
        6 => Just(Event::Nothing),
    ]
}

/// An acquisition and its invariants: no request leaves but from a closed batch and in order, none stays
/// that may leave, no batch stays open without waiting requests, and the table matches the VM's usage.
/// Returns the requests that left.
fn fair(proxy: &mut Proxy, vm: usize, tick: bool, ms: u64) -> Result<Vec<u64>, TestCaseError> {
    let before = proxy.table();
    let column = before.column(VARIANT);
    let open = |table: &SlotTable| table.column(VARIANT).map_or(0, |at| table.columns[at].open);
    let started = proxy.vms[vm].started;
    let own = |table: &SlotTable| {
        let mut rows = table.rows.iter();
        let own = rows.position(|row| row.incarnation == started);
        own.unwrap_or(usize::MAX)
    };
    let elsewhere = column.map_or(0, |column| {
        before.other_workers(own(&before), column, at(ms)).waiting
    });
    let mut left = proxy.vms[vm].waiting.clone();
    let waiting = elsewhere + left.len() as u32;
    let granted = proxy.acquire(vm, tick, ms).granted;
    left.truncate(granted as usize);
    let full = waiting.saturating_sub(open(&before)) / proxy.batch * proxy.batch;
    prop_assert!(
        proxy.vms[vm].due || granted <= open(&before) + full,
        "{granted} of {waiting} left, {} were to",
        open(&before),
    );
    if let Some(latest) = left.last() {
        let first = first_elsewhere(proxy, &before, vm, true, ms);
        prop_assert!(
            first.is_none_or(|first| due_at(*latest) <= first),
            "{latest} left before {first:?}"
        );
    }
    let after = proxy.table();
    let column = after.column(VARIANT);
    let still = column.map_or(0, |column| after.waiting(column, at(ms)));
    prop_assert!(
        open(&after) <= still,
        "{} may leave of {still}",
        open(&after)
    );
    let may_leave = proxy.vms[vm].due || open(&after) > 0 || still >= proxy.batch;
    if may_leave && proxy.counted(ms) < proxy.slots {
        let first = first_elsewhere(proxy, &after, vm, false, ms);
        let mut head = proxy.vms[vm].waiting.iter().map(|head| due_at(*head));
        let stays = head
            .next()
            .filter(|head| first.is_none_or(|first| *head <= first));
        prop_assert_eq!(stays, None, "it was its turn");
    }
    let usage = after.usage(own(&after), column.unwrap_or(usize::MAX));
    let (has, waiting_count) = (&proxy.vms[vm], proxy.vms[vm].waiting.len() as u32);
    let head = has.waiting.first().map(|head| due_at(*head));
    prop_assert_eq!((usage.taken, usage.head), (has.taken, head));
    prop_assert!(usage.waiting_count == waiting_count || proxy.batch == 1);
    let taken: u32 = proxy.vms.iter().map(|vm| vm.taken).sum();
    prop_assert!(taken <= proxy.slots, "{taken} taken");
    Ok(left)
}

/// Most urgent request of other live VMs in that table. `with_right`: without those of VMs that were
/// notified, had their grace and have not come.
fn first_elsewhere(
    proxy: &Proxy,
    table: &SlotTable,
    vm: usize,
    with_right: bool,
    ms: u64,
) -> Option<Urgency> {
    let kept_away = |row: &WorkerRow| {
        let one = |vm: &&Vm| vm.started == row.incarnation;
        let came = proxy.vms.iter().find(one).map_or(Mono(0), |one| one.came);
        let was_notified = row.notified_at != Mono(0) && came <= row.notified_at;
        was_notified && at(ms).since(row.notified_at) >= TIMEOUTS.grace
    };
    let column = table.column(VARIANT)?;
    let others = table.rows.iter().enumerate().filter(|(_, row)| {
        let other = row.incarnation != proxy.vms[vm].started;
        other && row.is_alive(at(ms)) && !(with_right && kept_away(row))
    });
    others
        .filter_map(|(index, _)| table.usage(index, column).head)
        .min()
}

/// Resets the count of VMs that were not passed over: a VM is passed over only if it waits although a slot
/// is free all the time, while no request ahead of it leaves.
fn reset_passed_over(proxy: &mut Proxy, left: &[u64], ms: u64) {
    let full = proxy.counted(ms) >= proxy.slots;
    for one in &mut proxy.vms {
        let behind = |head: &u64| left.first().is_some_and(|left| left <= head);
        if full || one.waiting.first().is_none_or(behind) {
            one.passed_over = 0;
        }
    }
}

/// Ticks every VM in order, with its batch window over; executions end at once, and no notification is
/// received. Returns the requests that left, in order.
fn tick_all(proxy: &mut Proxy, ms: u64) -> Result<Vec<u64>, TestCaseError> {
    let mut all = Vec::new();
    for vm in 0..proxy.vms.len() {
        proxy.renew(vm, ms);
        proxy.vms[vm].due = true;
        let left = fair(proxy, vm, true, ms)?;
        proxy.vms[vm].passed_over += 1;
        reset_passed_over(proxy, &left, ms);
        prop_assert!(proxy.vms[vm].passed_over <= PASSED_OVER_MAX, "passed over");
        all.extend(left);
        proxy.vms[vm].taken = 0;
        let left = fair(proxy, vm, false, ms)?;
        reset_passed_over(proxy, &left, ms);
        all.extend(left);
    }
    Ok(all)
}

#[test]
fn alternating_deadlines_delay_a_third_worker_without_notifications() {
    let mut proxy = batching(3, 2, 2);
    proxy.slots = 0;
    proxy.wait(0, &[501, 503, 505, 507, 509], 1);
    proxy.wait(1, &[601, 602], 1);
    proxy.wait(2, &[502, 504, 506, 508], 1);
    proxy.slots = 2;
    // Each releases one request per tick, because its next comes after the other's: a slot stays free, but the
    // order is kept.
    let mut ticks = (1..).map(|count| tick_all(&mut proxy, 10 * count).unwrap());
    let mut of_ticks = |count| ticks.by_ref().take(count).collect::<Vec<_>>();
    assert_eq!(
        of_ticks(4),
        [[501, 502], [503, 504], [505, 506], [507, 508]]
    );
    assert_eq!(of_ticks(1), [[509, 601, 602]]);
}

proptest! {
    #[test]
    fn batches_hold_and_every_request_leaves_for_any_events(
        (vms, slots, batch) in (2..=4u64, 1..=6u32, 1..=4u32),
        events in proptest::collection::vec(event(), 1..EVENTS_MAX),
    ) {
        let mut proxy = batching(vms, slots, batch);
        let (mut ms, mut starts) = (0, 100);
        for event in events {
            let vm = match event {
                Event::Wait(vm, _) | Event::Free(vm) | Event::Leave(vm) | Event::Notified(vm)
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
                Event::Notified(_) => _ = fair(&mut proxy, vm, true, ms)?,
                Event::Die(_) => {
                    // Its executions end with it here; the table cannot know that yet.
                    starts += 1;
                    proxy.replace(vm, starts);
                }
                Event::Nothing => ms += 8,
            }
            for vm in 0..vms as usize {
                proxy.renew(vm, ms);
            }
        }
        // No notification is received any more, and dead VMs still count as alive.
        let mut ticks = 0;
        while proxy.vms.iter().any(|vm| !vm.waiting.is_empty()) && ticks < TICKS_MAX {
            (ms, ticks) = (ms + 10, ticks + 1);
            tick_all(&mut proxy, ms)?;
        }
        prop_assert!(proxy.vms.iter().all(|vm| vm.waiting.is_empty()));
        ms += 2 * TIMEOUTS.lease.as_millis();
        (0..vms as usize).for_each(|vm| _ = proxy.free(vm, proxy.vms[vm].taken, ms));
        prop_assert_eq!(proxy.counted(ms), 0);
        prop_assert_eq!(proxy.table().columns.iter().map(|column| column.open).max().unwrap_or(0), 0);
    }
}
