//! The filter by WasmPlugin, and by TrafficExtension, which has the same fields one level deeper.

use serde_json::{Value, json};
use weir_filter::config::Role;

use super::super::backend::Backend;
use super::super::plugin::{ROOT_ID, plugin};
use super::{Document, Frame, ManifestError, SERVICE_LABEL, VARIANT_LABEL};

const API: &str = "extensions.istio.io/v1alpha1";

const WHY_AT_GATEWAY: &str = "The filter at the gateway. Without a phase it comes last, before the router: after \
    authentication and authorisation, so that who is refused there takes no slot.\n\
    failStrategy: when a VM traps, its worker's requests are lost whatever stands here. FAIL_RELOAD: the next request \
    gets a new VM (from Istio 1.25), unless the last is younger than a second or two: 503 until then. FAIL_OPEN: all go past the filter by the fallback route, without deadlines and \
    slots, until the proxy restarts. FAIL_CLOSE, the default: all get 503, until then. An image that cannot be \
    fetched is refused with FAIL_RELOAD and FAIL_CLOSE, and the configuration before it holds.\n\
    planner.key: whoever may read WasmPlugins here may read it, and so may who reads a proxy's config_dump. A plugin's \
    environment (vmConfig.env) comes from this file or the proxy's own, never from a Secret; so the key stands here, and \
    the overlays in k8s/ copy it from the Secret weir-key, the one place to change. It lets its holder get plans \
    and count as a proxy; with `poll` behind it, as made, it opens nothing else, and no access to Kubernetes.\n\
    plan: holds until the planner's first.\n\
    match (--host, --path): whose requests these are; what no service matches passes untouched. Without it, every request of the gateway.";
const WHY_AT_SIDECARS: &str = "A gate in the sidecar of each server of this variant: SERVER mode is what comes in, and only on \
    the port of the model server (the container's port: the Service's port is taken to be the same). It believes \
    the router's deadline, so nobody else may reach that port: see networkpolicy.yaml. failStrategy and the \
    key: see ../../gateway.";
const EXTENSIONS: &str = "Instead of the WasmPlugins, for Istio releases that have TrafficExtension: the same, a level deeper. Delete \
    those first; with both, every request would be filtered twice. The router of a gateway without gates has \
    role `both`.";

pub(super) fn at_gateway(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let mut spec = wasm(frame, Role::Both, None)?;
    let selector = json!({ "matchLabels": frame.gateway_labels() });
    add(&mut spec, "selector", selector);
    let mut body = frame.at_gateway(API, "WasmPlugin", &frame.name(), spec);
    let (key, value) = super::AT_GATEWAY;
    if let Some(labels) = body.pointer_mut("/metadata/labels") {
        add(labels, key, json!(value));
    }
    Ok(vec![Document::new(WHY_AT_GATEWAY, body)])
}

pub(super) fn at_sidecars(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    for backend in &frame.backends {
        let mut spec = wasm(frame, Role::Gate, Some(backend))?;
        add(
            &mut spec,
            "selector",
            json!({ "matchLabels": pods(frame, backend) }),
        );
        add(&mut spec, "match", inbound(backend));
        let name = frame.part(&backend.variant.name);
        let body = frame.object(API, "WasmPlugin", frame.models(), &name, spec);
        let why = if documents.is_empty() {
            WHY_AT_SIDECARS
        } else {
            ""
        };
        documents.push(Document::new(why, body));
    }
    Ok(documents)
}

pub(super) fn extensions(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let spec = json!({
        "selector": { "matchLabels": frame.gateway_labels() }, "wasm": wasm(frame, Role::Router, None)?,
    });
    let object = |namespace: &str, name: &str, spec| {
        frame.object(API, "TrafficExtension", namespace, name, spec)
    };
    let router = object(&frame.ingress.namespace, &frame.name(), spec);
    let mut documents = vec![Document::new(EXTENSIONS, router)];
    for backend in &frame.backends {
        let spec = json!({
            "selector": { "matchLabels": pods(frame, backend) },
            "match": inbound(backend),
            "wasm": wasm(frame, Role::Gate, Some(backend))?,
        });
        let name = frame.part(&backend.variant.name);
        documents.push(Document::new("", object(frame.models(), &name, spec)));
    }
    Ok(documents)
}

/// Returns the labels of a variant's pods.
pub(super) fn pods(frame: &Frame, backend: &Backend) -> Value {
    json!({ SERVICE_LABEL: frame.service.name, VARIANT_LABEL: backend.variant.name })
}

impl Frame<'_> {
    /// Returns the `match` of a filter. A gate's pods belong to one service.
    pub(super) fn matched(&self, role: Role) -> Option<Value> {
        self.options.matched().filter(|_| role != Role::Gate)
    }
}

fn inbound(backend: &Backend) -> Value {
    json!([{ "mode": "SERVER", "ports": [{ "number": backend.port }] }])
}

fn wasm(frame: &Frame, role: Role, gated: Option<&Backend>) -> Result<Value, ManifestError> {
    let gated = gated.map(|backend| backend.variant);
    let config = plugin(
        frame.service,
        role,
        gated,
        Some(&frame.planner),
        frame.matched(role),
    )?;
    let mut spec = json!({
        "url": format!("oci://{}", frame.options.filter_image),
        "imagePullPolicy": "IfNotPresent",
        "pluginName": ROOT_ID,
        "failStrategy": "FAIL_RELOAD",
        "pluginConfig": config,
    });
    if let Some(digest) = frame.options.filter_digest() {
        add(&mut spec, "sha256", json!(digest));
    }
    Ok(spec)
}

fn add(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}
