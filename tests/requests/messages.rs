//! gRPC messages that name the model, through a real Envoy, before variants whose servers have names of their own for it:
//! whole bodies, bodies that pass while they arrive, streams of messages, and messages that stay as they are.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::oip::{
    ModelInferRequest, ModelInferResponse, ModelMetadataResponse, ModelReadyResponse, ModelRequest,
    SERVICE, frame,
};
use weir_bed::scene::{Scene, Seen, Variant, see};

use crate::http2::{client, url};

const SMALL: Variant = Variant {
    name: "small",
    share: 0.5,
    slots: 100,
    service_ms: 1.0,
};
const LARGE: Variant = Variant {
    name: "large",
    ..SMALL
};
/// Name that clients have for the model. No server knows it.
const PUBLIC: &str = "digits";
/// Larger bodies pass while they arrive.
const HELD_MAX: usize = 100_000;

/// Two variants, each of whose servers knows the model by the variant's name alone.
async fn scene(adapt: impl Fn(&mut Value)) -> Scene {
    Scene::start(&[SMALL, LARGE], 1, |bootstrap, plugin| {
        for (index, name) in ["small", "large"].into_iter().enumerate() {
            plugin["plan"]["variants"][index]["model"] = json!(name);
        }
        adapt(plugin);
        bootstrap.http2_backends()
    })
    .await
    .unwrap()
}

/// Checks that a server has answered by its own name, and has read exactly the tensor that was sent.
fn check(answer: &ModelInferResponse, variant: &str, tensor: &[u8]) {
    assert_eq!(answer.model_name, variant);
    assert_eq!(answer.output("bytes"), Some(tensor.len() as u64));
    let sum = u64::from(crc32fast::hash(tensor));
    assert_eq!(answer.output("crc32"), Some(sum));
}

fn tensor(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index % 251) as u8).collect()
}

#[tokio::test]
async fn each_variant_is_sent_its_own_name_in_the_message() {
    let limit = json!({ "request_max_bytes": HELD_MAX });
    let scene = scene(|plugin| plugin["body"] = limit.clone()).await;
    let mut chosen = BTreeSet::new();
    for bytes in [
        6,
        6,
        HELD_MAX / 2,
        HELD_MAX / 2,
        4 * HELD_MAX,
        30 * HELD_MAX,
    ] {
        let tensor = tensor(bytes);
        let message = ModelInferRequest::of(PUBLIC, &tensor);
        let within = [("x-slo-ms", "20000".to_owned())];
        let answer = client(&scene).infer(message, &within).await.unwrap();
        let variant = answer.metadata().get("x-slo-variant").unwrap();
        let variant = variant.to_str().unwrap().to_owned();
        check(answer.get_ref(), &variant, &tensor);
        chosen.insert(variant);
    }
    assert_eq!(chosen.len(), 2, "{chosen:?}");
    for name in ["small", "large"] {
        assert_eq!(
            scene.metric(Metric::MessagesUnnamed, name).await.unwrap(),
            0
        );
        assert_eq!(scene.metric(Metric::Failures, name).await.unwrap(), 0);
    }
}

/// Sends a call with these bytes as its body, in these pieces.
async fn raw(scene: &Scene, pieces: Vec<Vec<u8>>, length: Option<usize>) -> Seen {
    let client = reqwest::Client::builder()
        .http2_prior_knowledge()
        .build()
        .unwrap();
    let path = format!("/{SERVICE}/ModelInfer");
    let pieces = stream::iter(pieces).then(|piece| async {
        // Each piece in a frame of its own.
        tokio::task::yield_now().await;
        Ok::<_, std::io::Error>(piece)
    });
    let mut request = client
        .post(url(scene, &path))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("x-slo-ms", "20000")
        .body(reqwest::Body::wrap_stream(pieces));
    if let Some(length) = length {
        request = request.header("content-length", length);
    }
    see(request).await.unwrap()
}

