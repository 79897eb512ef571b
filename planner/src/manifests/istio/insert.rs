//! The filter by EnvoyFilter, from a file on the proxy's disk: needs no registry, and gives access to all
//! of Envoy's plugin settings.

use serde_json::{Value, json};
use weir_filter::config::Role;

use super::super::backend::Backend;
use super::super::plugin::{ROOT_ID, plugin};
use super::filters::MANAGER;
use super::wasm::pods;
use super::{Document, Frame, ManifestError};

const API: &str = "networking.istio.io/v1alpha3";
const ROUTER: &str = "envoy.filters.http.router";
const WASM: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";
const TEXT: &str = "type.googleapis.com/google.protobuf.StringValue";
/// Path of the mounted module.
const MODULE: &str = "/var/lib/weir/weir_filter.wasm";

const WHY: &str = "Instead of the WasmPlugins, where no registry may be asked: the filter from a file on the proxy's disk, such as \
    a ConfigMap (`kubectl create configmap weir-filter --from-file weir_filter.wasm`, mounted at /var/lib/weir; in sidecars \
    by sidecar.istio.io/userVolume and userVolumeMount). It also says what WasmPlugin cannot: a VM that has trapped is \
    replaced after 0.2 s instead of Envoy's 1 s. The price: each change here replaces listeners, and the old ones \
    drain. The key stands inside a text, where no overlay reaches it.";

pub(super) fn filters(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let labels = frame.gateway_labels();
    let value = filter(frame, Role::Both, None)?;
    let spec = spec(&labels, "GATEWAY", frame.ingress.target_port, value);
    let body = frame.at_gateway(API, "EnvoyFilter", &frame.part("from-file"), spec);
    let mut documents = vec![Document::new(WHY, body)];
    for backend in &frame.backends {
        let value = filter(frame, Role::Gate, Some(backend))?;
        let labels = pods(frame, backend);
        let spec = self::spec(&labels, "SIDECAR_INBOUND", backend.port, value);
        let name = frame.part(&format!("from-file.{}", backend.variant.name));
        let body = frame.object(API, "EnvoyFilter", frame.models(), &name, spec);
        documents.push(Document::new("", body));
    }
    Ok(documents)
}

fn spec(labels: &Value, context: &str, port: u16, value: Value) -> Value {
    let before = json!({ "filter": { "name": MANAGER, "subFilter": { "name": ROUTER } } });
    let listener = json!({ "portNumber": port, "filterChain": before });
    json!({
        "workloadSelector": { "labels": labels },
        "configPatches": [{
            "applyTo": "HTTP_FILTER",
            "match": { "context": context, "listener": listener },
            "patch": { "operation": "INSERT_BEFORE", "value": value },
        }],
    })
}

fn filter(frame: &Frame, role: Role, gated: Option<&Backend>) -> Result<Value, ManifestError> {
    let gated = gated.map(|backend| backend.variant);
    let config = plugin(
        frame.service,
        role,
        gated,
        Some(&frame.planner),
        frame.matched(role),
    )?;
    let text = serde_json::to_string_pretty(&config).map_err(|error| ManifestError::Form {
        what: "the filter's configuration".to_owned(),
        error: error.to_string(),
    })?;
    let vm = json!({
        "vm_id": ROOT_ID, "runtime": "envoy.wasm.runtime.v8", "code": { "local": { "filename": MODULE } },
    });
    Ok(
        json!({ "name": frame.name(), "typed_config": { "@type": WASM, "config": {
        "name": frame.name(),
        "root_id": ROOT_ID,
        "vm_config": vm,
        "failure_policy": "FAIL_RELOAD",
        "reload_config": { "backoff": { "base_interval": "0.2s" } },
        "allow_on_headers_stop_iteration": true,
        "configuration": { "@type": TEXT, "value": text + "\n" },
    } } }),
    )
}
