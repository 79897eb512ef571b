//! Routes that follow the filter's decision: one for all variants by `x-slo-cluster` (an EnvoyFilter adds
//! its `cluster_header`), or one for each variant by `x-slo-variant`. The last route is the fallback for
//! requests without a decision.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_filter::request::protocol::STREAMS;

use super::super::backend::Backend;
use super::super::plugin::{REQUESTS_MAX, Times, fallback, seconds};
use super::{Document, Frame, INGRESS_NAMESPACE, ManifestError, VARIANT_LABEL, ingress};

const API: &str = "networking.istio.io/v1";

/// Names of the routes, by which [`filters`](super::filters) matches them.
pub(super) const STREAM: &str = "weir-stream";
pub(super) const CHOSEN: &str = "weir-variant";
pub(super) const WEBSOCKET: &str = "weir-websocket";
pub(super) const FALLBACK: &str = "weir-fallback";

const GATEWAY: &str = "Where clients come in. Put your hosts and TLS here.";
const BY_CLUSTER: &str = "The filter sets x-slo-cluster and lets Envoy choose the route anew. weir-variant is for \
    what it has chosen: envoyfilter.yaml replaces its destination, which stands here because there must be one, by \
    the header. weir-stream is for bidirectional streams, whose bodies are not waited for. weir-fallback is for what it has not: bypassed requests, and all of them where the filter is missing \
    or failed open. It names what can bear all traffic, the quickest variant. attempts 0: a retry is an \
    execution that no slot counts; Istio retries by default. x-slo-cluster ends here.";
const BY_HEADER: &str = "Instead of ../gateway/virtualservice.yaml and its HTTP_ROUTE patches, for whoever may not use EnvoyFilters: a \
    route for each variant, by the public name that the filter sets. A variant that is new to the plan needs a route \
    here first. Without the EnvoyFilter nothing takes a client's own x-slo-variant out before the first choice of a \
    route: it then chooses where bypassed requests go. No idle timeout ends a hold whose VM has trapped.";
const DESTINATIONS: &str = "Limits that are never met because slots limit first: a default below them would fail requests that are \
    released at once. idleTimeout is shorter than servers keep an idle connection (uvicorn: 5 s): a request sent while \
    the server closes would fail, and nothing retries it.";

pub(super) fn gateway(frame: &Frame) -> Vec<Document> {
    let spec = json!({
        "selector": ingress(),
        "servers": [{ "port": { "number": 80, "name": "http", "protocol": "HTTP" }, "hosts": ["*"] }],
    });
    let body = frame.object(API, "Gateway", INGRESS_NAMESPACE, &frame.name(), spec);
    vec![Document::new(GATEWAY, body)]
}

pub(super) fn by_cluster(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let times = Times::of(frame.service);
    let last = fallback_backend(frame)?;
    let chosen = |headers: Value, name: &str, timeout: Option<&str>| {
        route(name, Some(headers), &last, timeout)
    };
    let present = json!({ "x-slo-cluster": {} });
    let websocket = json!({ "upgrade": { "regex": "(?i)websocket" } });
    let http = json!([
        chosen(present, CHOSEN, Some(&seconds(times.answer))),
        chosen(websocket, WEBSOCKET, None),
        stream(&last, &seconds(times.max())),
        route(FALLBACK, None, &last, Some(&seconds(times.max()))),
    ]);
    Ok(vec![Document::new(
        BY_CLUSTER,
        virtual_service(frame, http),
    )])
}

pub(super) fn by_header(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let times = Times::of(frame.service);
    let of_variant = |backend: &Backend| {
        let headers = json!({ "x-slo-variant": { "exact": backend.variant.name } });
        let name = format!("weir-to-{}", backend.variant.name);
        route(&name, Some(headers), backend, Some(&seconds(times.answer)))
    };
    let mut http: Vec<Value> = frame.backends.iter().map(of_variant).collect();
    http.push(route(
        FALLBACK,
        None,
        &fallback_backend(frame)?,
        Some(&seconds(times.max())),
    ));
    let body = virtual_service(frame, Value::Array(http));
    Ok(vec![Document::new(BY_HEADER, body)])
}

