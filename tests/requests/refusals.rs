//! Refusals through a real Envoy: what they say, in every protocol, and which of them a caller's proxy tries again.

use std::net::SocketAddr;

use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::oip::frame;
use weir_bed::scene::{Scene, Seen, Variant, keep_to_slots, see};

use crate::http2::infer_request;

const ONE: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 1,
    service_ms: 60.0,
};
/// A budget of a tenth is refused: less than a quarter is not tried.
const SLOW: Variant = Variant {
    service_ms: 1000.0,
    ..ONE
};
const IDLE: Variant = Variant {
    share: 0.0,
    slots: 0,
    ..ONE
};
const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

async fn scene(variant: Variant) -> Scene {
    Scene::start(&[variant], 1, |bootstrap, _| bootstrap)
        .await
        .unwrap()
}

fn body(seen: &Seen) -> Value {
    serde_json::from_slice(&seen.body).unwrap()
}

/// Sends an inference over HTTP/2, with this content type.
async fn typed(address: SocketAddr, kind: &str, headers: &[(&str, &str)]) -> Seen {
    let client = reqwest::Client::builder().http2_prior_knowledge().build();
    let mut body = frame(&infer_request());
    if kind.contains("text") {
        body = base64(&body);
    }
    let mut request = client
        .unwrap()
        .post(format!("http://{address}{INFER}"))
        .header("content-type", kind)
        .header("te", "trailers")
        .body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    see(request).await.unwrap()
}

/// Encodes as text of gRPC-Web.
fn base64(bytes: &[u8]) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let encode = |three: &[u8]| {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        [18, 12, 6, 0].map(|shift| LETTERS[(bits >> shift) as usize & 63])
    };
    let mut text: Vec<u8> = bytes.chunks(3).flat_map(encode).collect();
    let padding = (3 - bytes.len() % 3) % 3;
    let end = text.len() - padding;
    text[end..].fill(b'=');
    text
}

#[tokio::test]
async fn body_names_what_was_needed_and_what_was_left() {
    let scene = scene(SLOW).await;
    let seen = see(scene.infer_within(100)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    assert_eq!(seen.header("content-type"), "application/json");
    assert_eq!(seen.header("server-timing"), "queue;dur=0.0");
    assert!(!seen.headers.contains_key("retry-after"));
    let answer = body(&seen);
    assert_eq!(answer["reason"], "infeasible");
    assert_eq!(answer["variant"], "small");
    let (needed, left) = (answer["needed_ms"].as_u64(), answer["left_ms"].as_u64());
    let (needed, left) = (needed.unwrap(), left.unwrap());
    assert!(needed >= 1000 && left <= 100, "{answer}");
    let text = format!(
        "refused by weir: infeasible: the fastest allowed variant small needs {needed} ms, {left} ms are left"
    );
    assert_eq!(answer["error"], text);

    // The same sentence, with other times, in gRPC.
    let address = scene.envoy.listener("weir").unwrap();
    let seen = typed(address, "application/grpc", &[("grpc-timeout", "100m")]).await;
    let message = seen.header("grpc-message");
    let begins = "refused by weir: infeasible: the fastest allowed variant small needs ";
    assert!(message.starts_with(begins), "{message}");
    assert_eq!(seen.header("server-timing"), "queue;dur=0.0");
}

#[tokio::test]
async fn accuracy_that_no_variant_has_is_422_and_no_demand() {
    let scene = scene(ONE).await;
    let floor = scene.infer().header("x-slo-min-accuracy", "99");
    let seen = see(floor).await.unwrap();
    assert_eq!(seen.refusal(), (422, "accuracy"));
    assert!(!seen.headers.contains_key("retry-after"));
    let answer = body(&seen);
    assert_eq!(answer["variant"], "small");
    let most = answer["max_accuracy"].as_f64().unwrap();
    let most = most.to_string();
    let text = format!(
        "refused by weir: accuracy: the most accurate allowed variant small has {most} percent, \
         x-slo-min-accuracy is 99"
    );
    assert_eq!(answer["error"], text);
    // What the answer names is served.
    let floor = scene.infer().header("x-slo-min-accuracy", most);
    assert_eq!(see(floor).await.unwrap().status, 200);
    let address = scene.envoy.listener("weir").unwrap();
    let floor = [("x-slo-min-accuracy", "99")];
    let seen = typed(address, "application/grpc", &floor).await;
    assert_eq!(seen.header("grpc-status"), "9");
    assert_eq!(seen.header("grpc-message"), text);
    scene.until(Metric::Refused, "accuracy", 2).await.unwrap();
    scene.until(Metric::Unservable, "", 2).await.unwrap();
    assert_eq!(scene.metric(Metric::Arrivals, "").await.unwrap(), 1);
}

/// What this filter takes for gRPC is what Envoy does: no refusal is HTTP 200 without a gRPC status.
#[tokio::test]
async fn content_types_of_grpc_are_envoys() {
    let scene = scene(ONE).await;
    let address = scene.envoy.listener("weir").unwrap();
    let floor = [("x-slo-min-accuracy", "99")];
    for kind in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc+",
    ] {
        let seen = typed(address, kind, &floor).await;
        assert_eq!(seen.refusal(), (200, "accuracy"), "{kind}");
        assert_eq!(seen.header("grpc-status"), "9", "{kind}");
        assert_eq!(seen.header("content-type"), "application/grpc", "{kind}");
        assert!(seen.body.is_empty(), "{kind}");
    }
    for kind in [
        "application/grpc; charset=utf-8",
        "Application/GRPC",
        "application/GRPC+proto",
        "application/grpc ;x",
        "application/grpcx",
        "application/json",
        "application/connect+proto",
    ] {
        let seen = typed(address, kind, &floor).await;
        assert_eq!(seen.refusal(), (422, "accuracy"), "{kind}");
        assert!(!seen.headers.contains_key("grpc-status"), "{kind}");
        assert_eq!(body(&seen)["reason"], "accuracy", "{kind}");
    }
}