/// The length of a body changes with the name; what a client says of it would be wrong. A head in pieces is put together.
#[tokio::test]
async fn stated_length_and_pieces_do_not_matter() {
    let scene = scene(|plugin| plugin["body"] = json!({ "request_max_bytes": 10 })).await;
    let body = frame(&ModelInferRequest::of(PUBLIC, b"tensor"));
    let whole = vec![body.clone()];
    let single = body.iter().map(|byte| vec![*byte]).collect();
    for (pieces, length) in [(whole, Some(body.len())), (single, None)] {
        let seen = raw(&scene, pieces, length).await;
        let text = String::from_utf8_lossy(&seen.body);
        assert_eq!(seen.status, 200, "{text}");
        let variant = seen.header("x-slo-variant");
        assert!(!variant.is_empty() && text.contains(variant), "{text}");
    }
}

#[tokio::test]
async fn every_message_of_a_stream_gets_the_name() {
    let scene = scene(|_| {}).await;
    let tensors: Vec<_> = [6, 0, 1000, 200_000, 6, 300_000]
        .map(tensor)
        .into_iter()
        .collect();
    let messages: Vec<_> = tensors
        .iter()
        .map(|tensor| ModelInferRequest::of(PUBLIC, tensor))
        .collect();
    let within = [("x-slo-ms", "20000".to_owned())];
    let client = client(&scene);
    let answers = client.stream(stream::iter(messages), &within);
    let answers = answers.await.unwrap();
    let variant = answers.metadata().get("x-slo-variant").unwrap();
    let variant = variant.to_str().unwrap().to_owned();
    let answers: Vec<_> = answers.into_inner().collect().await;
    assert_eq!(answers.len(), tensors.len());
    for (answer, tensor) in answers.into_iter().zip(&tensors) {
        let answer = answer.unwrap();
        assert_eq!(answer.error_message, "");
        check(&answer.infer_response.unwrap(), &variant, tensor);
    }
}

/// Its name cannot be read, so its server answers for itself, and the filter counts it.
#[tokio::test]
async fn compressed_message_stays_and_is_counted() {
    let scene = scene(|_| {}).await;
    let mut body = frame(&ModelInferRequest::of(PUBLIC, b"tensor"));
    if let Some(compressed) = body.first_mut() {
        *compressed = 1;
    }
    let seen = raw(&scene, vec![body], None).await;
    assert_eq!(seen.status, 200);
    assert_ne!(seen.header("grpc-status"), "0");
    assert_eq!(seen.header("x-slo-dropped-reason"), "");
    let variant = match scene.metric(Metric::Served, "small").await.unwrap() {
        0 => "large",
        _ => "small",
    };
    scene
        .until(Metric::MessagesUnnamed, variant, 1)
        .await
        .unwrap();
}

/// The emulated servers know the model by their own names only; readiness and metadata come from the first of them.
#[tokio::test]
async fn readiness_and_metadata_are_those_of_the_first_variant() {
    let scene = scene(|_| {}).await;
    for _ in 0..3 {
        for (path, name) in [
            ("/v2/models/digits/ready", None),
            ("/v2/models/digits", Some("small")),
        ] {
            let seen = see(scene.client.get(url(&scene, path))).await.unwrap();
            assert_eq!(seen.status, 200, "{path}");
            let answer: Option<Value> = serde_json::from_slice(&seen.body).ok();
            let answered = answer.as_ref().and_then(|answer| answer["name"].as_str());
            assert!(name.is_none() || answered == name, "{path}: {answer:?}");
        }
        let model = ModelRequest {
            name: PUBLIC.to_owned(),
            ..ModelRequest::default()
        };
        let client = client(&scene);
        let ready = client.call::<_, ModelReadyResponse>("ModelReady", model.clone(), &[]);
        assert!(ready.await.unwrap().into_inner().ready);
        let metadata = client.call::<_, ModelMetadataResponse>("ModelMetadata", model, &[]);
        assert_eq!(metadata.await.unwrap().into_inner().name, "small");
    }
    assert_eq!(scene.metric(Metric::Arrivals, "").await.unwrap(), 0);
}