/// Returns one DestinationRule for each host; its subsets are the host's variants.
pub(super) fn destinations(frame: &Frame) -> Vec<Document> {
    let mut hosts: BTreeMap<&str, Vec<&Backend>> = BTreeMap::new();
    for backend in &frame.backends {
        hosts.entry(backend.host).or_default().push(backend);
    }
    let mut documents = Vec::new();
    for (host, backends) in hosts {
        let mut subsets = Vec::new();
        for backend in &backends {
            if let Some(name) = backend.subset {
                let labels = json!({ VARIANT_LABEL: backend.variant.name });
                subsets.push(json!({ "name": name, "labels": labels }));
            }
        }
        let mut spec = json!({
            "host": host,
            "trafficPolicy": {
                "loadBalancer": { "simple": "LEAST_REQUEST" },
                "connectionPool": {
                    "tcp": { "connectTimeout": "1s", "maxConnections": REQUESTS_MAX },
                    "http": {
                        "http1MaxPendingRequests": REQUESTS_MAX, "http2MaxRequests": REQUESTS_MAX,
                        "idleTimeout": "4s",
                    },
                },
            },
        });
        if let Some(spec) = spec.as_object_mut().filter(|_| !subsets.is_empty()) {
            spec.insert("subsets".to_owned(), Value::Array(subsets));
        }
        let service = backends.first().map_or("", |backend| backend.name);
        let name = format!("{}-{service}", frame.name());
        let body = frame.object(API, "DestinationRule", frame.models(), &name, spec);
        let why = if documents.is_empty() {
            DESTINATIONS
        } else {
            ""
        };
        documents.push(Document::new(why, body));
    }
    documents
}

/// Returns the backend of the fallback route.
fn fallback_backend<'a>(frame: &'a Frame) -> Result<Backend<'a>, ManifestError> {
    let quickest = fallback(frame.service)?;
    let found = frame.backends.iter().find(|it| it.variant == quickest);
    found
        .copied()
        .ok_or_else(|| super::super::refused("variants", 0, "1 or more"))
}

fn virtual_service(frame: &Frame, http: Value) -> Value {
    let gateway = format!("{INGRESS_NAMESPACE}/{}", frame.name());
    let spec = json!({ "hosts": ["*"], "gateways": [gateway], "http": http });
    frame.object(API, "VirtualService", frame.models(), &frame.name(), spec)
}

/// Returns the route for streams that the filter recognizes.
fn stream(to: &Backend, timeout: &str) -> Value {
    let mut route = route(STREAM, None, to, Some(timeout));
    let paths = STREAMS.map(|path| json!({ "uri": { "exact": path } }));
    if let Some(route) = route.as_object_mut() {
        route.insert("match".to_owned(), json!(paths));
    }
    route
}

/// Returns a route. Istio takes no timeout of zero: without one a route has none.
fn route(name: &str, headers: Option<Value>, to: &Backend, timeout: Option<&str>) -> Value {
    let mut destination = json!({ "host": to.host, "port": { "number": to.port } });
    if let (Some(subset), Some(destination)) = (to.subset, destination.as_object_mut()) {
        destination.insert("subset".to_owned(), json!(subset));
    }
    let mut route = json!({
        "name": name,
        "route": [{ "destination": destination }],
        "retries": { "attempts": 0 },
        "headers": { "request": { "remove": ["x-slo-cluster"] } },
    });
    if let (Some(timeout), Some(route)) = (timeout, route.as_object_mut()) {
        route.insert("timeout".to_owned(), json!(timeout));
    }
    if let (Some(headers), Some(route)) = (headers, route.as_object_mut()) {
        route.insert("match".to_owned(), json!([{ "headers": headers }]));
    }
    route
}
