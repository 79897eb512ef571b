//! Variants whose servers have a name of their own for the model, or a port of their own for gRPC, through a real
//! Envoy with the filter.

use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::emulator::{Emulator, LatencyModel, ServerConfig};
use weir_bed::scene::{Scene, Variant, see};

use crate::http2::{client, infer_request, url};

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

/// Each emulator answers to the name of its own model, and with 404 to any other.
#[tokio::test]
async fn each_variant_is_sent_its_own_name_for_the_model() {
    let scene = Scene::start(&[SMALL, LARGE], 1, |bootstrap, plugin| {
        for (index, name) in ["small", "large"].into_iter().enumerate() {
            plugin["plan"]["variants"][index]["model"] = json!(name);
        }
        bootstrap
    })
    .await
    .unwrap();
    let mut chosen = Vec::new();
    for (path, read) in [
        ("/v2/models/digits/infer", "/model_name"),
        ("/v2/models/digits/infer?verbose=1", "/model_name"),
        ("/v1/models/digits:predict", "/predictions/0/model"),
        ("/v1/models/digits:predict", "/predictions/0/model"),
    ] {
        let body = json!({ "instances": [[1]] }).to_string();
        let body = if read == "/model_name" { "{}" } else { &body };
        let request = scene.client.post(url(&scene, path)).body(body.to_owned());
        let seen = see(request.header("x-slo-ms", "2000")).await.unwrap();
        assert_eq!(seen.status, 200, "{path}");
        let answer: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        let variant = seen.header("x-slo-variant").to_owned();
        assert_eq!(answer.pointer(read), Some(&json!(variant)), "{path}");
        chosen.push(variant);
    }
    for name in ["small", "large"] {
        assert!(chosen.iter().any(|variant| variant == name), "{chosen:?}");
    }
}

#[tokio::test]
async fn path_stays_without_a_name_of_the_variant() {
    let scene = Scene::start(&[SMALL], 1, |bootstrap, plugin| {
        plugin["plan"]["variants"][0]["share"] = json!(1.0);
        bootstrap
    })
    .await
    .unwrap();
    for (path, status) in [
        ("/v2/models/digits/infer", 404),
        ("/v2/models/small/infer", 200),
    ] {
        let request = scene.client.post(url(&scene, path)).body("{}");
        assert_eq!(see(request).await.unwrap().status, status, "{path}");
    }
}

/// Applications of one server, each at its own path.
#[tokio::test]
async fn each_variant_is_sent_its_own_path() {
    let scene = Scene::start(&[SMALL, LARGE], 1, |bootstrap, plugin| {
        for (index, name) in ["small", "large"].into_iter().enumerate() {
            let path = format!("/v2/models/{name}/infer");
            plugin["plan"]["variants"][index]["path"] = json!(path);
        }
        bootstrap
    })
    .await
    .unwrap();
    let mut chosen = Vec::new();
    for path in ["/predict", "/predict?verbose=1", "/", "/any/thing?a=/b"] {
        let request = scene.client.post(url(&scene, path)).body("{}");
        let seen = see(request.header("x-slo-ms", "2000")).await.unwrap();
        assert_eq!(seen.status, 200, "{path}");
        let answer: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        let variant = seen.header("x-slo-variant").to_owned();
        assert_eq!(answer["model_name"], json!(variant), "{path}");
        chosen.push(variant);
    }
    for name in ["small", "large"] {
        assert!(chosen.iter().any(|variant| variant == name), "{chosen:?}");
    }
    // Bypassed requests keep their paths.
    let ready = see(scene.client.get(url(&scene, "/v2/health/ready"))).await;
    assert_eq!(ready.unwrap().status, 200);
}

/// The gRPC port of the emulated server is another server here, so that the test sees which port answers.
#[tokio::test]
async fn grpc_goes_to_its_port_and_takes_the_variants_slot() {
    let grpc = ServerConfig::new("model", LatencyModel::constant(1.0));
    let grpc = Emulator::start(grpc).await.unwrap();
    let one_slot = Variant {
        share: 1.0,
        slots: 1,
        ..SMALL
    };
    let scene = Scene::start(&[one_slot], 1, |bootstrap, plugin| {
        plugin["plan"]["variants"][0]["grpc_cluster"] = json!("small-grpc");
        bootstrap.backend_http2("small-grpc", grpc.addr())
    })
    .await
    .unwrap();
    let answer = client(&scene).infer(infer_request(), &[]).await.unwrap();
    assert_eq!(answer.metadata().get("x-slo-variant").unwrap(), "small");
    assert_eq!(
        (
            grpc.executions().len(),
            scene.backends[0].executions().len()
        ),
        (1, 0)
    );
    assert_eq!(see(scene.infer()).await.unwrap().status, 200);
    assert_eq!(scene.backends[0].executions().len(), 1);
    // The only slot is taken by a REST request: the gRPC request waits for it.
    scene.backends[0].slow_by(10_000.0).unwrap();
    let running = Scene::spawn(scene.infer_within(20_000));
    scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
    let grpc_client = client(&scene);
    let waiting = tokio::spawn(async move {
        grpc_client
            .infer(infer_request(), &[("x-slo-ms", "30000".to_owned())])
            .await
    });
    scene.until(Metric::HeldRequests, "", 1).await.unwrap();
    assert_eq!(grpc.executions().len(), 1);
    running.abort();
    waiting.abort();
}
