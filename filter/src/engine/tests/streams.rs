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
    assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
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
    let mut engine = engine(&[variant("a", 1.0, 2, 100.0)], SLOTS_HOLD);
    stream_of(&mut engine, 1, 800, at(10));
    engine.on_answer(1, served(), at(20));
    engine.on_first_byte(1, at(100));
    submit(&mut engine, 3, 60_000, at(100));
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
    for stream in [2, 3] {
        assert!(end(&mut engine, stream, End::Answered, at(30_001)).is_empty());
    }
    assert_eq!(engine.open(), 0);
    assert_eq!(engine.next_timer(), None);
}

/// Answer whose `content-type` is one of streams.
fn events() -> Answer {
    Answer {
        streams: true,
        ..served()
    }
}

#[test]
fn answer_of_a_streams_type_is_a_stream_whatever_its_path() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], SLOTS_HOLD);
    for (stream, from) in (1..=20).zip((0..).step_by(20_000)) {
        assert!(matches!(
            submit(&mut engine, stream, 1000, at(from)),
            Verdict::Forward(_)
        ));
        assert!(
            engine
                .on_answer(stream, events(), at(from + 50))
                .unwrap()
                .awaits_byte
        );
        engine.on_first_byte(stream, at(from + 100));
        let waiting = stream + 1000;
        assert_eq!(
            submit(&mut engine, waiting, 60_000, at(from + 200)),
            Verdict::Park
        );
        assert!(
            release(&mut engine, at(from + 15_000)).is_empty(),
            "not cut"
        );
        assert_eq!(
            forwarded(&end(&mut engine, stream, End::Answered, at(from + 15_001))),
            [waiting]
        );
        end(&mut engine, waiting, End::Answered, at(from + 15_101));
    }
    let mut samples = Vec::new();
    engine.stats.swap(&mut samples);
    assert_eq!(counted(&samples, Metric::OnTime), 40);
    let predicted = engine.variants.get(VariantId(0)).unwrap().predicted.high;
    assert!(predicted < Span::from_millis(130), "{predicted:?}");
}

#[test]
fn stream_by_its_type_without_a_byte_ends_at_the_deadline() {
    let mut engine = one_slot();
    submit(&mut engine, 1, 800, at(0));
    assert!(engine.on_answer(1, events(), at(20)).unwrap().awaits_byte);
    let verdicts = release(&mut engine, at(811));
    assert_eq!(reason(&verdicts[0].1), Some(Reason::Expired));
}

#[test]
fn plain_answer_that_hangs_is_cut_and_frees_its_slot() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], SLOTS_HOLD);
    submit(&mut engine, 1, 800, at(0));
    assert!(!engine.on_answer(1, served(), at(20)).unwrap().awaits_byte);
    let finish = engine.config().deadline.finish.as_millis();
    assert!(release(&mut engine, at(800 + finish)).is_empty());
    let verdicts = release(&mut engine, at(810 + finish));
    assert_eq!(reason(&verdicts[0].1), Some(Reason::Expired));
    assert_eq!(engine.open(), 0);
    release(&mut engine, at(15_000));
    assert!(matches!(
        submit(&mut engine, 2, 800, at(15_000)),
        Verdict::Forward(_)
    ));
}

#[test]
fn error_on_a_path_of_streams_is_cut_like_any_answer() {
    let mut engine = one_slot();
    stream_of(&mut engine, 1, 800, at(0));
    let failed = Answer {
        failed: true,
        ..Answer::default()
    };
    engine.on_answer(1, failed, at(20)).unwrap();
    assert_eq!(release(&mut engine, at(20_000)).len(), 1);
}

/// Sends streams that fill Envoy's buffer in a millisecond, and whose clients then read nothing. Returns how many hold a
/// slot after a moment.
fn stalled(engine: &mut Engine, streams: std::ops::Range<StreamId>, from: u64) -> u32 {
    for stream in streams {
        stream_of(engine, stream, 5000, at(from));
        engine.on_answer(stream, served(), at(from + 1));
        engine.on_first_byte(stream, at(from + 1));
        engine.on_response_exceeds_buffer(stream, at(from + 2), &mut Vec::new());
    }
    release(engine, at(from + 200));
    engine.variants.get(VariantId(0)).unwrap().slots.in_flight()
}

#[test]
fn clients_that_are_behind_hold_half_of_the_slots_for_a_while() {
    let mut engine = engine(&[variant("a", 1.0, 8, 100.0)], SLOTS_HOLD);
    let uploads = |engine: &Engine| engine.variants.get(VariantId(0)).unwrap().uploads;
    assert_eq!(stalled(&mut engine, 0..8, 0), 4);
    assert_eq!(uploads(&engine), 4);
    // One that goes on to read is not behind.
    engine.on_response_exceeds_buffer(7, at(300), &mut Vec::new());
    engine.on_response_exceeds_buffer(0, at(300), &mut Vec::new());
    assert_eq!(uploads(&engine), 3);
    assert!(release(&mut engine, at(350)).is_empty());
    end(&mut engine, 1, End::Disconnected, at(360));
    assert_eq!(uploads(&engine), 2);
    // The others lose theirs in time, and nothing is left of any.
    release(&mut engine, at(3000));
    for stream in 0..8 {
        end(&mut engine, stream, End::Answered, at(4000));
    }
    release(&mut engine, at(9000));
    let variant = engine.variants.get(VariantId(0)).unwrap();
    assert_eq!((variant.uploads, variant.slots.in_flight()), (0, 0));
    assert_eq!((engine.open(), engine.next_timer()), (0, None));
}

#[test]
fn clients_that_are_behind_are_counted_over_all_workers() {
    let json = format!(
        r#"{{"service":"demo","plan":{{"variants":[{}]}}{SLOTS_HOLD}}}"#,
        variant("a", 1.0, 8, 100.0)
    );
    let store = Memory::default();
    let mut workers: Vec<Engine> = (1..=4).map(|one| worker(&json, &store, one)).collect();
    for engine in &mut workers {
        engine.serve(at(0).mono);
    }
    for engine in &mut workers {
        stalled(engine, 0..2, 10);
    }
    let held = |engine: &Engine| {
        let variant = engine.variants.get(VariantId(0)).unwrap();
        variant.slots.taken()
    };
    assert_eq!(workers.iter().map(held).sum::<u32>(), 4);
}

#[test]
fn vanished_client_of_a_long_stream_frees_its_slot_soon() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], SLOTS_HOLD);
    stream_of(&mut engine, 1, 800, at(0));
    engine.on_answer(1, served(), at(20));
    engine.on_first_byte(1, at(100));
    end(&mut engine, 1, End::Disconnected, at(60_000));
    release(&mut engine, at(60_900));
    let next = stream_of(&mut engine, 2, 5000, at(61_000));
    assert!(matches!(next, Verdict::Forward(_)), "{next:?}");
}
