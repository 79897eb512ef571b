//! EnvoyFilters for settings that Istio has no field for: limits of a proxy that holds requests, and the
//! route's `cluster_header`.
//!
//! Other services and other teams may share the gateway's pods. What is of a listener applies to the port of
//! ours alone, and is the same for every service. What depends on a service is of its routes, by their names.
//!
//! An API server accepts any value here, and istiod drops those it cannot read. `tests/manifests.rs`
//! therefore puts each value where istiod would, and has Envoy validate it.

use serde_json::{Value, json};

use super::super::plugin::{BUFFER_BYTES, Times, body_bytes, seconds};
use super::routes::{CHOSEN, FALLBACK, STREAM, WEBSOCKET, streams};
use super::{Document, Frame, SERVICE_LABEL};

const API: &str = "networking.istio.io/v1alpha3";
pub(super) const MANAGER: &str = "envoy.filters.network.http_connection_manager";
const MANAGER_TYPE: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const EARLY: &str = "envoy.http.early_header_mutation.header_mutation";
const EARLY_TYPE: &str = "type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation";
const BUFFER: &str = "envoy.filters.http.buffer";
const BUFFER_TYPE: &str = "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer";
const LEAST_REQUEST: &str = "envoy.load_balancing_policies.least_request";
const LEAST_REQUEST_TYPE: &str =
    "type.googleapis.com/envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest";
/// Maximum number of requests in flight or held on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1024;

const AT_GATEWAY: &str = "The listener at this port holds requests: small buffers, and as many connections on every \
    worker. portNumber is the port of the gateway's pods (--target-port), not the Service's. A client's own x-slo-cluster and x-slo-variant go before anything sees them: they would choose the route. \
    HTTP_ROUTE patches are merges, by the names of this service's routes: cluster_header is one of a oneof with the destination, and replaces it. The \
    fallback keeps its own; its idle timeout ends holds (of a VM that has trapped), so it is above \
    deadline.max_ms, and max_stream_duration ends slow uploads.";
const WAITS: &str = "\n\
    envoy.filters.http.buffer: a WasmPlugin cannot say `allow_on_headers_stop_iteration`, by which the filter would hear when a \
    body has come. So Envoy waits for the whole body before any filter, and a slow upload takes no slot; a larger one gets \
    413.";
const CLUSTERS: &str = "\n\
    CLUSTER: a request goes to the replica with the fewest. A DestinationRule's LEAST_REQUEST compares two at random: of \
    4 replicas it sends four of ten requests to a busy one while another idles. Servers with \
    batches keep that one: spread over all replicas, batches would fill less.";
const BY_ROUTE: &str = " It is off but for this service's routes. A request that streams on a path of its own needs a route like `stream`.";
const AT_SIDECARS: &str = "The same limits for what comes in to the model servers; the route leads to the server as it did. Its \
    idle timeout ends holds, and the server's silence: above deadline.max_ms.";

pub(super) fn at_gateway(frame: &Frame) -> Vec<Document> {
    let times = Times::of(frame.service);
    let port = frame.ingress.target_port;
    let context = "GATEWAY";
    let remove = ["x-slo-cluster", "x-slo-variant"].map(|header| json!({ "remove": header }));
    let early =
        json!([{ "name": EARLY, "typed_config": { "@type": EARLY_TYPE, "mutations": remove } }]);
    let mut manager = manager();
    for (key, value) in [
        ("preserve_external_request_id", json!(true)),
        ("merge_slashes", json!(true)),
        ("early_header_mutation_extensions", early),
    ] {
        add(&mut manager, key, value);
    }
    let (answer, hold) = (seconds(times.answer), seconds(times.hold));
    let longest = seconds(times.receive + times.hold);
    let (name, bytes) = (frame.part("buffer"), body_bytes(frame.service));
    let route = |part: &str, action: Value| http_route(context, &frame.part(part), None, action);
    let mut patches = vec![
        listener(
            context,
            json!({ "listener": { "portNumber": port } }),
            json!({ "connection_balance_config": { "exact_balance": {} } }),
        ),
        network_filter(context, port, manager),
        buffer((context, port), &name, bytes, true),
        route(
            CHOSEN,
            json!({ "cluster_header": "x-slo-cluster", "idle_timeout": answer }),
        ),
        route(WEBSOCKET, json!({ "idle_timeout": "3600s" })),
        buffered(
            route(
                FALLBACK,
                json!({
                    "idle_timeout": hold, "max_stream_duration": { "max_stream_duration": longest },
                }),
            ),
            &name,
            bytes,
        ),
    ];
    if streams(frame).is_some() {
        patches.push(route(STREAM, json!({ "idle_timeout": hold })));
    }
    let clusters = frame.backends.iter();
    let clusters = clusters.filter(|backend| backend.variant.profile.batch == 1);
    patches.extend(clusters.map(|backend| cluster(context, &backend.variant.cluster)));
    let spec = json!({
        "workloadSelector": { "labels": frame.gateway_labels() }, "configPatches": patches,
    });
    let body = frame.at_gateway(API, "EnvoyFilter", &frame.name(), spec);
    vec![Document::new(
        format!("{AT_GATEWAY}{WAITS}{BY_ROUTE}{CLUSTERS}"),
        body,
    )]
}

