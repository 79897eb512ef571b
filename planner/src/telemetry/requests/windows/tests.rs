//! Windows of requests: their edges, their sums, and what is unknown.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::observe::{Executions, VariantIncrease, Waiting};
use crate::spec::tests::service;

/// Sample of one proxy with that many arrivals, of which so many were on time by b, and the rest refused.
pub(super) fn sample(arrivals: u32, on_time: u32) -> RequestSample {
    let b = VariantIncrease {
        on_time: on_time.into(),
        executions: Executions {
            answered: on_time.into(),
            total_ms: 80.0 * f64::from(on_time),
            ..Executions::default()
        },
        service_ms: vec![
            (50.0, 0.0),
            (100.0, on_time.into()),
            (f64::INFINITY, on_time.into()),
        ],
        ..VariantIncrease::default()
    };
    let mut increase = RequestIncrease {
        arrivals: arrivals.into(),
        latency_ms: vec![(200.0, 0.0), (400.0, on_time.into())],
        variants: [("b".to_owned(), b)].into(),
        ..RequestIncrease::default()
    };
    *increase.refused.of("queue-full") = (arrivals - on_time).into();
    let waiting = Waiting {
        held: 3.0,
        variants: [("b".to_owned(), 2.0)].into(),
    };
    RequestSample {
        answered: true,
        proxies: [("x".into(), Arc::new(increase))].into(),
        waiting: [("x".into(), waiting)].into(),
    }
}

pub(super) fn first() -> RequestSample {
    RequestSample {
        answered: true,
        ..RequestSample::default()
    }
}

fn status(windows: &RequestWindows, at_s: u64) -> RequestStatus {
    let predicted_ms = [("b".to_owned(), 75.0)].into();
    windows.status(Duration::from_secs(at_s), &service(8), &predicted_ms)
}

/// Checks the arrivals and the covered seconds of each window.
#[track_caller]
fn check(windows: &RequestWindows, at_s: u64, expected: [(u64, f64); 3]) {
    let found = status(windows, at_s).windows;
    let found: Vec<_> = found
        .iter()
        .map(|it| (it.counts.arrivals, it.covered_s))
        .collect();
    assert_eq!(found, expected, "{at_s} s");
}

#[test]
fn windows_forget_their_oldest_block() {
    let mut windows = RequestWindows::default();
    windows.add(Duration::ZERO, first());
    for second in 1..=30_000 {
        windows.add(Duration::from_secs(second), sample(2, 2));
        let expected = match second {
            1 => [(2, 1.0); 3],
            299 => [(598, 299.0); 3],
            // The first four seconds are no longer in the window.
            300 => [(592, 296.0), (600, 300.0), (600, 300.0)],
            304 => [(600, 300.0), (608, 304.0), (608, 304.0)],
            305 => [(592, 296.0), (610, 305.0), (610, 305.0)],
            3600 => [(592, 296.0), (7082, 3541.0), (7200, 3600.0)],
            21_600 => [(592, 296.0), (7082, 3541.0), (42_602, 21_301.0)],
            _ => continue,
        };
        check(&windows, second, expected);
    }
    for (ring, (window, block)) in windows.rings.iter().zip(WINDOWS) {
        assert_eq!(ring.0.len(), blocks(window, block));
    }
    // Without samples, as in mode paused, windows run empty.
    check(
        &windows,
        30_299,
        [(2, 1.0), (6602, 3301.0), (42_602, 21_301.0)],
    );
    check(&windows, 90_000, [(0, 0.0); 3]);
    let empty = &status(&windows, 90_000).windows[0];
    assert_eq!((empty.on_time_share, empty.error_budget_left), (None, None));
    assert_eq!((empty.accuracy_percent, &empty.wait_ms), (None, &None));
    assert_eq!(empty.latency_ms, None);
    let now = status(&windows, 30_000);
    let latency = now.windows[1].latency_ms.as_ref().unwrap();
    assert_eq!(
        (latency.p50, latency.p90, latency.p99),
        (300.0, 380.0, 398.0)
    );
}

