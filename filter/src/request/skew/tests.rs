//! Clocks that are off, clients that lie, floods of sources; through [`read`] as in the engine.

use proptest::prelude::*;

use super::*;
use crate::request::budget::BudgetHeader;
use crate::request::deadline::{Policy, Reading, read};
use crate::request::wire::{Field, Wire};
use crate::time::{Now, Wall};

const MS: i64 = 1_000_000;
const EPOCH_NS: u64 = 1_790_000_000_000_000_000;
const BUDGET: Span = Span::from_secs(20);

fn policy() -> Policy {
    let ms = Span::from_millis;
    Policy {
        default: BUDGET,
        min: ms(10),
        max: ms(60_000),
        max_age: ms(30_000),
        skew_allowance: ms(50),
        delay_allowance: ms(250),
        finish: Span::from_secs(10),
        reserve: ms(0),
        budgets: BudgetHeader::KNOWN.to_vec(),
        trust_deadline: false,
    }
}

fn at(ms: u64) -> Now {
    Now {
        mono: Mono(ms * 1_000_000),
        wall: Wall(EPOCH_NS + ms * 1_000_000),
    }
}

/// Reading of a literal start from `source`.
fn read_literal(sources: &mut Sources, source: u64, start: &str, now: Now) -> Reading {
    let wire = Wire::pick([("x-slo-start", start.as_bytes())]);
    read(&policy(), &wire, now, Some((sources, source)))
}

/// Reading of a start from `source` that is `delta_ms` before its arrival, by its own clock.
fn stamped(sources: &mut Sources, source: u64, delta_ms: i64, now: Now) -> Reading {
    let start = now.wall.0.saturating_add_signed(-delta_ms * MS);
    read_literal(sources, source, &start.to_string(), now)
}

fn age_ms(reading: Reading) -> Option<i64> {
    reading.age.map(|age| age.as_millis() as i64)
}

/// Checks the valid ages, one for each timestamp a second apart; `None` if invalid.
#[track_caller]
fn check(deltas_ms: &[i64], ages_ms: &[Option<i64>]) {
    let mut sources = Sources::default();
    let ages = deltas_ms
        .iter()
        .enumerate()
        .map(|(second, delta)| age_ms(stamped(&mut sources, 1, *delta, at(second as u64 * 1000))));
    assert_eq!(ages.collect::<Vec<_>>(), ages_ms, "{deltas_ms:?}");
}

#[test]
fn synchronized_clock_is_not_corrected() {
    check(
        &[20, 5, 90, 3, 250],
        &[Some(20), Some(5), Some(90), Some(3), Some(250)],
    );
    // However slow the network is at times, one request came within the delay allowance.
    check(
        &[900, 250, 800, 700, 600, 2000],
        &[
            Some(900),
            Some(250),
            Some(800),
            Some(700),
            Some(600),
            Some(2000),
        ],
    );
}

#[test]
fn clock_ahead_is_corrected_from_the_first_timestamp() {
    // 30 ms ahead, with at least 10 ms of latency.
    check(&[-20, -20, 0, 30], &[Some(0), Some(0), Some(20), Some(50)]);
}

#[test]
fn clock_behind_is_corrected_after_enough_timestamps() {
    // 290 ms behind, with 5 ms of latency.
    check(
        &[295, 295, 295, 295, 305],
        &[Some(295), Some(295), Some(295), Some(250), Some(260)],
    );
}

#[test]
fn correction_is_clamped_to_the_allowance() {
    let mut sources = Sources::default();
    let readings: Vec<Reading> = (0..5)
        .map(|second| stamped(&mut sources, 1, 2000, at(second * 1000)))
        .collect();
    let clamped: Vec<bool> = readings.iter().map(|reading| reading.clamped).collect();
    assert_eq!(clamped, [false, false, false, true, true]);
    assert_eq!(age_ms(readings[4]), Some(1950));
    // A fast request shows that the rest was latency.
    let quick = stamped(&mut sources, 1, 40, at(6000));
    assert_eq!((age_ms(quick), quick.clamped), (Some(40), false));
}

