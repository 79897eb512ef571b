//! Service times by group of all workers: encoding, exchange in any order, and any other bytes in their place.

use proptest::prelude::*;

use super::*;
use crate::coordination::checksum::checksum;
use crate::routing::group_sums::{GroupSums, Sums};
use crate::routing::group_times::Group;
use crate::size::Size;
use crate::waiting::class::ClassId;

/// One execution: its end in ms, its size and ratio.
fn one(ms: u64, bytes: u64, ratio: f64) -> GroupSums {
    let mut sums = GroupSums::default();
    sums.expire(at(ms));
    let group = Group {
        class: ClassId((bytes % 8) as u8),
        size: Size::of(bytes),
    };
    sums.record(group, true, &Sums::of(ratio, true));
    sums
}

fn count(sums: &GroupSums) -> u32 {
    let sizes = sums.sizes();
    sizes.iter().map(|sums| sums.count).sum()
}

fn worker<S: Store + Clone + 'static>(store: &S, incarnation: u64) -> Worker {
    Worker::new(Box::new(store.clone()), incarnation, Scope::Proxy)
}

fn share(worker: &mut Worker, own: &GroupSums, ms: u64) -> (bool, u32) {
    worker.share_groups([(VARIANT, own)].into_iter(), at(ms))
}

/// Executions at times of up to 20 s, by variant.
fn executions() -> impl Strategy<Value = Vec<(u64, GroupSums)>> {
    let each = (0..6_u64, 0..20_000_u64, 0..5_000_000_u64, 0.0..5000.0_f64);
    let each = each.prop_map(|(variant, ms, bytes, ratio)| (variant, one(ms, bytes, ratio)));
    prop::collection::vec(each, 0..40)
}

fn table(executions: &[(u64, GroupSums)]) -> GroupTable {
    let mut table = GroupTable::default();
    for (variant, one) in executions {
        table.add(VariantKey(*variant), one);
    }
    table
}

proptest! {
    #[test]
    fn table_is_read_as_written_and_no_changed_byte_is(
        executions in executions(), at: prop::sample::Index, with in 1..=255_u8,
    ) {
        let (written, mut bytes) = (table(&executions), Vec::new());
        written.write(&mut bytes);
        let mut read = GroupTable::default();
        prop_assert_eq!(read.read(&bytes), Ok(()));
        prop_assert_eq!(&read, &written);
        *at.get_mut(&mut bytes) ^= with;
        prop_assert_eq!(read.read(&bytes), Err(Unreadable));
        prop_assert_eq!(read, written, "it stays");
    }

    /// Random bytes, also with a checksum that fits, are refused or read; what is read can be used.
    #[test]
    fn random_bytes_do_no_harm(
        executions in executions(), random in prop::collection::vec(any::<u8>(), 0..400),
        from: prop::sample::Index, fits: bool, ms in 0..u64::MAX / MS - 1000,
    ) {
        let mut bytes = Vec::new();
        table(&executions).write(&mut bytes);
        let from = from.index(bytes.len());
        for (byte, random) in bytes.iter_mut().skip(from.max(16)).zip(&random) {
            *byte = *random;
        }
        if fits {
            let sum = checksum(&bytes[16..]).to_le_bytes();
            bytes[8..16].copy_from_slice(&sum);
        }
        let mut table = GroupTable::default();
        if table.read(&bytes).is_ok() {
            table.expire(at(ms));
            table.add(VARIANT, &one(ms, 7, 1.0));
            let sums = table.get(VARIANT).unwrap();
            prop_assert!(sums.windows().iter().flatten().all(Sums::is_sound));
        }
        prop_assert!(table.read(&random).is_err());
    }

    /// Every measurement counts once at every worker, in whatever order they share, however often they lose the swap.
    #[test]
    fn each_measurement_counts_once_at_every_worker(
        events in prop::collection::vec((0..4_usize, 0..3_u32, 0..2 * TRIES_MAX), 1..60),
    ) {
        let store = Memory::default();
        let mut workers: Vec<_> = (1..=4).map(|of| (worker(&store, of), GroupSums::default())).collect();
        let mut all = 0;
        for (index, measured, lost) in events {
            let (worker, own) = &mut workers[index];
            for _ in 0..measured {
                own.add(&one(0, 1000, 1.0));
            }
            all += measured;
            store.fail_group_swaps(lost);
            if share(worker, own, 0).0 {
                own.clear();
            }
            store.fail_group_swaps(0);
        }
        for _ in 0..2 {
            for (worker, own) in &mut workers {
                prop_assert!(share(worker, own, 0).0);
                own.clear();
            }
        }
        for (worker, _) in &workers {
            prop_assert_eq!(worker.groups().get(VARIANT).map_or(0, count), all);
        }
    }

    #[test]
    fn sums_changed_in_place_are_those_read_from_bytes(
        events in prop::collection::vec((0..3_usize, 0..2_000_u64, 0..5_000_000_u64, 0.0..5000.0_f64), 1..40),
    ) {
        let (bytes, in_place) = (Memory::default(), InPlace::default());
        let mut of_bytes = [1, 2, 3].map(|of| worker(&bytes, of));
        let mut of_in_place = [1, 2, 3].map(|of| worker(&in_place, of));
        let mut ms = 0;
        for (index, later, size, ratio) in events {
            ms += later;
            let own = one(ms, size, ratio);
            let (one_worker, other) = (&mut of_bytes[index], &mut of_in_place[index]);
            prop_assert_eq!(share(one_worker, &own, ms), share(other, &own, ms));
            prop_assert_eq!(&*one_worker.groups(), &*other.groups());
        }
    }
}

