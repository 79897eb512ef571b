//! The server curve: what it predicts, forgets and rescales.

use super::point::SAMPLES_MIN;
use super::*;
use proptest::prelude::*;

const PLANNED: Span = Span::from_millis(50);

fn at(ms: u64) -> Mono {
    Mono((1_000_000 + ms) * 1_000_000)
}

/// Curve after executions that each took as long as `ms` says, by how many were in flight.
fn curve(counts: impl IntoIterator<Item = u32>, ms: impl Fn(u32) -> u64) -> Curve {
    let mut curve = Curve::default();
    for in_flight in counts {
        for _ in 0..SAMPLES_MIN {
            record(&mut curve, in_flight, ms(in_flight), true);
        }
    }
    curve
}

fn record(curve: &mut Curve, in_flight: u32, ms: u64, completed: bool) {
    curve.record(sample(in_flight, ms, completed), Span::ZERO, at(0));
}

fn sample(in_flight: u32, ms: u64, completed: bool) -> CurveSample {
    CurveSample {
        in_flight,
        with: in_flight,
        sent: at(0),
        took: Span::from_millis(ms),
        planned: PLANNED,
        completed,
    }
}

fn mean_ms(curve: &Curve, in_flight: u32) -> Option<u64> {
    let predicted = curve.predict(in_flight, PLANNED, Span::ZERO, at(1))?;
    Some((predicted.mean.as_micros() + 500) / 1000)
}

#[test]
fn each_number_has_the_nearest_point() {
    for (in_flight, point) in [
        (0, 1),
        (1, 1),
        (4, 4),
        (5, 6),
        (7, 8),
        (9, 8),
        (10, 11),
        (20, 23),
        (5000, 1024),
    ] {
        assert_eq!(number(point_of(in_flight)), point, "{in_flight}");
    }
}

#[test]
fn unknown_points_follow_from_those_beside_them() {
    // A server that batches up to eight: 45 ms, and 3 for each further request.
    let batcher = curve([1, 8], |n| 42 + 3 * u64::from(n));
    for (in_flight, ms) in [(1, 45), (4, 54), (8, 66), (16, 90)] {
        let predicted = mean_ms(&batcher, in_flight).unwrap();
        assert!(predicted.abs_diff(ms) <= 1, "{in_flight}: {predicted}");
    }
    // With less than is known, at least in proportion; beyond a single point as there.
    let saturated = curve([16], |_| 132);
    assert_eq!(mean_ms(&saturated, 4), Some(33));
    assert_eq!(mean_ms(&saturated, 32), Some(132));
    assert_eq!(mean_ms(&Curve::default(), 1), None);
}

#[test]
fn old_executions_tell_nothing() {
    let known = curve([1], |_| 45);
    assert!(known.predict(1, PLANNED, Span::ZERO, at(9_000)).is_some());
    assert_eq!(known.predict(1, PLANNED, Span::ZERO, at(11_000)), None);
    assert!(known.is_evidence(3, at(1_500)) && !known.is_evidence(3, at(2_500)));
    // An idle server may be tried sooner.
    assert!(known.is_evidence(0, at(400)) && !known.is_evidence(0, at(600)));
}

#[test]
fn execution_that_was_cut_off_is_a_bound_and_no_evidence() {
    let mut cut = curve([4], |_| 60);
    let before = cut;
    record(&mut cut, 4, 30, false);
    assert_eq!(cut, before, "it would have taken longer");
    record(&mut cut, 4, 90, false);
    assert!(mean_ms(&cut, 4) > mean_ms(&before, 4));
    assert_eq!(cut.points[3].own.scatter, before.points[3].own.scatter);
    let mut only_cut = Curve::default();
    for _ in 0..100 {
        record(&mut only_cut, 4, 90, false);
    }
    assert!(!only_cut.is_evidence(4, at(1)));
    assert_eq!(mean_ms(&only_cut, 4), None);
}

/// Executions of a server that does one thing after the other, 45 ms each, sent at any part of the one under way.
fn serial(numbers: impl IntoIterator<Item = u32>) -> Curve {
    let mut curve = Curve::default();
    for in_flight in numbers {
        for over_ms in (0..45).step_by(5) {
            let after = Span::from_millis(over_ms);
            let took = Span::from_millis(45 * u64::from(in_flight) - over_ms);
            let sample = CurveSample {
                took,
                ..sample(in_flight, 0, true)
            };
            curve.record(sample, after, at(0));
        }
    }
    curve
}

