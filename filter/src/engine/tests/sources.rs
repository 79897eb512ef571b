//! Errors that one source alone has had: an outage for it, and for nobody else.

use super::*;
use crate::health::ProbeResult;

const KNOWN: &str = "/v2/models/resnet/infer";

/// Two variants, of which the second gets nothing but what the first does not take.
fn pair() -> Engine {
    engine(
        &[variant("a", 1.0, 4, 10.0), variant("b", 0.0, 4, 10.0)],
        "",
    )
}

/// A client that the shell knows by this hash, and whose requests are answered so where they are served by `a`; returns
/// whether `a` has had it.
fn sent(engine: &mut Engine, stream: StreamId, source: u64, sign: HealthSignal, ms: u64) -> bool {
    let wire = Wire::pick([(":path", KNOWN.as_bytes())]);
    let sender = engine.required_lookups(&wire).source.then_some(source);
    let incoming = IncomingRequest {
        wire,
        sender,
        ..IncomingRequest::default()
    };
    let mut others = Vec::new();
    let verdict = engine.on_request(stream, &incoming, at(ms), &mut others);
    let Verdict::Forward(dispatch) = verdict else {
        panic!("{verdict:?}");
    };
    let is_a = dispatch.cluster.as_deref() == Some("c-a");
    let sign = if is_a { sign } else { HealthSignal::Served };
    let answer = Answer {
        failed: sign != HealthSignal::Served,
        sign: Some(sign),
        source: Some(source),
        ..Answer::default()
    };
    engine.on_answer(stream, answer, at(ms));
    end(engine, stream, End::Answered, at(ms));
    is_a
}

fn fails(engine: &Engine) -> bool {
    engine.health().any(|(_, fails)| fails)
}

#[test]
fn what_one_client_provokes_is_an_outage_for_it_alone() {
    let mut engine = pair();
    for stream in 0..5 {
        assert!(sent(&mut engine, stream, 7, HealthSignal::Erred, 0));
    }
    assert!(
        !sent(&mut engine, 5, 7, HealthSignal::Erred, 1),
        "avoided for it"
    );
    assert!(!fails(&engine), "and reported for nobody");
    assert!(
        sent(&mut engine, 6, 8, HealthSignal::Served, 2),
        "others have it"
    );
    // Served, it is well for all.
    assert!(sent(&mut engine, 7, 7, HealthSignal::Erred, 3));
}

#[test]
fn error_of_another_client_makes_it_an_outage_for_all() {
    let mut engine = pair();
    for stream in 0..5 {
        assert!(sent(&mut engine, stream, 7, HealthSignal::Erred, 0));
    }
    assert!(sent(&mut engine, 5, 8, HealthSignal::Erred, 1));
    assert!(fails(&engine));
    for source in [7, 8, 9] {
        assert!(!sent(
            &mut engine,
            5 + source as u32,
            source,
            HealthSignal::Erred,
            2
        ));
    }
}

#[test]
fn outage_of_the_only_client_is_reported_after_its_trials() {
    let mut engine = pair();
    let mut reported_ms = None;
    for step in 0..100_u32 {
        let ms = u64::from(step) * 100;
        sent(&mut engine, step, 7, HealthSignal::Erred, ms);
        reported_ms = reported_ms.or(fails(&engine).then_some(ms));
    }
    // Trials after 0.5, 1 and 2 s more.
    assert!(
        reported_ms.is_some_and(|ms| (3000..=5000).contains(&ms)),
        "{reported_ms:?}"
    );
}

#[test]
fn what_a_probe_confirms_is_an_outage_for_all() {
    let mut engine = engine(
        &[variant("a", 1.0, 4, 10.0), variant("b", 0.0, 4, 10.0)],
        r#","health":{"path":"/ready"}"#,
    );
    engine.serve(at(0).mono);
    for stream in 0..5 {
        assert!(sent(&mut engine, stream, 7, HealthSignal::Erred, 0));
    }
    assert!(!fails(&engine));
    let probes = engine.probes(at(600).mono);
    let of = (probes[0].variant, probes[0].grpc);
    let status = ProbeResult::Status(503);
    engine.on_probe(of, status, at(601), &mut Vec::new());
    assert!(fails(&engine));
    assert!(!sent(&mut engine, 5, 8, HealthSignal::Served, 602));
}