/// Puts Envoy's filter for gRPC-Web before this one.
fn after_grpc_web(bootstrap: Bootstrap, plugin: &mut Value) -> Bootstrap {
    keep_to_slots(plugin);
    let bootstrap = bootstrap.http2_backends();
    let filters = format!("{MANAGER}/http_filters");
    let config = bootstrap.clone().plugin(plugin).config().unwrap();
    let mut all = config
        .pointer(&filters)
        .unwrap()
        .as_array()
        .unwrap()
        .clone();
    let kind = "type.googleapis.com/envoy.extensions.filters.http.grpc_web.v3.GrpcWeb";
    let web = json!({ "name": "envoy.filters.http.grpc_web", "typed_config": { "@type": kind } });
    all.insert(0, web);
    bootstrap.amend(&filters, Value::Array(all))
}

/// The status is in the headers, where clients of gRPC-Web look for that of an answer without messages.
fn assert_web(seen: &Seen, grpc_status: &str, reason: &str, kind: &str) {
    let context = format!("{reason} {kind}: {seen:?}");
    assert_eq!(seen.refusal(), (200, reason), "{context}");
    assert_eq!(seen.header("grpc-status"), grpc_status, "{context}");
    let begins = format!("refused by weir: {reason}: ");
    assert!(
        seen.header("grpc-message").starts_with(&begins),
        "{context}"
    );
    let answered = seen.header("content-type");
    assert!(answered.starts_with("application/grpc-web"), "{context}");
    // In base64 Envoy's filter ends no answer of Envoy's own without a message: one without content.
    let is_empty = seen.body.is_empty() || seen.body == b"AAAAAAA=" && kind.contains("text");
    assert!(is_empty, "{context}");
}

const WEB: [&str; 4] = [
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/grpc-web-text",
    "application/grpc-web-text+proto",
];

#[tokio::test]
async fn clients_of_grpc_web_get_the_status_of_grpc() {
    for translated in [true, false] {
        let scene = Scene::start(&[SLOW], 1, |bootstrap, plugin| {
            plugin["queue"] = json!({ "max_requests": 1 });
            match translated {
                true => after_grpc_web(bootstrap, plugin),
                false => bootstrap,
            }
        })
        .await
        .unwrap();
        let address = scene.envoy.listener("weir").unwrap();
        for kind in WEB {
            let accept = ("accept", kind);
            let short = typed(address, kind, &[accept, ("x-slo-ms", "100")]).await;
            assert_web(&short, "4", "infeasible", kind);
            let floor = typed(address, kind, &[accept, ("x-slo-min-accuracy", "99")]).await;
            assert_web(&floor, "9", "accuracy", kind);
        }
        // One request runs and one is held: there is no capacity for a third.
        scene.backends[0].slow_by(50.0).unwrap();
        let running = Scene::spawn(scene.infer_within(40_000));
        scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
        let held = Scene::spawn(scene.infer_within(40_000));
        scene.until(Metric::HeldRequests, "", 1).await.unwrap();
        for kind in WEB {
            let headers = [("accept", kind), ("x-slo-ms", "40000")];
            let shed = typed(address, kind, &headers).await;
            assert_web(&shed, "8", "queue-full", kind);
        }
        running.abort();
        held.abort();
    }
}

