//! Points of the batches that a server forms by itself, from its points by requests in flight. Pure.

use crate::execution::Execution;
use crate::model::Point;

/// Returns a point of each batch that the server formed: that of the most in flight, or of the greatest throughput if
/// several fill it. With several lanes only single requests and full batches are known, besides those of the most in flight:
/// the lanes share what waits unequally.
pub(super) fn batches(execution: &Execution, measured: &[Point]) -> Vec<Point> {
    let mut points = measured.to_vec();
    points.sort_by(|a, b| {
        let by_rate = a.batches_per_s.total_cmp(&b.batches_per_s);
        a.concurrency.cmp(&b.concurrency).then(by_rate)
    });
    let most = points.last().map_or(0, |point| point.concurrency);
    let mut found: Vec<Point> = Vec::new();
    for point in points {
        let together = execution.together(point.concurrency);
        let is_full = together >= f64::from(execution.batch);
        let is_single = point.concurrency <= execution.lanes;
        let is_known = is_full || is_single || execution.lanes == 1 || point.concurrency == most;
        let batch = together.round();
        let ms = execution.batch_ms(point.concurrency, point.batches_per_s)
            + (batch - together) * execution.delta_ms;
        let is_idle = execution.batch == 1 && point.concurrency < execution.lanes;
        if !is_known || ms <= 0.0 || is_idle {
            continue;
        }
        let each = |whole_ms: f64| whole_ms * ms / point.mean_ms;
        let one = Point {
            batch: batch as u32,
            concurrency: execution.lanes,
            batches_per_s: f64::from(execution.lanes) * 1e3 / ms,
            mean_ms: ms,
            p50_ms: each(point.p50_ms),
            p95_ms: point.p95_ms.map(each),
            p99_ms: each(point.p99_ms),
            ..point
        };
        match found.last_mut().filter(|last| last.batch == one.batch) {
            Some(last) if is_full && last.batches_per_s > one.batches_per_s => {}
            Some(last) => *last = one,
            None => found.push(one),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::model;
    use crate::sweep::Rate;

    fn measured(rates: &[(u32, f64)]) -> Vec<Point> {
        let point = |(concurrency, per_s): &(u32, f64)| {
            let mean_ms = f64::from(*concurrency) * 1e3 / per_s;
            Point {
                cores: 1.0,
                batch: 1,
                concurrency: *concurrency,
                batches_per_s: *per_s,
                half_width_percent: 1.0,
                mean_ms,
                p50_ms: mean_ms,
                p95_ms: Some(1.1 * mean_ms),
                p99_ms: 1.2 * mean_ms,
                answered: 100,
                failed: 0,
                settled: true,
            }
        };
        rates.iter().map(point).collect()
    }

    /// As measured of a Triton that sleeps 45 ms, and 3 ms for each further request of up to 8.
    #[test]
    fn real_servers_get_the_time_of_each_batch() {
        for (lanes, rates) in [
            (
                1,
                &[
                    (1, 21.5),
                    (2, 21.7),
                    (4, 40.8),
                    (8, 72.3),
                    (16, 118.1),
                    (32, 116.5),
                ][..],
            ),
            (
                2,
                &[
                    (1, 21.4),
                    (2, 43.1),
                    (4, 53.8),
                    (8, 93.2),
                    (16, 170.4),
                    (32, 238.3),
                    (64, 238.2),
                ],
            ),
            // The same on a machine that was busy.
            (
                2,
                &[
                    (1, 21.3),
                    (2, 42.3),
                    (4, 54.9),
                    (8, 100.7),
                    (16, 163.5),
                    (32, 237.9),
                    (64, 229.3),
                ],
            ),
        ] {
            let points = measured(rates);
            let of = |point: &Point| Rate {
                concurrency: point.concurrency,
                per_s: point.batches_per_s,
                half_width_percent: 1.0,
                p95_ms: 0.0,
            };
            let sent: Vec<Rate> = points.iter().map(of).collect();
            let execution = Execution::of(&sent, None).unwrap();
            assert_eq!(
                (execution.lanes, execution.batch),
                (lanes, 8),
                "{execution:?}"
            );
            let found = batches(&execution, &points);
            assert!(
                found.iter().all(|one| one.concurrency == lanes),
                "{found:?}"
            );
            assert!((found[0].p99_ms / found[0].mean_ms - 1.2).abs() < 1e-9);
            let best = &points[points.len() - 1..];
            let model = model(&found, best, &points).unwrap();
            for (batch, ms) in [(1, 45.0), (4, 54.0), (8, 66.0)] {
                let ratio = model.latency.service_ms(batch, 1.0) / ms;
                assert!((ratio - 1.0).abs() < 0.06, "{batch}: {ratio} {model:?}");
            }
        }
    }
}
