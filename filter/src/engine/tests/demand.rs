//! Demand: requests that some variant could have served, and the samples that one source adds.

use super::*;
use crate::request::body::BodyChunk;
use crate::stats::{Change, Sample};

/// Number of each since the last call: arrivals, unservable requests, network latencies.
fn counts(engine: &mut Engine) -> (i64, i64, usize) {
    let mut samples: Vec<Sample> = Vec::new();
    engine.stats.swap(&mut samples);
    let sum = |metric| {
        let of = samples.iter().filter(|sample| sample.metric == metric);
        of.map(|sample| match sample.change {
            Change::By(by) => by,
            _ => 0,
        })
        .sum()
    };
    let ways = samples.iter();
    let ways = ways.filter(|sample| sample.metric == Metric::NetworkLatencyMs);
    (sum(Metric::Arrivals), sum(Metric::Unservable), ways.count())
}

/// A variant that takes 300 ms with its present cores, and 100 with all that it may be given.
fn slow_now() -> String {
    let variant = variant("a", 1.0, 1, 300.0);
    variant.replace('}', r#","service_min_ms":100}"#)
}

fn stamped(engine: &mut Engine, ms: &str, sent_ms_ago: u64, rest: IncomingRequest<'_>) -> Verdict {
    let start = (1_790_000_000_000 - sent_ms_ago).to_string();
    let headers = [
        ("x-slo-ms", ms.as_bytes()),
        ("x-slo-start", start.as_bytes()),
    ];
    let incoming = IncomingRequest {
        wire: Wire::pick(headers),
        ..rest
    };
    engine.on_request(1, &incoming, at(0), &mut Vec::new())
}

/// A caller's proxy that retries a refusal three times is no threefold demand.
#[test]
fn retry_by_a_callers_proxy_is_no_new_demand() {
    let mut engine = engine(&[variant("a", 1.0, 9, 10.0)], "");
    for (attempt, arrivals) in [("1", 1), ("2", 0), ("3", 0), ("many", 1), ("", 1)] {
        let headers = [("x-envoy-attempt-count", attempt.as_bytes())];
        let stream = counts(&mut engine).0 as StreamId;
        request(&mut engine, stream, &headers, at(0));
        end(&mut engine, stream, End::Answered, at(1));
        assert_eq!(counts(&mut engine).0, arrivals, "attempt '{attempt}'");
    }
}

#[test]
fn request_that_no_variant_could_serve_is_not_demand() {
    let mut engine = engine(&[slow_now()], PLAN_HOLDS);
    for (what, headers, expected) in [
        (
            "out of time when it came",
            [("x-slo-ms", "500"), ("x-slo-start", "1789999999400")],
            (0, 1, 0),
        ),
        (
            "no variant has that accuracy",
            [
                ("x-slo-min-accuracy", "99.9"),
                ("x-slo-start", "1789999999900"),
            ],
            (0, 1, 0),
        ),
        (
            "less than the least time",
            [("x-slo-ms", "199"), ("x-slo-start", "1789999999900")],
            (0, 1, 0),
        ),
        (
            "more cores would do",
            [("x-slo-ms", "201"), ("x-slo-start", "1789999999900")],
            (1, 0, 1),
        ),
    ] {
        let headers = headers.map(|(name, value)| (name, value.as_bytes()));
        let verdict = request(&mut engine, 1, &headers, at(0));
        assert!(matches!(verdict, Verdict::Reject(_)), "{what}");
        assert_eq!(counts(&mut engine), expected, "{what}");
    }
    assert!(matches!(
        submit(&mut engine, 2, 400, at(0)),
        Verdict::Forward(_)
    ));
    assert_eq!(counts(&mut engine), (1, 0, 0));
}

/// Otherwise a plan that is too small for its demand would hide it, and never grow.
#[test]
fn request_that_more_cores_could_serve_is_demand() {
    let mut engine = engine(&[slow_now()], PLAN_HOLDS);
    let body = IncomingRequest {
        body_follows: true,
        ..IncomingRequest::default()
    };
    for (ms, expected) in [("250", (1, 0, 1)), ("99", (0, 1, 0))] {
        let verdict = stamped(&mut engine, ms, 0, body);
        assert_eq!(reason(&verdict), Some(Reason::Infeasible), "{ms}");
        assert_eq!(counts(&mut engine), expected, "{ms}");
    }
    // A request whose body does not come in time.
    assert_eq!(stamped(&mut engine, "400", 0, body), Verdict::Park);
    assert_eq!(counts(&mut engine), (0, 0, 0));
    assert_eq!(release(&mut engine, at(401)).len(), 1);
    assert_eq!(counts(&mut engine), (0, 1, 0));
}

#[test]
fn demand_is_counted_before_the_first_plan() {
    for on_stale in ["keep", "refuse"] {
        let json = format!(
            r#"{{"service":"demo","planner":{{"cluster":"p","key":"k"}},"on_stale":"{on_stale}"}}"#
        );
        let mut engine = alone(&json);
        submit(&mut engine, 1, 10, at(0));
        assert_eq!(counts(&mut engine), (1, 0, 0), "{on_stale}");
        stamped(&mut engine, "100", 900, IncomingRequest::default());
        assert_eq!(counts(&mut engine), (0, 1, 0), "{on_stale}");
    }
}

/// Slack samples at and before arrival, in ms.
fn slacks(engine: &mut Engine) -> Vec<i64> {
    let mut samples: Vec<Sample> = Vec::new();
    engine.stats.swap(&mut samples);
    let ours = samples
        .iter()
        .filter(|one| one.metric == Metric::DemandSlackMs);
    let left = ours.map(|sample| match sample.change {
        Change::Value(ms) => i64::try_from(ms).unwrap(),
        _ => -1,
    });
    left.collect()
}

#[test]
fn slack_is_sampled_at_arrival_and_at_each_halving() {
    let config = r#","deadline":{"reserve_ms":50},"queue":{"correct":false}"#;
    let body = IncomingRequest {
        body_follows: true,
        ..IncomingRequest::default()
    };
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], config);
    // 1000 ms less 150 of network latency and 50 of reserve.
    assert_eq!(stamped(&mut engine, "1000", 150, body), Verdict::Park);
    assert!(release(&mut engine, at(401)).is_empty());
    assert_eq!(slacks(&mut engine), [399]);
    assert!(release(&mut engine, at(601)).is_empty());
    assert_eq!(slacks(&mut engine), [199]);
    let all = BodyChunk {
        bytes: 9,
        complete: true,
    };
    let verdict = engine.on_body(1, all, |_| None, at(650), &mut Vec::new());
    let verdict = verdict.decided();
    assert!(matches!(verdict, Some(Verdict::Forward(_))), "{verdict:?}");
    assert_eq!(slacks(&mut engine), [150]);
    // A request without a time of sending, and one that no variant can serve in its time.
    let unknown = IncomingRequest {
        wire: Wire::pick([("x-slo-ms", &b"800"[..])]),
        ..body
    };
    assert_eq!(
        engine.on_request(2, &unknown, at(700), &mut Vec::new()),
        Verdict::Park
    );
    release(&mut engine, at(1200));
    let ended = release(&mut engine, at(1401));
    assert!(ended.iter().any(|(stream, _)| *stream == 2), "{ended:?}");
    assert_eq!(slacks(&mut engine), [0; 0]);
}

