//! Protocols of model servers through a real Envoy with the filter. Requests are tagged and take a slot for
//! as long as they last, streams until their end; websockets bypass the filter; a chain keeps one deadline.

mod held_slots;
mod streams;
mod upgrades;

use std::collections::BTreeMap;

use futures_util::{SinkExt, StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use weir_api::metrics::Metric;
use weir_bed::clients::curl;
use weir_bed::emulator::Door;
use weir_bed::oip::{Client, ModelStreamInferResponse, ServerReadyRequest, ServerReadyResponse};
use weir_bed::scene::{Scene, Variant, see};

use crate::http2::{client, infer_request, scene_http2, url};

const ONE: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 100,
    service_ms: 1.0,
};

async fn scene(variant: Variant) -> Scene {
    Scene::start(&[variant], 1, |bootstrap, _| bootstrap)
        .await
        .unwrap()
}

fn number(headers: &BTreeMap<String, String>, name: &str) -> u64 {
    headers[name].parse().unwrap()
}

#[tokio::test]
async fn every_protocol_is_answered_and_tagged() {
    let scene = scene_http2(ONE).await;
    let rows = json!({"instances": [[1], [2], [3]]}).to_string();
    for (path, body, door, read) in [
        ("/v2/models/model/infer", "{}", Door::OipHttp, "/model_name"),
        (
            "/v1/models/model:predict",
            &rows,
            Door::TfServing,
            "/predictions/2/model",
        ),
        ("/predict", "any bytes", Door::Plain, "/model"),
    ] {
        let request = scene.client.post(url(&scene, path)).body(body.to_owned());
        let seen = see(request.header("x-slo-ms", "2000")).await.unwrap();
        assert_eq!(seen.status, 200, "{path}");
        assert_eq!(seen.header("x-slo-variant"), "small", "{path}");
        assert!(seen.header("server-timing").starts_with("queue;dur="));
        let answer: Value = serde_json::from_slice(&seen.body).unwrap();
        assert_eq!(answer.pointer(read), Some(&json!("small")), "{path}");
        let execution = scene.backends[0].executions().pop().unwrap();
        assert_eq!(execution.door, door);
        assert!(number(&execution.headers, "x-slo-remaining-ms") <= 2000);
    }
    let events = scene.client.post(url(&scene, "/v1/stream?events=3"));
    let seen = see(events.header("accept", "text/event-stream"))
        .await
        .unwrap();
    assert_eq!(seen.header("x-slo-variant"), "small");
    assert_eq!(seen.header("content-type"), "text/event-stream");
    let text = String::from_utf8(seen.body).unwrap();
    assert_eq!(text.matches("data: ").count(), 4, "{text}");
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    let answer = client(&scene).infer(infer_request(), &[]).await.unwrap();
    assert_eq!(answer.metadata().get("x-slo-variant").unwrap(), "small");
    let doors: Vec<_> = scene.backends[0]
        .executions()
        .iter()
        .map(|d| d.door)
        .collect();
    assert_eq!(doors[3..], [Door::Events, Door::OipGrpc]);
}

/// A service whose requests stream in both directions, with one slot.
async fn streaming() -> Scene {
    let one = Variant { slots: 1, ..ONE };
    Scene::start(&[one], 1, |bootstrap, plugin| {
        let path = format!("/{}/ModelStreamInfer", weir_bed::oip::SERVICE);
        plugin["streams"] = json!({ "requests": [path] });
        bootstrap.http2_backends()
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn grpc_stream_holds_its_slot_to_its_end() {
    let scene = streaming().await;
    let (send, receive) = mpsc::unbounded_channel();
    let requests = stream::unfold(receive, async |mut receive| {
        let next = receive.recv().await?;
        Some((next, receive))
    });
    send.send(infer_request()).unwrap();
    let mut answers = client(&scene)
        .stream(requests, &[])
        .await
        .unwrap()
        .into_inner();
    assert!(answers.message().await.unwrap().is_some());
    // The server has answered, but the stream is open, so its slot is taken.
    let waiting = Scene::spawn(scene.infer_within(10_000));
    scene.until(Metric::HeldRequests, "", 1).await.unwrap();
    for _ in 0..3 {
        send.send(infer_request()).unwrap();
        assert!(answers.message().await.unwrap().is_some());
    }
    assert_eq!(scene.metric(Metric::SlotsInUse, "small").await.unwrap(), 1);
    assert_eq!(scene.backends[0].executions().len(), 4);
    drop(send);
    assert!(answers.message().await.unwrap().is_none());
    assert_eq!(waiting.await.unwrap().unwrap().status, 200);
    scene.until(Metric::SlotsInUse, "small", 0).await.unwrap();
    let doors: Vec<_> = scene.backends[0]
        .executions()
        .iter()
        .map(|d| d.door)
        .collect();
    assert_eq!(doors[3..], [Door::OipGrpcStream, Door::OipHttp]);
}

/// Opens a stream that its client does not close.
async fn unending(client: Client) -> tonic::Streaming<ModelStreamInferResponse> {
    let requests = stream::iter([infer_request()]).chain(stream::pending());
    let mut answers = client.stream(requests, &[]).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().is_some());
    answers
}

#[tokio::test]
async fn broken_grpc_stream_releases_its_slot() {
    let scene = streaming().await;
    let mut answers = unending(client(&scene)).await;
    scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
    scene.backends[0].hang_up();
    assert!(answers.message().await.is_err());
    let seen = see(scene.infer_within(10_000)).await.unwrap();
    assert_eq!(seen.status, 200, "the server broke it off");

    // A client on its own runtime: when the runtime is dropped, its connection closes.
    let elsewhere = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let address = scene.envoy.listener("weir").unwrap();
    let stream = async move { unending(Client::of(address).unwrap()).await };
    let answers = elsewhere.spawn(stream).await.unwrap();
    scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
    elsewhere.shutdown_background();
    let seen = see(scene.infer_within(10_000)).await.unwrap();
    assert_eq!(seen.status, 200, "the client broke it off");
    drop(answers);
}

#[tokio::test]
async fn event_stream_holds_its_slot_to_its_end() {
    let slow = Variant {
        slots: 1,
        service_ms: 400.0,
        ..ONE
    };
    let scene = scene(slow).await;
    let events = scene.client.post(url(&scene, "/v1/stream?events=4"));
    let events = events.header("x-slo-ms", "10000");
    let mut answer = events.send().await.unwrap();
    assert!(answer.chunk().await.unwrap().is_some());
    let waiting = Scene::spawn(scene.infer_within(10_000));
    scene.until(Metric::HeldRequests, "", 1).await.unwrap();
    let mut text = Vec::new();
    while let Some(more) = answer.chunk().await.unwrap() {
        text.extend_from_slice(&more);
    }
    assert!(text.ends_with(b"data: [DONE]\n\n"));
    assert_eq!(waiting.await.unwrap().unwrap().status, 200);
    let done = scene.backends[0].executions();
    assert_eq!((done[0].door, done[1].door), (Door::Events, Door::OipHttp));
    assert!(
        done[1].arrived_ms >= done[0].ended_ms,
        "it was sent too early"
    );
}

/// As shipped: websockets take no slot, do not wait for one, and pass unchanged.
#[tokio::test]
async fn websockets_bypass_the_filter() {
    let slow = Variant {
        slots: 1,
        service_ms: 5000.0,
        ..ONE
    };
    let scene = scene(slow).await;
    let running = Scene::spawn(scene.infer_within(20_000));
    scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
    echo(&scene).await;
    assert_eq!(scene.metric(Metric::Arrivals, "").await.unwrap(), 1);
    assert_eq!(scene.backends[0].executions().len(), 1);
    running.abort();
}

async fn echo(scene: &Scene) {
    let url = url(scene, "/ws").replace("http://", "ws://");
    let (mut socket, answer) = tokio_tungstenite::connect_async(url).await.unwrap();
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["x-emulated"], "small");
    let long: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    for message in [
        Message::text("deadline?"),
        Message::binary(long),
        Message::text(""),
    ] {
        socket.send(message.clone()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), message);
    }
    socket.close(None).await.unwrap();
}

