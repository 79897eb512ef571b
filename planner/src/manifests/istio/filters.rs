//! EnvoyFilters for settings that Istio has no field for: limits of a proxy that holds requests, and the
//! route's `cluster_header`.
//!
//! An API server accepts any value here, and istiod drops those it cannot read. `tests/manifests.rs`
//! therefore puts each value where istiod would, and has Envoy validate it.

use serde_json::{Value, json};

use super::super::plugin::{BODY_BYTES, BUFFER_BYTES, Times, seconds};
use super::routes::{CHOSEN, FALLBACK, STREAM, WEBSOCKET};
use super::{Document, Frame, INGRESS_NAMESPACE, SERVICE_LABEL, ingress};

const API: &str = "networking.istio.io/v1alpha3";
pub(super) const MANAGER: &str = "envoy.filters.network.http_connection_manager";
const MANAGER_TYPE: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const EARLY: &str = "envoy.http.early_header_mutation.header_mutation";
const EARLY_TYPE: &str = "type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation";
const BUFFER: &str = "envoy.filters.http.buffer";
const BUFFER_TYPE: &str = "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer";
/// Maximum number of requests in flight or held on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1024;

const AT_GATEWAY: &str = "All listeners of this gateway hold requests: small buffers, and as many connections on every \
    worker. A client's own x-slo-cluster and x-slo-variant go before anything sees them: they would choose the route. \
    HTTP_ROUTE patches are merges: cluster_header is one of a oneof with the destination, and replaces it. The \
    fallback keeps its own; its idle timeout ends holds (of a VM that has trapped), so it is above \
    deadline.max_ms.";
const WAITS: &str = "\n\
    envoy.filters.http.buffer: a WasmPlugin cannot say `allow_on_headers_stop_iteration`, by which the filter would hear when a \
    body has come. So Envoy waits for the whole body before any filter, and a slow upload takes no slot; a larger one gets \
    413. A request that streams on a path of its own needs a route like weir-stream.";
const AT_SIDECARS: &str = "The same limits for what comes in to the model servers; the route leads to the server as it did. Its \
    idle timeout ends holds, and the server's silence: above deadline.max_ms.";

pub(super) fn at_gateway(frame: &Frame) -> Vec<Document> {
    let times = Times::of(frame.service);
    let remove = ["x-slo-cluster", "x-slo-variant"].map(|header| json!({ "remove": header }));
    let mut manager = manager(&times);
    if let Some(manager) = manager.as_object_mut() {
        manager.insert("preserve_external_request_id".to_owned(), json!(true));
        manager.insert("merge_slashes".to_owned(), json!(true));
        manager.insert(
            "early_header_mutation_extensions".to_owned(),
            json!([{
                "name": EARLY, "typed_config": { "@type": EARLY_TYPE, "mutations": remove },
            }]),
        );
    }
    let answer = seconds(times.answer);
    let by_header = |idle: &str| json!({ "cluster_header": "x-slo-cluster", "idle_timeout": idle });
    let context = "GATEWAY";
    let patches = json!([
        listener(
            context,
            json!({}),
            json!({ "connection_balance_config": { "exact_balance": {} } })
        ),
        network_filter(context, manager),
        buffer(context),
        http_route(context, CHOSEN, None, by_header(&answer)),
        http_route(context, WEBSOCKET, None, json!({ "idle_timeout": "3600s" })),
        without_buffer(http_route(
            context,
            STREAM,
            None,
            json!({ "idle_timeout": seconds(times.hold) })
        )),
        http_route(
            context,
            FALLBACK,
            None,
            json!({ "idle_timeout": seconds(times.hold) })
        ),
    ]);
    let spec = json!({ "workloadSelector": { "labels": ingress() }, "configPatches": patches });
    let body = frame.object(API, "EnvoyFilter", INGRESS_NAMESPACE, &frame.name(), spec);
    vec![Document::new(format!("{AT_GATEWAY}{WAITS}"), body)]
}

