//! Bodies that come slowly, never, or in floods: slots, refusals, and measurements.

use super::*;
use crate::request::body::BodyChunk;

/// Two slots of one variant, 100 ms an execution.
fn two_slots(rest: &str) -> Engine {
    engine(&[variant("a", 1.0, 2, 100.0)], rest)
}

/// Headers of a request, without its body.
pub(super) fn head(engine: &mut Engine, stream: StreamId, budget_ms: u64, now: Now) -> Verdict {
    head_to(engine, stream, budget_ms, "/infer", now)
}

pub(super) fn head_to(
    engine: &mut Engine,
    stream: StreamId,
    budget_ms: u64,
    path: &str,
    now: Now,
) -> Verdict {
    let budget = budget_ms.to_string();
    let headers = [("x-slo-ms", budget.as_bytes()), (":path", path.as_bytes())];
    let mut incoming: IncomingRequest<'_> = Wire::pick(headers).into();
    incoming.body_follows = true;
    let mut others = Vec::new();
    let verdict = engine.on_request(stream, &incoming, now, &mut others);
    assert_eq!(others, []);
    verdict
}

/// A chunk of its body; returns also the requests that were evicted.
pub(super) fn part(
    engine: &mut Engine,
    stream: StreamId,
    bytes: u64,
    complete: bool,
    now: Now,
) -> (Option<Verdict>, Vec<(StreamId, Verdict)>) {
    let received = BodyChunk { bytes, complete };
    let mut others = Vec::new();
    // Streams of one hundred are one source.
    let source = |stream| Some(u64::from(stream / 100));
    let verdict = engine.on_body(stream, received, source, now, &mut others);
    (verdict.decided(), others)
}

pub(super) fn last(engine: &mut Engine, stream: StreamId, now: Now) -> Option<Verdict> {
    let (verdict, others) = part(engine, stream, 10, true, now);
    assert_eq!(others, []);
    verdict
}

pub(super) fn is_forwarded(verdict: &Option<Verdict>) -> bool {
    matches!(verdict, Some(Verdict::Forward(_)))
}

#[test]
fn unfinished_bodies_own_no_slot() {
    let mut engine = two_slots("");
    for stream in 0..50 {
        assert_eq!(head(&mut engine, stream, 1000, at(0)), Verdict::Park);
    }
    assert_eq!(engine.gauges().map(|gauge| gauge.taken).sum::<u32>(), 0);
    for stream in 100..102 {
        assert!(matches!(
            submit(&mut engine, stream, 1000, at(1)),
            Verdict::Forward(_)
        ));
        end(&mut engine, stream, End::Answered, at(50));
    }
    assert!(is_forwarded(&last(&mut engine, 7, at(60))));
    assert_eq!(engine.receiving(), 49);
}

#[test]
fn body_that_cannot_finish_in_time_expires() {
    let mut engine = two_slots(PLAN_HOLDS);
    head(&mut engine, 1, 1000, at(0));
    // 100 ms of service are left from 900 ms on.
    assert_eq!(engine.next_wake(at(0).mono), Some(Mono(900 * MS + 1)));
    assert!(release(&mut engine, at(900)).is_empty());
    let verdicts = release(&mut engine, at(901));
    assert_eq!(reason(&verdicts[0].1), Some(Reason::Expired));
    assert_eq!(
        part(&mut engine, 1, 10, true, at(902)).0,
        None,
        "it is gone"
    );
    assert_eq!((engine.open(), engine.next_wake(at(902).mono)), (0, None));
}

#[test]
fn body_ending_at_the_deadline_expires() {
    let mut engine = engine(&[variant("a", 1.0, 2, 0.0)], "");
    head(&mut engine, 1, 1000, at(0));
    let verdict = last(&mut engine, 1, at(1000));
    assert_eq!(
        verdict.as_ref().and_then(reason),
        Some(Reason::Expired),
        "{verdict:?}"
    );
}

#[test]
fn unservable_request_is_refused_before_its_body() {
    let mut engine = two_slots(PLAN_HOLDS);
    assert_eq!(
        reason(&head(&mut engine, 1, 99, at(0))),
        Some(Reason::Infeasible)
    );
    let mut closed = engine_without_slots();
    assert_eq!(
        reason(&head(&mut closed, 1, 1000, at(0))),
        Some(Reason::NoCapacity)
    );
}

fn engine_without_slots() -> Engine {
    let mut engine = two_slots("");
    engine.on_no_slots(at(0), &mut Vec::new());
    engine
}