#[test]
fn invalid_timestamps_do_not_update_the_estimate() {
    let minutes = 10 * 60_000;
    for nonsense in [-minutes, -51, minutes, 30_001] {
        let mut sources = Sources::default();
        for second in 0..6 {
            let reading = stamped(&mut sources, 1, nonsense, at(second * 1000));
            assert_eq!(reading.age, None, "{nonsense}");
            assert!(reading.stamped);
            assert_eq!(reading.invalid.iter().collect::<Vec<_>>(), [Field::Start]);
            assert_eq!(
                reading.deadline.unwrap().at,
                at(second * 1000).mono + BUDGET
            );
        }
        assert!(sources.is_empty(), "{nonsense}");
        assert_eq!(age_ms(stamped(&mut sources, 1, 70, at(9000))), Some(70));
    }
}

#[test]
fn timestamps_in_other_units_are_equivalent() {
    let mut sources = Sources::default();
    // 30 ms ahead.
    let stamps = [
        "1790000000.030",
        "1790000000030",
        "t=1790000000030000",
        "1790000000030000000",
    ];
    for stamp in stamps {
        assert_eq!(
            age_ms(read_literal(&mut sources, 1, stamp, at(0))),
            Some(0),
            "{stamp}"
        );
        assert_eq!(sources.len(), 1);
    }
    assert_eq!(
        age_ms(read_literal(&mut sources, 1, "1790000000.000", at(0))),
        Some(30)
    );
}

#[test]
fn window_keeps_30_s_and_drops_after_60_s() {
    let offset = |stamps: &[(u64, i64)]| {
        let mut sources = Sources::default();
        let mut last = None;
        for (second, delta_ns) in stamps {
            last = Some(sources.observe(1, *delta_ns, Mono(second * 1_000_000_000)));
        }
        last.unwrap()
    };
    let of = |min_ns, samples| Offset { min_ns, samples };
    assert_eq!(offset(&[(0, 5), (29, 9)]), of(5, 2));
    assert_eq!(offset(&[(29, 5), (59, 9)]), of(5, 2));
    assert_eq!(offset(&[(29, 5), (60, 9)]), of(9, 1));
    assert_eq!(offset(&[(0, 5), (35, 9), (60, 10)]), of(9, 2));
    assert_eq!(offset(&[(0, 5), (300, 9)]), of(9, 1));
    // Enough samples remain enough across the halves; only those in the window count.
    let four: Vec<(u64, i64)> = (0..4).map(|second| (second, 7)).collect();
    assert_eq!(offset(&[four.clone(), vec![(31, 8)]].concat()), of(7, 5));
    assert_eq!(offset(&[four, vec![(61, 8)]].concat()), of(8, 1));
    // Monotonic time does not go back; if it did, that would be another window.
    assert_eq!(offset(&[(90, 5), (10, 9)]), of(9, 1));
    assert_eq!(offset(&[(u64::MAX / 1_000_000_000, 5), (0, 9)]), of(9, 1));
}

#[test]
fn alternating_lies_gain_no_more_than_earlier_timestamps() {
    let mut sources = Sources::default();
    for round in 0..100_u64 {
        let delta_ms = if round % 2 == 0 { -50 } else { 10 };
        let reading = stamped(&mut sources, 1, delta_ms, at(round * 100));
        let gained_ms = age_ms(reading).unwrap() - delta_ms.max(0);
        assert!((0..=50).contains(&gained_ms));
    }
    // And it has harmed only itself.
    assert_eq!(age_ms(stamped(&mut sources, 2, 10, at(10_000))), Some(10));
}

#[test]
fn flood_of_sources_evicts_the_oldest() {
    let mut sources = Sources::default();
    let kept = |sources: &mut Sources, source| sources.observe(source, 5, at(1).mono).samples == 2;
    for source in 0..10_000_u64 {
        sources.observe(source, 5, at(0).mono);
        assert!(sources.len() <= SOURCES_MAX);
    }
    assert!(kept(&mut sources, 9_999));
    assert!(kept(&mut sources, 10_000 - GENERATION as u64));
    assert!(!kept(&mut sources, 10_000 - SOURCES_MAX as u64 - 1));
    assert!(sources.young.capacity().max(sources.old.capacity()) < 2 * GENERATION + 2);
}

#[test]
fn source_seen_again_survives_a_flood() {
    let mut sources = Sources::default();
    sources.observe(u64::MAX, -7, at(0).mono);
    for source in 0..20_000_u64 {
        sources.observe(source, 5, at(1).mono);
        if source % (GENERATION as u64 - 1) == 0 {
            assert_eq!(sources.observe(u64::MAX, 3, at(2).mono).min_ns, -7);
        }
    }
}

