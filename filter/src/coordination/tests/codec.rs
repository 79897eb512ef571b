//! Encoding of the table: round trip, and any other bytes in its place.

use proptest::prelude::*;

use super::*;
use crate::coordination::curve::{Curve, Ends, POINTS, Point, Times};
use crate::coordination::lead::{Lead, Mean};
use crate::coordination::limit::{Limit, Phase};
use crate::health::{ErrorSources, Failure, Health, Healths, Outage};

fn mono() -> impl Strategy<Value = Mono> {
    any::<u64>().prop_map(Mono)
}

fn moment() -> impl Strategy<Value = Option<Mono>> {
    proptest::option::of((1..=u64::MAX).prop_map(Mono))
}

prop_compose! {
    fn health()(failing: Option<(bool, u64, u64)>, errors: u16, rounds: u8, serves: bool, sources: u32) -> Health {
        let failing = failing.map(|(errors, since, next_trial)| Outage {
            failure: if errors { Failure::Errors } else { Failure::Unreachable },
            since: Mono(since),
            next_trial: Mono(next_trial),
        });
        Health { failing, errors, rounds, serves, sources: ErrorSources::from_code(sources) }
    }
}

prop_compose! {
    fn mean()(mean: u64, scatter: u64, last: u64, count: u16, at in mono()) -> Mean {
        Mean { mean, scatter, last, count, at }
    }
}

prop_compose! {
    fn lead()(planned: u64, idle in mean(), early in mean(), early_wait: u64, recent_wait: u64, confirmed: bool) -> Lead {
        Lead { planned: Span::from_nanos(planned), idle, early, early_wait, recent_wait, confirmed }
    }
}

prop_compose! {
    fn times()(mean: u32, scatter: u32) -> Times {
        Times { mean, scatter }
    }
}

prop_compose! {
    fn point()(own in times(), from_end in times(), count: u16, at_ms: u32, completed_at_ms: u32) -> Point {
        Point { own, from_end, count, at_ms, completed_at_ms }
    }
}

prop_compose! {
    fn ends()(most: u32, latest: u32, under_way: u32, sent: u32, until in mono()) -> Ends {
        Ends { most, latest, under_way, sent, until }
    }
}

fn curve() -> impl Strategy<Value = Curve> {
    let points = proptest::collection::vec(point(), POINTS);
    (mono(), mono(), ends(), points).prop_map(|(turned, answered, ends, points)| Curve {
        turned,
        answered,
        ends,
        points: points.try_into().unwrap(),
    })
}

prop_compose! {
    fn limit()(
        (planned, found, trial, base, left, lost) in any::<(u32, u32, u32, u32, u32, u32)>(),
        (samples, cut_off, slow, sum) in any::<(u16, u16, u16, u64)>(),
        phase in prop_oneof![Just(Phase::Rest), Just(Phase::Base), Just(Phase::Trial)],
        since in mono(), ended_at in mono(), next_trial in mono(),
        (fruitless, halvings, falls, late) in any::<(u8, u8, bool, bool)>(),
    ) -> Limit {
        Limit {
            planned, found, trial, phase, samples, cut_off, slow, sum, base, left, since, ended_at, lost, next_trial, fruitless,
            halvings, falls, late,
        }
    }
}

prop_compose! {
    fn column()(
        key: u64, idle_since in moment(), full_since in moment(), used_at in mono(), open: u32, sent: u32, begun: u32,
        health in (health(), health()), lead in lead(), curve in curve(), limit in limit(),
    ) -> VariantColumn {
        let health = Healths { rest: health.0, grpc: health.1 };
        VariantColumn { key: VariantKey(key), idle_since, full_since, used_at, open, sent, begun, health, lead, curve, limit }
    }
}

prop_compose! {
    fn row()(incarnation: u64, lease in mono(), notified_at in mono(), serving: bool, held: u32) -> WorkerRow {
        WorkerRow { incarnation, lease, notified_at, serving, held }
    }
}

prop_compose! {
    fn usage()(taken: u32, waiting_count: u32, until in mono(), head in moment(), uploads: u32) -> Usage {
        Usage { taken, waiting_count, until, head: head.map(|at| Urgency(at.0)), uploads }
    }
}

prop_compose! {
    fn run()(first: u32, present in 1_u32.., began in mono()) -> Run {
        Run { first, present, began }
    }
}

fn runs() -> impl Strategy<Value = Runs> {
    proptest::collection::vec(run(), 0..=RUNS_MAX).prop_map(|mut list| {
        list.sort_by_key(|run| run.began);
        Runs::of(list)
    })
}

