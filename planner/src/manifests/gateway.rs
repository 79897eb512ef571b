//! Envoy Gateway: the filter by EnvoyExtensionPolicy, and an HTTPRoute that routes by `x-slo-variant`.
//!
//! No EnvoyPatchPolicy is needed: a field, or a line of the bootstrap, covers each setting. The route to
//! each variant matches its public name, so cluster names do not matter here. The client's own header is
//! removed first. One Gateway serves all services; each has its own HTTPRoute, and all that depends on a
//! service is of that route.

mod route;
mod shared;

use std::time::Duration;

use serde_json::{Value, json};
use weir_filter::config::Role;

use super::attachment::Attachment;
use super::backend::{Backend, backends, namespace};
use super::options::{Ingress, Mesh, PLANNER};
use super::plugin::{
    PlannerAt, REQUESTS_MAX, ROOT_ID, Times, body_bytes, outliers, plugin, seconds,
};
use super::{Document, File, ManifestError, Options, refused};
use crate::service::Service;
use crate::spec::ServiceSpec;

const FOLDER: &str = "k8s/envoy-gateway";
const GATEWAY_API: &str = "gateway.networking.k8s.io";
const ENVOY_API: &str = "gateway.envoyproxy.io";

const EXTENSION: &str = "failOpen: Envoy Gateway has no FAIL_RELOAD. When a VM traps, its worker's requests are lost either way; \
    with true later ones go past the filter by the last rule, with false all get 5xx, in both cases until that Envoy \
    is restarted. The planner's rule is that Weir gone never stops traffic: true. Alert on wasm.*.vm_failed.\n\
    planner.key: whoever may read EnvoyExtensionPolicies here may read it; k8s/overlays/envoy-gateway copies it from the Secret weir-key, the one place to change.";
const BACKEND: &str = "Limits that are never met because slots limit first, and connections that end before servers close them.\n\
    streamIdleTimeout (Envoy Gateway 1.8 and later): the longest silence, above deadline.max_ms. Without it a route with \
    `timeouts` has an hour, and so long hangs what a trapped VM held.\n\
    requestBuffer: an EnvoyExtensionPolicy cannot say `allow_on_headers_stop_iteration`, by which the filter would hear when a body \
    has come. So Envoy waits for the whole body before the filter, and a slow upload takes no slot; a larger one gets 413. \
    Bidirectional gRPC streams hang behind it: give those an HTTPRoute of their own.";
const LIST: &str = "Part of k8s/overlays/envoy-gateway, which copies the key: a folder for each service, and the Gateway.";

pub(super) fn files(
    service: &Service,
    spec: &ServiceSpec,
    options: &Options,
) -> Result<Vec<File>, ManifestError> {
    let backends = backends(service)?;
    let subset = backends.iter().position(|it| it.subset.is_some());
    if let Some((index, backend)) = subset.and_then(|at| Some((at, backends.get(at)?))) {
        let right = "without a subset: the Gateway API leads to Services";
        let path = format!("variants[{index}].cluster");
        return Err(refused(path, &backend.variant.cluster, right));
    }
    if options.gateway.delegate {
        let right = "left out: only Istio has delegates; give --parent NAMESPACE/NAME for a Gateway that there is already";
        return Err(refused("--delegate", "given", right));
    }
    let frame = Frame {
        service,
        options,
        models: namespace(&backends),
        ingress: options.ingress(Mesh::EnvoyGateway),
    };
    let attached = Attachment::new(service, spec, options, &frame.ingress)?;
    let policies = vec![
        Document::new(EXTENSION, frame.extension()?),
        Document::new(BACKEND, frame.backend()),
    ];
    let own = format!("{FOLDER}/{}", service.name);
    let parts = [
        ("httproute", frame.route(&backends)?),
        ("policies", policies),
        ("rights", attached.rights()?),
        ("networkpolicy", attached.network(Vec::new())?),
    ];
    let resources: Vec<String> = parts.iter().map(|(it, _)| format!("{it}.yaml")).collect();
    let list = json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources });
    let parts = parts.into_iter();
    let parts = parts.map(|(name, it)| File::new(format!("{own}/{name}.yaml"), it));
    let mut files: Vec<File> = parts.collect();
    files.push(File::new(
        format!("{own}/kustomization.yaml"),
        vec![Document::new(format!("Service {}.", service.name), list)],
    ));
    files.push(attached.resource_file(&own)?);
    let mut all = vec![service.name.clone()];
    if frame.ingress.parent.is_none() {
        all.insert(0, "gateway.yaml".to_owned());
        let path = format!("{FOLDER}/gateway.yaml");
        files.push(File::shared(
            path,
            shared::documents(options, &frame.ingress),
        ));
    }
    files.push(File::list(FOLDER, LIST, "Kustomization", "resources", &all));
    Ok(files)
}