#[test]
fn clock_set_back_or_ahead_leaves_no_time_that_stays() {
    // Moments of two workers' measurements in ms, and how many of them count for the second.
    for (first, second, expected) in [
        (60_000, 60_000, 2),
        (60_000, 64_000, 2),
        (60_000, 90_000, 1),
        (64_000, 60_000, 2),
        (90_000, 60_000, 1),
        (u64::MAX / MS - 1000, 0, 1),
    ] {
        let store = Memory::default();
        let [mut one_worker, mut other] = [1, 2].map(|of| worker(&store, of));
        share(&mut one_worker, &one(first, 1000, 1.0), first);
        share(&mut other, &one(second, 1000, 1.0), second);
        let known = other.groups().get(VARIANT).map_or(0, count);
        assert_eq!(known, expected, "{first} {second}");
    }
}

#[test]
fn full_table_takes_no_further_variant_until_one_is_too_old() {
    let mut table = GroupTable::default();
    for key in 0..RECORDS_MAX as u64 {
        assert_eq!(table.add(VariantKey(key), &one(0, 1000, 1.0)), Some(true));
    }
    let further = VariantKey(RECORDS_MAX as u64);
    assert_eq!(table.add(further, &one(0, 1000, 1.0)), None);
    assert_eq!(table.add(further, &GroupSums::default()), Some(false));
    let mut bytes = Vec::new();
    table.write(&mut bytes);
    assert_eq!(GroupTable::default().read(&bytes), Ok(()));
    table.expire(at(20_000));
    assert_eq!(table.add(further, &one(20_000, 1000, 1.0)), Some(true));
}

#[test]
fn swaps_that_are_lost_leave_the_measurements_to_the_next_renewal() {
    let store = Memory::default();
    let [mut first, mut second] = [1, 2].map(|of| worker(&store, of));
    let own = one(0, 1000, 1.0);
    store.fail_group_swaps(TRIES_MAX);
    assert_eq!(share(&mut first, &own, 0), (false, TRIES_MAX));
    store.fail_group_swaps(TRIES_MAX - 1);
    assert_eq!(share(&mut first, &own, 0), (true, TRIES_MAX - 1));
    assert_eq!(share(&mut second, &GroupSums::default(), 0), (true, 0));
    assert_eq!(second.groups().get(VARIANT).map(count), Some(1));
}
