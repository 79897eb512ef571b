//! A partial emulation of Envoy Gateway: translates an HTTPRoute and its policies, as far as these manifests
//! need it. It uses Envoy Gateway's names for routes and clusters; discovery, TLS and other defaults are left
//! out.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::bed::{Document, below, one};
use super::istiod::{MANAGER, MANAGER_TYPE, before_the_router, cluster, wasm_filter};

pub(crate) const LISTENER: &str = "weir-system/weir/http";
const EARLY: &str = "envoy.http.early_header_mutation.header_mutation";
const EARLY_TYPE: &str = "type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation";

/// Returns a gateway's configuration; `hosts` holds the Services' addresses by name, `key` the planner's key
/// that the kustomization would copy.
pub(crate) fn config(hosts: &[(&str, SocketAddr)], key: &str, module: &str) -> Value {
    let all = below("k8s/envoy-gateway");
    let spec = |kind: &str| of_gateway(kind, &all)["spec"].clone();
    let rules = spec("HTTPRoute")["rules"].as_array().unwrap().clone();
    let mut routes: Vec<(usize, Value)> = Vec::new();
    let mut clusters = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let name = format!("httproute/models/weir-resnet/rule/{index}");
        let service = rule["backendRefs"][0]["name"].as_str().unwrap();
        let host = hosts
            .iter()
            .find(|(name, _)| *name == service)
            .map(|(_, host)| *host);
        clusters.push(cluster(&name, host));
        let (headers, mut route) = route(rule, &name);
        // A route's own silence comes before the listener's.
        let backend = spec("BackendTrafficPolicy");
        route["route"]["idle_timeout"] = backend["timeout"]["http"]["streamIdleTimeout"].clone();
        routes.push((headers, route));
    }
    // Sorts by precision; the sort is stable, so equal routes keep their order.
    routes.sort_by_key(|(headers, _)| std::cmp::Reverse(*headers));
    let routes: Vec<Value> = routes.into_iter().map(|(_, route)| route).collect();
    let client = spec("ClientTrafficPolicy");
    let removed = client["headers"]["earlyRequestHeaders"]["remove"]
        .as_array()
        .unwrap();
    let mutations: Vec<Value> = removed
        .iter()
        .map(|name| json!({ "remove": name }))
        .collect();
    let mut manager = json!({
        "@type": MANAGER_TYPE, "stat_prefix": "http", "use_remote_address": true,
        "request_timeout": client["timeout"]["http"]["requestReceivedTimeout"],
        "early_header_mutation_extensions": [{ "name": EARLY, "typed_config": { "@type": EARLY_TYPE, "mutations": mutations } }],
        "route_config": { "name": LISTENER, "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": routes }] },
        "http_filters": [{ "name": "envoy.filters.http.router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router", "suppress_envoy_headers": true,
        } }],
    });
    let mut wasm = spec("EnvoyExtensionPolicy")["wasm"][0].clone();
    wasm["config"]["planner"]["key"] = json!(key);
    let policy = if wasm["failOpen"] == true {
        "FAIL_OPEN"
    } else {
        "FAIL_CLOSED"
    };
    let name = "envoyextensionpolicy/models/weir-resnet/wasm/0";
    before_the_router(
        &mut manager,
        wasm_filter(name, &wasm["rootID"], &wasm["config"], policy, module),
    );
    let limit = &spec("BackendTrafficPolicy")["requestBuffer"]["limit"];
    let bytes: u32 = limit.as_str().unwrap().parse().unwrap();
    let buffer = json!({ "name": "envoy.filters.http.buffer", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer", "max_request_bytes": bytes,
    } });
    // Envoy Gateway puts this filter before those of an EnvoyExtensionPolicy.
    let filters = manager["http_filters"].as_array_mut().unwrap();
    filters.insert(0, buffer);
    let mut config = json!({
        "node": { "id": "envoy-weir-system-weir-0", "cluster": "weir-system/weir" },
        "static_resources": {
            "listeners": [{
                "name": LISTENER,
                "address": { "socket_address": { "address": "127.0.0.1", "port_value": 0 } },
                "filter_chains": [{ "filters": [{ "name": MANAGER, "typed_config": manager }] }],
            }],
            "clusters": clusters,
        },
    });
    for patch in spec("EnvoyProxy")["bootstrap"]["jsonPatches"]
        .as_array()
        .unwrap()
    {
        add(&mut config, patch);
    }
    config
}

/// Returns the gateway's object of a kind, or the service's.
fn of_gateway<'a>(kind: &str, all: &'a [Document]) -> &'a Value {
    let name = match kind {
        "ClientTrafficPolicy" | "EnvoyProxy" => "weir",
        _ => "weir-resnet",
    };
    &one(all, kind, name).body
}

/// Returns the number of headers that a rule matches, and its route.
fn route(rule: &Value, cluster: &str) -> (usize, Value) {
    let matches = rule["matches"][0]["headers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let header = |it: &Value| {
        assert_eq!(it["type"], "Exact");
        json!({ "name": it["name"], "string_match": { "exact": it["value"] } })
    };
    let headers: Vec<Value> = matches.iter().map(header).collect();
    let route = json!({
        "name": cluster,
        "match": { "prefix": rule["matches"][0]["path"]["value"], "headers": headers },
        "route": { "cluster": cluster, "timeout": rule["timeouts"]["request"] },
        "request_headers_to_remove": rule["filters"][0]["requestHeaderModifier"]["remove"],
    });
    (matches.len(), route)
}

/// Applies an RFC 6902 `add` to an object or to the end of a list.
fn add(config: &mut Value, patch: &Value) {
    assert_eq!(patch["op"], "add");
    let (parent, key) = patch["path"].as_str().unwrap().rsplit_once('/').unwrap();
    let parent = config
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("nothing at {parent}"));
    match parent {
        Value::Array(list) => {
            assert_eq!(key, "-");
            list.push(patch["value"].clone());
        }
        other => {
            other
                .as_object_mut()
                .unwrap()
                .insert(key.to_owned(), patch["value"].clone());
        }
    }
}