fn table() -> impl Strategy<Value = SlotTable> {
    let tables = (0..5usize, 0..5usize).prop_flat_map(|(columns, rows)| {
        (
            proptest::collection::vec(column(), columns),
            proptest::collection::vec(row(), rows),
            proptest::collection::vec(usage(), columns * rows),
            proptest::collection::vec(runs(), columns),
        )
    });
    let header = (any::<u32>(), mono(), any::<u64>(), (any::<u64>(), mono()));
    (header, tables).prop_map(|(header, (columns, rows, usages, runs))| {
        let (resets, quarantine_until, process_id, poller) = header;
        SlotTable {
            resets,
            quarantine_until,
            process_id,
            poller,
            columns,
            rows,
            usages,
            runs,
        }
    })
}

fn bytes(table: &SlotTable) -> Vec<u8> {
    let mut bytes = vec![1, 2, 3];
    table.write(&mut bytes);
    bytes
}

/// Reads into a used table, whose contents must not matter.
fn read(bytes: &[u8]) -> Result<SlotTable, Unreadable> {
    let mut table = SlotTable::after_reset(at(0), &TIMEOUTS);
    let mut other = SlotTable::default();
    other.join(1, &[(VARIANT, Usage::default())], at(0), &TIMEOUTS);
    table.clone_from(&other);
    let read = table.read(bytes);
    if read.is_err() {
        assert_eq!(table, SlotTable::default());
    }
    read.map(|()| table)
}

proptest! {
    #[test]
    fn written_table_is_read_back(table in table()) {
        prop_assert_eq!(read(&bytes(&table)), Ok(table));
    }

    #[test]
    fn table_kept_without_bytes_is_as_if_read(table in table(), zeros in 0..4_u8) {
        let mut table = table;
        if let Some(column) = table.columns.first_mut().filter(|_| zeros & 1 > 0) {
            column.idle_since = Some(Mono(0));
            column.full_since = Some(Mono(0));
        }
        if let Some(usage) = table.usages.first_mut().filter(|_| zeros & 2 > 0) {
            usage.head = Some(Urgency(0));
        }
        let mut kept = table.clone();
        kept.round();
        prop_assert_eq!(read(&bytes(&table)), Ok(kept));
    }

    #[test]
    fn readable_bytes_are_written_back_unchanged(given: Vec<u8>) {
        if let Ok(table) = read(&given) {
            prop_assert_eq!(bytes(&table), given);
        }
    }

    #[test]
    fn changed_byte_is_unreadable(table in table(), place: prop::sample::Index, bits in 1..=255u8) {
        let mut bytes = bytes(&table);
        let place = place.index(bytes.len());
        bytes[place] ^= bits;
        prop_assert_eq!(read(&bytes), Err(Unreadable));
    }

    #[test]
    fn truncated_or_extended_table_is_unreadable(table in table(), length: prop::sample::Index) {
        let mut bytes = bytes(&table);
        let length = length.index(bytes.len());
        prop_assert_eq!(read(&bytes[..length]), Err(Unreadable));
        bytes.push(0);
        prop_assert_eq!(read(&bytes), Err(Unreadable));
    }

    #[test]
    fn arbitrary_bytes_with_valid_checksum_do_not_panic(given: Vec<u8>, flips: [(u8, u8); 4]) {
        // Bytes of a malicious program: the only guarantee is that nothing traps.
        let mut table = SlotTable::default();
        table.join(1, &[(VARIANT, Usage::default())], at(0), &TIMEOUTS);
        let mut bytes = bytes(&table);
        let end = bytes.len();
        bytes.extend(given);
        for (place, bits) in flips {
            let place = usize::from(place) % (end - 16) + 16;
            bytes[place] ^= bits;
        }
        let sum = crate::coordination::checksum::checksum(&bytes[16..]);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        let mut proxy = Proxy::new(2, 1);
        proxy.store.overwrite(bytes);
        for ms in 0..20 {
            proxy.wait(0, &[500 + ms], ms);
            proxy.tick(1, ms);
            proxy.renew(1, ms);
        }
    }
}

#[test]
fn other_layout_version_is_unreadable() {
    let mut bytes = bytes(&SlotTable::default());
    assert_eq!(read(&bytes), Ok(SlotTable::default()));
    bytes[7] += 1;
    assert_eq!(read(&bytes), Err(Unreadable));
}

#[test]
fn table_beyond_the_limits_is_unreadable() {
    let full = |rows, columns| SlotTable {
        rows: vec![WorkerRow::default(); rows],
        columns: vec![VariantColumn::default(); columns],
        usages: vec![Usage::default(); rows * columns],
        runs: vec![Runs::default(); columns],
        ..SlotTable::default()
    };
    assert!(read(&bytes(&full(ROWS_MAX, COLUMNS_MAX))).is_ok());
    assert!(read(&bytes(&full(ROWS_MAX + 1, 0))).is_err());
    assert!(read(&bytes(&full(0, COLUMNS_MAX + 1))).is_err());
}
