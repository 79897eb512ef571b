//! Istio: the filter by WasmPlugin (or TrafficExtension) at a gateway and in the sidecars of model servers,
//! and the routes that follow its decision.
//!
//! `istio/gateway` is all that a gateway needs. `istio/sidecar` adds gates, and makes the gateway a router.
//! `istio/header-routing` has other routes, for users who may not create EnvoyFilters.
//! `istio/traffic-extension` uses the kind that succeeds WasmPlugin, `istio/from-file` needs no registry,
//! `istio/before-1.27` is for releases whose WasmPlugin lacks a fail strategy,
//! and `istio/pods` has the patches for pods managed by others. Each has a folder for each service; names of
//! objects and routes are a service's own, because those of all services meet at one gateway.

mod filters;
mod insert;
mod planner;
mod pods;
mod routes;
mod wasm;

use serde_json::{Value, json};

use super::attachment::Attachment;
use super::backend::{Backend, backends, namespace};
use super::calls::{self, Call};
use super::options::{Ingress, Mesh, PLANNER_PORT};
use super::plugin::PlannerAt;
use super::{Document, File, ManifestError, Options, refused};
use crate::service::Service;
use crate::spec::ServiceSpec;

/// Label of a model server's pod: the service.
const SERVICE_LABEL: &str = "weir.dev/service";
/// Label of a model server's pod: the variant.
const VARIANT_LABEL: &str = "weir.dev/variant";
/// Label of a plugin: at the gateway, or at a model server.
const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
/// Value of that label at the gateway. The overlay `sidecar` makes these plugins routers.
pub(super) const AT_GATEWAY: (&str, &str) = (COMPONENT_LABEL, "gateway");

/// Data shared by the files.
struct Frame<'a> {
    service: &'a Service,
    options: &'a Options,
    backends: Vec<Backend<'a>>,
    planner: PlannerAt,
    ingress: Ingress,
}

pub(super) fn files(
    service: &Service,
    spec: &ServiceSpec,
    options: &Options,
) -> Result<Vec<File>, ManifestError> {
    let backends = backends(service)?;
    if let Some(index) = backends.iter().position(|it| it.grpc.is_some()) {
        let right = "left out: Istio's sidecars have a gate at one port of a variant's servers; Envoy Gateway \
            (--gateway) and a standalone Envoy (--envoy) serve both ports";
        let path = format!("variants[{index}].grpcCluster");
        return Err(refused(path, "given", right));
    }
    let frame = Frame {
        service,
        options,
        backends,
        planner: planner_at(options),
        ingress: options.ingress(Mesh::Istio),
    };
    let attached = Attachment::new(service, spec, options, &frame.ingress)?;
    let mut gateway = vec![
        ("wasmplugin", wasm::at_gateway(&frame)?),
        ("virtualservice", routes::by_cluster(&frame)?),
        ("destinationrules", routes::destinations(&frame)?),
        ("envoyfilter", filters::at_gateway(&frame)),
        ("rights", attached.rights()?),
        ("networkpolicy", attached.network(frame.sidecar_calls())?),
    ];
    if frame.ingress.parent.is_none() && !frame.ingress.delegate {
        gateway.insert(0, ("gateway", routes::gateway(&frame)));
    }
    let mut sidecar = vec![
        ("wasmplugins", wasm::at_sidecars(&frame)?),
        ("envoyfilter", filters::at_sidecars(&frame)),
        ("networkpolicy", pods::only_routers(&frame)?),
    ];
    if let Some(tls) = &options.planner_tls {
        gateway.push(("planner", planner::at_gateway(&frame, tls)));
        sidecar.push(("planner", planner::at_sidecars(&frame, tls)));
    }
    let name = &service.name;
    let mut files = folder("istio/gateway", name, GATEWAY, gateway);
    files.push(attached.resource_file(&format!("istio/gateway/{name}"))?);
    files.extend(folder("istio/sidecar", name, SIDECAR, sidecar));
    for (path, documents) in [
        (
            "header-routing",
            ("virtualservice", routes::by_header(&frame)?),
        ),
        (
            "traffic-extension",
            ("trafficextensions", wasm::extensions(&frame)?),
        ),
        ("from-file", ("envoyfilters", insert::filters(&frame)?)),
    ] {
        let (file, documents) = documents;
        files.push(File::new(
            format!("istio/{path}/{name}/{file}.yaml"),
            documents,
        ));
    }
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
    File::shared(
        "istio/before-1.27/kustomization.yaml",
        vec![Document::new(BEFORE_RELOAD, list)],
    )
}

const GATEWAY: &str = "Gateways that read deadlines, choose variants, and hold and give slots (role `both`): a folder for \
    each service.";
const SIDECAR: &str = "Gates in the model servers' sidecars, behind the gateways of ../gateway, which are then routers: \
    the overlay `sidecar` makes them so. A folder for each service.";

const BEFORE_RELOAD: &str = "For Istio before 1.27, whose WasmPlugin has no FAIL_RELOAD: add \
    `components: [../../../istio/before-1.27]` to an overlay. When a VM traps, later requests of its worker go past the filter, \
    until the proxy restarts.";

/// Returns the files of a service's kustomization, and the list of all services'.
fn folder(path: &str, name: &str, why: &str, files: Vec<(&str, Vec<Document>)>) -> Vec<File> {
    let resources: Vec<String> = files
        .iter()
        .map(|(name, _)| format!("{name}.yaml"))
        .collect();
    let each = files.into_iter();
    let each =
        each.map(|(file, documents)| File::new(format!("{path}/{name}/{file}.yaml"), documents));
    let mut files: Vec<File> = each.collect();
    let list = json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources });
    files.push(File::new(
        format!("{path}/{name}/kustomization.yaml"),
        vec![Document::new(format!("Service {name}."), list)],
    ));
    let part = [name.to_owned()];
    files.push(File::list(path, why, "Kustomization", "resources", &part));
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

    /// Returns the name of a part of this service. No service has a dot in its name, so that no other
    /// service's resource is called the same.
    fn part(&self, part: &str) -> String {
        format!("weir-{}.{part}", self.service.name)
    }

    /// Returns the calls of the planner's sidecar. With TLS of its own it has none.
    fn sidecar_calls(&self) -> Vec<Call> {
        match self.options.planner_tls {
            None => vec![calls::of_sidecar()],
            Some(_) => Vec::new(),
        }
    }

    fn models(&self) -> &str {
        namespace(&self.backends)
    }

    /// Returns the selector of the gateway's pods.
    fn gateway_labels(&self) -> Value {
        json!(self.ingress.labels)
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

    /// Returns an object in the gateway's namespace.
    fn at_gateway(&self, api: &str, kind: &str, name: &str, spec: Value) -> Value {
        self.object(api, kind, &self.ingress.namespace, name, spec)
    }
}