#[test]
fn time_without_answers_is_covered_by_the_next_or_not_at_all() {
    let mut windows = RequestWindows::default();
    let lost = RequestSample::default;
    for (second, sample, covered_s, latest) in [
        (0, lost(), 0.0, None),
        (1, first(), 0.0, None),
        (2, sample(4, 4), 1.0, Some((4, 1.0))),
        (3, lost(), 1.0, None),
        (4, lost(), 1.0, None),
        (5, sample(6, 6), 4.0, Some((6, 3.0))),
        // A restarted planner of the proxies: no growth is known.
        (7, first(), 4.0, None),
        (8, sample(1, 1), 5.0, Some((1, 1.0))),
    ] {
        windows.add(Duration::from_secs(second), sample);
        let status = status(&windows, second);
        assert_eq!(status.windows[2].covered_s, covered_s, "{second} s");
        let found = status.latest.map(|it| (it.counts.arrivals, it.covered_s));
        assert_eq!(found, latest, "{second} s");
    }
}

#[test]
fn share_budget_accuracy_and_times_are_of_the_window() {
    let mut windows = RequestWindows::default();
    windows.add(Duration::ZERO, first());
    windows.add(Duration::from_secs(1), sample(1000, 995));
    let all = status(&windows, 1);
    assert_eq!((all.on_time_target, all.waiting), (0.99, Some(3)));
    assert_eq!(all.waiting_by_variant, [("b".to_owned(), 2)].into());
    let window = all.latest.unwrap();
    let round = |value: Option<f64>| value.map(|value| (value * 1e6).round() / 1e6);
    assert_eq!(window.on_time_share, Some(0.995));
    assert_eq!(round(window.error_budget_left), Some(0.5));
    let b = service(8).variants[1].accuracy;
    assert_eq!(round(window.accuracy_percent), Some(b));
    assert_eq!(window.counts.refused, [("queue-full".to_owned(), 5)].into());
    let b = &window.variants["b"];
    assert_eq!((b.predicted_ms, b.measured_ms), (Some(75.0), Some(80.0)));
    let service_ms = b.service_ms.as_ref().unwrap();
    assert_eq!((service_ms.count, service_ms.p50), (995, 75.0));
    let [bucket] = service_ms.buckets[..] else {
        panic!("{service_ms:?}");
    };
    assert_eq!(
        (bucket.above, bucket.up_to, bucket.count),
        (50.0, Some(100.0), 995)
    );
    let a = &window.variants["a"];
    assert_eq!((a.on_time, a.predicted_ms, a.measured_ms), (0, None, None));
    let x = &all.proxies["x"];
    assert_eq!(
        (x.counts.arrivals, x.counts.on_time, x.waiting),
        (1000, 995, Some(3))
    );
    // Of a service with half of the budget, all of it is used.
    let mut strict = service(8);
    strict.on_time_target = 0.995;
    let all = windows.status(Duration::from_secs(1), &strict, &BTreeMap::new());
    assert_eq!(all.on_time_target, 0.995);
    assert_eq!(round(all.latest.unwrap().error_budget_left), Some(0.0));
    // Ten times the budget is used.
    windows.add(Duration::from_secs(2), sample(1000, 900));
    let left = status(&windows, 2).latest.unwrap().error_budget_left;
    assert_eq!(round(left), Some(-9.0));
}

proptest! {
    /// The outcomes of a window are its ended requests, and windows are those of their blocks.
    #[test]
    fn outcomes_sum_to_the_ended_requests(
        samples in prop::collection::vec((0..100_u32, 0.0..1.0_f64, 0..400_u64), 1..80),
    ) {
        let mut windows = RequestWindows::default();
        let mut at = Duration::ZERO;
        let mut added = Vec::new();
        for (arrivals, share, pause_s) in samples {
            at += Duration::from_secs(pause_s);
            windows.add(at, sample(arrivals, (share * f64::from(arrivals)) as u32));
            added.push((at, u64::from(arrivals)));
        }
        let status = status(&windows, at.as_secs());
        for (window, (length, block)) in status.windows.iter().zip(WINDOWS) {
            let counts = &window.counts;
            let refused: u64 = counts.refused.values().sum();
            let sum = counts.on_time + counts.late + counts.failed + counts.client_disconnects;
            prop_assert_eq!(counts.ended, sum + refused);
            prop_assert_eq!(counts.ended, counts.arrivals);
            let within = |length: Duration| -> u64 {
                let each = added.iter().filter(|(then, _)| at - *then < length);
                each.map(|(_, arrivals)| arrivals).sum()
            };
            prop_assert!(counts.arrivals <= within(length));
            prop_assert!(counts.arrivals >= within(length - block));
        }
    }
}
