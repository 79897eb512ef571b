//! A variant's servers: their own name for the model, the port for gRPC, and several behind one cluster.

use super::*;
use crate::request::model::NamePlace;
use crate::verdict::{Dispatch, OwnModel, Passage};

const INFER: &str = "/v2/models/digits/infer";
const MODEL_INFER: &str = "/inference.GRPCInferenceService/ModelInfer";
const STREAM_INFER: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
const MODEL_READY: &str = "/inference.GRPCInferenceService/ModelReady";
const SERVER_READY: &str = "/inference.GRPCInferenceService/ServerReady";

/// A variant with one slot, and further keys.
fn named(name: &str, share: f64, keys: &str) -> String {
    let variant = variant(name, share, 1, 100.0);
    variant.replace(r#""share""#, &format!(r#"{keys}"share""#))
}

fn two(a: &str, b: &str, rest: &str) -> Engine {
    engine(&[named("a", 1.0, a), named("b", 0.0, b)], rest)
}

fn send(engine: &mut Engine, stream: StreamId, path: &str, grpc: bool) -> Verdict {
    let kind: &[u8] = match grpc {
        true => b"application/grpc",
        false => b"application/json",
    };
    let method: &[u8] = match path.ends_with("/ready") {
        true => b"GET",
        false => b"POST",
    };
    let headers = [
        (":method", method),
        (":path", path.as_bytes()),
        ("content-type", kind),
        ("x-slo-ms", b"500"),
    ];
    request(engine, stream, &headers, at(0))
}

#[track_caller]
fn dispatched(verdict: Verdict) -> Dispatch {
    match verdict {
        Verdict::Forward(dispatch) => dispatch,
        other => panic!("not sent: {other:?}"),
    }
}

/// The variant's own name for the model, if it replaces the client's.
fn own(dispatch: &Dispatch) -> Option<&str> {
    dispatch.model.as_ref().map(|model| &*model.name)
}

#[test]
fn path_with_a_model_gets_the_variants_name_for_it() {
    for (keys, path, model) in [
        (r#""model":"resnet18","#, INFER, Some("resnet18")),
        (
            r#""model":"resnet18","#,
            "/v1/models/m:predict",
            Some("resnet18"),
        ),
        (r#""model":"resnet18","#, "/infer", None),
        ("", INFER, None),
    ] {
        let mut engine = two(keys, "", "");
        let dispatch = dispatched(send(&mut engine, 1, path, false));
        assert_eq!(own(&dispatch), model, "{path}");
    }
}

#[test]
fn request_that_moves_gets_the_name_of_its_last_variant() {
    let mut engine = two(r#""model":"resnet18","#, r#""model":"resnet50","#, "");
    let first = dispatched(send(&mut engine, 1, INFER, false));
    assert_eq!(own(&first), Some("resnet18"));
    assert_eq!(send(&mut engine, 2, INFER, false), Verdict::Park);
    let moved = [
        named("a", 0.0, r#""model":"resnet18","#),
        named("b", 1.0, r#""model":"resnet50-v2","#),
    ];
    let mut verdicts = Vec::new();
    let now = at(1);
    engine.on_plan(&plan(2, &moved), now.mono, now, &mut verdicts);
    let [(2, verdict)] = &verdicts[..] else {
        panic!("{verdicts:?}")
    };
    let second = dispatched(verdict.clone());
    assert_eq!((&*second.name, own(&second)), ("b", Some("resnet50-v2")));
}

#[test]
fn grpc_requests_go_to_their_port_and_share_the_slots() {
    let mut engine = two(r#""grpc_cluster":"c-a-grpc","#, "", "");
    let grpc = dispatched(send(&mut engine, 1, "/x.Y/Z", true));
    assert_eq!(grpc.cluster.as_deref(), Some("c-a-grpc"));
    // The only slot is taken, whatever the port.
    assert_eq!(send(&mut engine, 2, INFER, false), Verdict::Park);
    let next = end(&mut engine, 1, End::Answered, at(5));
    let [(2, verdict)] = &next[..] else {
        panic!("{next:?}")
    };
    let rest = dispatched(verdict.clone());
    assert_eq!(rest.cluster.as_deref(), Some("c-a"));
    // Without a port of its own, gRPC goes where all requests go.
    let mut engine = two("", "", "");
    let grpc = dispatched(send(&mut engine, 1, "/x.Y/Z", true));
    assert_eq!(grpc.cluster.as_deref(), Some("c-a"));
}

#[test]
fn plan_changes_ports_and_names() {
    let mut engine = two(
        r#""grpc_cluster":"c-a-grpc","model":"m","#,
        "",
        r#","failover":"-else""#,
    );
    let later = [named("a", 1.0, r#""grpc_cluster":"other","#)];
    let now = at(1);
    engine.on_plan(&plan(2, &later), now.mono, now, &mut Vec::new());
    let grpc = dispatched(send(&mut engine, 1, INFER, true));
    assert_eq!(grpc.cluster.as_deref(), Some("other-else"));
    assert_eq!(grpc.model, None);
    end(&mut engine, 1, End::Answered, at(2));
    let later = [named("a", 1.0, "")];
    engine.on_plan(&plan(3, &later), now.mono, now, &mut Vec::new());
    let grpc = dispatched(send(&mut engine, 2, INFER, true));
    assert_eq!(grpc.cluster.as_deref(), Some("c-a-else"));
}

/// A request that has one variant's name for the model cannot move on to a variant with another.
#[test]
fn request_fails_over_only_among_equal_names() {
    let own = |name: &str| format!(r#""model":"{name}","#);
    for (a, b, (path, grpc), cluster) in [
        (own("x"), own("y"), (INFER, false), "c-a"),
        (own("x"), own("y"), (MODEL_INFER, true), "c-a"),
        (own("x"), String::new(), (INFER, false), "c-a"),
        (own("x"), own("x"), (INFER, false), "c-a-else"),
        (own("x"), own("x"), (MODEL_INFER, true), "c-a-else"),
        (own("x"), own("y"), ("/infer", false), "c-a-else"),
        (String::new(), String::new(), (INFER, false), "c-a-else"),
    ] {
        let mut engine = two(&a, &b, r#","failover":"-else""#);
        let dispatch = dispatched(send(&mut engine, 1, path, grpc));
        assert_eq!(dispatch.cluster.as_deref(), Some(cluster), "{a} {b} {path}");
    }
}

#[test]
fn message_gets_the_variants_name_for_its_model() {
    for (path, grpc, place) in [
        (INFER, false, Some(NamePlace::Path)),
        (MODEL_INFER, true, Some(NamePlace::Message)),
        (STREAM_INFER, true, Some(NamePlace::Messages)),
        (INFER, true, None),
        ("/x.Y/Z", true, None),
    ] {
        let mut engine = two(r#""model":"resnet18","#, "", "");
        let dispatch = dispatched(send(&mut engine, 1, path, grpc));
        assert_eq!(dispatch.model.map(|model| model.place), place, "{path}");
    }
}

#[test]
fn requests_but_those_of_grpc_get_the_variants_path() {
    let keys = r#""path":"/small","model":"m","#;
    for (path, grpc, own_path, own_model) in [
        ("/predict?x", false, Some("/small"), None),
        // The path is all of it.
        (INFER, false, Some("/small"), None),
        (MODEL_INFER, true, None, Some("m")),
    ] {
        let mut engine = two(keys, "", "");
        let dispatch = dispatched(send(&mut engine, 1, path, grpc));
        assert_eq!(
            (dispatch.path.as_deref(), own(&dispatch)),
            (own_path, own_model),
            "{path}"
        );
    }
    let mut engine = two(keys, r#""path":"/large","#, r#","failover":"-else""#);
    let rest = dispatched(send(&mut engine, 1, "/predict", false));
    assert_eq!(
        rest.cluster.as_deref(),
        Some("c-a"),
        "the other has another path"
    );
    let later = [named("a", 1.0, ""), named("b", 0.0, "")];
    engine.on_plan(&plan(2, &later), at(1).mono, at(1), &mut Vec::new());
    end(&mut engine, 1, End::Answered, at(1));
    let rest = dispatched(send(&mut engine, 2, "/predict", false));
    assert_eq!(
        (rest.cluster.as_deref(), rest.path),
        (Some("c-a-else"), None)
    );
}

/// Metadata and readiness of the public name come from servers that know it under their own, always the same ones.
#[test]
fn bypassed_request_that_names_a_model_goes_to_a_variant_under_its_name() {
    const READY: &str = "/v2/models/digits/ready";
    let keys = r#""grpc_cluster":"c-a-grpc","model":"m","#;
    let passage = |cluster: &str, name: Option<&str>, place| {
        let name = name.map(Rc::from);
        Verdict::PassTo(Passage {
            variant: VariantId(u16::from(cluster == "c-b")),
            cluster: Some(Rc::from(cluster)),
            model: name.map(|name| OwnModel { name, place }),
        })
    };
    let mut engine = two(keys, r#""model":"n","#, "");
    let rest = passage("c-a", Some("m"), NamePlace::Path);
    for stream in 1..4 {
        assert_eq!(send(&mut engine, stream, READY, false), rest);
    }
    let grpc = passage("c-a-grpc", Some("m"), NamePlace::Message);
    assert_eq!(send(&mut engine, 4, MODEL_READY, true), grpc);
    for (path, grpc) in [("/v2/health/ready", false), (SERVER_READY, true)] {
        assert_eq!(send(&mut engine, 5, path, grpc), Verdict::Pass, "{path}");
    }
    // The first that does not fail.
    dispatched(send(&mut engine, 6, INFER, false));
    end(&mut engine, 6, End::Unreachable, at(1));
    let next = passage("c-b", Some("n"), NamePlace::Path);
    assert_eq!(send(&mut engine, 7, READY, false), next);
    // Where no variant has a name of its own, Envoy's route decides; where another has one, the first is known by the
    // client's name.
    assert_eq!(send(&mut two("", "", ""), 1, READY, false), Verdict::Pass);
    let mut mixed = two("", r#""model":"n","#, "");
    let first = passage("c-a", None, NamePlace::Path);
    assert_eq!(send(&mut mixed, 1, READY, false), first);
    // A gate has one variant, and its own route.
    let gate = format!(
        r#"{{"service":"demo","role":"gate","plan":{{"variants":[{}]}}}}"#,
        named("a", 1.0, keys)
    );
    let mut gate = worker(&gate, &Memory::default(), 1);
    let Verdict::PassTo(own) = send(&mut gate, 1, READY, false) else {
        panic!("not renamed")
    };
    assert_eq!((own.cluster, &*own.model.unwrap().name), (None, "m"));
}

/// With several servers the proxy cannot know at which of them an execution will end next. In the callback of its end
/// it still counts the request at its server, so the next one follows with a notification.
#[test]
fn only_a_single_server_is_sent_a_request_ahead_of_time() {
    for (replicas, early) in [(1, true), (2, false)] {
        let keys = format!(r#""replicas":{replicas},"#);
        let busy = named("a", 1.0, &keys).replace(r#""slots":1"#, r#""slots":2"#);
        let json = format!(r#"{{"service":"demo","plan":{{"variants":[{busy}]}}}}"#);
        let store = Memory::default();
        let mut engine = worker(&json, &store, 1);
        for stream in 1..=20 {
            let verdict = submit(&mut engine, stream, 5_000, at(0));
            let sent = matches!(verdict, Verdict::Forward(_));
            assert_eq!(sent, stream <= 2, "{stream}: {verdict:?}");
        }
        let ahead = forwarded(&release(&mut engine, at(99)));
        assert_eq!(!ahead.is_empty(), early, "{replicas} replicas: {ahead:?}");
        drop(store.take_notifications());
        let next = forwarded(&end(&mut engine, 1, End::Answered, at(100)));
        assert!(next.is_empty(), "{replicas} replicas: {next:?}");
        let notifications = store.take_notifications();
        assert_eq!(notifications.is_empty(), early, "{replicas} replicas");
        let next = forwarded(&release(&mut engine, at(100)));
        assert_eq!(next.is_empty(), early, "{replicas} replicas: {next:?}");
    }
}

#[test]
fn slot_for_which_nobody_waits_is_free_at_once() {
    let variant = named("a", 1.0, r#""replicas":2,"#).replace(r#""slots":1"#, r#""slots":2"#);
    let json = format!(r#"{{"service":"demo","plan":{{"variants":[{variant}]}}}}"#);
    let store = Memory::default();
    let mut engine = worker(&json, &store, 1);
    submit(&mut engine, 1, 5_000, at(0));
    drop(store.take_notifications());
    assert!(end(&mut engine, 1, End::Answered, at(100)).is_empty());
    assert_eq!(store.take_notifications(), []);
    let mut other = worker(&json, &store, 2);
    for stream in 2..=3 {
        let verdict = submit(&mut other, stream, 5_000, at(100));
        assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
    }
}
