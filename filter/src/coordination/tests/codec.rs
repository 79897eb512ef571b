//! The board's bytes: there and back, and anything else that may be found in their place.

use proptest::prelude::*;

use super::*;
use crate::coordination::lead::{Lead, Mean};
use crate::health::{Failing, Failure, Health};

fn mono() -> impl Strategy<Value = Mono> {
    any::<u64>().prop_map(Mono)
}

fn moment() -> impl Strategy<Value = Option<Mono>> {
    proptest::option::of((1..=u64::MAX).prop_map(Mono))
}

prop_compose! {
    fn health()(failing: Option<(bool, u64, u64)>, errors: u16, rounds: u8) -> Health {
        let failing = failing.map(|(errors, since, next_trial)| Failing {
            failure: if errors { Failure::Errors } else { Failure::Unreachable },
            since: Mono(since),
            next_trial: Mono(next_trial),
        });
        Health { failing, errors, rounds }
    }
}

prop_compose! {
    fn mean()(mean: u64, scatter: u64, last: u64, seen: u16, at in mono()) -> Mean {
        Mean { mean, scatter, last, seen, at }
    }
}

prop_compose! {
    fn lead()(planned: u64, alone in mean(), behind in mean(), lay: u64, usual: u64, sure: bool) -> Lead {
        Lead { planned: Duration::from_nanos(planned), alone, behind, lay, usual, sure }
    }
}

prop_compose! {
    fn column()(
        key: u64, idle_since in moment(), used_at in mono(), open: u32, sent: u32, begun: u32,
        health in health(), lead in lead(),
    ) -> Column {
        Column { key: Key(key), idle_since, used_at, open, sent, begun, health, lead }
    }
}

prop_compose! {
    fn entry()(incarnation: u64, lease in mono(), rung_at in mono(), serving: bool, held: u32) -> Entry {
        Entry { incarnation, lease, rung_at, serving, held }
    }
}

prop_compose! {
    fn cell()(taken: u32, waits: u32, until in mono(), head in moment()) -> Cell {
        Cell { taken, waits, until, head: head.map(|at| Urgency(at.0)) }
    }
}

prop_compose! {
    fn run()(column: u16, first: u32, present: u32, began in mono()) -> Run {
        Run { column, first, present, began }
    }
}

fn board() -> impl Strategy<Value = Board> {
    let tables = (0..5usize, 0..5usize).prop_flat_map(|(columns, entries)| {
        (
            proptest::collection::vec(column(), columns),
            proptest::collection::vec(entry(), entries),
            proptest::collection::vec(cell(), columns * entries),
            proptest::collection::vec(run(), 0..=columns * RUNS_MAX),
        )
    });
    let header = (any::<u32>(), mono(), any::<u64>(), (any::<u64>(), mono()));
    (header, tables).prop_map(|(header, (columns, entries, cells, runs))| {
        let (resets, settling_until, founder, poller) = header;
        Board {
            resets,
            settling_until,
            founder,
            poller,
            columns,
            entries,
            cells,
            runs,
        }
    })
}

fn bytes(board: &Board) -> Vec<u8> {
    let mut bytes = vec![1, 2, 3];
    board.write(&mut bytes);
    bytes
}

/// What was on the board that `bytes` are read into is of no account.
fn read(bytes: &[u8]) -> Result<Board, Unreadable> {
    let mut board = Board::anew(at(0), &TERMS);
    let mut other = Board::default();
    other.join(1, &[(VARIANT, Cell::default())], at(0), &TERMS);
    board.clone_from(&other);
    let read = board.read(bytes);
    if read.is_err() {
        assert_eq!(board, Board::default());
    }
    read.map(|()| board)
}

proptest! {
    #[test]
    fn what_is_written_is_read(board in board()) {
        prop_assert_eq!(read(&bytes(&board)), Ok(board));
    }

    #[test]
    fn any_bytes_are_unreadable_or_written_back_the_same(given: Vec<u8>) {
        if let Ok(board) = read(&given) {
            prop_assert_eq!(bytes(&board), given);
        }
    }

    #[test]
    fn a_changed_byte_is_noticed(board in board(), place: prop::sample::Index, bits in 1..=255u8) {
        let mut bytes = bytes(&board);
        let place = place.index(bytes.len());
        bytes[place] ^= bits;
        prop_assert_eq!(read(&bytes), Err(Unreadable));
    }

    #[test]
    fn a_cut_or_extended_board_is_unreadable(board in board(), length: prop::sample::Index) {
        let mut bytes = bytes(&board);
        let length = length.index(bytes.len());
        prop_assert_eq!(read(&bytes[..length]), Err(Unreadable));
        bytes.push(0);
        prop_assert_eq!(read(&bytes), Err(Unreadable));
    }

    #[test]
    fn with_a_checksum_that_fits_any_bytes_do_no_harm(given: Vec<u8>, flips: [(u8, u8); 4]) {
        // What a program that means harm could write: no promise but that nothing traps.
        let mut board = Board::default();
        board.join(1, &[(VARIANT, Cell::default())], at(0), &TERMS);
        let mut bytes = bytes(&board);
        let end = bytes.len();
        bytes.extend(given);
        for (place, bits) in flips {
            let place = usize::from(place) % (end - 16) + 16;
            bytes[place] ^= bits;
        }
        let sum = crate::coordination::codec::checksum(&bytes[16..]);
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
fn another_version_of_the_layout_is_unreadable() {
    let mut bytes = bytes(&Board::default());
    assert_eq!(read(&bytes), Ok(Board::default()));
    bytes[7] += 1;
    assert_eq!(read(&bytes), Err(Unreadable));
}

#[test]
fn a_board_beyond_the_limits_is_unreadable() {
    let full = |entries, columns| Board {
        entries: vec![Entry::default(); entries],
        columns: vec![Column::default(); columns],
        cells: vec![Cell::default(); entries * columns],
        ..Board::default()
    };
    assert!(read(&bytes(&full(ENTRIES_MAX, COLUMNS_MAX))).is_ok());
    assert!(read(&bytes(&full(ENTRIES_MAX + 1, 0))).is_err());
    assert!(read(&bytes(&full(0, COLUMNS_MAX + 1))).is_err());
}
