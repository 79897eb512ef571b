//! Envoy Gateway: the filter by EnvoyExtensionPolicy, and an HTTPRoute that routes by `x-slo-variant`.
//!
//! No EnvoyPatchPolicy is needed: a field, or a line of the bootstrap, covers each setting. The route to
//! each variant matches its public name, so cluster names do not matter here. The client's own header is
//! removed first.

use std::time::Duration;

use serde_json::{Value, json};
use weir_filter::config::Role;

use super::backend::{Backend, backends, namespace};
use super::options::{PLANNER, PLANNER_PORT};
use super::plugin::{
    BODY_BYTES, BUFFER_BYTES, PlannerAt, REQUESTS_MAX, ROOT_ID, Times, fallback, plugin, seconds,
    stats_config,
};
use super::{Document, File, ManifestError, Options, refused};
use crate::service::Service;

const FOLDER: &str = "k8s/envoy-gateway";
const GATEWAY_API: &str = "gateway.networking.k8s.io";
const ENVOY_API: &str = "gateway.envoyproxy.io";
/// Maximum number of rules of an HTTPRoute; one is the fallback.
const RULES_MAX: usize = 16;

const PROXY: &str = "What Envoy Gateway has no field for, in the bootstrap: the planner as a cluster of its own name (one made of \
    a route would open it to clients), labels of the filter's metrics as labels, fine edges for the time requests were \
    under way, and histograms that are merged as often as the planner looks. The gateway's pods take no longer to drain than requests may be held.";
const CLASS: &str = "Where clients come in. Put your hosts and TLS here.";
const ROUTE: &str = "The filter names the variant in x-slo-variant and lets Envoy choose the route anew. The rule without \
    headers is for what nothing has chosen: bypassed requests, and all of them where the filter failed open. It leads \
    to what can bear all traffic, the quickest variant. There are no retries: each would be an execution that no \
    slot counts.";
const EXTENSION: &str = "failOpen: Envoy Gateway has no FAIL_RELOAD. When a VM traps, its worker's requests are lost either way; \
    with true later ones go past the filter by the last rule, with false all get 5xx, in both cases until that Envoy \
    is restarted. The planner's rule is that Weir gone never stops traffic: true. Alert on wasm.*.vm_failed.\n\
    planner.key: whoever may read EnvoyExtensionPolicies here may read it; k8s/overlays/envoy-gateway copies it from the Secret weir-key, the one place to change.";
const CLIENT: &str = "The gateway holds requests: small buffers, and a longest silence above deadline.max_ms. A client's own \
    x-slo-variant and x-slo-cluster go before the first choice of a route.";
const BACKEND: &str = "Limits that are never met because slots limit first, and connections that end before servers close them.\n\
    requestBuffer: an EnvoyExtensionPolicy cannot say `allow_on_headers_stop_iteration`, by which the filter would hear when a body \
    has come. So Envoy waits for the whole body before the filter, and a slow upload takes no slot; a larger one gets 413. \
    Bidirectional gRPC streams hang behind it: give those an HTTPRoute of their own.";
const LIST: &str = "Part of k8s/overlays/envoy-gateway, which copies the key.";

pub(super) fn files(service: &Service, options: &Options) -> Result<Vec<File>, ManifestError> {
    let backends = backends(service)?;
    if backends.len() >= RULES_MAX {
        let right = format!(
            "at most {}: an HTTPRoute has {RULES_MAX} rules",
            RULES_MAX - 1
        );
        return Err(refused("variants", backends.len(), right));
    }
    if let Some((index, backend)) = backends
        .iter()
        .enumerate()
        .find(|(_, it)| it.subset.is_some())
    {
        let right = "without a subset: the Gateway API leads to Services";
        let path = format!("variants[{index}].cluster");
        return Err(refused(path, &backend.variant.cluster, right));
    }
    let frame = Frame {
        service,
        models: namespace(&backends),
    };
    let planner = PlannerAt {
        cluster: PLANNER.to_owned(),
        authority: options.planner_host(),
    };
    let config = plugin(service, Role::Both, None, Some(&planner))?;
    let names = ["gateway", "httproute", "policies"];
    let documents = [
        vec![
            Document::new(CLASS, class()),
            Document::new("", frame.gateway()),
            Document::new(PROXY, frame.proxy(options)),
        ],
        vec![Document::new(ROUTE, frame.route(&backends)?)],
        vec![
            Document::new(EXTENSION, frame.extension(options, &config)),
            Document::new(CLIENT, frame.client()),
            Document::new(BACKEND, frame.backend()),
        ],
    ];
    let each = names.iter().zip(documents);
    let mut files: Vec<File> = each
        .map(|(name, documents)| File::new(format!("{FOLDER}/{name}.yaml"), documents))
        .collect();
    let resources = names.map(|name| format!("{name}.yaml"));
    let list = json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources });
    files.push(File::new(
        format!("{FOLDER}/kustomization.yaml"),
        vec![Document::new(LIST, list)],
    ));
    Ok(files)
}

struct Frame<'a> {
    service: &'a Service,
    models: &'a str,
}

