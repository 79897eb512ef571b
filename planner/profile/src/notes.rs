//! Facts about measured points that reduce their value, as sentences for people. Pure.

use crate::model::Point;

/// Part of the greatest throughput with fewer in flight that more in flight may lose before it is named.
const FALLS_MIN: f64 = 0.05;

/// Returns a note for each point with failed requests, for people.
#[must_use]
pub fn failure_notes(points: &[Point]) -> Vec<String> {
    let failing = points.iter().filter(|point| point.failed > 0);
    let note = |point: &Point| {
        format!(
            "{} of {} requests failed ({:.1} %) on {} cores, batch {}, {} in flight: throughput and latency are of the others",
            point.failed,
            point.failed + point.answered,
            point.failed_percent(),
            point.cores,
            point.batch,
            point.concurrency
        )
    };
    failing.map(note).collect()
}

/// Returns a note for each number of cores and batch whose throughput falls with more in flight, by more than is within
/// chance, and for each number of cores of which only one number in flight was measured.
#[must_use]
pub fn curve_notes(points: &[Point]) -> Vec<String> {
    let mut curves: Vec<(f64, u32)> = points.iter().map(|one| (one.cores, one.batch)).collect();
    curves.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    curves.dedup();
    let of = |(cores, batch): (f64, u32)| {
        let of_curve = points
            .iter()
            .filter(move |one| (one.cores, one.batch) == (cores, batch));
        of_curve.copied().collect()
    };
    let falling = curves.iter().filter_map(|curve| falls(of(*curve)));
    let mut notes: Vec<String> = falling.collect();
    curves.dedup_by_key(|(cores, _)| *cores);
    notes.extend(curves.iter().filter_map(|(cores, _)| {
        let of_cores = points.iter().filter(|one| one.cores == *cores);
        let mut in_flight: Vec<u32> = of_cores.map(|one| one.concurrency).collect();
        in_flight.dedup();
        let [only] = in_flight.as_slice() else {
            return None;
        };
        Some(format!(
            "only {only} in flight measured on {cores} cores: what fewer or more would do is not known"
        ))
    }));
    notes
}

/// Returns the note about one curve whose throughput falls.
fn falls(mut curve: Vec<Point>) -> Option<String> {
    curve.sort_by_key(|point| point.concurrency);
    let most = curve
        .iter()
        .max_by(|a, b| a.batches_per_s.total_cmp(&b.batches_per_s))?;
    let rps = |point: &Point| point.batches_per_s * f64::from(point.batch);
    let is_below = |point: &&Point| {
        let chance = (point.half_width_percent + most.half_width_percent) / 100.0;
        point.concurrency > most.concurrency
            && rps(point) < rps(most) * (1.0 - FALLS_MIN.max(chance))
    };
    let on = format!("on {} cores, batch {}", most.cores, most.batch);
    let least = curve
        .iter()
        .filter(is_below)
        .min_by(|a, b| a.batches_per_s.total_cmp(&b.batches_per_s))?;
    Some(format!(
        "throughput falls with more in flight {on}: {:.1} requests/s with {}, {:.1} with {}; keep the limits of the proxies \
         (queue.concurrency_max) and of other clients below that",
        rps(most),
        most.concurrency,
        rps(least),
        least.concurrency
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::failed_percent;

    fn point(concurrency: u32, batches_per_s: f64) -> Point {
        Point {
            cores: 1.0,
            batch: 1,
            concurrency,
            batches_per_s,
            half_width_percent: 2.0,
            mean_ms: 10.0,
            p50_ms: 10.0,
            p95_ms: None,
            p99_ms: 10.0,
            answered: 100,
            failed: 0,
            settled: true,
        }
    }

    #[test]
    fn failed_requests_are_named_with_their_part() {
        let good = point(1, 100.0);
        let bad = Point { failed: 25, ..good };
        assert!((failed_percent(&[good, bad]) - 100.0 * 25.0 / 225.0).abs() < 1e-9);
        let notes = failure_notes(&[good, bad]);
        assert_eq!(notes.len(), 1);
        let expected = "25 of 125 requests failed (20.0 %) on 1 cores, batch 1, 1 in flight";
        assert!(notes[0].starts_with(expected), "{notes:?}");
    }

    #[test]
    fn curves_that_fall_or_have_one_point_are_named() {
        let check = |points: &[Point], expected: &[&str]| {
            let notes = curve_notes(points);
            assert_eq!(notes.len(), expected.len(), "{notes:?}");
            for (note, expected) in notes.iter().zip(expected) {
                assert!(note.starts_with(expected), "{note}");
            }
        };
        let rises = [
            point(1, 20.0),
            point(4, 60.0),
            point(8, 59.0),
            point(16, 58.0),
        ];
        check(&rises, &[]);
        let falls = [
            point(8, 60.0),
            point(1, 20.0),
            point(32, 31.0),
            point(16, 48.0),
        ];
        check(
            &falls,
            &[
                "throughput falls with more in flight on 1 cores, batch 1: 60.0 requests/s with 8, 31.0 with 32",
            ],
        );
        // Within the uncertainty of both.
        let uncertain = falls.map(|one| Point {
            half_width_percent: 30.0,
            ..one
        });
        check(&uncertain, &[]);
        let other = Point {
            cores: 2.0,
            ..point(4, 9.0)
        };
        let both = [point(1, 20.0), point(2, 30.0), other];
        check(&both, &["only 4 in flight measured on 2 cores"]);
        check(&[], &[]);
    }
}
