//! A partial emulation of istiod: translates VirtualServices, WasmPlugins and EnvoyFilters for
//! one proxy, with istiod's names for listeners, routes and clusters.
//!
//! Routes, clusters and plugins are part of the bootstrap here, instead of being discovered. Mutual TLS and
//! Istio's own filters are left out. EnvoyFilters are merged like protobuf messages: lists are appended, and
//! a member of a oneof replaces the others.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};

use super::bed::within;

pub(crate) const MANAGER: &str = "envoy.filters.network.http_connection_manager";
pub(crate) const MANAGER_TYPE: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
/// Members of the oneof `cluster_specifier` in a route's action.
const SPECIFIERS: [&str; 4] = [
    "cluster",
    "cluster_header",
    "weighted_clusters",
    "cluster_specifier_plugin",
];

/// A proxy: its configuration, and the properties that resources select it by.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    /// `GATEWAY` or `SIDECAR_INBOUND`.
    pub(crate) context: &'static str,
    pub(crate) labels: Value,
    /// The listener's name.
    pub(crate) listener: &'static str,
    /// Port that istiod binds the listener or the filter chain to; `config` takes a free one instead.
    port: u16,
    pub(crate) config: Value,
}

/// Returns the cluster name of a VirtualService's destination.
pub(crate) fn cluster_of(destination: &Value) -> String {
    let subset = destination["subset"].as_str().unwrap_or_default();
    let (port, host) = (
        &destination["port"]["number"],
        destination["host"].as_str().unwrap(),
    );
    format!("outbound|{port}|{subset}|{host}")
}

pub(crate) fn cluster(name: &str, host: Option<SocketAddr>) -> Value {
    let hosts: Vec<Value> = host
        .into_iter()
        .map(|host| endpoint(&host.ip().to_string(), host.port()))
        .collect();
    json!({
        "name": name, "type": "STATIC", "connect_timeout": "1s", "lb_policy": "LEAST_REQUEST",
        "load_assignment": { "cluster_name": name, "endpoints": [{ "lb_endpoints": hosts }] },
    })
}

fn endpoint(host: &str, port: u16) -> Value {
    json!({ "endpoint": { "address": { "socket_address": { "address": host, "port_value": port } } } })
}

impl Proxy {
    /// Builds an ingress gateway for these VirtualServices, each with hosts of its own.
    pub(crate) fn gateway(services: &[&Value], clusters: Vec<Value>) -> Proxy {
        let mut hosts = Vec::new();
        for service in services {
            accept(service).unwrap();
            let spec = &service["spec"];
            let http = spec["http"].as_array().unwrap();
            let routes: Vec<Value> = http.iter().flat_map(routes).collect();
            let name = format!("{}:80", spec["hosts"][0].as_str().unwrap());
            hosts.push(json!({ "name": name, "domains": spec["hosts"], "routes": routes }));
        }
        let node = "router~10.0.0.1~istio-ingress-0.istio-ingress~istio-ingress.svc.cluster.local";
        let labels = json!({ "istio": "ingress", "app": "istio-ingress" });
        Proxy::new(
            ("GATEWAY", node, labels),
            ("0.0.0.0_80", "http.80", json!(hosts)),
            80,
            clusters,
        )
    }

    /// Builds the inbound listener of a model server's sidecar.
    pub(crate) fn sidecar(labels: &Value, port: u16, clusters: Vec<Value>) -> Proxy {
        let name = format!("inbound|{port}||");
        let route = json!({ "name": "default", "match": { "prefix": "/" }, "route": { "cluster": name, "timeout": "0s" } });
        let hosts = json!([{ "name": format!("inbound|http|{port}"), "domains": ["*"], "routes": [route] }]);
        let node = "sidecar~10.0.0.2~model-0.models~models.svc.cluster.local";
        Proxy::new(
            ("SIDECAR_INBOUND", node, labels.clone()),
            ("virtualInbound", &name, hosts),
            port,
            clusters,
        )
    }

    fn new(
        (context, node, labels): (&'static str, &'static str, Value),
        (listener, routes, hosts): (&'static str, &str, Value),
        port: u16,
        clusters: Vec<Value>,
    ) -> Proxy {
        let config = json!({
            "node": { "id": node, "cluster": "istio" },
            "static_resources": {
                "listeners": [{
                    "name": listener,
                    "address": { "socket_address": { "address": "127.0.0.1", "port_value": 0 } },
                    "filter_chains": [{ "filters": [{ "name": MANAGER, "typed_config": {
                        "@type": MANAGER_TYPE,
                        "stat_prefix": listener,
                        "stream_idle_timeout": "0s",
                        "use_remote_address": context == "GATEWAY",
                        "normalize_path": true,
                        "upgrade_configs": [{ "upgrade_type": "websocket" }],
                        "route_config": { "name": routes, "virtual_hosts": hosts, "validate_clusters": false },
                        "http_filters": [{ "name": "envoy.filters.http.router", "typed_config": {
                            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
                        } }],
                    } }] }],
                }],
                "clusters": clusters,
            },
        });
        Proxy {
            context,
            labels,
            listener,
            port,
            config,
        }
    }

    pub(crate) fn at(&mut self, pointer: &str) -> &mut Value {
        self.config
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("nothing at {pointer}"))
    }

