//! Requests upstream while their bodies still arrive.

use super::receive::{SMALL, head, head_to, is_forwarded, last, part};
use super::*;
use crate::request::protocol::STREAMED;

/// Configuration of a service whose requests stream by the Open Inference Protocol.
pub(super) const STREAMING: &str =
    r#","streams":{"requests":["/inference.GRPCInferenceService/ModelStreamInfer"]}"#;

/// Without a service's word a client that chooses a path holds nothing before its body is complete.
#[test]
fn no_path_takes_a_slot_before_its_body_by_default() {
    let mut engine = engine(&[variant("a", 1.0, 4, 100.0)], "");
    for (stream, path) in (0..).zip(STREAMED) {
        let verdict = head_to(&mut engine, stream, 1000, path, at(0));
        assert_eq!(verdict, Verdict::Park, "{path}");
    }
    assert_eq!(
        engine.variants.get(VariantId(0)).unwrap().slots.in_flight(),
        0
    );
    assert!(is_forwarded(&last(&mut engine, 0, at(1))));
}

#[test]
fn streams_take_at_most_half_of_the_slots() {
    const PATH: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
    let mut engine = engine(&[variant("a", 1.0, 4, 100.0)], STREAMING);
    for stream in 0..2 {
        let verdict = head_to(&mut engine, stream, 1000, PATH, at(0));
        assert!(matches!(verdict, Verdict::Forward(_)));
    }
    let third = head_to(&mut engine, 2, 1000, PATH, at(0));
    assert_eq!(reason(&third), Some(Reason::QueueFull));
    // A request whose body is complete is an ordinary one.
    assert_eq!(last(&mut engine, 0, at(1)), None);
    let fourth = head_to(&mut engine, 3, 1000, PATH, at(1));
    assert!(matches!(fourth, Verdict::Forward(_)));
    for stream in [0, 1, 3] {
        end(&mut engine, stream, End::Answered, at(2));
    }
    assert_eq!(engine.variants.get(VariantId(0)).unwrap().uploads, 0);
}

/// The limit is one of the proxy, however many workers it has.
#[test]
fn uploads_of_all_workers_take_at_most_half_of_the_slots() {
    const WORKERS: u64 = 8;
    let json = format!(
        r#"{{"service":"demo"{SMALL},"plan":{{"variants":[{}]}}}}"#,
        variant("a", 1.0, 8, 100.0)
    );
    let store = Memory::default();
    let workers = 1..=WORKERS;
    let mut workers: Vec<Engine> = workers.map(|one| worker(&json, &store, one)).collect();
    for engine in &mut workers {
        engine.serve(at(0).mono);
    }
    let mut sent = Vec::new();
    for round in 0..3 {
        for (index, engine) in workers.iter_mut().enumerate() {
            let now = at(1 + round);
            let stream = round as StreamId * 10 + index as StreamId;
            head(engine, stream, 9000, now);
            let (verdict, _) = part(engine, stream, 1001, false, now);
            match verdict {
                Some(Verdict::Forward(_)) => sent.push((index, stream)),
                refused => assert!(reason(&refused.unwrap()).is_some()),
            }
        }
    }
    assert_eq!(sent.len(), 4, "{sent:?}");
    // The honest have the other half.
    let honest = submit(&mut workers[7], 99, 9000, at(5));
    assert!(matches!(honest, Verdict::Forward(_)), "{honest:?}");
    // One that is complete makes place for another.
    let (index, stream) = sent[0];
    part(&mut workers[index], stream, 1500, true, at(6));
    release(&mut workers[index], at(7));
    let engine = &mut workers[6];
    head(engine, 70, 9000, at(8));
    assert!(is_forwarded(&part(engine, 70, 1001, false, at(8)).0));
}

#[test]
fn only_slot_is_for_no_upload_that_a_client_chooses() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], SMALL);
    head(&mut engine, 1, 9000, at(0));
    let (verdict, _) = part(&mut engine, 1, 1001, false, at(1));
    assert_eq!(reason(&verdict.unwrap()), Some(Reason::BodyBytesLimit));
}

#[test]
fn upload_with_a_long_answer_is_subtracted_once() {
    const PATH: &str = "/up";
    let rest = r#","streams":{"requests":["/up"],"answers":[]}"#;
    let mut engine = engine(&[variant("a", 1.0, 4, 100.0)], rest);
    for stream in 0..2 {
        let verdict = head_to(&mut engine, stream, 1000, PATH, at(0));
        assert!(matches!(verdict, Verdict::Forward(_)));
    }
    engine.on_answer(0, Answer::default(), at(1)).unwrap();
    engine.on_response_exceeds_buffer(0, at(2), &mut Vec::new());
    assert_eq!(part(&mut engine, 0, 10, true, at(3)).0, None);
    end(&mut engine, 0, End::Answered, at(4));
    let uploads = |engine: &Engine| engine.variants.get(VariantId(0)).unwrap().uploads;
    assert_eq!(uploads(&engine), 1);
    end(&mut engine, 1, End::Disconnected, at(5));
    assert_eq!(uploads(&engine), 0);
}
