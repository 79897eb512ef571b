//! Answers that stream: the deadline is for the first byte, the slot for the last one.

use super::*;
use crate::stats::Change;

const PATH: &str = "/v1/chat/completions";

fn stream_of(engine: &mut Engine, stream: StreamId, budget_ms: u64, now: Now) -> Verdict {
    let budget = budget_ms.to_string();
    let headers = [
        (":path", PATH.as_bytes()),
        ("x-slo-ttft-ms", budget.as_bytes()),
    ];
    request(engine, stream, &headers, now)
}

/// Plays a stream whose first byte comes after 100 ms, until its end after 1,000.
fn played(engine: &mut Engine, stream: StreamId, from: u64) {
    let verdict = stream_of(engine, stream, 800, at(from));
    let Verdict::Forward(dispatch) = verdict else {
        panic!("{stream}: {verdict:?}")
    };
    assert_eq!(dispatch.timeout, None, "it may go on");
    let tags = engine.on_answer(stream, served(), at(from + 20)).unwrap();
    assert!(tags.awaits_byte);
    engine.on_first_byte(stream, at(from + 100));
    assert!(release(engine, at(from + 900)).is_empty(), "not cut");
    end(engine, stream, End::Answered, at(from + 1000));
}

fn counted(samples: &[crate::stats::Sample], metric: Metric) -> i64 {
    let of_metric = samples.iter().filter(|sample| sample.metric == metric);
    let counts = of_metric.map(|sample| match sample.change {
        Change::By(count) => count,
        Change::To(_) | Change::Value(_) => 0,
    });
    counts.sum()
}

#[test]
fn stream_is_on_time_with_its_first_byte_and_no_measure_of_an_answer() {
    let mut engine = engine(&[variant("a", 1.0, 2, 100.0)], "");
    let mut samples = Vec::new();
    for stream in 1..=40 {
        played(&mut engine, stream, u64::from(stream) * 1100);
    }
    engine.stats.swap(&mut samples);
    assert_eq!(counted(&samples, Metric::OnTime), 40);
    assert_eq!(counted(&samples, Metric::Late), 0);
    let latencies = samples
        .iter()
        .filter(|sample| sample.metric == Metric::LatencyMs);
    assert!(latencies.clone().count() == 40);
    assert!(
        latencies
            .clone()
            .all(|sample| sample.change == Change::Value(100))
    );
    assert!(
        !samples
            .iter()
            .any(|sample| sample.metric == Metric::ServiceMs)
    );
    let predicted = engine.variants.get(VariantId(0)).unwrap().predicted.high;
    assert!(predicted < Span::from_millis(130), "{predicted:?}");
}

#[test]
fn stream_holds_its_slot_to_its_last_byte() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], SLOTS_HOLD);
    stream_of(&mut engine, 1, 800, at(10));
    engine.on_answer(1, served(), at(20));
    engine.on_first_byte(1, at(100));
    assert_eq!(stream_of(&mut engine, 2, 5000, at(200)), Verdict::Park);
    assert_eq!(
        forwarded(&end(&mut engine, 1, End::Answered, at(1000))),
        [2]
    );
}

#[test]
fn headers_alone_meet_no_deadline() {
    let mut engine = one_slot();
    stream_of(&mut engine, 1, 800, at(10));
    assert!(engine.on_answer(1, served(), at(20)).unwrap().awaits_byte);
    let verdicts = release(&mut engine, at(811));
    assert_eq!(verdicts.len(), 1);
    assert_eq!(reason(&verdicts[0].1), Some(Reason::Expired));
    // An error needs no body.
    stream_of(&mut engine, 2, 800, at(5000));
    let failed = Answer {
        failed: true,
        ..Answer::default()
    };
    assert!(!engine.on_answer(2, failed, at(5020)).unwrap().awaits_byte);
}

#[test]
fn slow_reader_of_a_stream_loses_its_slot_in_time() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], SLOTS_HOLD);
    stream_of(&mut engine, 1, 800, at(10));
    engine.on_answer(1, served(), at(20));
    engine.on_first_byte(1, at(100));
    let mut verdicts = Vec::new();
    // The server fills the buffer at once, and again within two seconds: the client reads.
    for ms in [101, 1900, 3800] {
        engine.on_response_exceeds_buffer(1, at(ms), &mut verdicts);
        assert!(release(&mut engine, at(ms + 1000)).is_empty());
    }
    assert_eq!(stream_of(&mut engine, 2, 20_000, at(4900)), Verdict::Park);
    // Twice as long as the stream has taken so far, and no more.
    assert!(release(&mut engine, at(11_000)).is_empty());
    assert_eq!(forwarded(&release(&mut engine, at(11_300))), [2]);
    assert!(end(&mut engine, 1, End::Answered, at(30_000)).is_empty());
    assert!(end(&mut engine, 2, End::Answered, at(30_001)).is_empty());
    assert_eq!(engine.open(), 0);
    assert_eq!(engine.next_timer(), None);
}
