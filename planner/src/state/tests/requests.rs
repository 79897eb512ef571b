//! Files of requests by window, whole and broken.

use std::collections::BTreeMap;

use super::*;
use crate::observe::{RequestIncrease, RequestSample, VariantIncrease};
use crate::service::Service;
use crate::spec::tests::service;
use crate::telemetry::requests::{RequestWindows, WINDOWS};

const AT: Duration = Duration::from_secs(40_000);

/// Requests of all variants, with histograms of 20 buckets.
fn sample(service: &Service) -> RequestSample {
    let buckets = |count: u32| -> Vec<(f64, f64)> {
        let edges = (1..=20).map(f64::from);
        edges
            .map(|edge| (edge * 12.5, edge * f64::from(count)))
            .collect()
    };
    let variants = service.variants.iter().map(|variant| {
        let increase = VariantIncrease {
            on_time: 12_345.0,
            late: 678.0,
            service_ms: buckets(650),
            ..VariantIncrease::default()
        };
        (variant.name.clone(), increase)
    });
    let increase = RequestIncrease {
        arrivals: 13_023.0,
        wait_ms: buckets(651),
        variants: variants.collect(),
        ..RequestIncrease::default()
    };
    RequestSample {
        answered: true,
        proxies: [("x".into(), increase.into())].into(),
        ..RequestSample::default()
    }
}

/// Windows of which all blocks have requests.
fn full(service: &Service) -> RequestWindows {
    let mut windows = RequestWindows::default();
    let sample = sample(service);
    // Before the shorter windows, one sample in each block of the longer ones.
    let longest = (3600..21_600).step_by(300);
    let ago = (0..300)
        .step_by(5)
        .chain((300..3600).step_by(60))
        .chain(longest);
    let ago: Vec<u64> = ago.collect();
    for seconds in ago.into_iter().rev() {
        windows.add(AT - Duration::from_secs(seconds), sample.clone());
    }
    windows
}

fn text(windows: &RequestWindows, service: &Service) -> String {
    let file = StateFile::new(Path::new("nowhere"), "demo");
    let record = windows.record(AT, service).unwrap();
    file.requests_text(record, now(100_000)).unwrap()
}

fn requests(windows: &RequestWindows, at: Duration, service: &Service) -> serde_json::Value {
    let status = windows.status(at, service, &BTreeMap::new());
    serde_json::to_value(status.windows).unwrap()
}

#[test]
fn requests_are_read_as_they_were_written_for_six_hours() {
    let folder = tempfile::tempdir().unwrap();
    let (file, service) = (file(&folder), service(8));
    assert_eq!(
        file.requests_path(),
        folder.path().join("demo.requests.json")
    );
    assert!(file.read_requests(&service, now(0)).unwrap().is_none());
    let windows = full(&service);
    file.write_requests(&text(&windows, &service)).unwrap();
    let longest = WINDOWS[2].0;
    for age_ms in [0, 2500, 3_600_000, 21_600_000 - 1] {
        let (read, age) = file
            .read_requests(&service, now(100_000 + age_ms))
            .unwrap()
            .unwrap();
        assert_eq!(age, Duration::from_millis(age_ms));
        let expected = requests(&windows, AT + age, &service);
        assert_eq!(requests(&read, now(0).at, &service), expected, "{age:?}");
    }
    let late = now(100_000 + u64::try_from(longest.as_millis()).unwrap());
    assert!(file.read_requests(&service, late).unwrap().is_none());
}