/// Ends executions at the same time, with `in_flight` in flight before.
fn end(curve: &mut Curve, count: u32, in_flight: u32, ms: u64) {
    for ended in 0..count {
        curve.end(Span::from_millis(90), in_flight - ended, at(ms));
    }
}

/// A server with batches of 8 and 12 in flight: while 8 execute, 4 wait there, and are the next batch.
#[test]
fn batch_frees_its_places_together() {
    let mut curve = Curve::default();
    curve.send(8, 0, at(0));
    curve.send(4, 8, at(10));
    assert_eq!(
        curve.left_in_flight(12, true, at(20)),
        11,
        "nothing is known"
    );
    end(&mut curve, 8, 12, 50);
    curve.send(8, 4, at(50));
    // Those that were sent since have not begun.
    assert_eq!(curve.ending_together(12), 4);
    end(&mut curve, 4, 12, 90);
    curve.send(4, 8, at(90));
    assert_eq!(curve.ending_together(12), 8);
    assert_eq!(curve.left_in_flight(12, true, at(100)), 4);
    // One that may be sent now, such as on trial beyond the limit, waits for no end.
    assert_eq!(curve.left_in_flight(12, false, at(100)), 12);
    // The first of a batch has ended, and the others are about to.
    end(&mut curve, 1, 12, 140);
    assert_eq!(curve.left_in_flight(11, false, at(140)), 4);
    assert_eq!(
        curve.left_in_flight(11, false, at(150)),
        11,
        "they were fewer"
    );
}

#[test]
fn serial_server_frees_one_place_at_a_time() {
    let mut curve = Curve::default();
    curve.send(1, 0, at(0));
    curve.send(5, 1, at(0));
    for n in 1..10 {
        end(&mut curve, 1, 6, n * 45);
        curve.send(1, 5, at(n * 45));
    }
    assert_eq!(curve.ending_together(6), 1);
    assert_eq!(curve.left_in_flight(6, true, at(430)), 5);
}

/// Batches that are cut, such as by another configuration: what ended together once counts no more.
#[test]
fn fewer_that_end_together_though_more_could_are_believed() {
    let mut curve = Curve::default();
    let mut now_ms = 0;
    for batch in [8, 2] {
        for _ in 0..20 {
            now_ms += 45;
            end(&mut curve, batch, 16, now_ms);
            curve.send(batch, 16 - batch, at(now_ms));
        }
        assert_eq!(curve.ending_together(16), batch);
    }
    // With less in flight than a batch, fewer end together without being believed.
    for _ in 0..20 {
        now_ms += 45;
        curve.send(1, 0, at(now_ms));
        end(&mut curve, 1, 1, now_ms + 40);
    }
    assert_eq!(curve.ending_together(16), 2);
}

#[test]
fn time_since_the_latest_end_is_over() {
    let serial = serial([2, 3, 8, 11]);
    for (in_flight, over_ms, ms) in [(2, 0, 90), (2, 40, 50), (3, 30, 105), (8, 20, 340)] {
        let over = Span::from_millis(over_ms);
        let predicted = serial.predict(in_flight, PLANNED, over, at(1)).unwrap();
        let off = predicted.mean.as_millis().abs_diff(ms);
        assert!(off <= 2, "{in_flight} {over_ms}: {predicted:?}");
    }
    // An end that is overdue tells nothing.
    let late = serial.predict(2, PLANNED, Span::from_millis(100), at(1));
    assert!(late.unwrap().mean >= Span::from_millis(60), "{late:?}");
    assert!(!serial.is_flat(8, at(1)), "in turn, so without lanes");
}

/// The points are apart, and the numbers between them are not the nearest point's.
#[test]
fn numbers_between_two_points_are_distinguished() {
    let mut serial = serial([8, 11]);
    for _ in 0..3 {
        for in_flight in [9, 10] {
            let ms = 45 * u64::from(in_flight);
            serial.record(sample(in_flight, ms, true), Span::ZERO, at(0));
        }
    }
    for in_flight in 8..=11 {
        let predicted = serial.predict(in_flight, PLANNED, Span::ZERO, at(1));
        let (mean, ms) = (
            predicted.unwrap().mean.as_millis(),
            u64::from(45 * in_flight),
        );
        assert!(mean.abs_diff(ms) <= 3, "{in_flight}: {mean}");
    }
}

/// Where most are cut off, the time is longer than that until then, or more would be sent to be cut off.
#[test]
fn time_is_longer_than_what_was_cut_off() {
    let mut late = curve([4], |_| 120);
    for n in 0..200 {
        record(&mut late, 4, if n % 5 == 0 { 125 } else { 135 }, n % 5 == 0);
    }
    let predicted = late.predict(4, PLANNED, Span::ZERO, at(1)).unwrap();
    assert!(predicted.mean > Span::from_millis(130) && predicted.high > Span::from_millis(134));
}

