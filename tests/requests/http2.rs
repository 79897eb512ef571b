//! Servers behind Envoy that speak HTTP/2, as gRPC servers do, and requests to them.

use weir_bed::oip::{Client, ModelInferRequest};
use weir_bed::scene::{Scene, Variant};

/// Starts such a server, and an Envoy in front of it.
pub(crate) async fn scene_http2(variant: Variant) -> Scene {
    Scene::start(&[variant], 1, |bootstrap, _| bootstrap.http2_backends())
        .await
        .unwrap()
}

/// URL of a path behind Envoy.
pub(crate) fn url(scene: &Scene, path: &str) -> String {
    format!("http://{}{path}", scene.envoy.listener("weir").unwrap())
}

/// A gRPC client of Envoy.
pub(crate) fn client(scene: &Scene) -> Client {
    Client::of(scene.envoy.listener("weir").unwrap()).unwrap()
}

/// A request for inference.
pub(crate) fn infer_request() -> ModelInferRequest {
    ModelInferRequest::of("model", b"tensor")
}
