//! gRPC through a real Envoy with the filter: every refusal is a trailers-only answer with a standard gRPC
//! status and the filter's reason.

use futures_util::stream;
use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::oip::frame;
use weir_bed::scene::{Scene, Seen, Variant, epoch_ms, see};

use crate::http2::{client, infer_request, scene_http2, url};

const ONE: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 100,
    service_ms: 1.0,
};
const SLOW: Variant = Variant {
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

/// Sends an inference as raw HTTP/2, so that the answer can be inspected.
async fn raw_grpc(scene: &Scene, headers: &[(&str, &str)]) -> Seen {
    let client = reqwest::Client::builder()
        .http2_prior_knowledge()
        .build()
        .unwrap();
    let path = format!("/{}/ModelInfer", weir_bed::oip::SERVICE);
    let mut request = client
        .post(url(scene, &path))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(frame(&infer_request()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    see(request).await.unwrap()
}

/// Asserts a refusal as gRPC clients expect it: HTTP 200, with the status in the headers.
fn assert_trailers_only(seen: &Seen, grpc_status: &str, reason: &str) {
    assert_eq!(seen.status, 200, "{reason}");
    assert_eq!(seen.header("grpc-status"), grpc_status, "{reason}");
    assert_eq!(seen.header("x-slo-dropped-reason"), reason);
    assert_eq!(seen.header("content-type"), "application/grpc", "{reason}");
    assert!(seen.body.is_empty(), "{reason}: there is a body");
}

#[tokio::test]
async fn grpc_refusal_is_trailers_only() {
    let scene = Scene::start(&[Variant { slots: 1, ..SLOW }], 1, |bootstrap, plugin| {
        plugin["queue"] = json!({ "max_requests": 1 });
        bootstrap.http2_backends()
    })
    .await
    .unwrap();
    let long_ago = (epoch_ms() - 5000).to_string();
    let short = raw_grpc(&scene, &[("grpc-timeout", "20m")]).await;
    assert_trailers_only(&short, "4", "infeasible");
    let message = short.header("grpc-message");
    assert!(message.contains("infeasible"), "{message}");
    let late = [("x-slo-ms", "1000"), ("x-slo-start", long_ago.as_str())];
    assert_trailers_only(&raw_grpc(&scene, &late).await, "4", "expired");

    // One request runs and one is held: there is no capacity for a third.
    scene.backends[0].slow_by(50.0).unwrap();
    let running = Scene::spawn(scene.infer_within(20_000));
    scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
    let held = Scene::spawn(scene.infer_within(20_000));
    scene.until(Metric::HeldRequests, "", 1).await.unwrap();
    let shed = raw_grpc(&scene, &[("x-slo-ms", "20000")]).await;
    assert_trailers_only(&shed, "8", "queue-full");
    assert_eq!(shed.header("retry-after"), "1");
    running.abort();
    held.abort();
}

#[tokio::test]
async fn grpc_refusal_reports_no_slots() {
    let idle = Variant {
        share: 0.0,
        slots: 0,
        ..ONE
    };
    let scene = scene_http2(idle).await;
    assert_trailers_only(&raw_grpc(&scene, &[]).await, "14", "no-capacity");
}

/// Envoy's own answers, to which the filter adds the reason.
#[tokio::test]
async fn grpc_refusal_reports_no_backend() {
    let scene = Scene::start(&[ONE], 1, |bootstrap, _| {
        let bootstrap = bootstrap.without_backend("small");
        bootstrap.backends("small", &[]).http2_backends()
    })
    .await
    .unwrap();
    assert_trailers_only(&raw_grpc(&scene, &[]).await, "14", "no-backend");
}

/// The execution began in time but does not end in time. Envoy's own timeout alone would answer UNAVAILABLE.
#[tokio::test]
async fn grpc_refusal_reports_expired_deadline() {
    let scene = scene_http2(SLOW).await;
    scene.backends[0].slow_by(50.0).unwrap();
    let late = raw_grpc(&scene, &[("x-slo-ms", "700")]).await;
    assert_trailers_only(&late, "4", "expired");
    assert_eq!(scene.backends[0].executions().len(), 1);
}

#[tokio::test]
async fn grpc_client_sees_status_and_reason() {
    let scene = scene_http2(SLOW).await;
    // Without `grpc-timeout`: tonic's own timer would fire first.
    let short = [("x-slo-ms", "20".to_owned())];
    let status = client(&scene).infer(infer_request(), &short).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    let reason = status.metadata().get("x-slo-dropped-reason").unwrap();
    assert_eq!(reason, "infeasible");
    let requests = stream::iter([infer_request()]);
    let status = client(&scene).stream(requests, &short).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    assert_eq!(scene.backends[0].executions(), []);
}

#[tokio::test]
async fn later_stages_refusal_reaches_grpc_client() {
    let classifier = Scene::start(&[LONG_STAGE], 1, |bootstrap, plugin| {
        plugin["deadline"] = json!({ "trust_deadline": true });
        bootstrap.http2_backends()
    })
    .await
    .unwrap();
    let detector = scene_http2(LONG_STAGE).await;
    let next = url(&classifier, "/");
    detector.backends[0].then(Some(&next)).unwrap();
    let within = [("x-slo-ms", ONE_AND_A_FIFTH_MS.to_string())];
    let status = client(&detector).infer(infer_request(), &within).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    let reason = status.metadata().get("x-slo-dropped-reason").unwrap();
    assert_eq!(reason, "infeasible");
    assert_eq!(classifier.backends[0].executions(), []);
}
