//! Tests of the estimator of service times.

use super::*;
use proptest::prelude::*;

const PLANNED: Span = Span::from_millis(40);

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

#[test]
fn prediction_changes_after_enough_samples() {
    let mut observed = ServiceTimeEstimator::default();
    for n in 0..SAMPLES_MIN {
        let plan_holds = ServiceTime::exactly(PLANNED);
        assert_eq!(
            observed.predict(PLANNED, None, Mono(0)),
            plan_holds,
            "after {n}"
        );
        observed.record(PLANNED, Took::completed(ms(80)), Mono(0));
    }
    let predicted = observed.predict(PLANNED, None, Mono(0));
    assert_eq!(predicted.mean, ms(80));
    assert!((ms(80)..=ms(86)).contains(&predicted.high), "{predicted:?}");
}

#[test]
fn few_samples_leave_the_time_that_all_workers_measured() {
    let mut observed = ServiceTimeEstimator::default();
    let common = ServiceTime {
        high: ms(90),
        safe: ms(99),
        mean: ms(80),
    };
    for _ in 1..SAMPLES_MIN {
        observed.record(PLANNED, Took::completed(ms(60)), Mono(0));
    }
    assert_eq!(observed.estimate(PLANNED, Some(common)), common);
    observed.record(PLANNED, Took::completed(ms(60)), Mono(0));
    assert_eq!(observed.estimate(PLANNED, Some(common)).mean, ms(60));
}

#[test]
fn correction_scales_with_the_planned_time() {
    let mut observed = ServiceTimeEstimator::default();
    for _ in 0..100 {
        observed.record(PLANNED, Took::completed(ms(60)), Mono(0));
    }
    let halved = observed.predict(PLANNED / 2, None, Mono(0));
    assert_eq!(halved.mean, ms(30));
}

#[test]
fn samples_older_than_two_windows_are_dropped() {
    let mut observed = ServiceTimeEstimator::default();
    for _ in 0..100 {
        observed.record(PLANNED, Took::completed(ms(4000)), Mono(0));
    }
    let (one, two) = (Mono(0) + WINDOW, Mono(0) + WINDOW * 2);
    assert!(observed.predict(PLANNED, None, one).high > ms(3900));
    assert_eq!(observed.predict(PLANNED, None, two).high, PLANNED);
}

#[test]
fn unplanned_variant_uses_measured_times() {
    let mut observed = ServiceTimeEstimator::default();
    for _ in 0..100 {
        observed.record(Span::ZERO, Took::completed(ms(33)), Mono(0));
    }
    assert_eq!(observed.predict(Span::ZERO, None, Mono(0)).mean, ms(33));
}

proptest! {
    /// The percentile equals that of the sorted list to within a step of the scale, is never below the
    /// mean, and never panics at the ends of the range.
    #[test]
    fn percentile_is_accurate_to_a_sixteenth(
        mut took in prop::collection::vec(0_u64..200_000_000, 50..400),
        planned in 0_u64..100_000_000,
    ) {
        let planned = Span::from_nanos(planned);
        let mut observed = ServiceTimeEstimator::default();
        for took in &took {
            observed.record(planned, Took::completed(Span::from_nanos(*took)), Mono(0));
        }
        observed.renew();
        let high = observed.predict(planned, None, Mono(0)).high;
        took.sort_unstable();
        let base = if planned.is_zero() { UNPLANNED } else { planned };
        let above = took.len() - took.len() * PERCENTILE as usize / 100;
        let exact = Span::from_nanos(took[took.len() - above]);
        // Ratios below 1/64 and above 4096 are not distinguished.
        let (min, most) = (exact.min(base * 4096), exact.max(base / 32));
        prop_assert!(high + base / 256 >= min * 15 / 16, "{high:?} of {exact:?}");
        let mean = observed.predict(planned, None, Mono(0)).mean;
        prop_assert!(high <= (most * 17 / 16 + base / 256).max(mean), "{high:?} of {exact:?}");
    }
}