/// Source, time before arrival, and time since the previous one.
fn words() -> impl Strategy<Value = Vec<(u64, i64, u64)>> {
    let delta_ms = prop_oneof![
        6 => -50..400_i64,
        2 => -100..40_000_i64,
        1 => -1_000_000_000..1_000_000_000_i64,
    ];
    // Occasionally enough new sources to turn the table over.
    let source = prop_oneof![9 => 0..4_u64, 1 => Just(u64::MAX)];
    prop::collection::vec((source, delta_ms, 0..5_000_u64), 1..60)
}

proptest! {
    /// For any timestamps: compared with the timestamp alone, a deadline moves by at most the skew allowance,
    /// either way; and an invalid timestamp leaves the whole budget.
    #[test]
    fn correction_is_bounded(words in words()) {
        let mut sources = Sources::default();
        let mut ms = 0;
        for (source, delta_ms, pause_ms) in words {
            ms += pause_ms;
            let now = at(ms);
            let with = stamped(&mut sources, source, delta_ms, now);
            let wire_start = now.wall.0.saturating_add_signed(-delta_ms * MS).to_string();
            let wire = Wire::pick([("x-slo-start", wire_start.as_bytes())]);
            let without = read(&policy(), &wire, now, None);
            prop_assert_eq!(with.age.is_some(), without.age.is_some());
            prop_assert_eq!(with.invalid, without.invalid);
            match (with.age, without.age) {
                (Some(with), Some(without)) => prop_assert!(with.abs_diff(without) <= policy().skew_allowance),
                _ => prop_assert_eq!(with.deadline.unwrap().at, now.mono + BUDGET),
            }
            if let (Ok(with), Ok(without)) = (with.deadline, without.deadline) {
                let allowance = policy().skew_allowance.as_nanos();
                prop_assert!(with.at.0.abs_diff(without.at.0) <= allowance);
            }
        }
    }

    /// A request gets what it would get if only its own source had sent timestamps since some moment: others
    /// never move it, they can only evict its source.
    #[test]
    fn sources_do_not_affect_each_other(words in words()) {
        let mut shared = Sources::default();
        let mut own: Vec<(u64, i64, Now)> = Vec::new();
        let (mut ms, mut stranger, mut flooded) = (0, 1_000_u64, false);
        for (source, delta_ms, pause_ms) in words {
            ms += pause_ms;
            let now = at(ms);
            if source == u64::MAX {
                // Many sources, each with the worst timestamps.
                for round in 0..GENERATION as u64 + 9 {
                    stranger += 1;
                    stamped(&mut shared, stranger, if round % 2 == 0 { -50 } else { 29_000 }, now);
                }
                flooded = true;
                continue;
            }
            let reading = stamped(&mut shared, source, delta_ms, now);
            own.push((source, delta_ms, now));
            let mine: Vec<_> = own.iter().filter(|(other, _, _)| *other == source).collect();
            let alone = |since: usize| {
                let mut sources = Sources::default();
                let readings = mine[since..].iter().map(|(_, delta, now)| stamped(&mut sources, source, *delta, *now));
                readings.last()
            };
            if flooded {
                prop_assert!((0..mine.len()).any(|since| alone(since) == Some(reading)));
            } else {
                prop_assert_eq!(alone(0), Some(reading), "nothing is forgotten without a flood");
            }
        }
    }

    /// The same for any allowances and any numbers, even those that a reading never passes on.
    #[test]
    fn arbitrary_numbers_are_handled(stamps in prop::collection::vec((any::<i64>(), any::<u64>()), 1..20), delay_ns: u64, allowance_ns: u64) {
        let mut sources = Sources::default();
        for (delta_ns, at_ns) in stamps {
            let offset = sources.observe(1, delta_ns, Mono(at_ns));
            prop_assert!(offset.min_ns <= delta_ns);
            let allowance = Span::from_nanos(allowance_ns);
            let correction = offset.correction(Span::from_nanos(delay_ns), allowance);
            prop_assert!(correction.ns.unsigned_abs() <= allowance.as_nanos());
            prop_assert!(correction.ns <= 0 || offset.samples >= SAMPLES_MIN);
        }
    }
}
