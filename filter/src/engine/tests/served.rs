//! What is not found: the fault of a variant that has served it, or of a client that has made it up.

use super::health::answer;
use super::*;

/// Sends a request with a path to a variant of the client's choice, which is answered so.
fn aims(engine: &mut Engine, stream: StreamId, path: &str, list: &str, sign: HealthSignal) {
    let headers = [
        (":path", path.as_bytes()),
        ("x-slo-variants", list.as_bytes()),
    ];
    let headers = &headers[..1 + usize::from(!list.is_empty())];
    let verdict = request(engine, stream, headers, at(u64::from(stream)));
    assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
    answer(engine, stream, sign, at(u64::from(stream)));
}

#[test]
fn client_fails_no_variant_by_names_that_it_makes_up() {
    let fails = |engine: &Engine| engine.health().any(|(_, fails)| fails);
    let mut engine = engine(
        &[variant("a", 1.0, 4, 10.0), variant("b", 0.0, 4, 10.0)],
        "",
    );
    const KNOWN: &str = "/v2/models/resnet/infer";
    aims(&mut engine, 1, KNOWN, "", HealthSignal::Served);
    for stream in 2..20 {
        aims(
            &mut engine,
            stream,
            "/v2/models/nope/infer",
            "",
            HealthSignal::NotFound,
        );
    }
    assert!(!fails(&engine), "it has never served that path");
    for stream in 20..40 {
        // It has served nothing yet, and only this client sends it anything.
        aims(
            &mut engine,
            stream,
            "/v2/models/nope/infer",
            "b",
            HealthSignal::NotFound,
        );
        aims(
            &mut engine,
            100 + stream,
            "/v2/models/nope/infer",
            "a",
            HealthSignal::NotFound,
        );
    }
    assert!(!fails(&engine), "the client has aimed");
    for stream in 200..205 {
        aims(
            &mut engine,
            stream,
            &format!("{KNOWN}?try={stream}"),
            "",
            HealthSignal::NotFound,
        );
    }
    assert!(fails(&engine), "the model is gone");
}

/// Where all clients list their variants, one that has lost its model must not keep them.
#[test]
fn path_that_was_served_is_the_variants_whoever_lists_it() {
    let mut engine = engine(&[variant("a", 1.0, 4, 10.0)], "");
    const PATH: &str = "/v2/models/resnet/infer";
    aims(&mut engine, 1, PATH, "a", HealthSignal::Served);
    for stream in 2..7 {
        aims(&mut engine, stream, PATH, "a", HealthSignal::NotFound);
    }
    assert!(engine.health().all(|(_, fails)| fails));
}

#[test]
fn variant_that_has_served_nothing_fails_by_any_404() {
    let mut engine = engine(
        &[variant("a", 0.5, 4, 10.0), variant("b", 0.5, 4, 10.0)],
        "",
    );
    for stream in 1..30 {
        let headers = [(":path", &b"/v2/models/late/infer"[..])];
        let Verdict::Forward(dispatch) = request(&mut engine, stream, &headers, at(1)) else {
            panic!("not sent")
        };
        let is_a = &*dispatch.name == "a";
        let sign = if is_a {
            HealthSignal::NotFound
        } else {
            HealthSignal::Served
        };
        answer(&mut engine, stream, sign, at(2));
    }
    let failing: Vec<bool> = engine.health().map(|(_, fails)| fails).collect();
    assert_eq!(failing, [true, false]);
}
