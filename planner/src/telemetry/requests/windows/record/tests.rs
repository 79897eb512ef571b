//! Records: windows go on as they were, less the time in between, and records that are wrong are refused.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::tests::{first, sample};
use super::*;
use crate::observe::RequestSample;
use crate::spec::tests::service;
use crate::telemetry::requests::{RequestStatus, RequestWindow};

fn status(windows: &RequestWindows, at: Duration) -> RequestStatus {
    windows.status(at, &service(8), &BTreeMap::new())
}

/// Restores windows from the text of their record.
fn restarted(
    windows: &RequestWindows,
    at: Duration,
    later: (Duration, Duration),
) -> RequestWindows {
    let Some(record) = windows.record(at, &service(8)) else {
        return RequestWindows::default();
    };
    let text = serde_json::to_string(&record).unwrap();
    let read: WindowRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(read, record, "{text}");
    RequestWindows::restored(&read, later, &service(8)).unwrap()
}

/// Numbers of a window that add up.
fn sums(window: &RequestWindow) -> [f64; 5] {
    let counts = &window.counts;
    let refused: u64 = counts.refused.values().sum();
    let b = window.variants["b"].service_ms.as_ref();
    [
        window.covered_s,
        counts.arrivals as f64,
        counts.on_time as f64,
        refused as f64,
        b.map_or(0.0, |b| b.count as f64),
    ]
}