#[test]
fn upload_time_is_not_measured_as_service_time() {
    let mut engine = two_slots("");
    for stream in 0..40 {
        let now = u64::from(stream) * 1000;
        head(&mut engine, stream, 1000, at(now));
        assert!(is_forwarded(&last(&mut engine, stream, at(now + 800))));
        end(&mut engine, stream, End::Answered, at(now + 860));
    }
    let planned = Span::from_millis(100);
    let predicted = engine.variants.get(VariantId(0)).unwrap().predicted.high;
    assert!(predicted <= planned, "{predicted:?}");
}

#[test]
fn stream_is_decided_by_its_headers() {
    const PATH: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
    let mut engine = two_slots(super::uploads::STREAMING);
    for stream in 0..30 {
        let now = u64::from(stream) * 1000;
        let verdict = head_to(&mut engine, stream, 1000, PATH, at(now));
        assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
        assert_eq!(part(&mut engine, stream, 9, false, at(now + 1)).0, None);
        end(&mut engine, stream, End::Answered, at(now + 900));
    }
    let predicted = engine.variants.get(VariantId(0)).unwrap().predicted.high;
    assert_eq!(predicted, Span::from_millis(100));
}

pub(super) const SMALL: &str =
    r#","body":{"request_max_bytes":1000,"source_max_bytes":2000,"total_max_bytes":5000}"#;

#[test]
fn large_upload_is_forwarded_at_the_size_limit() {
    let mut engine = two_slots(SMALL);
    head(&mut engine, 1, 1000, at(0));
    assert_eq!(
        part(&mut engine, 1, 1000, false, at(1)).0,
        Some(Verdict::Park)
    );
    assert_eq!(engine.bytes_held(), 1000);
    assert!(is_forwarded(&part(&mut engine, 1, 1001, false, at(2)).0));
    assert_eq!((engine.bytes_held(), engine.receiving()), (0, 0));
    // A second one is too many: streams have half of the slots.
    head(&mut engine, 2, 1000, at(2));
    let (second, _) = part(&mut engine, 2, 1001, false, at(3));
    assert_eq!(reason(&second.unwrap()), Some(Reason::QueueFull));
    assert_eq!(part(&mut engine, 1, 5000, true, at(500)).0, None);
    end(&mut engine, 1, End::Answered, at(560));
    assert_eq!(engine.open(), 0);
}

#[test]
fn large_upload_is_not_held_for_a_slot() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], SMALL);
    submit(&mut engine, 0, 1000, at(0));
    head(&mut engine, 1, 1000, at(0));
    let (verdict, _) = part(&mut engine, 1, 1001, false, at(1));
    assert_eq!(reason(&verdict.unwrap()), Some(Reason::BodyBytesLimit));
    assert_eq!(
        (
            engine.bytes_held(),
            engine.gauges().map(|g| g.held).sum::<usize>()
        ),
        (0, 0)
    );
    // A complete one waits, however large.
    head(&mut engine, 2, 1000, at(1));
    assert_eq!(
        part(&mut engine, 2, 1500, true, at(2)).0,
        Some(Verdict::Park)
    );
    assert_eq!(engine.bytes_held(), 1500);
    assert_eq!(forwarded(&end(&mut engine, 0, End::Answered, at(50))), [2]);
    assert_eq!(engine.bytes_held(), 0);
}

#[test]
fn body_bytes_are_limited_by_source_and_in_total() {
    let mut engine = two_slots(SMALL);
    for stream in [100, 101, 102, 200, 201, 300] {
        head(&mut engine, stream, 1000, at(0));
    }
    for stream in [100, 101] {
        assert_eq!(
            part(&mut engine, stream, 1000, false, at(1)).0,
            Some(Verdict::Park)
        );
    }
    let (third, others) = part(&mut engine, 102, 1, false, at(2));
    assert_eq!(
        (reason(&third.unwrap()), others),
        (Some(Reason::SourceLimit), vec![])
    );
    for stream in [200, 201, 300] {
        assert_eq!(
            part(&mut engine, stream, 1000, false, at(3)).0,
            Some(Verdict::Park)
        );
    }
    assert_eq!(engine.bytes_held(), 5000);
    // All bytes are taken: the one incoming for the longest is evicted.
    head(&mut engine, 400, 1000, at(4));
    let (verdict, others) = part(&mut engine, 400, 500, false, at(5));
    assert_eq!(verdict, Some(Verdict::Park));
    assert_eq!(
        (others[0].0, reason(&others[0].1)),
        (100, Some(Reason::BodyBytesLimit))
    );
    assert_eq!((others.len(), engine.bytes_held()), (1, 4500));
    // Nothing is left behind, however they end.
    for stream in [101, 200, 201, 300, 400] {
        end(&mut engine, stream, End::Disconnected, at(6));
    }
    assert_eq!((engine.bytes_held(), engine.ledger.sources()), (0, 0));
}

