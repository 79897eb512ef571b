//! Lists of requests whose bodies are still arriving when they are sent.

use super::*;
use crate::engine::tests::uploads::STREAMING;

const PATH: &[u8] = b"/inference.GRPCInferenceService/ModelStreamInfer";

/// Sends a stream with a list and a budget of a second.
fn stream(engine: &mut Engine, stream: StreamId, value: &str, now: Now) -> Verdict {
    let headers = [
        ("x-slo-ms", b"1000".as_slice()),
        ("x-slo-variants", value.as_bytes()),
        (":path", PATH),
    ];
    let mut incoming: IncomingRequest<'_> = Wire::pick(headers).into();
    incoming.body_follows = true;
    engine.on_request(stream, &incoming, now, &mut Vec::new())
}

/// Variant that a stream is sent to, or the reason of its refusal; and its list in either case.
fn sent(engine: &mut Engine, id: StreamId, value: &str) -> (String, Option<String>) {
    match stream(engine, id, value, at(0)) {
        Verdict::Forward(dispatch) => {
            let name = dispatch.name.to_string();
            let tags = engine.on_answer(id, Answer::default(), at(1)).unwrap();
            (name, tags.variants)
        }
        Verdict::Reject(refusal) => {
            let variants = refusal.variants.as_deref().map(str::to_owned);
            (refusal.reason.label().to_owned(), variants)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn variant_with_its_maximum_of_streams_is_skipped() {
    // Of two slots a stream may have one.
    let mut engine = engine(&three(2), STREAMING);
    for (id, value, by, list) in [
        (1, "large, medium", "large", "large"),
        (
            2,
            "large, medium",
            "medium",
            "large;skipped=queue-full, medium",
        ),
        (
            3,
            "large, medium",
            "queue-full",
            "large;skipped=queue-full, medium;skipped=queue-full",
        ),
        (4, "large, *", "small", "large;skipped=queue-full, *"),
        (
            5,
            "large;within=200, *",
            "queue-full",
            "large;skipped=infeasible, *;skipped=queue-full",
        ),
    ] {
        let (found, text) = sent(&mut engine, id, value);
        assert_eq!((&*found, text.as_deref()), (by, Some(list)), "{id}");
    }
    // A request whose body is complete is an ordinary one, and has the other slot.
    let verdict = super::list(&mut engine, 6, (1000, "large, medium"), &[], at(1));
    let (by, _) = outcome(&mut engine, 6, &verdict, at(2));
    assert_eq!(by, "large");
    end(&mut engine, 1, End::Answered, at(2));
    let (by, _) = sent(&mut engine, 7, "large, medium");
    assert_eq!(by, "large");
}