const STAGE: Variant = Variant {
    service_ms: 100.0,
    ..ONE
};

/// Long enough that delays of a busy machine do not matter.
const LONG_STAGE: Variant = Variant {
    service_ms: 1000.0,
    ..ONE
};
/// Enough for one such stage, and for less than a quarter of another, which is not tried.
const ONE_AND_A_FIFTH_MS: u64 = 1200;

/// A detector that calls a classifier, each behind its own Envoy.
async fn pipeline(stage: Variant) -> (Scene, Scene) {
    let classifier = Scene::start(&[stage], 1, |bootstrap, plugin| {
        plugin["deadline"] = json!({ "trust_deadline": true });
        bootstrap.http2_backends()
    })
    .await
    .unwrap();
    let detector = scene_http2(stage).await;
    let next = url(&classifier, "/v2/models/model/infer");
    detector.backends[0].then(Some(&next)).unwrap();
    (detector, classifier)
}

#[tokio::test]
async fn chained_stages_keep_one_deadline() {
    let (detector, classifier) = pipeline(STAGE).await;
    let seen = see(detector.infer_within(3000)).await.unwrap();
    assert_eq!(seen.status, 200, "{}", String::from_utf8_lossy(&seen.body));
    let answer: Value = serde_json::from_slice(&seen.body).unwrap();
    let next = answer.pointer("/parameters/next/model_name");
    assert_eq!(next, Some(&json!("small")));
    let within = [("grpc-timeout", "3S".to_owned())];
    let grpc = client(&detector).infer(infer_request(), &within).await;
    assert!(grpc.unwrap().get_ref().parameters.contains_key("next"));

    let first = detector.backends[0].executions();
    let second = classifier.backends[0].executions();
    assert_eq!((first.len(), second.len()), (2, 2));
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first.door, second.door);
        assert_eq!(first.request_id, second.request_id);
        let (first, second) = (&first.headers, &second.headers);
        assert_eq!(
            number(first, "x-slo-deadline"),
            number(second, "x-slo-deadline")
        );
        let spent = number(first, "x-slo-remaining-ms") - number(second, "x-slo-remaining-ms");
        assert!(spent >= 100, "{spent} ms spent in the first stage");
    }
    let timeout = |headers: &BTreeMap<String, String>| headers["grpc-timeout"].clone();
    let left = |headers| {
        timeout(headers)
            .trim_end_matches('m')
            .parse::<u64>()
            .unwrap()
    };
    assert!(left(&second[1].headers) + 100 <= left(&first[1].headers));
}

#[tokio::test]
async fn later_stages_refusal_reaches_the_client() {
    let (detector, classifier) = pipeline(LONG_STAGE).await;
    let seen = see(detector.infer_within(ONE_AND_A_FIFTH_MS))
        .await
        .unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    assert_eq!(detector.backends[0].executions().len(), 1);
    assert_eq!(classifier.backends[0].executions(), []);
}

/// Starts a scene in which an answer must not outlast its deadline, except for streams on these paths.
async fn with_streams(paths: Value) -> Scene {
    let configured = |bootstrap, plugin: &mut Value| {
        plugin["deadline"]["finish_ms"] = json!(0);
        plugin["streams"] = json!({ "answers": paths });
        bootstrap
    };
    Scene::start(&[STAGE], 1, configured).await.unwrap()
}
