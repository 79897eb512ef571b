//! Istio: the filter by WasmPlugin (or TrafficExtension) at a gateway and in the sidecars of model servers,
//! and the routes that follow its decision.
//!
//! `istio/gateway` is all that a gateway needs. `istio/sidecar` adds gates, and makes the gateway a router.
//! `istio/header-routing` has other routes, for users who may not create EnvoyFilters.
//! `istio/traffic-extension` uses the kind that succeeds WasmPlugin, `istio/from-file` needs no registry,
//! `istio/before-1.27` is for releases whose WasmPlugin lacks a fail strategy,
//! and `istio/pods` has the patches for pods managed by others.

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

/// Namespace in which `istioctl install` puts its gateway.
pub(super) const INGRESS_NAMESPACE: &str = "istio-system";
/// Label that `istioctl install` puts on the gateway's pods.
pub(super) const INGRESS_LABEL: (&str, &str) = ("istio", "ingressgateway");
/// Label of a model server's pod: the service.
const SERVICE_LABEL: &str = "weir.dev/service";
/// Label of a model server's pod: the variant.
const VARIANT_LABEL: &str = "weir.dev/variant";

/// Data shared by the files.
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
    files.push(before_reload());
    files.extend(pods::patches(&frame));
    Ok(files)
}

/// Returns the component for Istio before 1.27.
fn before_reload() -> File {
    let patch = "- op: replace\n  path: /spec/failStrategy\n  value: FAIL_OPEN\n";
    let list = json!({
        "apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component", "resources": [],
        "patches": [{ "target": { "kind": "WasmPlugin" }, "patch": patch }],
    });
    File::new(
        "istio/before-1.27/kustomization.yaml",
        vec![Document::new(BEFORE_RELOAD, list)],
    )
}

const GATEWAY: &str =
    "A gateway that reads deadlines, chooses variants, and holds and gives slots (role `both`).";
const SIDECAR: &str = "Gates in the model servers' sidecars, behind the gateway of ../gateway, which is then a router: \
    the overlay `sidecar` says so.";

const BEFORE_RELOAD: &str = "For Istio before 1.27, whose WasmPlugin has no FAIL_RELOAD: add \
    `components: [../../../istio/before-1.27]` to an overlay. When a VM traps, later requests of its worker go past the filter, \
    until the proxy restarts.";

/// Returns the files of a kustomization, and the kustomization.yaml that lists them.
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

/// Returns istiod's own cluster of the planner's Service: it has the endpoints, and uses mutual TLS if the
/// planner has a sidecar.
fn planner_at(options: &Options) -> PlannerAt {
    let host = options.planner_host();
    PlannerAt {
        cluster: format!("outbound|{PLANNER_PORT}||{host}"),
        authority: host,
    }
}

impl Frame<'_> {
    /// Returns the name of this service's resources.
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

/// Returns the selector of the gateway's pods.
fn ingress() -> Value {
    let (key, value) = INGRESS_LABEL;
    json!({ key: value })
}
