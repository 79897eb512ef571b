//! Tests of lanes and batches, on throughputs by requests in flight.

use super::*;

fn rates(points: &[(u32, f64)]) -> Vec<Rate> {
    let rate = |(concurrency, per_s): &(u32, f64)| Rate {
        concurrency: *concurrency,
        per_s: *per_s,
        half_width_percent: 1.0,
        p95_ms: 0.0,
    };
    points.iter().map(rate).collect()
}

/// Throughputs of real servers that sleep 30 ms, and 3 ms for each further request of up to 8.
#[test]
fn real_batching_servers_are_known_by_their_throughput() {
    for (name, window, points) in [
        (
            "Triton",
            false,
            &[(1, 31.8), (2, 32.8), (4, 61.0), (8, 99.5), (16, 154.0)][..],
        ),
        (
            "Triton, longer",
            false,
            &[
                (1, 31.8),
                (2, 32.8),
                (4, 61.0),
                (8, 99.5),
                (16, 154.0),
                (24, 154.0),
            ],
        ),
        (
            "Triton with a queue delay of 5 ms",
            true,
            &[(1, 27.5), (2, 50.5), (4, 88.0), (8, 150.0), (16, 152.0)],
        ),
        (
            "mosec with a wait of 10 ms",
            true,
            &[
                (1, 23.2),
                (2, 44.0),
                (4, 77.0),
                (8, 150.0),
                (16, 152.0),
                (24, 154.0),
            ],
        ),
    ] {
        for known in [None, Some(8)] {
            let found = Execution::of(&rates(points), known).unwrap();
            assert_eq!((found.lanes, found.batch), (1, 8), "{name}: {found:?}");
            assert_eq!(found.window_ms.is_some(), window, "{name}: {found:?}");
            assert!((found.delta_ms - 3.0).abs() < 0.4, "{name}: {found:?}");
            assert!((found.eta_ms - 27.0).abs() < 2.0, "{name}: {found:?}");
        }
    }
}

#[test]
fn servers_without_batches_have_lanes_alone() {
    for (lanes, points) in [
        (
            1,
            &[(1, 22.0), (2, 22.1), (4, 22.2), (8, 22.0), (16, 21.9)][..],
        ),
        // The second request fills the gap between two.
        (1, &[(1, 43.5), (2, 50.0), (4, 50.0), (8, 50.0), (16, 50.0)]),
        (4, &[(1, 22.0), (2, 44.0), (4, 87.0), (8, 88.0), (16, 88.0)]),
        // Two threads that share the cores with others.
        (2, &[(1, 10.0), (2, 16.0), (4, 18.0), (8, 18.5), (16, 18.6)]),
        (
            5,
            &[(1, 22.0), (2, 44.0), (4, 88.0), (8, 110.0), (16, 110.0)],
        ),
    ] {
        let found = Execution::of(&rates(points), None).unwrap();
        assert_eq!((found.lanes, found.batch), (lanes, 1), "{found:?}");
    }
    // Any number at once, as measured: the client's machine is what slows it.
    let at_once = [
        (1, 148.2),
        (2, 292.7),
        (4, 586.2),
        (8, 1166.6),
        (16, 2279.7),
        (32, 4296.3),
    ];
    for last in [(64, 7381.5), (64, 8600.0)] {
        let points = rates(&[&at_once[..], &[last]].concat());
        assert_eq!(Execution::of(&points, None).unwrap().batch, 1);
    }
}

/// A busy proxy or client costs 1 to 2 ms for each request, which others fill if they wait.
#[test]
fn gaps_between_requests_are_no_lanes() {
    for lanes in [1, 2, 4] {
        for own_ms in [10.0, 30.0, 60.0] {
            for gap_ms in [0.0, 1.0, 2.0] {
                for noise in [0.0, 0.01] {
                    let of = |at: u32| {
                        let each = f64::from(at) / (own_ms + gap_ms);
                        let sign = if at.ilog2().is_multiple_of(2) {
                            1.0
                        } else {
                            -1.0
                        };
                        each.min(f64::from(lanes) / own_ms) * 1e3 * (1.0 + sign * noise)
                    };
                    let points = [1, 2, 4, 8, 16].map(|at| (at, of(at)));
                    for batch in [None, Some(1)] {
                        let found = Execution::of(&rates(&points), batch).unwrap();
                        let what = format!("{lanes} {own_ms} {gap_ms} {noise}: {found:?}");
                        assert_eq!((found.lanes, found.batch), (lanes, 1), "{what}");
                        assert!(found.is_sure() && found.window_ms.is_none(), "{what}");
                        assert!((found.eta_ms / own_ms - 1.0).abs() < 0.05, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn known_batch_is_kept_where_the_server_executes_one_after_the_other() {
    let serial = rates(&[(1, 20.0), (2, 20.0), (4, 20.0), (8, 20.0), (16, 20.0)]);
    let found = Execution::of(&serial, Some(8)).unwrap();
    assert_eq!((found.lanes, found.batch), (1, 8));
    assert!(
        (found.delta_ms - 50.0).abs() < 1e-6 && found.eta_ms < 1e-6,
        "{found:?}"
    );
    assert!((found.batch_ms(16, 20.0) - 400.0).abs() < 1e-9);
    assert_eq!(Execution::of(&serial, Some(1)).unwrap().batch, 1);
    assert_eq!(Execution::of(&[], Some(8)), None);
}

#[test]
fn several_lanes_share_what_is_in_flight() {
    // Two instances of 40 + 5 ms for each request, batches of up to 4.
    let of = |in_flight: u32| {
        let together = (f64::from(in_flight) / 3.0).clamp(1.0, 4.0);
        f64::from(in_flight.min(2)) * together * 1e3 / (40.0 + 5.0 * together)
    };
    let points: Vec<_> = [1, 2, 4, 8, 16, 32].map(|at| (at, of(at))).to_vec();
    for known in [None, Some(4)] {
        let found = Execution::of(&rates(&points), known).unwrap();
        assert_eq!((found.lanes, found.batch), (2, 4), "{found:?}");
        assert!(
            (found.batch_ms(16, of(16)) - 60.0).abs() < 1e-6,
            "{found:?}"
        );
    }
}