    /// Adds the resource's filter if it selects this proxy.
    pub(crate) fn wasm_plugin(&mut self, plugin: &Value, module: &str) -> bool {
        let spec = &plugin["spec"];
        if !within(&spec["selector"]["matchLabels"], &self.labels) {
            return false;
        }
        let inbound = self.context == "SIDECAR_INBOUND";
        let mode = spec["match"][0]["mode"]
            .as_str()
            .unwrap_or("CLIENT_AND_SERVER");
        if mode == if inbound { "CLIENT" } else { "SERVER" } {
            return false;
        }
        // Istio's extension overrides the fields below `wasm` in a TrafficExtension.
        let wasm = spec.get("wasm").unwrap_or(spec);
        let policy = match wasm["failStrategy"].as_str() {
            Some("FAIL_OPEN") => "FAIL_OPEN",
            Some("FAIL_RELOAD") => "FAIL_RELOAD",
            _ => "FAIL_CLOSED",
        };
        let name = format!(
            "{}.{}",
            plugin["metadata"]["namespace"].as_str().unwrap(),
            plugin["metadata"]["name"].as_str().unwrap()
        );
        // Istio sets no `vm_id`.
        let filter = wasm_filter(
            &name,
            &wasm["pluginName"],
            &wasm["pluginConfig"],
            policy,
            module,
        );
        before_the_router(self.manager(), filter);
        true
    }

    pub(crate) fn manager(&mut self) -> &mut Value {
        self.at("/static_resources/listeners/0/filter_chains/0/filters/0/typed_config")
    }

    /// Applies the resource's patches that select this proxy; returns the number that changed something.
    pub(crate) fn envoy_filter(&mut self, filter: &Value) -> usize {
        if !within(&filter["spec"]["workloadSelector"]["labels"], &self.labels) {
            return 0;
        }
        let patches = filter["spec"]["configPatches"].as_array().unwrap();
        patches.iter().filter(|patch| self.patch(patch)).count()
    }

    fn patch(&mut self, patch: &Value) -> bool {
        let (matched, value) = (&patch["match"], &patch["patch"]["value"]);
        let operation = patch["patch"]["operation"].as_str().unwrap();
        let first = operation == "INSERT_FIRST";
        let inserts = patch["applyTo"] == "HTTP_FILTER";
        let emulated = if inserts { "INSERT_BEFORE" } else { "MERGE" };
        assert!((first && inserts) || operation == emulated, "{patch}");
        let name = matched["listener"]["name"].as_str();
        if matched["context"] != self.context || name.is_some_and(|name| name != self.listener) {
            return false;
        }
        // The port that the proxy binds, which is the pod's and not the Service's.
        let port = &matched["listener"]["portNumber"];
        if !port.is_null() && *port != self.port {
            return false;
        }
        match patch["applyTo"].as_str().unwrap() {
            "LISTENER" => merge(self.at("/static_resources/listeners/0"), value),
            "NETWORK_FILTER" => {
                let filter = self.at("/static_resources/listeners/0/filter_chains/0/filters/0");
                if filter["name"] != matched["listener"]["filterChain"]["filter"]["name"] {
                    return false;
                }
                merge(filter, value);
            }
            "HTTP_FILTER" if first => {
                let filters = self.manager()["http_filters"].as_array_mut().unwrap();
                filters.insert(0, value.clone());
            }
            "HTTP_FILTER" => return self.insert_filter(&matched["listener"], value),
            "CLUSTER" => {
                let clusters = self.at("/static_resources/clusters").as_array_mut();
                let named = |it: &&mut Value| it["name"] == matched["cluster"]["name"];
                let Some(cluster) = clusters.unwrap().iter_mut().find(named) else {
                    return false;
                };
                merge(cluster, value);
            }
            "HTTP_ROUTE" => return self.patch_route(&matched["routeConfiguration"], value),
            other => panic!("{other} is not emulated"),
        }
        true
    }

    /// Inserts before the filter named by the match, if this proxy has it.
    fn insert_filter(&mut self, matched: &Value, value: &Value) -> bool {
        let before = &matched["filterChain"]["filter"];
        assert_eq!(before["name"], MANAGER);
        let manager = self.manager();
        let filters = manager["http_filters"].as_array_mut().unwrap();
        let at = filters
            .iter()
            .position(|it| it["name"] == before["subFilter"]["name"]);
        if let Some(at) = at {
            filters.insert(at, value.clone());
        }
        at.is_some()
    }

