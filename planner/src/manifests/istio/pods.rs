//! Patches for Deployments managed by others, and the network policy of the gates.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

use super::super::planner_tls::{FOLDER, PlannerTls, VOLUME};
use super::super::plugin::{EDGES, LATENCY, LATENCY_EDGES, SLACK};
use super::super::typed::typed;
use super::super::{backend, calls, network};
use super::wasm::pods;
use super::{Document, File, Frame, ManifestError, SERVICE_LABEL};

/// Statistics port of a sidecar; not covered by mutual TLS.
const STATS_PORT: u16 = 15090;

const ANNOTATED: &str = "statsHistogramBuckets: fine edges for the time that requests have left, by a percentile of which \
    policy `sponge` plans; Envoy's own are too far apart. statsFlushInterval (Istio 1.28 and later): \
    histograms are merged this often, 5 s by default; whole seconds below a minute, because Istio has written others in a form that Envoy refuses. Everything else of the \
    filter's is shown without annotations: Istio lets the prefix `wasm` through.";
const ROUTERS: &str = "A gate believes the deadline in x-slo-deadline, so only routers may reach the model servers: the gateway. The \
    planner reads the sidecars' statistics, and calls what the service file names (`reconfigure`, `resize`). Add whoever else has a router; kubelets are let through anyway.";

/// Returns patches for `kubectl patch --patch-file`: one for the gateway and one for each variant's
/// Deployment.
pub(super) fn patches(frame: &Frame) -> Vec<File> {
    let gateway = format!(
        "kubectl -n {} patch deployment NAME --patch-file istio/pods/{}/gateway.yaml, NAME being that of the gateway.",
        frame.ingress.namespace, frame.service.name,
    );
    let tls = frame.options.planner_tls.as_ref();
    let mut files = vec![patch(frame, "gateway", &gateway, annotations(), None)];
    for backend in &frame.backends {
        let name = &backend.variant.name;
        let file = format!("server-{name}");
        let how = format!(
            "kubectl -n {} patch deployment NAME --patch-file istio/pods/{}/{file}.yaml, NAME being that of the \
             variant's model server. Its labels are what gates, subsets and the planner find it by.",
            frame.models(),
            frame.service.name,
        );
        let labels = pods(frame, backend);
        let mut annotations = annotations();
        if let (Some(tls), Some(annotations)) = (tls, annotations.as_object_mut()) {
            annotations.extend(mounted(tls));
        }
        files.push(patch(frame, &file, &how, annotations, Some(labels)));
    }
    files
}

fn patch(frame: &Frame, name: &str, how: &str, annotations: Value, labels: Option<Value>) -> File {
    let mut metadata = json!({ "annotations": annotations });
    if let (Some(labels), Some(metadata)) = (labels, metadata.as_object_mut()) {
        metadata.insert("labels".to_owned(), labels);
    }
    let body = json!({ "spec": { "template": { "metadata": metadata } } });
    let why = format!("{how}\n{ANNOTATED}");
    File::new(
        format!("istio/pods/{}/{name}.yaml", frame.service.name),
        vec![Document::new(why, body)],
    )
}

fn annotations() -> Value {
    let buckets = json!({ SLACK: EDGES, LATENCY: LATENCY_EDGES });
    json!({
        "sidecar.istio.io/statsHistogramBuckets": buckets.to_string(),
        "sidecar.istio.io/statsFlushInterval": "1s",
    })
}

/// Returns the annotations that mount the certificates of the planner's TLS into the sidecar.
fn mounted(tls: &PlannerTls) -> [(String, Value); 2] {
    let volume = json!({ VOLUME: { "secret": tls.ca_volume() } });
    let mount = json!({ VOLUME: { "mountPath": FOLDER, "readOnly": true } });
    [("userVolume", volume), ("userVolumeMount", mount)]
        .map(|(key, value)| (format!("sidecar.istio.io/{key}"), json!(value.to_string())))
}

pub(super) fn only_routers(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let ports = backend::ports(&frame.backends);
    let open: Vec<Value> = ports.into_iter().map(network::tcp).collect();
    let ingress = &frame.ingress;
    let routers = network::pods(&ingress.namespace, &json!(ingress.labels));
    let mut rules = vec![json!({ "from": [routers], "ports": open })];
    let planner = &frame.options.namespace;
    let sidecars = crate::service::ProxyPods {
        port: STATS_PORT,
        ..ingress.pods()
    };
    let mut called = vec![calls::of_proxies(&sidecars, frame.models())];
    called.extend(calls::of_service(frame.service, frame.models()));
    rules.extend(network::admitted(planner, &called));
    let spec = json!({
        "podSelector": { "matchLabels": { SERVICE_LABEL: frame.service.name } },
        "policyTypes": ["Ingress"],
        "ingress": rules,
    });
    let api = "networking.k8s.io/v1";
    let name = frame.part("gates");
    let body = frame.object(api, "NetworkPolicy", frame.models(), &name, spec);
    Ok(vec![Document::new(ROUTERS, typed::<NetworkPolicy>(body)?)])
}
