//! Overlays that combine the base, Istio's files and a mode.
//!
//! An overlay adds nothing of its own: it selects, and copies the key. None names a service.

use serde_json::{Value, json};

use super::super::istio::AT_GATEWAY;
use super::super::options::PLANNER;
use super::workload::KEY_SECRET;
use super::{File, Frame, ManifestError, kustomization};

const GATEWAY: &str = "Istio, Weir at the ingress gateway alone: it holds requests and gives slots. Any number of gateway \
    pods; the planner shares the slots out, as long as there are no fewer slots than pods.";
const SIDECAR: &str = "Istio, a router at the ingress gateway and a gate in each model server's sidecar, which holds and gives \
    slots. For several gateways, or fewer slots than gateway pods.";
const ADVISORY: &str = "As the overlay gateway, without ../../acts: the planner may change nothing; what it would do is in its status, API and log. \
    Start with this.";
const ENVOY_GATEWAY: &str =
    "Envoy Gateway, Weir at its gateway alone. `manifests --gateway` makes what it refers to.";

/// Ports of proxies' statistics: Istio's own, and those merged with the application's.
const STATS_PORTS: &str = "15090,15020";
/// Path of the key in a WasmPlugin, in kustomize's notation.
const ISTIO_KEY: &str = "spec.pluginConfig.planner.key";
/// Path of the key in an EnvoyExtensionPolicy.
const ENVOY_GATEWAY_KEY: &str = "spec.wasm.0.config.planner.key";

pub(super) fn overlays(frame: &Frame) -> Result<Vec<File>, ManifestError> {
    let router = json!([{ "op": "replace", "path": "/spec/pluginConfig/role", "value": "router" }]);
    let (key, value) = AT_GATEWAY;
    let to_router = json!({
        "target": { "kind": "WasmPlugin", "labelSelector": format!("{key}={value}") },
        "patch": text(&router)?,
    });
    let (base, istio) = ("../../base", "../../../istio");
    let (services, acts) = ("../../services", "../../acts");
    let gateway = json!({
        "resources": [base, format!("{istio}/gateway")],
        "components": [services, acts],
        "patches": [in_the_mesh(frame)?],
        "replacements": [self::key(frame, "WasmPlugin", ISTIO_KEY)],
    });
    let sidecar = json!({
        "resources": [base, format!("{istio}/gateway"), format!("{istio}/sidecar")],
        "components": [services, acts],
        "patches": [in_the_mesh(frame)?, to_router],
        "replacements": [self::key(frame, "WasmPlugin", ISTIO_KEY)],
    });
    let advisory = json!({
        "resources": [base, format!("{istio}/gateway")],
        "components": [services],
        "patches": [in_the_mesh(frame)?],
        "replacements": [self::key(frame, "WasmPlugin", ISTIO_KEY)],
    });
    let envoy_gateway = json!({
        "resources": [base, "../../envoy-gateway"],
        "components": [services, acts],
        "replacements": [self::key(frame, "EnvoyExtensionPolicy", ENVOY_GATEWAY_KEY)],
    });
    let overlay = |name: &str, why: &str, rest: Value| {
        kustomization(&format!("k8s/overlays/{name}"), why, "Kustomization", rest)
    };
    Ok(vec![
        overlay("gateway", GATEWAY, gateway),
        overlay("sidecar", SIDECAR, sidecar),
        overlay("advisory", ADVISORY, advisory),
        overlay("envoy-gateway", ENVOY_GATEWAY, envoy_gateway),
    ])
}

/// Gives the planner a sidecar, so that polls use mutual TLS. Statistics go past it: proxies serve them without, and
/// a mesh of registered hosts alone would refuse a pod's address. A planner with TLS of its own gets none: a sidecar
/// that demands mutual TLS would refuse its clients.
fn in_the_mesh(frame: &Frame) -> Result<Value, ManifestError> {
    let metadata = match frame.options.planner_tls {
        None => json!({
            "labels": { "sidecar.istio.io/inject": "true" },
            "annotations": {
                "proxy.istio.io/config": "{\"holdApplicationUntilProxyStarts\": true}",
                "traffic.sidecar.istio.io/excludeOutboundPorts": STATS_PORTS,
            },
        }),
        Some(_) => json!({ "labels": { "sidecar.istio.io/inject": "false" } }),
    };
    let patch = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": PLANNER, "namespace": frame.options.namespace },
        "spec": { "template": { "metadata": metadata } },
    });
    Ok(json!({ "patch": text(&patch)? }))
}

/// Returns the replacement that copies the key of the first line of the Secret's key file, up to the word behind it, to
/// the path that the filter reads. Further lines are of the planner alone: keys that it accepts too, as in a rotation.
fn key(frame: &Frame, kind: &str, path: &str) -> Value {
    json!({
        "source": {
            "kind": "Secret", "name": KEY_SECRET, "namespace": frame.options.namespace,
            "fieldPath": "stringData.key", "options": { "delimiter": " ", "index": 0 },
        },
        "targets": [{ "select": { "kind": kind }, "fieldPaths": [path] }],
    })
}

/// Formats a patch as a string, as kustomize requires.
pub(super) fn text(patch: &Value) -> Result<String, ManifestError> {
    serde_saphyr::to_string(patch).map_err(|error| ManifestError::Form {
        what: "a patch".to_owned(),
        error: error.to_string(),
    })
}