fn class() -> Value {
    json!({
        "apiVersion": format!("{GATEWAY_API}/v1"), "kind": "GatewayClass",
        "metadata": { "name": "weir", "labels": { "app.kubernetes.io/part-of": "weir" } },
        "spec": { "controllerName": format!("{ENVOY_API}/gatewayclass-controller") },
    })
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

    fn ours(&self, kind: &str, spec: Value) -> Value {
        self.object(&format!("{ENVOY_API}/v1alpha1"), kind, spec)
    }

    fn target(&self, kind: &str) -> Value {
        json!([{ "group": GATEWAY_API, "kind": kind, "name": self.name() }])
    }

    fn gateway(&self) -> Value {
        let parameters = json!({ "group": ENVOY_API, "kind": "EnvoyProxy", "name": self.name() });
        let spec = json!({
            "gatewayClassName": "weir",
            "infrastructure": { "parametersRef": parameters },
            "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }],
        });
        self.object(&format!("{GATEWAY_API}/v1"), "Gateway", spec)
    }

    fn proxy(&self, options: &Options) -> Value {
        let address = json!({ "address": options.planner_host(), "port_value": PLANNER_PORT });
        let cluster = json!({
            "name": PLANNER, "type": "STRICT_DNS", "connect_timeout": "1s",
            "per_connection_buffer_limit_bytes": BUFFER_BYTES,
            "load_assignment": { "cluster_name": PLANNER, "endpoints": [{ "lb_endpoints": [
                { "endpoint": { "address": { "socket_address": address } } },
            ] }] },
        });
        let add = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
        let patches = json!([
            add("/static_resources/clusters/-", cluster),
            add("/stats_config", stats_config()),
            add("/stats_flush_interval", json!("0.25s")),
        ]);
        let drain = format_time(Times::of(self.service).hold);
        let spec = json!({
            "bootstrap": { "type": "JSONPatch", "jsonPatches": patches },
            "shutdown": { "drainTimeout": drain },
        });
        self.ours("EnvoyProxy", spec)
    }

    fn route(&self, backends: &[Backend]) -> Result<Value, ManifestError> {
        let times = Times::of(self.service);
        let rule = |backend: &Backend, headers: Value, timeout: Duration| {
            let mut matched = json!({ "path": { "type": "PathPrefix", "value": "/" } });
            if let Some(matched) = matched.as_object_mut().filter(|_| headers != json!([])) {
                matched.insert("headers".to_owned(), headers);
            }
            json!({
                "matches": [matched],
                "filters": [{
                    "type": "RequestHeaderModifier", "requestHeaderModifier": { "remove": ["x-slo-cluster"] },
                }],
                "backendRefs": [{ "name": backend.name, "port": backend.port }],
                "timeouts": { "request": format_time(timeout) },
            })
        };
        let chosen = |backend: &Backend| {
            let header = json!([{ "type": "Exact", "name": "x-slo-variant", "value": backend.variant.name }]);
            rule(backend, header, times.answer)
        };
        let mut rules: Vec<Value> = backends.iter().map(chosen).collect();
        let quickest = fallback(self.service)?;
        let last = backends.iter().find(|backend| backend.variant == quickest);
        let last = last.ok_or_else(|| refused("variants", 0, "1 or more"))?;
        rules.push(rule(last, json!([]), times.max()));
        let spec = json!({ "parentRefs": [{ "name": self.name() }], "rules": rules });
        Ok(self.object(&format!("{GATEWAY_API}/v1"), "HTTPRoute", spec))
    }

    fn extension(&self, options: &Options, config: &Value) -> Value {
        let mut image = json!({ "url": options.filter_image });
        if let (Some(digest), Some(image)) = (options.filter_digest(), image.as_object_mut()) {
            image.insert("sha256".to_owned(), json!(digest));
        }
        let code = json!({ "type": "Image", "image": image, "pullPolicy": "IfNotPresent" });
        let wasm = json!({ "name": ROOT_ID, "rootID": ROOT_ID, "code": code, "config": config, "failOpen": true });
        let spec = json!({ "targetRefs": self.target("HTTPRoute"), "wasm": [wasm] });
        self.ours("EnvoyExtensionPolicy", spec)
    }

    fn client(&self) -> Value {
        let times = Times::of(self.service);
        let spec = json!({
            "targetRefs": self.target("Gateway"),
            "headers": {
                "earlyRequestHeaders": { "remove": ["x-slo-cluster", "x-slo-variant"] },
                "requestID": "PreserveOrGenerate",
            },
            "timeout": { "http": {
                "requestReceivedTimeout": format_time(times.request), "streamIdleTimeout": format_time(times.answer),
            } },
            "connection": { "bufferLimit": BUFFER_BYTES.to_string() },
            "http2": {
                "initialStreamWindowSize": BUFFER_BYTES.to_string(),
                "initialConnectionWindowSize": (16 * BUFFER_BYTES).to_string(),
                "maxConcurrentStreams": 1024,
            },
        });
        self.ours("ClientTrafficPolicy", spec)
    }

    fn backend(&self) -> Value {
        let spec = json!({
            "targetRefs": self.target("HTTPRoute"),
            "requestBuffer": { "limit": BODY_BYTES.to_string() },
            "loadBalancer": { "type": "LeastRequest" },
            "circuitBreaker": {
                "maxConnections": REQUESTS_MAX, "maxPendingRequests": REQUESTS_MAX,
                "maxParallelRequests": REQUESTS_MAX, "maxParallelRetries": 0,
            },
            "timeout": {
                "tcp": { "connectTimeout": seconds(Duration::from_secs(1)) },
                "http": { "connectionIdleTimeout": seconds(Duration::from_secs(4)) },
            },
        });
        self.ours("BackendTrafficPolicy", spec)
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
