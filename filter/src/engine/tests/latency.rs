//! Latency of whole requests: from the client's send, where it is known, to the end of an answer.

use super::*;
use crate::stats::Change;

/// Latencies recorded, in ms.
fn latencies(engine: &mut Engine) -> Vec<u64> {
    let mut samples = Vec::new();
    engine.stats.swap(&mut samples);
    let latencies = samples.iter().filter_map(|sample| match sample.change {
        Change::Value(ms) if sample.metric == Metric::LatencyMs => Some(ms),
        _ => None,
    });
    latencies.collect()
}

/// Checks the latencies of a request with these headers that arrives at 1,000 ms and is answered until 1,250 ms.
#[track_caller]
fn check(engine: &mut Engine, headers: &[(&str, &str)], expected: &[u64]) {
    let bytes: Vec<_> = headers
        .iter()
        .map(|(name, value)| (*name, value.as_bytes()))
        .collect();
    let verdict = request(engine, 1, &bytes, at(1000));
    assert!(matches!(verdict, Verdict::Forward(_)), "{headers:?}");
    engine.on_answer(1, Answer::default(), at(1100));
    end(engine, 1, End::Answered, at(1250));
    assert_eq!(latencies(engine), expected, "{headers:?}");
}

#[test]
fn latency_is_from_the_send_or_else_from_arrival() {
    let mut engine = one_slot();
    for (headers, expected) in [
        (&[][..], 250),
        (&[("x-slo-ms", "900")], 250),
        (&[("x-slo-start", "1790000000880")], 370),
        (&[("x-request-start", "t=1790000000950")], 300),
        // Neither of these is valid: a time to come, and one that is too old.
        (&[("x-slo-start", "1790000009000")], 250),
        (&[("x-slo-start", "1780000000000")], 250),
        // A deadline of an earlier hop is not trusted here.
        (
            &[
                ("x-slo-deadline", "1790000009000"),
                ("x-slo-start", "1790000000880"),
            ],
            370,
        ),
    ] {
        check(&mut engine, headers, &[expected]);
    }
}

#[test]
fn later_stage_counts_from_the_clients_send() {
    let json = format!(
        r#"{{"service":"demo","deadline":{{"trust_deadline":true}},"plan":{{"variants":[{}]}}}}"#,
        variant("a", 1.0, 1, 0.0)
    );
    let mut engine = alone(&json);
    let deadline = ("x-slo-deadline", "1790000009000");
    check(&mut engine, &[deadline], &[250]);
    check(
        &mut engine,
        &[deadline, ("x-slo-start", "1790000000400")],
        &[850],
    );
    check(
        &mut engine,
        &[deadline, ("x-slo-start", "1780000000000")],
        &[250],
    );
}

#[test]
fn time_in_the_queue_is_part_of_it() {
    let mut engine = one_slot();
    let headers = [("x-slo-start", b"1790000000000".as_slice())];
    for stream in [1, 2] {
        request(&mut engine, stream, &headers, at(10));
    }
    assert_eq!(forwarded(&end(&mut engine, 1, End::Answered, at(60))), [2]);
    end(&mut engine, 2, End::Answered, at(115));
    assert_eq!(latencies(&mut engine), [60, 115]);
}

#[test]
fn what_is_no_answer_has_no_latency() {
    for other in [
        End::Unreachable,
        End::Failed,
        End::TimedOut,
        End::Disconnected,
    ] {
        let mut engine = one_slot();
        submit(&mut engine, 1, 1000, at(0));
        end(&mut engine, 1, other, at(50));
        assert!(latencies(&mut engine).is_empty(), "{other:?}");
    }
    let mut engine = one_slot();
    submit(&mut engine, 1, 1000, at(0));
    let failed = Answer {
        failed: true,
        ..Answer::default()
    };
    engine.on_answer(1, failed, at(50));
    end(&mut engine, 1, End::Answered, at(50));
    assert!(latencies(&mut engine).is_empty(), "an error of the server");
}
