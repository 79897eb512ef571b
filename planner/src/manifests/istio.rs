//! Istio: the filter by WasmPlugin (or TrafficExtension) at a gateway and in the sidecars of model servers, and the
//! routes that obey it.
//!
//! `istio/gateway` is all that a gateway needs; `istio/sidecar` adds gates, and makes the gateway a router;
//! `istio/header-routing` are other routes for whoever may not use EnvoyFilters, `istio/traffic-extension` the
//! filter by the kind that follows WasmPlugin, `istio/from-file` without a registry, `istio/pods` what has to be on pods
//! that are not ours.

mod filters;
mod insert;
mod pods;
mod routes;
mod wasm;

use serde_json::{Value, json};

use super::backend::{Backend, backends, namespace};
use super::options::PLANNER_PORT;
use super::plugin::PlannerAt;
use super::{Document, File, ManifestError, Options};
use crate::service::Service;

/// Where `istioctl install` puts its gateway.
pub(super) const INGRESS_NAMESPACE: &str = "istio-system";
/// How it labels the gateway's pods.
pub(super) const INGRESS_LABEL: (&str, &str) = ("istio", "ingressgateway");
/// On every model server's pod: whose it is …
const SERVICE_LABEL: &str = "weir.dev/service";
/// … and which variant.
const VARIANT_LABEL: &str = "weir.dev/variant";

/// What the files have in common.
struct Frame<'a> {
    service: &'a Service,
    options: &'a Options,
    backends: Vec<Backend<'a>>,
    planner: PlannerAt,
}

pub(super) fn files(service: &Service, options: &Options) -> Result<Vec<File>, ManifestError> {
    let frame = Frame {
        service,
        options,
        backends: backends(service)?,
        planner: planner_at(options),
    };
    let gateway = [
        ("gateway", routes::gateway(&frame)),
        ("wasmplugin", wasm::at_gateway(&frame)?),
        ("virtualservice", routes::by_cluster(&frame)?),
        ("destinationrules", routes::destinations(&frame)),
        ("envoyfilter", filters::at_gateway(&frame)),
    ];
    let sidecar = [
        ("wasmplugins", wasm::at_sidecars(&frame)?),
        ("envoyfilter", filters::at_sidecars(&frame)),
        ("networkpolicy", pods::only_routers(&frame)?),
    ];
    let mut files = folder("istio/gateway", GATEWAY, gateway);
    files.extend(folder("istio/sidecar", SIDECAR, sidecar));
    let by_header = routes::by_header(&frame)?;
    files.push(File::new(
        "istio/header-routing/virtualservice.yaml",
        by_header,
    ));
    let extension = "istio/traffic-extension";
    let gates = wasm::extensions(&frame)?;
    files.push(File::new(
        format!("{extension}/trafficextensions.yaml"),
        gates,
    ));
    let inserted = insert::filters(&frame)?;
    files.push(File::new("istio/from-file/envoyfilters.yaml", inserted));
    files.extend(pods::patches(&frame));
    Ok(files)
}

const GATEWAY: &str =
    "A gateway that reads deadlines, chooses variants, and holds and gives slots (role `both`).";
const SIDECAR: &str = "Gates in the model servers' sidecars, behind the gateway of ../gateway, which is then a router: \
    the overlay `sidecar` says so.";

/// The files of a kustomization, and what lists them.
fn folder<const N: usize>(path: &str, why: &str, files: [(&str, Vec<Document>); N]) -> Vec<File> {
    let resources: Vec<String> = files
        .iter()
        .map(|(name, _)| format!("{name}.yaml"))
        .collect();
    let each = files.into_iter();
    let each = each.map(|(name, documents)| File::new(format!("{path}/{name}.yaml"), documents));
    let mut files: Vec<File> = each.collect();
    let list = json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources });
    files.push(File::new(
        format!("{path}/kustomization.yaml"),
        vec![Document::new(why, list)],
    ));
    files
}

/// istiod's own cluster of the planner's Service: with its endpoints, and mutual TLS where the planner has a sidecar.
fn planner_at(options: &Options) -> PlannerAt {
    let host = options.planner_host();
    PlannerAt {
        cluster: format!("outbound|{PLANNER_PORT}||{host}"),
        authority: host,
    }
}

impl Frame<'_> {
    /// What this service's resources are called.
    fn name(&self) -> String {
        format!("weir-{}", self.service.name)
    }

    fn models(&self) -> &str {
        namespace(&self.backends)
    }

    fn object(&self, api: &str, kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
        json!({
            "apiVersion": api, "kind": kind,
            "metadata": { "name": name, "namespace": namespace, "labels": {
                "app.kubernetes.io/part-of": "weir", SERVICE_LABEL: self.service.name,
            } },
            "spec": spec,
        })
    }
}

/// The gateway's pods.
fn ingress() -> Value {
    let (key, value) = INGRESS_LABEL;
    json!({ key: value })
}
