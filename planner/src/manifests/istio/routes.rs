//! Routes that follow the filter's decision: one for all variants by `x-slo-cluster` (an EnvoyFilter adds
//! its `cluster_header`), or one for each variant by `x-slo-variant`. The last route is the fallback for
//! requests without a decision.
//!
//! A route without `timeout` has none: Istio refuses one below 1 ms.

mod destinations;
mod matches;

use std::time::Duration;

use serde_json::{Value, json};

use super::super::backend::Backend;
use super::super::plugin::{Times, fallback, paths_after_choice, seconds};
use super::{Document, Frame, ManifestError, VARIANT_LABEL};
use matches::{matches, of_streams, of_websockets};

pub(super) use destinations::destinations;

const API: &str = "networking.istio.io/v1";

/// Parts of a service by which its routes are named, and [`filters`](super::filters) matches them.
pub(super) const STREAM: &str = "stream";
pub(super) const CHOSEN: &str = "variant";
pub(super) const WEBSOCKET: &str = "websocket";
pub(super) const FALLBACK: &str = "fallback";
/// Subset of the fallback's servers for websockets.
const WEBSOCKETS: &str = "weir-websockets";

const GATEWAY: &str = "Where clients come in. Options --host, --port and --tls-secret say more; --parent names a Gateway that \
    there is already.";
const BY_CLUSTER: &str = "The filter sets x-slo-cluster and lets Envoy choose the route anew. The route `variant` is for \
    what it has chosen: envoyfilter.yaml replaces its destination, which stands here because there must be one, by \
    the header. `stream`, if there is one, is for requests that stream \
    (filter.streams.requests), whose bodies are not waited for. `websocket` leads to a subset with a small limit, because no slot counts them. `fallback` is for what it has not: bypassed requests, and all of them where the filter is missing \
    or failed open. It names what can bear all traffic, the quickest variant. attempts 0: a retry is an \
    execution that no slot counts; Istio retries by default. x-slo-cluster ends here. A route without timeout \
    has none.";
const DELEGATE: &str = "\n\
    A delegate: your own VirtualService leads to it, with `delegate: {name: NAME, namespace: NAMESPACE}` in a route that has no `name` of its own \
    (istiod would put it before the names here, by which envoyfilter.yaml finds the routes).";
const BY_HEADER: &str = "Instead of ../../gateway's virtualservice.yaml and its HTTP_ROUTE patches, for whoever may not use EnvoyFilters: a \
    route for each variant, by the public name that the filter sets. A variant that is new to the plan needs a route \
    here first. Without the EnvoyFilter nothing takes a client's own x-slo-variant out before the first choice of a \
    route: it then chooses where bypassed requests go. No idle timeout ends a hold whose VM has trapped.";

pub(super) fn gateway(frame: &Frame) -> Vec<Document> {
    let ingress = &frame.ingress;
    let mut server = json!({
        "port": { "number": ingress.port, "name": "http", "protocol": "HTTP" },
        "hosts": frame.options.route_hosts(),
    });
    if let (Some(secret), Some(server)) = (&ingress.tls_secret, server.as_object_mut()) {
        let port = json!({ "number": ingress.port, "name": "https", "protocol": "HTTPS" });
        server.insert("port".to_owned(), port);
        let tls = json!({ "mode": "SIMPLE", "credentialName": secret });
        server.insert("tls".to_owned(), tls);
    }
    let spec = json!({ "selector": frame.gateway_labels(), "servers": [server] });
    let body = frame.at_gateway(API, "Gateway", &frame.name(), spec);
    vec![Document::new(GATEWAY, body)]
}

pub(super) fn by_cluster(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let times = Times::of(frame.service);
    let last = fallback_backend(frame)?;
    let paths = &frame.options.paths;
    let route = |part: &str, matched, timeout| route(&frame.part(part), matched, &last, timeout);
    let present = json!({ "x-slo-cluster": {} });
    let variants: Vec<_> = frame.backends.iter().map(|it| it.variant).collect();
    let chosen = matches(&paths_after_choice(paths, &variants), Some(present));
    let mut http = vec![
        route(CHOSEN, chosen, Some(times.answer)),
        websocket(frame, &last),
    ];
    if let Some(matched) = streams(frame) {
        http.push(route(STREAM, matched, Some(times.max())));
    }
    http.push(route(FALLBACK, matches(paths, None), Some(times.max())));
    let why = if frame.ingress.delegate {
        format!("{BY_CLUSTER}{DELEGATE}")
    } else {
        BY_CLUSTER.to_owned()
    };
    Ok(vec![Document::new(why, virtual_service(frame, &http))])
}

pub(super) fn by_header(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let times = Times::of(frame.service);
    let paths = &frame.options.paths;
    let of_variant = |backend: &Backend| {
        let headers = json!({ "x-slo-variant": { "exact": backend.variant.name } });
        let name = frame.part(&format!("to-{}", backend.variant.name));
        let paths = paths_after_choice(paths, &[backend.variant]);
        let matched = matches(&paths, Some(headers));
        route(&name, matched, backend, Some(times.answer))
    };
    let mut http: Vec<Value> = frame.backends.iter().map(of_variant).collect();
    let last = fallback_backend(frame)?;
    http.push(websocket(frame, &last));
    let fallback = frame.part(FALLBACK);
    http.push(route(
        &fallback,
        matches(paths, None),
        &last,
        Some(times.max()),
    ));
    let body = virtual_service(frame, &http);
    Ok(vec![Document::new(BY_HEADER, body)])
}

/// Returns the matches of the requests that stream; `None` if none do.
pub(super) fn streams(frame: &Frame) -> Option<Vec<Value>> {
    let streams = frame.service.filter.streaming_requests();
    of_streams(&streams, &frame.options.paths)
}

/// Returns the route of websockets: to the servers of the fallback, as a subset that has limits of its own.
fn websocket(frame: &Frame, last: &Backend) -> Value {
    let servers = Backend {
        subset: Some(WEBSOCKETS),
        ..*last
    };
    let matched = of_websockets(&frame.options.paths);
    route(&frame.part(WEBSOCKET), matched, &servers, None)
}

/// Returns the backend of the fallback route.
fn fallback_backend<'a>(frame: &'a Frame) -> Result<Backend<'a>, ManifestError> {
    let quickest = fallback(frame.service)?;
    let found = frame.backends.iter().find(|it| it.variant == quickest);
    found
        .copied()
        .ok_or_else(|| super::super::refused("variants", 0, "1 or more"))
}

fn virtual_service(frame: &Frame, http: &[Value]) -> Value {
    let spec = if frame.ingress.delegate {
        json!({ "http": http })
    } else {
        let own = || (frame.ingress.namespace.clone(), frame.name());
        let (namespace, name) = frame.ingress.parent.clone().unwrap_or_else(own);
        json!({
            "hosts": frame.options.route_hosts(), "gateways": [format!("{namespace}/{name}")],
            "http": http,
        })
    };
    frame.object(API, "VirtualService", frame.models(), &frame.name(), spec)
}

fn route(name: &str, matched: Vec<Value>, to: &Backend, timeout: Option<Duration>) -> Value {
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
    if let Some(route) = route.as_object_mut() {
        if !matched.is_empty() {
            route.insert("match".to_owned(), Value::Array(matched));
        }
        if let Some(timeout) = timeout {
            route.insert("timeout".to_owned(), json!(seconds(timeout)));
        }
    }
    route
}
