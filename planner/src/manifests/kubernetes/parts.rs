//! A service's part in the planner: the namespace that it watches, its rights there, and what it may call.
//! The rights to write are apart, so that the overlay `advisory` can leave them out.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::json;

use super::super::options::{PLANNER, PLANNER_PORT};
use super::super::typed::typed;
use super::super::{File, calls, network};
use super::access::{EVICT_ROLE, READ_ROLE, WRITE_ROLE, binding};
use super::overlays::text;
use super::{Document, Frame, ManifestError, selector};
use crate::service::Service;

const SERVICES: &str = "k8s/services";
const ACTS: &str = "k8s/acts";

const SERVICES_WHY: &str = "The services that the planner plans for: a folder for each.";
const ACTS_WHY: &str =
    "What the planner may change, for each service. The overlay advisory leaves this out.";
const READS: &str = "What the planner reads in the namespace of the model servers, and what it writes about its own resources.";
const WRITES: &str = "What it changes there: resources of pods in place, and numbers of replicas.";
const EVICTS: &str = "Evictions, for `resize.fallback: replace`.";
const NETWORK: &str = "Polls of the gates in this namespace, and what the planner calls for this service: `reconfigure` in its \
    pods, and `resize` addresses. It adds to k8s/base/networkpolicy.yaml.";

/// A service and the namespace of its model servers.
pub(super) struct Part<'a> {
    pub(super) service: &'a Service,
    pub(super) models: &'a str,
    /// Whether pods may be evicted.
    pub(super) replaces: bool,
}

pub(super) fn files(frame: &Frame, part: &Part) -> Result<Vec<File>, ManifestError> {
    let name = &part.service.name;
    let mut writes = vec![Document::new(WRITES, binding(frame, part, WRITE_ROLE)?)];
    if part.replaces {
        writes.push(Document::new(EVICTS, binding(frame, part, EVICT_ROLE)?));
    }
    let watched = json!([
        { "op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--namespace" },
        { "op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": part.models },
    ]);
    let component = json!({
        "apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component",
        "resources": ["rights.yaml", "networkpolicy.yaml"],
        "patches": [{ "target": { "kind": "Deployment", "name": PLANNER }, "patch": text(&watched)? }],
    });
    let own = format!("{SERVICES}/{name}");
    let reads = vec![Document::new(READS, binding(frame, part, READ_ROLE)?)];
    let folder = [name.clone()];
    let file = [format!("{name}.yaml")];
    Ok(vec![
        File::new(format!("{own}/rights.yaml"), reads),
        File::new(format!("{own}/networkpolicy.yaml"), policy(frame, part)?),
        File::new(
            format!("{own}/kustomization.yaml"),
            vec![Document::new(format!("Service {name}."), component)],
        ),
        File::list(SERVICES, SERVICES_WHY, "Component", "components", &folder),
        File::new(format!("{ACTS}/{name}.yaml"), writes),
        File::list(ACTS, ACTS_WHY, "Component", "resources", &file),
    ])
}

fn policy(frame: &Frame, part: &Part) -> Result<Vec<Document>, ManifestError> {
    let calls = calls::of_service(part.service, part.models);
    let models = network::pods(part.models, &json!({}));
    let mut spec = json!({
        "podSelector": { "matchLabels": selector() },
        "policyTypes": ["Ingress"],
        "ingress": [{ "from": [models], "ports": [network::tcp(PLANNER_PORT)] }],
    });
    if let Some(spec) = spec.as_object_mut().filter(|_| !calls.is_empty()) {
        spec.insert("policyTypes".to_owned(), json!(["Ingress", "Egress"]));
        spec.insert("egress".to_owned(), network::egress(&calls));
    }
    let name = format!("{PLANNER}.{}", part.service.name);
    let rest = json!({ "spec": spec });
    let body = frame.object("networking.k8s.io/v1", "NetworkPolicy", &name, rest);
    Ok(vec![Document::new(NETWORK, typed::<NetworkPolicy>(body)?)])
}
