//! Patches for Deployments managed by others, and the network policy of the gates.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

use super::super::plugin::{EDGES, SLACK};
use super::super::typed::typed;
use super::wasm::pods;
use super::{Document, File, Frame, INGRESS_NAMESPACE, ManifestError, SERVICE_LABEL, ingress};

/// Statistics port of a sidecar; not covered by mutual TLS.
pub(in super::super) const STATS_PORT: u16 = 15090;

const ANNOTATED: &str = "statsHistogramBuckets: fine edges for the time that requests have left, by a percentile of which \
    policy `sponge` plans; Envoy's own are too far apart. statsFlushInterval (Istio 1.28 and later): \
    histograms are merged this often, 5 s by default; whole seconds below a minute, because Istio has written others in a form that Envoy refuses. Everything else of the \
    filter's is shown without annotations: Istio lets the prefix `wasm` through.";
const ROUTERS: &str = "A gate believes the deadline in x-slo-deadline, so only routers may reach the model servers: the gateway. The \
    planner reads the sidecars' statistics. Add whoever else has a router; kubelets are let through anyway.";

/// Returns patches for `kubectl patch --patch-file`: one for the gateway and one for each variant's
/// Deployment.
pub(super) fn patches(frame: &Frame) -> Vec<File> {
    let gateway = "kubectl -n istio-system patch deployment istio-ingressgateway --patch-file istio/pods/gateway.yaml";
    let mut files = vec![patch("gateway", gateway, annotations(), None)];
    for backend in &frame.backends {
        let name = &backend.variant.name;
        let how = format!(
            "kubectl -n {} patch deployment NAME --patch-file istio/pods/{name}.yaml, NAME being that of the \
             variant's model server. Its labels are what gates, subsets and the planner find it by.",
            frame.models()
        );
        files.push(patch(name, &how, annotations(), Some(pods(frame, backend))));
    }
    files
}

fn patch(name: &str, how: &str, annotations: Value, labels: Option<Value>) -> File {
    let mut metadata = json!({ "annotations": annotations });
    if let (Some(labels), Some(metadata)) = (labels, metadata.as_object_mut()) {
        metadata.insert("labels".to_owned(), labels);
    }
    let body = json!({ "spec": { "template": { "metadata": metadata } } });
    let why = format!("{how}\n{ANNOTATED}");
    File::new(
        format!("istio/pods/{name}.yaml"),
        vec![Document::new(why, body)],
    )
}

fn annotations() -> Value {
    json!({
        "sidecar.istio.io/statsHistogramBuckets": json!({ SLACK: EDGES }).to_string(),
        "sidecar.istio.io/statsFlushInterval": "1s",
    })
}

pub(super) fn only_routers(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let from = |namespace: &str, labels: Value| {
        json!([{
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
            "podSelector": { "matchLabels": labels },
        }])
    };
    let mut ports: Vec<u16> = frame.backends.iter().map(|backend| backend.port).collect();
    ports.sort_unstable();
    ports.dedup();
    let open: Vec<Value> = ports
        .iter()
        .map(|port| json!({ "port": port, "protocol": "TCP" }))
        .collect();
    let planner = json!({ "app.kubernetes.io/name": super::super::options::PLANNER });
    let spec = json!({
        "podSelector": { "matchLabels": { SERVICE_LABEL: frame.service.name } },
        "policyTypes": ["Ingress"],
        "ingress": [
            { "from": from(INGRESS_NAMESPACE, ingress()), "ports": open },
            { "from": from(&frame.options.namespace, planner), "ports": [{ "port": STATS_PORT, "protocol": "TCP" }] },
        ],
    });
    let api = "networking.k8s.io/v1";
    let body = frame.object(api, "NetworkPolicy", frame.models(), &frame.name(), spec);
    Ok(vec![Document::new(ROUTERS, typed::<NetworkPolicy>(body)?)])
}