#[test]
fn lanes_are_flat_and_a_queue_or_batches_are_not() {
    let lanes = curve([1, 2, 4], |_| 45);
    assert!(lanes.is_flat(4, at(1)));
    let queue = curve([1, 2, 4], |n| 45 * u64::from(n));
    assert!(!queue.is_flat(4, at(1)));
    assert!(queue.is_flat(1, at(1)), "a single lane is");
    let batches = curve([6, 8, 11], |n| 60 + 3 * u64::from(n));
    assert!(!batches.is_flat(11, at(1)), "few in flight are not known");
    assert!(Curve::default().is_flat(8, at(1)), "the plan is believed");
}

/// Under load there are never few in flight.
#[test]
fn lanes_that_take_as_long_as_planned_are_known() {
    let planned = PLANNED.as_millis();
    assert!(curve([4], |_| planned + 4).has_planned_lanes(4, at(1)));
    assert!(!curve([4], |_| 4 * planned).has_planned_lanes(4, at(1)));
    assert!(!Curve::default().has_planned_lanes(4, at(1)));
}

/// One more in flight costs another one's time only where the servers answer no more with it.
#[test]
fn times_of_a_server_that_does_no_more_are_proportional() {
    let queue = serial([2, 4, 8]);
    for in_flight in [2, 3, 8, 16] {
        assert!(queue.is_proportional(in_flight, at(1)), "{in_flight}");
    }
    let lanes = curve([1, 2, 4, 8], |_| 45);
    let batcher = curve([2, 4, 8, 16], |n| 2 * (42 + 3 * u64::from(n) / 2));
    for in_flight in [2, 8, 16] {
        assert!(!lanes.is_proportional(in_flight, at(1)), "{in_flight}");
    }
    // Two cannot be batched: one executes and one waits.
    assert!(batcher.is_proportional(2, at(1)));
    for in_flight in [8, 16] {
        assert!(!batcher.is_proportional(in_flight, at(1)), "{in_flight}");
    }
    assert!(!Curve::default().is_proportional(u32::MAX, at(1)));
}

#[test]
fn points_move_with_the_lanes() {
    let mut lanes = curve([4], |_| 45);
    lanes.rescale(4, 8);
    assert_eq!(lanes.points[point_of(4)], Point::default());
    assert_eq!(mean_ms(&lanes, 8), Some(45));
    let before = lanes;
    lanes.rescale(8, 8);
    lanes.rescale(0, 8);
    assert_eq!(lanes, before);
}

proptest! {
    #[test]
    fn any_executions_are_predicted_between_their_extremes(
        took in proptest::collection::vec((1_u32..40, 1_u64..500), 1..200),
        at_once in 1_u32..60,
    ) {
        let mut curve = Curve::default();
        for (in_flight, ms) in &took {
            record(&mut curve, *in_flight, *ms, true);
        }
        if let Some(time) = curve.predict(at_once, PLANNED, Span::ZERO, at(1)) {
            prop_assert!(time.mean <= time.high && time.high <= time.safe);
        }
    }

    #[test]
    fn nothing_overflows(
        points in proptest::array::uniform16(any::<((u32, u32), (u32, u32), u16, u32, u32)>()),
        in_flight: u32, planned: u64, now: u64, completed: bool, from: u32, to: u32,
        (most, latest, under_way, sent, until) in any::<(u32, u32, u32, u32, u64)>(),
    ) {
        let times = |(mean, scatter)| Times { mean, scatter };
        let point = |(own, from_end, count, at_ms, completed_at_ms)| Point {
            own: times(own), from_end: times(from_end), count, at_ms, completed_at_ms,
        };
        let ends = Ends { most, latest, under_way, sent, until: Mono(until) };
        let mut curve = Curve { points: points.map(point), ends, ..Curve::default() };
        let (planned, now) = (Span::from_nanos(planned), Mono(now));
        let sample = CurveSample { in_flight, with: in_flight, sent: now, took: planned, planned, completed };
        curve.record(sample, planned, now);
        let _ = (curve.predict(in_flight, planned, planned, now), curve.is_evidence(in_flight, now));
        let _ = curve.is_flat(in_flight, now);
        prop_assert!(curve.left_in_flight(in_flight, completed, now) <= in_flight);
        prop_assert!(curve.ending_together(in_flight) >= 1);
        curve.send(from, in_flight, now);
        curve.rescale(from, to);
    }
}
