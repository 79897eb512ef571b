//! The Gateway of all services, its class, and what concerns its listener and its Envoys. Nothing here
//! depends on a service.

use serde_json::{Value, json};

use super::super::options::{Ingress, PLANNER, PLANNER_PORT};
use super::super::planner_tls::{FOLDER, VOLUME, transport_socket};
use super::super::plugin::{BUFFER_BYTES, stats_config};
use super::{Document, ENVOY_API, GATEWAY_API, Options};

/// Time for a gateway's pod to drain: Envoy Gateway gives a pod 360 s to end.
const DRAIN: &str = "300s";
/// Limit for receiving a request, whose body may wait in its client while it is held.
const RECEIVED: &str = "300s";

const CLASS: &str = "The Gateway of all services. Options --port and --tls-secret say more; --parent names a Gateway that there is already, \
    which then needs what stands here.";
const GATEWAY: &str = "Routes may come from every namespace: services are in their own.";
const PROXY: &str = "What Envoy Gateway has no field for, in the bootstrap: the planner as a cluster of its own name (one made of \
    a route would open it to clients), labels of the filter's metrics as labels, fine edges for the time requests were \
    under way, and histograms that are merged as often as the planner looks. The gateway's pods drain for longer than requests are held, \
    with a deadline.max_ms below drainTimeout.";
const PROXY_TLS: &str = "\nThe planner's certificate is verified by ca.crt of the Secret of --planner-ca-secret (or --planner-tls-secret) in the \
    namespace of the gateway's pods; Envoy reads it at its start.";
const CLIENT: &str = "The gateway holds requests: small buffers. A client's own \
    x-slo-variant and x-slo-cluster go before the first choice of a route. The longest silence is a service's own, in its BackendTrafficPolicy.";

pub(super) fn documents(options: &Options, ingress: &Ingress) -> Vec<Document> {
    let why = match options.planner_tls {
        Some(_) => format!("{PROXY}{PROXY_TLS}"),
        None => PROXY.to_owned(),
    };
    vec![
        Document::new(CLASS, class()),
        Document::new(GATEWAY, gateway(options, ingress)),
        Document::new(why, proxy(options, ingress)),
        Document::new(CLIENT, client(options, ingress)),
    ]
}

fn class() -> Value {
    json!({
        "apiVersion": format!("{GATEWAY_API}/v1"), "kind": "GatewayClass",
        "metadata": { "name": "weir", "labels": { "app.kubernetes.io/part-of": "weir" } },
        "spec": { "controllerName": format!("{ENVOY_API}/gatewayclass-controller") },
    })
}

fn object(options: &Options, ingress: &Ingress, api: &str, kind: &str, spec: Value) -> Value {
    let (namespace, name) = options.envoy_gateway(ingress);
    json!({
        "apiVersion": api, "kind": kind,
        "metadata": {
            "name": name, "namespace": namespace, "labels": { "app.kubernetes.io/part-of": "weir" },
        },
        "spec": spec,
    })
}

fn gateway(options: &Options, ingress: &Ingress) -> Value {
    let (_, name) = options.envoy_gateway(ingress);
    let parameters = json!({ "group": ENVOY_API, "kind": "EnvoyProxy", "name": name });
    let mut listener = json!({
        "name": "http", "port": ingress.port, "protocol": "HTTP",
        "allowedRoutes": { "namespaces": { "from": "All" } },
    });
    if let (Some(secret), Some(listener)) = (&ingress.tls_secret, listener.as_object_mut()) {
        listener.insert("name".to_owned(), json!("https"));
        listener.insert("protocol".to_owned(), json!("HTTPS"));
        let tls = json!({ "mode": "Terminate", "certificateRefs": [{ "name": secret }] });
        listener.insert("tls".to_owned(), tls);
    }
    let spec = json!({
        "gatewayClassName": "weir",
        "infrastructure": { "parametersRef": parameters },
        "listeners": [listener],
    });
    let api = format!("{GATEWAY_API}/v1");
    object(options, ingress, &api, "Gateway", spec)
}

fn proxy(options: &Options, ingress: &Ingress) -> Value {
    let address = json!({ "address": options.planner_host(), "port_value": PLANNER_PORT });
    let mut cluster = json!({
        "name": PLANNER, "type": "STRICT_DNS", "connect_timeout": "1s",
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "load_assignment": { "cluster_name": PLANNER, "endpoints": [{ "lb_endpoints": [
            { "endpoint": { "address": { "socket_address": address } } },
        ] }] },
    });
    let tls = options.planner_tls.as_ref();
    if let (Some(tls), Some(cluster)) = (tls, cluster.as_object_mut()) {
        let name = options.planner_name();
        let socket = transport_socket(tls.name_or(&name));
        cluster.insert("transport_socket".to_owned(), socket);
    }
    let add = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
    let patches = json!([
        add("/static_resources/clusters/-", cluster),
        add("/stats_config", stats_config()),
        add("/stats_flush_interval", json!("0.25s")),
    ]);
    let mut spec = json!({
        "bootstrap": { "type": "JSONPatch", "jsonPatches": patches },
        "shutdown": { "drainTimeout": DRAIN },
    });
    if let (Some(tls), Some(spec)) = (tls, spec.as_object_mut()) {
        let mount = json!({ "name": VOLUME, "mountPath": FOLDER, "readOnly": true });
        let deployment = json!({
            "pod": { "volumes": [{ "name": VOLUME, "secret": tls.ca_volume() }] },
            "container": { "volumeMounts": [mount] },
        });
        let provider =
            json!({ "type": "Kubernetes", "kubernetes": { "envoyDeployment": deployment } });
        spec.insert("provider".to_owned(), provider);
    }
    let api = format!("{ENVOY_API}/v1alpha1");
    object(options, ingress, &api, "EnvoyProxy", spec)
}

fn client(options: &Options, ingress: &Ingress) -> Value {
    let (_, name) = options.envoy_gateway(ingress);
    let spec = json!({
        "targetRefs": [{ "group": GATEWAY_API, "kind": "Gateway", "name": name }],
        "headers": {
            "earlyRequestHeaders": { "remove": ["x-slo-cluster", "x-slo-variant"] },
            "requestID": "PreserveOrGenerate",
        },
        "timeout": { "http": { "requestReceivedTimeout": RECEIVED } },
        "connection": { "bufferLimit": BUFFER_BYTES.to_string() },
        "http2": {
            "initialStreamWindowSize": BUFFER_BYTES.to_string(),
            "initialConnectionWindowSize": (16 * BUFFER_BYTES).to_string(),
            "maxConcurrentStreams": 1024,
        },
    });
    let api = format!("{ENVOY_API}/v1alpha1");
    object(options, ingress, &api, "ClientTrafficPolicy", spec)
}