pub(super) fn at_sidecars(frame: &Frame) -> Vec<Document> {
    let times = Times::of(frame.service);
    let context = "SIDECAR_INBOUND";
    let inbound = json!({ "listener": { "name": "virtualInbound" } });
    let bytes = body_bytes(frame.service);
    let mut patches = vec![listener(context, inbound, json!({}))];
    for port in super::super::backend::ports(&frame.backends) {
        let mut manager = manager();
        add(
            &mut manager,
            "stream_idle_timeout",
            json!(seconds(times.answer)),
        );
        add(
            &mut manager,
            "request_timeout",
            json!(seconds(times.request)),
        );
        let route =
            json!({ "timeout": seconds(times.answer), "idle_timeout": seconds(times.hold) });
        patches.extend([
            network_filter(context, port, manager),
            buffer((context, port), BUFFER, bytes, false),
            http_route(context, "default", Some(port), route),
        ]);
    }
    let labels = json!({ SERVICE_LABEL: frame.service.name });
    let spec = json!({ "workloadSelector": { "labels": labels }, "configPatches": patches });
    let name = frame.part("gates");
    let body = frame.object(API, "EnvoyFilter", frame.models(), &name, spec);
    vec![Document::new(format!("{AT_SIDECARS}{WAITS}"), body)]
}

/// Returns the settings of a connection manager that no service has a part in.
fn manager() -> Value {
    json!({
        "@type": MANAGER_TYPE,
        "http2_protocol_options": {
            "initial_stream_window_size": BUFFER_BYTES,
            "initial_connection_window_size": 16 * BUFFER_BYTES,
            "max_concurrent_streams": STREAMS_MAX,
        },
    })
}

/// Returns Envoy's buffer filter, which waits for bodies before all other filters.
fn buffer((context, port): (&str, u16), name: &str, bytes: u64, disabled: bool) -> Value {
    let mut value = json!({
        "name": name, "typed_config": { "@type": BUFFER_TYPE, "max_request_bytes": bytes },
    });
    if disabled {
        add(&mut value, "disabled", json!(true));
    }
    json!({
        "applyTo": "HTTP_FILTER",
        "match": { "context": context, "listener": at_manager(port) },
        "patch": { "operation": "INSERT_FIRST", "value": value },
    })
}

/// Returns the load balancing among a variant's servers, which supersedes the DestinationRule's.
fn cluster(context: &str, name: &str) -> Value {
    let policy = json!({
        "name": LEAST_REQUEST,
        "typed_config": { "@type": LEAST_REQUEST_TYPE, "selection_method": "FULL_SCAN" },
    });
    let policies = json!([{ "typed_extension_config": policy }]);
    merge(
        "CLUSTER",
        context,
        json!({ "cluster": { "name": name } }),
        json!({ "load_balancing_policy": { "policies": policies } }),
    )
}

/// Adds to a route's patch that bodies are buffered, by the filter of that name.
fn buffered(mut patch: Value, name: &str, bytes: u64) -> Value {
    let enabled = json!({
        "@type": format!("{BUFFER_TYPE}PerRoute"), "buffer": { "max_request_bytes": bytes },
    });
    if let Some(value) = patch.pointer_mut("/patch/value") {
        add(value, "typed_per_filter_config", json!({ name: enabled }));
    }
    patch
}

fn add(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

fn at_manager(port: u16) -> Value {
    json!({ "portNumber": port, "filterChain": { "filter": { "name": MANAGER } } })
}

fn merge(apply_to: &str, context: &str, mut matched: Value, value: Value) -> Value {
    add(&mut matched, "context", json!(context));
    json!({ "applyTo": apply_to, "match": matched, "patch": { "operation": "MERGE", "value": value } })
}

fn listener(context: &str, matched: Value, mut value: Value) -> Value {
    let limit = "per_connection_buffer_limit_bytes";
    add(&mut value, limit, json!(BUFFER_BYTES));
    merge("LISTENER", context, matched, value)
}

fn network_filter(context: &str, port: u16, config: Value) -> Value {
    let matched = json!({ "listener": at_manager(port) });
    let value = json!({ "name": MANAGER, "typed_config": config });
    merge("NETWORK_FILTER", context, matched, value)
}

fn http_route(context: &str, name: &str, port: Option<u16>, route: Value) -> Value {
    let mut routes = json!({ "vhost": { "route": { "name": name } } });
    if let Some(port) = port {
        add(&mut routes, "portNumber", json!(port));
    }
    let value = json!({ "route": route });
    merge(
        "HTTP_ROUTE",
        context,
        json!({ "routeConfiguration": routes }),
        value,
    )
}