#[test]
fn sources_are_looked_up_only_above_the_source_limit() {
    let mut engine = two_slots(SMALL);
    for stream in 1..=4 {
        head(&mut engine, stream, 1000, at(0));
    }
    assert!(engine.hold_body(1, 900) && engine.hold_body(2, 900));
    assert!(!engine.hold_body(3, 201), "that makes 2001 bytes");
    let part = |engine: &mut Engine, stream, bytes, complete| {
        let mut incoming = Vec::new();
        let source = |of| {
            incoming.push(of);
            Some(7)
        };
        let received = BodyChunk { bytes, complete };
        let verdict = engine.on_body(stream, received, source, at(1), &mut Vec::new());
        incoming.sort_unstable();
        (verdict.decided().and_then(|it| reason(&it)), incoming)
    };
    let limit = Some(Reason::SourceLimit);
    assert_eq!(part(&mut engine, 3, 201, false), (limit, vec![1, 2, 3]));
    // Each once.
    assert_eq!(part(&mut engine, 4, 201, false), (limit, vec![4]));
    assert_eq!(part(&mut engine, 1, 1001, false), (None, vec![]));
    assert_eq!((engine.bytes_held(), engine.ledger.sources()), (900, 1));
    assert_eq!(part(&mut engine, 2, 900, true), (None, vec![]));
    assert_eq!((engine.bytes_held(), engine.ledger.sources()), (0, 0));
}

#[test]
fn oldest_incomplete_request_is_evicted_at_the_limit() {
    let mut engine = two_slots(r#","queue":{"max_requests":3}"#);
    for stream in 1..=3 {
        head(&mut engine, stream, 1000, at(u64::from(stream)));
    }
    let headers = [("x-slo-ms", &b"1000"[..])];
    let mut incoming: IncomingRequest<'_> = Wire::pick(headers).into();
    incoming.body_follows = true;
    let mut others = Vec::new();
    assert_eq!(
        engine.on_request(4, &incoming, at(4), &mut others),
        Verdict::Park
    );
    assert_eq!(
        (others[0].0, reason(&others[0].1)),
        (1, Some(Reason::QueueFull))
    );
    assert_eq!((others.len(), engine.receiving()), (1, 3));
}

#[test]
fn request_in_flight_past_its_deadline_is_ended_and_orphans_its_slot() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], "");
    assert!(matches!(
        submit(&mut engine, 1, 150, at(0)),
        Verdict::Forward(_)
    ));
    assert_eq!(submit(&mut engine, 2, 400, at(0)), Verdict::Park);
    let verdicts = release(&mut engine, at(151));
    assert_eq!(
        (verdicts[0].0, reason(&verdicts[0].1)),
        (1, Some(Reason::Expired))
    );
    // 100 ms were predicted: the orphaned slot has expired by then, and the next request gets it.
    assert_eq!(forwarded(&verdicts), [2]);
    assert!(
        end(&mut engine, 1, End::Disconnected, at(160)).is_empty(),
        "ended once"
    );
}

#[test]
fn begun_answer_may_finish_and_counts_as_late() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], "");
    submit(&mut engine, 1, 150, at(0));
    engine.on_answer(1, Answer::default(), at(149)).unwrap();
    assert!(release(&mut engine, at(500)).is_empty());
    engine.stats.swap(&mut Vec::new());
    end(&mut engine, 1, End::Answered, at(501));
    let mut samples = Vec::new();
    engine.stats.swap(&mut samples);
    let counted = |metric| samples.iter().any(|sample| sample.metric == metric);
    assert!(counted(Metric::Late) && !counted(Metric::OnTime));
}

#[test]
fn slow_reader_does_not_keep_its_slot() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], "");
    submit(&mut engine, 1, 10_000, at(0));
    assert_eq!(submit(&mut engine, 2, 10_000, at(0)), Verdict::Park);
    engine.on_answer(1, Answer::default(), at(90)).unwrap();
    let mut verdicts = Vec::new();
    engine.on_response_exceeds_buffer(1, at(100), &mut verdicts);
    assert_eq!(forwarded(&verdicts), [2]);
    engine.on_response_exceeds_buffer(1, at(101), &mut verdicts);
    assert!(end(&mut engine, 1, End::Answered, at(9000)).is_empty());
    assert_eq!(engine.gauges().map(|gauge| gauge.taken).sum::<u32>(), 1);
}

#[test]
fn without_body_callbacks_headers_decide() {
    let mut engine = two_slots("");
    for stream in 0..3 {
        assert_eq!(head(&mut engine, stream, 1000, at(0)), Verdict::Park);
    }
    let mut verdicts = Vec::new();
    engine.stop_receiving(at(50), &mut verdicts);
    assert_eq!(forwarded(&verdicts), [0, 1]);
    assert_eq!((engine.receiving(), engine.open()), (0, 3));
}
