//! Runs of one variant, and their sums, beside a list of all executions.

use proptest::prelude::*;

use super::*;
use crate::coordination::lane_scan::LaneScan;

/// Mean service time.
const MEAN: Span = Span::from_millis(20);

/// Change of the runs.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Time passes, in µs.
    Pass(u64),
    /// The next execution begins, that many µs from now.
    Begin(u64),
    /// One of the executions ends, by its place in their order of starting, modulo their number.
    End(usize),
    /// One of those that began first is dropped.
    Drop,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..9000_u64).prop_map(Step::Pass),
        (0..900_u64).prop_map(Step::Begin),
        (0..99_usize).prop_map(Step::End),
        Just(Step::Drop),
    ]
}

/// Sums of a pass over all executions.
fn expected(starts: &[Mono], after: Span, now: Mono) -> LaneScan {
    let age = |began: &Mono| i128::from(now.0) - i128::from(began.0);
    let ns = |span: Span| i128::from(span.as_nanos());
    let left = |began: &Mono| (ns(MEAN) - age(began)).max(0) as u64;
    let is_ending = |began: &&Mono| (ns(after)..ns(MEAN * 2)).contains(&age(began));
    let waits = |began: &&Mono| after < Span::MAX && age(began) < ns(after);
    LaneScan {
        executing: starts.len() as u32,
        ending: starts.iter().filter(is_ending).count() as u32,
        next_ending: starts
            .iter()
            .filter(waits)
            .min()
            .map(|began| *began + after),
        rest: starts.iter().map(left).sum(),
        shortest: starts.iter().map(left).min().unwrap_or(0),
        mean: MEAN.as_nanos(),
    }
}

proptest! {
    #[test]
    fn sums_are_those_of_a_pass_over_all_executions(steps in proptest::collection::vec(step(), 1..80), after_ms in 0..50_u64) {
        let (mut runs, mut now, mut next) = (Runs::default(), at(1000), 0);
        let after = if after_ms < 45 { Span::from_millis(after_ms) } else { Span::MAX };
        for step in steps {
            match step {
                Step::Pass(us) => now = now + Span::from_micros(us),
                Step::Begin(us) => {
                    next += 1;
                    runs.begin(next, now + Span::from_micros(us));
                }
                Step::End(place) => {
                    let ordinals: Vec<u32> = runs.iter().flat_map(ordinals).collect();
                    if let Some(place) = place.checked_rem(ordinals.len()) {
                        prop_assert!(runs.end(ordinals[place]).is_some());
                        prop_assert_eq!(runs.end(ordinals[place]), None, "it has ended");
                    }
                }
                Step::Drop => {
                    let first = runs.iter().next().map(|run| run.began);
                    prop_assert_eq!(runs.drop_oldest(), first);
                }
            }
            let starts = runs.iter().flat_map(|run| vec![run.began; run.size() as usize]);
            let starts: Vec<Mono> = starts.collect();
            prop_assert!(starts.is_sorted() && runs.iter().len() <= RUNS_MAX);
            prop_assert_eq!(LaneScan::of(&runs, MEAN, after, now), expected(&starts, after, now));
        }
        runs.clear();
        prop_assert_eq!(runs, Runs::default());
    }
}

/// Ordinals of a run's executions.
fn ordinals(run: &Run) -> Vec<u32> {
    let present = (0..32).filter(|place| run.present >> place & 1 > 0);
    present.map(|place| run.first.wrapping_add(place)).collect()
}

#[test]
fn executions_that_begin_together_form_one_run() {
    let mut runs = Runs::default();
    for (ordinal, us) in [(7, 0), (8, 400), (8, 400), (9, 501), (3, 400)] {
        runs.begin(ordinal, at(0) + Span::from_micros(us));
    }
    let known: Vec<Vec<u32>> = runs.iter().map(ordinals).collect();
    assert_eq!(
        known,
        [vec![7, 8], vec![3], vec![9]],
        "3 is before the first of that run"
    );
    assert_eq!(runs.executing(), 4);
}

#[test]
fn beyond_the_maximum_no_run_is_kept() {
    let mut runs = Runs::default();
    for ordinal in 0..2 * RUNS_MAX as u32 {
        runs.begin(ordinal, at(u64::from(ordinal)));
    }
    assert_eq!(
        (runs.iter().len(), runs.executing()),
        (RUNS_MAX, RUNS_MAX as u32)
    );
    assert_eq!(runs.end(RUNS_MAX as u32), None);
    let one = Run {
        first: 99,
        present: 1,
        began: at(99),
    };
    assert!(!runs.push(one), "there is no place");
    runs.drop_oldest();
    for (run, may_follow) in [
        (
            Run {
                began: at(0),
                ..one
            },
            false,
        ),
        (Run { present: 0, ..one }, false),
        (one, true),
    ] {
        assert_eq!(runs.push(run), may_follow, "{run:?}");
    }
}
