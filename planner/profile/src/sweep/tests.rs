//! Tests of the sweep, on throughputs by concurrency.

use super::*;

/// Sweeps a server of that throughput by concurrency; returns the last step and the measured concurrencies.
fn sweep(rps: impl Fn(u32) -> f64, max: u32) -> (Step, Vec<u32>) {
    sweep_noisy(|at, _| rps(at), 0.0, max)
}

/// Limits without an objective, for a server that forms no batches.
fn limits(max: u32) -> Limits {
    Limits {
        least: 1,
        ..Limits::new(max, None, None, 1e9)
    }
}

/// The same with that uncertainty, and a throughput that depends on the number of points measured before.
fn sweep_noisy(
    rps: impl Fn(u32, usize) -> f64,
    half_width_percent: f64,
    max: u32,
) -> (Step, Vec<u32>) {
    let mut measured: Vec<Rate> = Vec::new();
    loop {
        match next(&measured, &limits(max)) {
            Step::Measure(concurrency) => {
                let times = measured.iter().filter(|one| one.concurrency == concurrency);
                assert!(times.count() < 2, "{concurrency} a third time");
                measured.push(Rate {
                    concurrency,
                    per_s: rps(concurrency, measured.len()),
                    half_width_percent,
                    p95_ms: 0.0,
                });
            }
            last => return (last, measured.iter().map(|one| one.concurrency).collect()),
        }
    }
}

#[test]
fn server_that_was_slower_for_a_while_is_measured_again() {
    // One execution at a time; the first point comes while something else runs on the machine.
    let slow_first = |_, before| if before == 0 { 8.0 } else { 10.0 };
    let (last, measured) = sweep_noisy(slow_first, 3.0, 64);
    assert_eq!((last, measured), (Step::Busy(1), vec![1, 2, 4, 1]));
}

/// As measured: a server under a CPU quota takes less CPU time for each of several requests that it finds waiting.
#[test]
fn uncertain_throughput_leaves_a_choice_within_a_doubling() {
    let of = |rates: [f64; 4]| move |at: u32, _| rates[at.ilog2().min(3) as usize];
    for (rates, uncertainty, busy) in [
        ([9.8, 10.0, 10.0, 10.0], 8.0, 1),
        ([9.3, 9.75, 10.0, 10.0], 8.0, 2),
        ([9.3, 9.65, 10.0, 10.0], 8.0, 2),
        ([9.0, 10.0, 10.0, 10.0], 0.0, 2),
        ([5.0, 9.3, 9.6, 10.0], 8.0, 4),
        ([24.0, 22.0, 22.0, 22.0], 1.0, 1),
        // So do short executions.
        ([98.0, 100.0, 102.0, 102.0], 8.0, 1),
        ([100.0, 100.0, 100.0, 100.0], 1.0, 1),
        ([100.0, 90.0, 90.0, 90.0], 8.0, 1),
    ] {
        let (last, _) = sweep_noisy(of(rates), uncertainty, 8);
        assert!(
            matches!(last, Step::Busy(at) | Step::Growing(at) if at == busy),
            "{rates:?}: {last:?}"
        );
    }
}

#[test]
fn smallest_busy_concurrency_is_found_with_few_points() {
    for lanes in 1..=40_u32 {
        let (last, measured) = sweep(|at| f64::from(at.min(lanes)), 256);
        // 34 of 35 lanes are 97 %.
        let busy = (f64::from(lanes) * BUSY).ceil() as u32;
        let near = busy..=busy + busy / NEAR;
        let found = matches!(last, Step::Busy(at) if near.contains(&at));
        assert!(found, "{lanes}: {last:?} {measured:?}");
        assert!(measured.len() <= 13, "{lanes}: {measured:?}");
    }
}

#[test]
fn gap_between_requests_is_filled_by_a_second_one() {
    // One execution of 20 ms; 3 ms pass between an answer and the next request.
    let (last, measured) = sweep(|at| (f64::from(at) * 1e3 / 23.0).min(50.0), 64);
    assert_eq!((last, measured), (Step::Busy(2), vec![1, 2, 4, 1]));
}

#[test]
fn throughput_that_falls_again_ends_the_sweep() {
    let (last, _) = sweep(
        |at| f64::from(at.min(4)) - f64::from(at.max(8) - 8) / 4.0,
        256,
    );
    assert_eq!(last, Step::Busy(4));
}