/// Runs of requests: arrivals, share of them on time, and the time since the sample before in ms.
fn samples() -> impl Strategy<Value = Vec<(u32, f64, u64)>> {
    let pause_ms = prop_oneof![0..2000_u64, 0..400_000_u64, 0..8_000_000_u64];
    prop::collection::vec((0..100_u32, 0.0..1.0_f64, pause_ms), 2..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// A planner that ends after any sample, and another that starts before any later one, on a clock of its own, have
    /// the windows of one planner that missed the requests between the two.
    #[test]
    fn restart_anywhere_changes_nothing_but_the_gap(
        samples in samples(),
        (end, lost) in (0..60_usize, 1..20_usize),
        (begins_ms, up_ms) in (0..3_000_000_u64, 0..500_u64),
    ) {
        let mut at = Duration::ZERO;
        let samples: Vec<(Duration, RequestSample)> = samples
            .into_iter()
            .map(|(arrivals, share, pause_ms)| {
                at += Duration::from_millis(pause_ms);
                (at, sample(arrivals, (share * f64::from(arrivals)) as u32))
            })
            .collect();
        let end = end % (samples.len() - 1);
        let again = (end + lost).min(samples.len() - 1);
        let (left, restart) = (samples[end].0, samples[again].0);
        let mut one = RequestWindows::default();
        let mut all = RequestWindows::default();
        for (at, sample) in &samples[..=end] {
            one.add(*at, sample.clone());
            all.add(*at, sample.clone());
        }
        // The requests between the two.
        let mut gap = RequestWindows::default();
        gap.add(left, first());
        for (at, sample) in &samples[end + 1..=again] {
            gap.add(*at, sample.clone());
            all.add(*at, sample.clone());
        }
        // The next planner starts some time before its first sample.
        let up = Duration::from_millis(up_ms).min(restart - left);
        let begins = Duration::from_millis(begins_ms);
        let mut anew = restarted(&one, left, (begins, restart - up - left));
        let clock = |at: Duration| begins + up + (at - restart);
        let before = status(&anew, begins).windows;
        prop_assert_eq!(before, status(&one, restart - up).windows);
        for (number, (at, sample)) in samples.iter().enumerate().skip(again) {
            let sample = if number == again { first() } else { sample.clone() };
            one.add(*at, sample.clone());
            anew.add(clock(*at), sample.clone());
            if number > again {
                all.add(*at, sample);
            }
            let (one, anew) = (status(&one, *at), status(&anew, clock(*at)));
            prop_assert_eq!(&anew, &one);
            let (all, gap) = (status(&all, *at).windows, status(&gap, *at).windows);
            for ((all, gap), anew) in all.iter().zip(&gap).zip(&anew.windows) {
                for ((all, gap), anew) in sums(all).iter().zip(sums(gap)).zip(sums(anew)) {
                    prop_assert!((all - gap - anew).abs() < 1e-6, "{all} {gap} {anew}");
                }
            }
        }
    }
}

/// A record with requests of two blocks in each window.
fn record() -> Value {
    let mut windows = RequestWindows::default();
    let at = Duration::from_secs(20_000);
    windows.add(at - Duration::from_secs(301), sample(3, 2));
    windows.add(at - Duration::from_secs(299), sample(3, 2));
    windows.add(at, sample(100, 96));
    serde_json::to_value(windows.record(at, &service(8)).unwrap()).unwrap()
}

fn restored(record: Value) -> Result<RequestWindows, String> {
    let record = serde_json::from_value(record).map_err(|error| error.to_string())?;
    let later = (Duration::from_secs(5), Duration::from_secs(7));
    let restored = RequestWindows::restored(&record, later, &service(8));
    restored.map_err(|error| error.to_string())
}

#[test]
fn record_is_short() {
    let record = record();
    // Edges once, no variant without requests, nothing that is zero, no repeated counts at the end.
    let edges = json!([["50", "100", "inf"], ["200", "400"]]);
    assert_eq!(record["edges"], edges);
    assert_eq!(record["variants"], json!([["demo", "b"]]));
    let blocks = record["windows"].as_array().unwrap();
    let lengths: Vec<usize> = blocks
        .iter()
        .map(|it| it.as_array().unwrap().len())
        .collect();
    assert_eq!(lengths, [1, 2, 2]);
    let expected = json!({
        "ago": 0, "covered_ns": 299_000_000_000_u64, "arrivals": 100, "refused": { "queue-full": 4 },
        "latency_ms": [1, [0, 96]],
        "variants": [[0, [96, 0, 0], [96, 7680, 0, 0, 0, 0], [0, [0, 96]]]],
    });
    assert_eq!(record["windows"][0][0], expected);
}

#[test]
fn wrong_record_is_refused_with_the_reason() {
    assert!(restored(record()).is_ok());
    let block = "/windows/1/0";
    for (pointer, value, expected) in [
        ("/windows", json!([]), "0 windows, not 3"),
        (
            "/windows/0",
            json!(vec![record()["windows"][0][0].clone(); 61]),
            "a window of 61 blocks, of at most 60",
        ),
        ("/windows/0/0/ago", json!(60), "a block 60 blocks ago"),
        (
            "/windows/1/0/ago",
            json!(0),
            "a block 0 blocks ago that is out of order",
        ),
        ("/windows/1/0/ago", json!(-1), "invalid value: integer `-1`"),
        ("/time_ns", json!(0), "a block 5 blocks ago"),
        (
            "/edges/0",
            json!(["100", "50", "inf"]),
            "edges of a histogram that are not numbers or do not rise: [100.0, 50.0, inf]",
        ),
        (
            "/edges/0",
            json!(["NaN"]),
            "edges of a histogram that are not numbers",
        ),
        (
            "/edges/0/0",
            json!("few"),
            "invalid value: string \"few\", expected an edge of a histogram, such as 0.5 or inf",
        ),
        ("/edges", json!([]), "number 1 of a list of 0"),
        ("/edges/0", json!(["50"]), "number 2 of a list of 1"),
        ("/variants", json!([]), "number 0 of a list of 0"),
        (
            "/variants/0/0",
            json!("other"),
            "answers of variant b in stage other, which the service does not have",
        ),
        (
            "/variants/0/1",
            json!("c"),
            "answers of variant c in stage demo",
        ),
        (
            "/windows/1/0/arrivals",
            json!(-1),
            "invalid value: floating point `-1.0`, expected a count from 0 to 2^53",
        ),
        (
            "/windows/1/0/arrivals",
            json!(1e16),
            "invalid value: floating point `1e+16`",
        ),
        ("/windows/1/0/arrivals", json!(null), "invalid type: null"),
        (
            "/windows/1/0/covered_ns",
            json!(0.5),
            "invalid type: floating point",
        ),
    ] {
        let mut wrong = record();
        *wrong.pointer_mut(pointer).unwrap() = value;
        let refused = restored(wrong).unwrap_err();
        assert!(refused.starts_with(expected), "{pointer}: {refused}");
    }
    let mut unknown = record();
    unknown.pointer_mut(block).unwrap()["more"] = json!(1);
    assert!(
        restored(unknown)
            .unwrap_err()
            .contains("unknown field `more`")
    );
}

#[test]
fn other_versions_reasons_count_and_unknown_variants_do_not() {
    let mut record = record();
    record["windows"][0][0]["refused"] = json!({ "of-tomorrow": 3, "queue-full": 1 });
    let windows = restored(record).unwrap();
    let status = status(&windows, Duration::from_secs(5));
    let refused = &status.windows[0].counts.refused;
    assert_eq!(refused["other"], 3);
    assert_eq!(refused["queue-full"], 1);
    // What the service does not have is not in a record.
    let mut other = service(8);
    other.variants[1].name = "c".to_owned();
    let mut windows = RequestWindows::default();
    windows.add(Duration::ZERO, sample(9, 9));
    let record = windows.record(Duration::ZERO, &other).unwrap();
    assert!(record.variants.is_empty());
    assert_eq!(record.windows[0][0].arrivals, Count(9.0));
}

#[test]
fn what_is_no_number_counts_as_nothing() {
    for (count, expected) in [
        (f64::NAN, "0"),
        (-1.0, "0"),
        (f64::INFINITY, "9007199254740992"),
        (7.0, "7"),
        (7.25, "7.25"),
    ] {
        assert_eq!(serde_json::to_string(&Count(count)).unwrap(), expected);
    }
    let windows = RequestWindows::default();
    assert_eq!(windows.record(Duration::ZERO, &service(8)), None);
}
