//! DestinationRules of a planner that has TLS of its own: proxies call it by TLS, and verify its certificate.
//!
//! Each holds for the pods of its service alone, so that no other client of their namespace is affected, and so
//! that those of a gateway and of model servers may be in one namespace.

use serde_json::{Value, json};

use super::super::planner_tls::{CA, FOLDER, PlannerTls};
use super::{Document, Frame, SERVICE_LABEL};

const API: &str = "networking.istio.io/v1";

const AT_GATEWAY: &str = "Polls use TLS of the planner's own. credentialName is a Secret in the namespace of the gateway's pods; its \
    ca.crt verifies the planner. It needs no private key.";
const AT_SIDECARS: &str = "Polls use TLS of the planner's own. A sidecar has no right to read Secrets: the patches in istio/pods mount ca.crt.";

pub(super) fn at_gateway(frame: &Frame, tls: &PlannerTls) -> Vec<Document> {
    let trusted = ("credentialName", json!(tls.ca_secret()));
    let spec = spec(frame, tls, frame.gateway_labels(), trusted);
    let name = frame.part("planner.gateway");
    let body = frame.at_gateway(API, "DestinationRule", &name, spec);
    vec![Document::new(AT_GATEWAY, body)]
}

pub(super) fn at_sidecars(frame: &Frame, tls: &PlannerTls) -> Vec<Document> {
    let trusted = ("caCertificates", json!(format!("{FOLDER}/{CA}")));
    let labels = json!({ SERVICE_LABEL: frame.service.name });
    let spec = spec(frame, tls, labels, trusted);
    let name = frame.part("planner.gates");
    let body = frame.object(API, "DestinationRule", frame.models(), &name, spec);
    vec![Document::new(AT_SIDECARS, body)]
}

fn spec(frame: &Frame, tls: &PlannerTls, labels: Value, (key, trusted): (&str, Value)) -> Value {
    let name = frame.options.planner_name();
    let name = tls.name_or(&name);
    json!({
        "host": frame.options.planner_host(),
        // Istio demands it of a rule for some pods alone.
        "exportTo": ["."],
        "workloadSelector": { "matchLabels": labels },
        "trafficPolicy": { "tls": {
            "mode": "SIMPLE", "sni": name, "subjectAltNames": [name], key: trusted,
        } },
    })
}
