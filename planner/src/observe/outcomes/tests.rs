//! Requests between two scrapes, over proxies that restart, are lost, come and end.

use proptest::prelude::*;

use super::super::ScrapeError;
use super::*;

/// Counts of a proxy: arrivals, on time, late, failed, refused as `queue-full`, disconnects, and requests that wait.
type Row = [u32; 7];

fn counts([arrivals, on_time, late, failed, refused, disconnects, held]: Row) -> Counts {
    let mut outcomes = Outcomes {
        client_disconnects: disconnects.into(),
        held: held.into(),
        wait_ms: vec![(10.0, on_time.into()), (f64::INFINITY, on_time.into())],
        latency_ms: vec![(99.0, on_time.into()), (f64::INFINITY, on_time.into())],
        ..Outcomes::default()
    };
    *outcomes.refused.of("queue-full") = refused.into();
    // A filter exports a series once it has something to count.
    if on_time + late + failed > 0 {
        let variant = VariantOutcomes {
            served: (on_time + late + failed).into(),
            on_time: on_time.into(),
            late: late.into(),
            waiting: held.into(),
            service_ms: vec![(50.0, on_time.into()), (f64::INFINITY, on_time.into())],
        };
        outcomes.variants.insert("a".to_owned(), variant);
    }
    Counts {
        outcomes: outcomes.into(),
        ..Counts::of_arrivals(arrivals.into())
    }
}

fn scrape(from: &str, second: u64, row: Option<Row>) -> Scrape {
    Scrape {
        from: from.into(),
        at: Duration::from_secs(second),
        counts: row.map(counts).ok_or(ScrapeError::Status(503)),
    }
}

/// Sum of a sample in the form of a row.
fn row(sample: &RequestSample) -> Option<Row> {
    let sum = sample.sum()?;
    let none = VariantIncrease::default();
    let a = sum.variants.get("a").unwrap_or(&none);
    let held: f64 = sample.waiting.values().map(|waiting| waiting.held).sum();
    let (refused, disconnects) = (sum.refused.sum(), sum.client_disconnects);
    let all = [
        sum.arrivals,
        a.on_time,
        a.late,
        a.failed,
        refused,
        disconnects,
        held,
    ];
    Some(all.map(|count| count as u32))
}