struct Frame<'a> {
    service: &'a Service,
    options: &'a Options,
    models: &'a str,
    ingress: Ingress,
}

impl Frame<'_> {
    fn name(&self) -> String {
        format!("weir-{}", self.service.name)
    }

    fn object(&self, api: &str, kind: &str, spec: Value) -> Value {
        json!({
            "apiVersion": api, "kind": kind,
            "metadata": {
                "name": self.name(), "namespace": self.models,
                "labels": { "app.kubernetes.io/part-of": "weir", "weir.dev/service": self.service.name },
            },
            "spec": spec,
        })
    }

    fn policy(&self, kind: &str, spec: Value) -> Value {
        self.object(&format!("{ENVOY_API}/v1alpha1"), kind, spec)
    }

    fn target(&self) -> Value {
        json!([{ "group": GATEWAY_API, "kind": "HTTPRoute", "name": self.name() }])
    }

    fn route(&self, backends: &[Backend]) -> Result<Vec<Document>, ManifestError> {
        let spec = route::spec(self, backends)?;
        let body = self.object(&format!("{GATEWAY_API}/v1"), "HTTPRoute", spec);
        let ports = backends.iter().any(|backend| backend.grpc.is_some());
        let more = if ports { route::PORTS_WHY } else { "" };
        Ok(vec![Document::new(format!("{}{more}", route::WHY), body)])
    }

    fn extension(&self) -> Result<Value, ManifestError> {
        let planner = PlannerAt {
            cluster: PLANNER.to_owned(),
            authority: self.options.planner_host(),
        };
        let matched = self.options.matched();
        let config = plugin(self.service, Role::Both, None, Some(&planner), matched)?;
        let mut image = json!({ "url": self.options.filter_image });
        if let (Some(digest), Some(image)) = (self.options.filter_digest(), image.as_object_mut()) {
            image.insert("sha256".to_owned(), json!(digest));
        }
        let code = json!({ "type": "Image", "image": image, "pullPolicy": "IfNotPresent" });
        let wasm = json!({ "name": ROOT_ID, "rootID": ROOT_ID, "code": code, "config": config, "failOpen": true });
        let spec = json!({ "targetRefs": self.target(), "wasm": [wasm] });
        Ok(self.policy("EnvoyExtensionPolicy", spec))
    }

    fn backend(&self) -> Value {
        let times = Times::of(self.service);
        let spec = json!({
            "targetRefs": self.target(),
            "requestBuffer": { "limit": body_bytes(self.service).to_string() },
            "loadBalancer": { "type": "LeastRequest" },
            "circuitBreaker": {
                "maxConnections": REQUESTS_MAX, "maxPendingRequests": REQUESTS_MAX,
                "maxParallelRequests": REQUESTS_MAX, "maxParallelRetries": 0,
            },
            "healthCheck": { "passive": {
                "consecutive5XxErrors": outliers::ERRORS,
                "consecutiveGatewayErrors": outliers::GATEWAY_ERRORS,
                "interval": seconds(outliers::INTERVAL),
                "baseEjectionTime": seconds(outliers::EJECTED),
                "maxEjectionPercent": outliers::EJECTED_PERCENT,
            } },
            "timeout": {
                "tcp": { "connectTimeout": seconds(Duration::from_secs(1)) },
                "http": {
                    "connectionIdleTimeout": seconds(Duration::from_secs(4)),
                    "streamIdleTimeout": format_time(times.answer),
                },
            },
        });
        self.policy("BackendTrafficPolicy", spec)
    }
}

/// Formats a time as the Gateway API requires it: whole numbers of at most five digits.
fn format_time(time: Duration) -> String {
    let (seconds, ms) = (time.as_secs(), time.subsec_millis());
    match (seconds, ms) {
        (_, 0) => format!("{seconds}s"),
        (0, _) => format!("{ms}ms"),
        _ => format!("{seconds}s{ms}ms"),
    }
}