#[test]
fn slow_uploads_of_one_source_are_sampled_within_its_allowance() {
    let mut engine = engine(&[variant("a", 1.0, 1, 1.0)], "");
    let start = 1_790_000_000_000_u64.to_string();
    let wire = [
        ("x-slo-ms", &b"1000"[..]),
        ("x-slo-start", start.as_bytes()),
    ];
    for stream in 0..100 {
        let incoming = IncomingRequest {
            wire: Wire::pick(wire),
            body_follows: true,
            sender: Some(1),
            ..IncomingRequest::default()
        };
        assert_eq!(
            engine.on_request(stream, &incoming, at(0), &mut Vec::new()),
            Verdict::Park
        );
    }
    for ms in 1..=990 {
        release(&mut engine, at(ms));
    }
    let most = crate::request::sample_limit::PER_SECOND as usize;
    assert!((most..=2 * most).contains(&slacks(&mut engine).len()));
}

/// One sender must not determine the percentiles of all clients.
#[test]
fn network_latency_of_one_source_is_sampled_within_its_allowance() {
    let mut engine = engine(&[variant("a", 1.0, 1000, 1.0)], "");
    let mut ways = |sender: Option<u64>| {
        for _ in 0..200 {
            let rest = IncomingRequest {
                sender,
                ..IncomingRequest::default()
            };
            stamped(&mut engine, "1000", 900, rest);
        }
        let (arrivals, count_unservable, ways) = counts(&mut engine);
        assert_eq!((arrivals, count_unservable), (200, 0));
        ways
    };
    let most = crate::request::sample_limit::PER_SECOND as usize;
    assert_eq!(
        (ways(Some(1)), ways(Some(1)), ways(Some(2))),
        (most, 0, most)
    );
    assert_eq!(ways(None), 200, "the source was not looked up");
}

/// Arrivals by required accuracy, for variants of these accuracies: the names of the variants that they count for.
fn required(accuracies: &[(&str, f64)], required: &[&str]) -> Vec<String> {
    let variants: Vec<String> = accuracies
        .iter()
        .map(|(name, accuracy)| {
            let accuracy = format!(r#""accuracy":{accuracy}"#);
            variant(name, 1.0 / accuracies.len() as f64, 9, 10.0)
                .replace(r#""accuracy":70"#, &accuracy)
        })
        .collect();
    let mut engine = engine(&variants, "");
    for (stream, accuracy) in (1..).zip(required) {
        request(
            &mut engine,
            stream,
            &[("x-slo-min-accuracy", accuracy.as_bytes())],
            at(0),
        );
    }
    let mut samples: Vec<Sample> = Vec::new();
    engine.stats.swap(&mut samples);
    let of = samples
        .iter()
        .filter(|sample| sample.metric == Metric::AccuracyArrivals);
    of.map(|sample| match sample.label {
        crate::stats::Label::Variant(id) => engine.variants.get(id).unwrap().name.to_string(),
        label => panic!("{label:?}"),
    })
    .collect()
}

#[test]
fn arrivals_are_counted_for_the_least_accurate_variant_that_will_do() {
    let two = [("large", 80.0), ("small", 70.0)];
    let counted = required(&two, &["0", "70", "70.1", "80", "81"]);
    assert_eq!(
        counted,
        ["small", "small", "large", "large"],
        "81 is no demand"
    );
    // Where all are equally accurate there is nothing to tell.
    assert!(required(&[("a", 70.0), ("b", 70.0)], &["0", "70"]).is_empty());
    assert!(required(&[("a", 70.0)], &["0"]).is_empty());
}