/// Second, scraped proxies with `None` for one that does not answer, and the expected sum.
type Step<'a> = (u64, &'a [(&'a str, Option<Row>)], Option<Row>);

/// Checks scrapes, each at its second.
#[track_caller]
fn check(rows: &[Step<'_>]) {
    let mut counts = OutcomeCounts::default();
    for (second, proxies, expected) in rows {
        let one = |(from, row): &(&str, Option<Row>)| scrape(from, *second, *row);
        let scrapes: Vec<Scrape> = proxies.iter().map(one).collect();
        let sample = counts.observe(Duration::from_secs(*second), &scrapes);
        assert_eq!(row(&sample), *expected, "{second} s");
        assert_eq!(
            sample.answered,
            proxies.iter().any(|(_, row)| row.is_some())
        );
    }
}

#[test]
fn growth_of_all_proxies_is_summed_and_gauges_are_of_now() {
    check(&[
        // Counted before, at unknown times.
        (0, &[("x", Some([900, 800, 50, 10, 30, 5, 2]))], None),
        (
            1,
            &[("x", Some([910, 807, 51, 11, 32, 5, 3]))],
            Some([10, 7, 1, 1, 2, 0, 3]),
        ),
        // A new proxy has no growth yet; it holds requests.
        (
            2,
            &[
                ("y", Some([50, 40, 0, 0, 0, 0, 9])),
                ("x", Some([911, 808, 51, 11, 32, 5, 0])),
            ],
            Some([1, 1, 0, 0, 0, 0, 9]),
        ),
        (
            3,
            &[
                ("x", Some([911, 808, 51, 11, 32, 6, 1])),
                ("y", Some([53, 42, 1, 0, 0, 0, 0])),
            ],
            Some([3, 2, 1, 0, 0, 1, 1]),
        ),
    ]);
}

#[test]
fn first_answer_of_a_variant_counts_from_zero() {
    check(&[
        (0, &[("x", Some([0; 7]))], None),
        (
            1,
            &[("x", Some([3, 2, 1, 0, 0, 0, 0]))],
            Some([3, 2, 1, 0, 0, 0, 0]),
        ),
    ]);
}

#[test]
fn restarted_proxy_counts_from_zero() {
    check(&[
        (0, &[("x", Some([900, 800, 50, 10, 30, 5, 2]))], None),
        // Nothing is exported before the first request.
        (1, &[("x", Some([0; 7]))], Some([0; 7])),
        (
            2,
            &[("x", Some([4, 3, 0, 0, 0, 0, 1]))],
            Some([4, 3, 0, 0, 0, 0, 1]),
        ),
        // It has restarted and counted already.
        (
            3,
            &[("x", Some([2, 1, 0, 0, 0, 0, 0]))],
            Some([2, 1, 0, 0, 0, 0, 0]),
        ),
    ]);
}

#[test]
fn lost_proxy_is_unknown_and_its_next_answer_covers_the_time() {
    check(&[
        (
            0,
            &[("x", Some([100, 90, 0, 0, 10, 0, 4])), ("y", Some([0; 7]))],
            None,
        ),
        // The requests that wait at x are as it said last.
        (
            1,
            &[("x", None), ("y", Some([5, 5, 0, 0, 0, 0, 1]))],
            Some([5, 5, 0, 0, 0, 0, 5]),
        ),
        (2, &[("x", None), ("y", None)], None),
        (
            3,
            &[("x", Some([130, 110, 0, 0, 20, 0, 0])), ("y", None)],
            Some([30, 20, 0, 0, 10, 0, 1]),
        ),
    ]);
}

#[test]
fn requests_of_a_proxy_that_was_silent_for_long_are_of_no_known_time() {
    check(&[
        (0, &[("x", Some([100, 90, 0, 0, 10, 0, 4]))], None),
        (
            60,
            &[("x", Some([130, 120, 0, 0, 10, 0, 4]))],
            Some([30, 30, 0, 0, 0, 0, 4]),
        ),
        (121, &[("x", Some([900, 890, 0, 0, 10, 0, 2]))], None),
        (
            122,
            &[("x", Some([901, 891, 0, 0, 10, 0, 3]))],
            Some([1, 1, 0, 0, 0, 0, 3]),
        ),
    ]);
}

#[test]
fn requests_that_wait_at_a_proxy_count_for_a_minute_without_an_answer() {
    let mut counts = OutcomeCounts::default();
    for (second, row, expected) in [
        (0, Some([9; 7]), Some(9.0)),
        (60, None, Some(9.0)),
        (61, None, None),
    ] {
        let sample = counts.observe(Duration::from_secs(second), &[scrape("x", second, row)]);
        let held = sample.waiting.get("x").map(|waiting| waiting.held);
        assert_eq!(held, expected, "{second} s");
    }
    let ended = counts.observe(Duration::from_secs(62), &[]);
    assert_eq!(ended, RequestSample::default());
}

#[test]
fn increase_of_variant_reason_and_histogram_is_in_its_place() {
    let mut counts = OutcomeCounts::default();
    let at = Duration::from_secs;
    counts.observe(at(0), &[scrape("x", 0, Some([9, 5, 1, 1, 2, 0, 0]))]);
    let sample = counts.observe(at(1), &[scrape("x", 1, Some([19, 10, 3, 2, 4, 0, 6]))]);
    let sum = sample.sum().unwrap();
    let a = &sum.variants["a"];
    assert_eq!((a.on_time, a.late, a.failed), (5.0, 2.0, 1.0));
    assert_eq!(a.service_ms, [(50.0, 5.0), (f64::INFINITY, 5.0)]);
    assert_eq!(sum.wait_ms, [(10.0, 5.0), (f64::INFINITY, 5.0)]);
    assert_eq!(sum.latency_ms, [(99.0, 5.0), (f64::INFINITY, 5.0)]);
    let refused: Vec<_> = sum.refused.each().filter(|it| it.1 > 0.0).collect();
    assert_eq!(refused, [("queue-full", 2.0)]);
    assert_eq!(sample.waiting["x"].variants["a"], 6.0);
}

/// A second of a proxy: new requests by their end, whether it restarts before, and whether its answer is lost.
type Second = ([u32; 5], bool, bool);

proptest! {
    /// Over proxies that restart and are lost, no end is counted twice, and without restarts none is missing.
    #[test]
    fn ends_are_counted_once(
        seconds in prop::collection::vec(
            prop::collection::vec(
                (prop::array::uniform5(0..20_u32), prop::bool::weighted(0.1), prop::bool::weighted(0.2)),
                3,
            ),
            1..40,
        ),
        restarts in any::<bool>(),
    ) {
        let mut counts = OutcomeCounts::default();
        let (mut totals, mut found, mut real) = ([[0; 7]; 3], [0_u64; 6], [0_u64; 6]);
        let first = ["x", "y", "z"].map(|from| scrape(from, 0, Some([0; 7])));
        counts.observe(Duration::ZERO, &first);
        let last: Vec<Second> = vec![([0; 5], false, false); 3];
        for (second, proxies) in (1..).zip(seconds.iter().chain([&last])) {
            let mut scrapes = Vec::new();
            for ((total, from), (ends, restarted, lost)) in
                totals.iter_mut().zip(["x", "y", "z"]).zip(proxies)
            {
                if *restarted && restarts {
                    *total = [0; 7];
                }
                let arrivals: u32 = ends.iter().sum();
                let news = [arrivals].into_iter().chain(*ends);
                for (index, new) in news.enumerate() {
                    total[index] += new;
                    real[index] += u64::from(new);
                }
                scrapes.push(scrape(from, second, (!lost).then_some(*total)));
            }
            let sample = counts.observe(Duration::from_secs(second), &scrapes);
            for (found, new) in found.iter_mut().zip(row(&sample).unwrap_or_default()) {
                *found += u64::from(new);
            }
        }
        if !restarts {
            prop_assert_eq!(found, real);
        }
        prop_assert!(found.iter().zip(&real).all(|(found, real)| found <= real), "{:?} {:?}", found, real);
    }
}