#[test]
fn other_files_of_requests_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (file, service) = (file(&folder), service(8));
    let whole = text(&full(&service), &service);
    let broken = "it is no requests by window, or not all of it";
    let of = |old: &str, new: &str| {
        assert!(whole.contains(old), "{old}");
        whole.replacen(old, new, 1)
    };
    for (text, expected) in [
        (String::new(), broken),
        (whole[..whole.len() / 2].to_owned(), broken),
        (of("weir-requests", "weir-history"), "version 1, not 1"),
        (of("\"version\":1", "\"version\":2"), "version 2, not 1"),
        (
            of("\"service\":\"demo\"", "\"service\":\"other\""),
            "it is of service other",
        ),
        (of("\"time_ns\"", "\"times\""), broken),
        (of("\"arrivals\":", "\"arrivals\":1e999,\"s\":"), broken),
        (
            of("[\"demo\",\"a\"]", "[\"demo\",\"c\"]"),
            "answers of variant c in stage demo",
        ),
        (
            " ".repeat(usize::try_from(STATE_BYTES_MAX).unwrap()) + "{}",
            "more than 1048576 bytes",
        ),
    ] {
        std::fs::write(file.requests_path(), &text).unwrap();
        let refused = file
            .read_requests(&service, now(102_000))
            .unwrap_err()
            .to_string();
        assert!(refused.starts_with(expected), "{refused}");
    }
    std::fs::write(file.requests_path(), &whole).unwrap();
    let refused = file
        .read_requests(&service, now(99_000))
        .unwrap_err()
        .to_string();
    assert_eq!(refused, "it ends 1s from now: the clock was set back");
}

#[test]
fn requests_of_many_variants_are_kept_without_histograms() {
    let mut service = service(8);
    let one = service.variants[0].clone();
    service.variants = (0..64)
        .map(|number| {
            let name = format!("variant-with-a-long-name-{number}");
            crate::service::Variant {
                name,
                ..one.clone()
            }
        })
        .collect();
    service.stages[0].variants = 0..64;
    let windows = full(&service);
    let text = text(&windows, &service);
    assert!((text.len() as u64) < STATE_BYTES_MAX, "{}", text.len());
    let file = StateFile::new(Path::new("nowhere"), "demo");
    let parsed = file.parse_requests(text.as_bytes(), &service, now(100_000));
    let (read, _) = parsed.unwrap().unwrap();
    let (mut expected, read) = (
        requests(&windows, AT, &service),
        requests(&read, now(0).at, &service),
    );
    for window in expected.as_array_mut().unwrap() {
        window["wait_ms"] = serde_json::Value::Null;
        for variant in window["variants"].as_object_mut().unwrap().values_mut() {
            variant["service_ms"] = serde_json::Value::Null;
        }
    }
    assert_eq!(read, expected);
}

#[test]
fn requests_that_do_not_fit_are_not_written() {
    let mut service = service(8);
    let one = service.variants[0].clone();
    service.variants = (0..400)
        .map(|number| {
            let name = format!("a{number}");
            crate::service::Variant {
                name,
                ..one.clone()
            }
        })
        .collect();
    service.stages[0].variants = 0..400;
    let record = full(&service).record(AT, &service).unwrap();
    let file = StateFile::new(Path::new("nowhere"), "demo");
    let refused = file.requests_text(record, now(100_000)).unwrap_err();
    assert_eq!(refused.to_string(), "more than 1048576 bytes");
}

proptest! {
    /// Cut anywhere, or with any byte changed, it is read or refused.
    #[test]
    fn broken_files_of_requests_never_panic(cut in 0..4000_usize, at in 0..4000_usize, byte in any::<u8>()) {
        let service = service(8);
        let file = StateFile::new(Path::new("nowhere"), "demo");
        let mut windows = RequestWindows::default();
        windows.add(AT, sample(&service));
        let whole = text(&windows, &service).into_bytes();
        let cut = cut.min(whole.len() - 1);
        prop_assert!(file.parse_requests(&whole[..cut], &service, now(102_000)).is_err());
        let mut bytes = whole.clone();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(Some((read, _))) = file.parse_requests(&bytes, &service, now(102_000)) {
            // A count may be another one.
            let windows = requests(&read, now(0).at, &service);
            prop_assert_eq!(windows.as_array().unwrap().len(), 3);
        }
    }
}
