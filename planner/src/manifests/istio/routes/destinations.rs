//! DestinationRules: connection limits above the slots, and subsets.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::super::backend::Backend;
use super::super::super::plugin::{REQUESTS_MAX, outliers, seconds, websockets_max};
use super::{API, Document, Frame, ManifestError, VARIANT_LABEL, WEBSOCKETS, fallback_backend};

const DESTINATIONS: &str = "Limits that are never met because slots limit first: a default below them would fail requests that are \
    released at once. idleTimeout is shorter than servers keep an idle connection (uvicorn: 5 s): a request sent while \
    the server closes would fail, and nothing retries it. loadBalancer: istio/gateway \
    has an EnvoyFilter that goes further. The subset weir-websockets may have half of the slots that its servers start with: no slot \
    counts a websocket. outlierDetection: a replica that hangs or fails gets nothing for 90 s; the only one of \
    a variant is never ejected.";

/// Returns one DestinationRule for each host; its subsets are the host's variants.
pub(in super::super) fn destinations(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let last = fallback_backend(frame)?;
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
        if *host == *last.host {
            subsets.push(websockets(&last, websockets_max(frame.service)?));
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
                "outlierDetection": {
                    "consecutive5xxErrors": outliers::ERRORS,
                    "consecutiveGatewayErrors": outliers::GATEWAY_ERRORS,
                    "interval": seconds(outliers::INTERVAL),
                    "baseEjectionTime": seconds(outliers::EJECTED),
                    "maxEjectionPercent": outliers::EJECTED_PERCENT,
                },
            },
        });
        if let Some(spec) = spec.as_object_mut().filter(|_| !subsets.is_empty()) {
            spec.insert("subsets".to_owned(), Value::Array(subsets));
        }
        let service = backends.first().map_or("", |backend| backend.name);
        let name = frame.part(service);
        let body = frame.object(API, "DestinationRule", frame.models(), &name, spec);
        let why = if documents.is_empty() {
            DESTINATIONS
        } else {
            ""
        };
        documents.push(Document::new(why, body));
    }
    Ok(documents)
}

/// Returns the subset of the servers of websockets. Connections are twice as many, so that one more is refused at once instead of
/// waiting for the end of another.
fn websockets(last: &Backend, max: u32) -> Value {
    let labels = last
        .subset
        .map(|_| json!({ VARIANT_LABEL: last.variant.name }));
    let pool = json!({
        "tcp": { "connectTimeout": "1s", "maxConnections": 2 * max },
        "http": { "http1MaxPendingRequests": max, "http2MaxRequests": max, "idleTimeout": "4s" },
    });
    json!({
        "name": WEBSOCKETS, "labels": labels.unwrap_or_else(|| json!({})),
        "trafficPolicy": { "connectionPool": pool },
    })
}
