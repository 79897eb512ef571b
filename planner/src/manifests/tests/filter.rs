//! A service's own settings of its filters in all targets, and what belongs to them in Envoy.

use serde_json::{Value, json};

use super::*;

const SETTINGS: &str = "\nfilter:\n  deadline: {max_ms: 20000, reserve_ms: 5}\n  max_retries: 1\n  \
    on_stale: refuse\n  streams: {requests: [\"/up*\", \"/a/*/b\"]}\n  \
    body: {request_max_bytes: 1000}\n";

fn body(files: &[File], path: &str) -> Value {
    let file = files.iter().find(|file| file.path == path);
    file.unwrap_or_else(|| panic!("no {path}")).documents[0]
        .body
        .clone()
}

/// The plugin's configuration of a standalone Envoy, which is JSON in a string.
fn of_envoy(weir: &Value) -> Value {
    let pointer = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0\
        /typed_config/config/configuration/value";
    serde_json::from_str(weir.pointer(pointer).unwrap().as_str().unwrap()).unwrap()
}

#[test]
fn settings_reach_every_filter() {
    let text = example() + SETTINGS;
    let default = Options::default();
    let istio = render(&text, &default, Target::Istio).unwrap();
    let gateway = render(&text, &default, Target::Gateway).unwrap();
    let envoy = render(&text, &default, Target::Envoy).unwrap();
    let plugin = "/spec/pluginConfig";
    for (files, path, pointer) in [
        (&istio, "istio/gateway/resnet/wasmplugin.yaml", plugin),
        (&istio, "istio/sidecar/resnet/wasmplugins.yaml", plugin),
        (&gateway, "k8s/envoy-gateway/resnet/policies.yaml", ""),
        (&envoy, "envoy/weir.yaml", ""),
    ] {
        let body = body(files, path);
        let config = match (path, pointer) {
            ("envoy/weir.yaml", _) => of_envoy(&body),
            (_, "") => body["spec"]["wasm"][0]["config"].clone(),
            _ => body.pointer(pointer).unwrap().clone(),
        };
        assert_eq!(config["deadline"]["max_ms"], 20_000, "{path}");
        assert_eq!(config["deadline"]["default_ms"], 1000, "{path}");
        assert_eq!(config["on_stale"], "refuse", "{path}");
        assert_eq!(config["streams"]["requests"][0], "/up*", "{path}");
    }
}

#[test]
fn envoy_follows_the_settings() {
    let files = render(&(example() + SETTINGS), &Options::default(), Target::Envoy).unwrap();
    let weir = body(&files, "envoy/weir.yaml");
    let manager = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
    let manager = weir.pointer(manager).unwrap();
    assert_eq!(manager["request_timeout"], "0s", "requests stream");
    let routes = manager["route_config"]["virtual_hosts"][0]["routes"].as_array();
    let fallback = routes.unwrap().last().unwrap();
    assert_eq!(fallback["route"]["idle_timeout"], "21s");
    assert_eq!(fallback["request_body_buffer_limit"], 2000);
    let files = render(&(example() + SETTINGS), &Options::default(), Target::Istio).unwrap();
    let service = body(&files, "istio/gateway/resnet/virtualservice.yaml");
    let routes = service["spec"]["http"].as_array().unwrap();
    let stream = routes
        .iter()
        .find(|it| it["name"] == "weir-resnet.stream")
        .unwrap();
    let expected = json!([{ "uri": { "prefix": "/up" } }, { "uri": { "regex": "/a/.*/b" } }]);
    assert_eq!(stream["match"], expected);
    let files = render(&example(), &Options::default(), Target::Istio).unwrap();
    let service = body(&files, "istio/gateway/resnet/virtualservice.yaml").to_string();
    assert!(!service.contains("weir-resnet.stream"), "none by default");
}

#[test]
fn websockets_have_a_cluster_of_half_of_the_slots() {
    let files = render(&example(), &Options::default(), Target::Envoy).unwrap();
    let weir = body(&files, "envoy/weir.yaml");
    let slots = of_envoy(&weir)["plan"]["variants"][0]["slots"]
        .as_u64()
        .unwrap();
    let clusters = weir["static_resources"]["clusters"].as_array().unwrap();
    let websocket = clusters
        .iter()
        .find(|it| it["name"] == "websocket")
        .unwrap();
    let limits = &websocket["circuit_breakers"]["thresholds"][0];
    assert_eq!(
        (&limits["max_requests"], &limits["max_connections"]),
        (&json!(slots / 2), &json!(slots))
    );
}

#[test]
fn failover_has_its_clusters() {
    let text = example() + "\nfilter: {failover: -next}\n";
    let files = render(&text, &Options::default(), Target::Envoy).unwrap();
    let weir = body(&files, "envoy/weir.yaml");
    let plan = of_envoy(&weir)["plan"]["variants"].clone();
    let clusters = weir["static_resources"]["clusters"].as_array().unwrap();
    for variant in plan.as_array().unwrap() {
        let own = variant["cluster"].as_str().unwrap();
        let name = format!("{own}-next");
        let found = clusters.iter().find(|it| it["name"] == *name).unwrap();
        let members = &found["cluster_type"]["typed_config"]["clusters"];
        assert_eq!(
            (&members[0], members.as_array().unwrap().len()),
            (&json!(own), 3)
        );
    }
    let gate = of_envoy(&body(&files, "envoy/gate-resnet18.yaml"));
    assert!(gate.get("failover").is_none(), "a gate has one variant");
}