pub(super) fn at_sidecars(frame: &Frame) -> Vec<Document> {
    let times = Times::of(frame.service);
    let context = "SIDECAR_INBOUND";
    let inbound = json!({ "listener": { "name": "virtualInbound" } });
    let mut patches = vec![
        listener(context, inbound, json!({})),
        network_filter(context, manager(&times)),
        buffer(context),
    ];
    let mut ports: Vec<u16> = frame.backends.iter().map(|backend| backend.port).collect();
    ports.sort_unstable();
    ports.dedup();
    for port in ports {
        let route =
            json!({ "timeout": seconds(times.answer), "idle_timeout": seconds(times.hold) });
        patches.push(http_route(context, "default", Some(port), route));
    }
    let labels = json!({ SERVICE_LABEL: frame.service.name });
    let spec = json!({ "workloadSelector": { "labels": labels }, "configPatches": patches });
    let body = frame.object(API, "EnvoyFilter", frame.models(), &frame.name(), spec);
    vec![Document::new(format!("{AT_SIDECARS}{WAITS}"), body)]
}

fn manager(times: &Times) -> Value {
    json!({
        "@type": MANAGER_TYPE,
        "stream_idle_timeout": seconds(times.answer),
        "request_timeout": seconds(times.request),
        "http2_protocol_options": {
            "initial_stream_window_size": BUFFER_BYTES,
            "initial_connection_window_size": 16 * BUFFER_BYTES,
            "max_concurrent_streams": STREAMS_MAX,
        },
    })
}

/// Returns Envoy's buffer filter, which waits for bodies before all other filters.
fn buffer(context: &str) -> Value {
    json!({
        "applyTo": "HTTP_FILTER",
        "match": { "context": context, "listener": { "filterChain": { "filter": { "name": MANAGER } } } },
        "patch": { "operation": "INSERT_FIRST", "value": {
            "name": BUFFER, "typed_config": { "@type": BUFFER_TYPE, "max_request_bytes": BODY_BYTES },
        } },
    })
}

/// Adds to a route's patch that bodies are not buffered.
fn without_buffer(mut patch: Value) -> Value {
    let value = patch
        .pointer_mut("/patch/value")
        .and_then(Value::as_object_mut);
    if let Some(value) = value {
        let disabled = json!({ "@type": format!("{BUFFER_TYPE}PerRoute"), "disabled": true });
        value.insert(
            "typed_per_filter_config".to_owned(),
            json!({ BUFFER: disabled }),
        );
    }
    patch
}

fn merge(apply_to: &str, context: &str, mut matched: Value, value: Value) -> Value {
    if let Some(matched) = matched.as_object_mut() {
        matched.insert("context".to_owned(), json!(context));
    }
    json!({ "applyTo": apply_to, "match": matched, "patch": { "operation": "MERGE", "value": value } })
}

fn listener(context: &str, matched: Value, mut value: Value) -> Value {
    if let Some(value) = value.as_object_mut() {
        value.insert(
            "per_connection_buffer_limit_bytes".to_owned(),
            json!(BUFFER_BYTES),
        );
    }
    merge("LISTENER", context, matched, value)
}

fn network_filter(context: &str, config: Value) -> Value {
    let matched = json!({ "listener": { "filterChain": { "filter": { "name": MANAGER } } } });
    let value = json!({ "name": MANAGER, "typed_config": config });
    merge("NETWORK_FILTER", context, matched, value)
}

fn http_route(context: &str, name: &str, port: Option<u16>, route: Value) -> Value {
    let mut routes = json!({ "vhost": { "route": { "name": name } } });
    if let (Some(port), Some(routes)) = (port, routes.as_object_mut()) {
        routes.insert("portNumber".to_owned(), json!(port));
    }
    let value = json!({ "route": route });
    merge(
        "HTTP_ROUTE",
        context,
        json!({ "routeConfiguration": routes }),
        value,
    )
}