    fn patch_route(&mut self, matched: &Value, value: &Value) -> bool {
        if !matched["portNumber"].is_null() && matched["portNumber"] != self.port {
            return false;
        }
        let mut changed = false;
        let hosts = &mut self.manager()["route_config"]["virtual_hosts"];
        for host in hosts.as_array_mut().unwrap() {
            for route in host["routes"].as_array_mut().unwrap() {
                if route["name"] == matched["vhost"]["route"]["name"] {
                    merge(route, value);
                    changed = true;
                }
            }
        }
        changed
    }
}

/// Checks a VirtualService as istiod's webhook and its definition do: a timeout is at least 1 ms.
pub(crate) fn accept(service: &Value) -> Result<(), String> {
    for (index, http) in service["spec"]["http"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        let Some(timeout) = http.get("timeout") else {
            continue;
        };
        let text = timeout.as_str().unwrap_or_default();
        let seconds: f64 = text
            .strip_suffix('s')
            .unwrap_or_default()
            .parse()
            .unwrap_or(0.0);
        if seconds < 0.001 {
            return Err(format!(
                "spec.http[{index}].timeout: Invalid value: {timeout}: must be a valid duration greater than 1ms"
            ));
        }
    }
    Ok(())
}

/// Builds a plugin's filter, as Istio and Envoy Gateway both configure it.
pub(crate) fn wasm_filter(
    name: &str,
    root: &Value,
    config: &Value,
    policy: &str,
    module: &str,
) -> Value {
    json!({ "name": name, "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
        "config": {
            "name": name,
            "root_id": root,
            "vm_config": { "runtime": "envoy.wasm.runtime.v8", "code": { "local": { "filename": module } } },
            "failure_policy": policy,
            "configuration": { "@type": "type.googleapis.com/google.protobuf.StringValue", "value": config.to_string() },
        },
    } })
}

pub(crate) fn before_the_router(manager: &mut Value, filter: Value) {
    let filters = manager["http_filters"].as_array_mut().unwrap();
    filters.insert(filters.len() - 1, filter);
}

/// Translates a route of a VirtualService: one of Envoy's for each match, all with the same name.
fn routes(http: &Value) -> Vec<Value> {
    let every = vec![json!({})];
    let matches = http["match"].as_array().unwrap_or(&every);
    let route = |matched: &Value| {
        json!({
            "name": http["name"],
            "match": match_of(matched),
            // Without a timeout there is none, unlike in Envoy.
            "route": {
                "cluster": cluster_of(&http["route"][0]["destination"]),
                "timeout": http.get("timeout").unwrap_or(&json!("0s")),
            },
            "request_headers_to_remove": http["headers"]["request"]["remove"],
        })
    };
    matches.iter().map(route).collect()
}

fn match_of(matched: &Value) -> Value {
    let mut headers = Vec::new();
    for (name, matcher) in matched["headers"].as_object().into_iter().flatten() {
        headers.push(match (matcher.get("exact"), matcher.get("regex")) {
            (Some(exact), _) => json!({ "name": name, "string_match": { "exact": exact } }),
            (_, Some(regex)) => {
                json!({ "name": name, "string_match": { "safe_regex": { "regex": regex } } })
            }
            _ => json!({ "name": name, "present_match": true }),
        });
    }
    for name in matched["withoutHeaders"]
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
    {
        headers.push(json!({ "name": name, "present_match": true, "invert_match": true }));
    }
    if let Some(method) = matched.get("method") {
        headers.push(json!({ "name": ":method", "string_match": method }));
    }
    let uri = &matched["uri"];
    match (uri.get("exact"), uri.get("prefix")) {
        _ if uri.get("regex").is_some() => {
            json!({ "safe_regex": { "regex": uri["regex"] }, "headers": headers })
        }
        (Some(path), _) => json!({ "path": path, "headers": headers }),
        (_, Some(prefix)) => json!({ "prefix": prefix, "headers": headers }),
        _ => json!({ "prefix": "/", "headers": headers }),
    }
}

/// Merges like protobuf messages, including the one oneof used here.
pub(crate) fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            if SPECIFIERS
                .iter()
                .any(|specifier| from.contains_key(*specifier))
            {
                into.retain(|key, _| !SPECIFIERS.contains(&key.as_str()));
            }
            for (key, value) in from {
                let place = into.entry(key.clone()).or_insert_with(|| empty_like(value));
                merge(place, value);
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from.iter().cloned()),
        (into, from) => *into = from.clone(),
    }
}

fn empty_like(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => json!([]),
        _ => Value::Null,
    }
}