#[tokio::test]
async fn clients_of_grpc_web_get_unavailable_without_slot_or_server() {
    for translated in [true, false] {
        let adapt = |bootstrap: Bootstrap, plugin: &mut Value| match translated {
            true => after_grpc_web(bootstrap, plugin),
            false => bootstrap,
        };
        let idle = Scene::start(&[IDLE], 1, adapt).await.unwrap();
        let empty = Scene::start(&[ONE], 1, |bootstrap, plugin| {
            let bootstrap = bootstrap.without_backend("small").backends("small", &[]);
            adapt(bootstrap, plugin)
        })
        .await
        .unwrap();
        for kind in WEB {
            let accept = [("accept", kind)];
            let address = idle.envoy.listener("weir").unwrap();
            let seen = typed(address, kind, &accept).await;
            assert_web(&seen, "14", "no-capacity", kind);
            // Envoy's own answer.
            let address = empty.envoy.listener("weir").unwrap();
            let seen = typed(address, kind, &accept).await;
            assert_web(&seen, "14", "no-backend", kind);
        }
    }
}

/// At the deadline Envoy's own timer ends a request in flight. The client gets the filter's answer.
#[tokio::test]
async fn answer_of_envoys_own_timer_is_a_refusal_as_others() {
    let scene = scene(Variant { slots: 9, ..ONE }).await;
    scene.backends[0].slow_by(200.0).unwrap();
    let seen = see(scene.infer_within(400)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "expired"));
    assert_eq!(seen.header("content-type"), "application/json");
    let length = seen.body.len().to_string();
    assert_eq!(seen.header("content-length"), length);
    assert_eq!(seen.header("server-timing"), "queue;dur=0.0");
    let answer = body(&seen);
    assert_eq!(answer["reason"], "expired");
    assert_eq!(answer["variant"], "small");
    let error = answer["error"].as_str().unwrap();
    let begins = "refused by weir: expired: small did not answer in the ";
    assert!(error.starts_with(begins), "{error}");

    for translated in [true, false] {
        let scene =
            Scene::start(
                &[Variant { slots: 9, ..ONE }],
                1,
                |bootstrap, plugin| match translated {
                    true => after_grpc_web(bootstrap, plugin),
                    false => bootstrap,
                },
            )
            .await
            .unwrap();
        scene.backends[0].slow_by(200.0).unwrap();
        let address = scene.envoy.listener("weir").unwrap();
        // The server reads messages, and no base64.
        let kinds = if translated { &WEB[..] } else { &WEB[..2] };
        for kind in kinds.iter().copied() {
            let headers = [("accept", kind), ("x-slo-ms", "400")];
            let seen = typed(address, kind, &headers).await;
            assert_web(&seen, "4", "expired", kind);
        }
    }
}

/// Where a server cannot be reached, Envoy's own answer says it as a refusal does.
#[tokio::test]
async fn answer_of_envoy_without_a_server_is_a_refusal_as_others() {
    let scene = Scene::start(&[ONE], 1, |bootstrap, _| {
        bootstrap.without_backend("small").backends("small", &[])
    })
    .await
    .unwrap();
    let seen = see(scene.infer()).await.unwrap();
    assert_eq!(seen.refusal(), (503, "no-backend"));
    assert_eq!(seen.header("retry-after"), "1");
    let answer = body(&seen);
    let text = "refused by weir: no-backend: no server of small can be reached";
    assert_eq!(answer["error"], text);
    assert_eq!(answer["variant"], "small");
}

/// Istio's default policy, of releases that retry 503.
fn istio_retries() -> Value {
    json!({
        "retry_on": "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes",
        "retriable_status_codes": [503],
        "num_retries": 2,
    })
}

/// A caller's proxy does not multiply refusals that only a new plan can change.
#[tokio::test]
async fn callers_proxy_does_not_retry_what_the_plan_refuses() {
    let scene = scene(IDLE).await;
    let address = scene.envoy.listener("weir").unwrap();
    let mut caller = Bootstrap::shipped()
        .unwrap()
        .without_filter()
        .backend_http2("weir", address)
        .fallback("weir");
    let config = caller.config().unwrap();
    let routes = format!("{MANAGER}/route_config/virtual_hosts/0/routes");
    for (index, route) in config
        .pointer(&routes)
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        if route.get("route").is_some() {
            let policy = format!("{routes}/{index}/route/retry_policy");
            caller = caller.amend(&policy, istio_retries());
        }
    }
    let caller = Envoy::start(&caller, 1).await.unwrap();
    let through = caller.listener("weir").unwrap();
    for kind in ["application/json", "application/grpc"] {
        let seen = typed(through, kind, &[]).await;
        assert_eq!(seen.header("x-slo-dropped-reason"), "no-capacity", "{kind}");
        assert_eq!(seen.header("retry-after"), "5", "{kind}");
    }
    scene
        .until(Metric::Refused, "no-capacity", 2)
        .await
        .unwrap();
    let retried = caller
        .counter("envoy_cluster_upstream_rq_retry")
        .await
        .unwrap();
    assert_eq!(retried, 0);
}