#[test]
fn growth_at_the_maximum_concurrency_is_reported() {
    assert_eq!(sweep(f64::from, 16).0, Step::Growing(16));
    assert_eq!(sweep(f64::from, 1), (Step::Busy(1), vec![1]));
    assert_eq!(sweep(f64::from, 5), (Step::Growing(5), vec![1, 2, 4, 5, 4]));
}

/// Sweeps a server with these limits, of that throughput and 95th percentile by concurrency.
fn sweep_timed(limits: &Limits, of: impl Fn(u32) -> (f64, f64)) -> (Step, Vec<u32>) {
    let mut measured: Vec<Rate> = Vec::new();
    while let Step::Measure(concurrency) = next(&measured, limits) {
        let (per_s, p95_ms) = of(concurrency);
        measured.push(Rate {
            concurrency,
            per_s,
            half_width_percent: 1.0,
            p95_ms,
        });
        assert!(measured.len() < 20, "{measured:?}");
    }
    let last = next(&measured, limits);
    (last, measured.iter().map(|one| one.concurrency).collect())
}

/// 45 ms, and 3 ms for each further request of a batch of up to 8; one batch at once.
fn batching(in_flight: u32) -> (f64, f64) {
    let together = (f64::from(in_flight) / 2.0).clamp(1.0, 8.0);
    let per_s = together * 1e3 / (42.0 + 3.0 * together);
    (per_s, 1.02 * f64::from(in_flight) * 1e3 / per_s)
}

#[test]
fn sweep_of_a_batching_server_goes_on_beyond_one_batch() {
    for (batch, slo_ms, best, measured) in [
        (None, None, 16, &[1, 2, 4, 8, 16, 32, 16][..]),
        (Some(8), None, 16, &[1, 2, 4, 8, 16, 32, 16]),
        (Some(8), Some(450.0), 16, &[1, 2, 4, 8, 16, 32, 16]),
        // 12 in flight take 122 ms, 13 take 126.
        (Some(8), Some(125.0), 12, &[1, 2, 4, 8, 16, 12, 14, 13, 12]),
        // Two take 92 ms.
        (None, Some(60.0), 1, &[1, 2, 4, 8, 16, 1]),
    ] {
        let limits = Limits::new(64, batch, slo_ms, 15.0);
        let (last, found) = sweep_timed(&limits, batching);
        assert_eq!(
            (last, &*found),
            (Step::Busy(best), measured),
            "{batch:?} {slo_ms:?}"
        );
    }
}

#[test]
fn serial_server_is_tried_with_several_in_flight_as_long_as_they_are_answered() {
    for (ms, slo_ms, measured) in [
        (45.0, None, &[1, 2, 4, 8, 16][..]),
        // Eight in flight take 8 s each.
        (1000.0, None, &[1, 2, 4]),
        (45.0, Some(40.0), &[1, 2, 4]),
    ] {
        let limits = Limits::new(64, None, slo_ms, 15.0);
        let (last, found) = sweep_timed(&limits, |at| (1e3 / ms, f64::from(at) * ms));
        assert_eq!(
            (last, &*found),
            (Step::Busy(1), measured),
            "{ms} {slo_ms:?}"
        );
    }
}

/// As measured of a Ray Serve whose work for each request, and not its batches, is what takes the time.
#[test]
fn server_that_shares_its_cores_has_no_more_in_flight_than_are_in_time() {
    let throughputs = [
        (1, 15.0),
        (2, 24.0),
        (4, 33.5),
        (6, 38.0),
        (8, 41.0),
        (9, 46.5),
        (12, 48.0),
        (16, 57.5),
        (32, 70.0),
    ];
    let of = |at: u32| {
        let above = throughputs.iter().find(|(one, _)| *one >= at).unwrap();
        let per_s = above.1 * f64::from(at) / f64::from(above.0);
        (per_s, 1.1 * f64::from(at) * 1e3 / per_s)
    };
    for (slo_ms, busy) in [(Some(220.0), 8), (Some(80.0), 1), (None, 32)] {
        let limits = Limits::new(32, None, slo_ms, 15.0);
        let (last, measured) = sweep_timed(&limits, of);
        assert!(
            matches!(last, Step::Busy(at) | Step::Growing(at) if at == busy),
            "{slo_ms:?}: {last:?} {measured:?}"
        );
    }
}
