//! Types for kinds that no crate covers: Envoy Gateway's, kustomize's, Prometheus Operator's. They contain
//! only the fields that the manifests use; any other field is refused until its type has been looked up.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) fn check(api: &str, kind: &str, body: &Value) -> Result<(), String> {
    match (api, kind) {
        ("gateway.envoyproxy.io/v1alpha1", "EnvoyProxy") => spec::<EnvoyProxy>(body),
        ("gateway.envoyproxy.io/v1alpha1", "EnvoyExtensionPolicy") => spec::<ExtensionPolicy>(body),
        ("gateway.envoyproxy.io/v1alpha1", "ClientTrafficPolicy") => spec::<ClientPolicy>(body),
        ("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy") => spec::<BackendPolicy>(body),
        ("monitoring.coreos.com/v1", "PodMonitor") => spec::<PodMonitor>(body),
        ("monitoring.coreos.com/v1", "PrometheusRule") => spec::<PrometheusRule>(body),
        ("kustomize.config.k8s.io/v1beta1", "Kustomization") => whole::<Kustomization>(body),
        ("kustomize.config.k8s.io/v1alpha1", "Component") => whole::<Kustomization>(body),
        _ => Err("unknown kind".to_owned()),
    }
}

fn whole<T: DeserializeOwned>(body: &Value) -> Result<(), String> {
    let read: Result<T, _> = serde_json::from_value(body.clone());
    read.map(drop).map_err(|error| error.to_string())
}

fn spec<T: DeserializeOwned>(body: &Value) -> Result<(), String> {
    whole::<Object<T>>(body)
}

macro_rules! shape {
    ($name:ident { $($field:ident: $of:ty),* $(,)? }) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        #[allow(dead_code, reason = "reading it is the check")]
        struct $name { $($field: $of),* }
    };
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "reading it is the check")]
struct Object<T> {
    api_version: String,
    kind: String,
    metadata: Value,
    spec: T,
}

shape!(Target {
    group: String,
    kind: String,
    name: String
});

shape!(EnvoyProxy {
    bootstrap: Bootstrap,
    shutdown: Shutdown
});
shape!(Bootstrap { r#type: BootstrapType, json_patches: Vec<JsonPatch> });
shape!(Shutdown {
    drain_timeout: String
});
shape!(JsonPatch {
    op: String,
    path: String,
    value: Value
});

#[derive(Deserialize)]
enum BootstrapType {
    Merge,
    Replace,
    #[serde(rename = "JSONPatch")]
    JsonPatch,
}

shape!(ExtensionPolicy { target_refs: Vec<Target>, wasm: Vec<Wasm> });

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "reading it is the check")]
struct Wasm {
    name: String,
    #[serde(rename = "rootID")]
    root_id: String,
    code: Code,
    config: Value,
    fail_open: bool,
}

shape!(Code {
    r#type: CodeType,
    image: Image,
    pull_policy: String
});
shape!(Image { url: String, sha256: Option<String> });

#[derive(Deserialize)]
enum CodeType {
    Image,
}

shape!(ClientPolicy {
    target_refs: Vec<Target>,
    headers: ClientHeaders,
    timeout: ClientTimeout,
    connection: Connection,
    http2: Http2,
});
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "reading it is the check")]
struct ClientHeaders {
    early_request_headers: EarlyHeaders,
    #[serde(rename = "requestID")]
    request_id: RequestId,
}
shape!(EarlyHeaders { remove: Vec<String> });
shape!(ClientTimeout {
    http: ClientHttpTimeout
});
shape!(ClientHttpTimeout {
    request_received_timeout: String
});
shape!(Connection {
    buffer_limit: String
});
shape!(Http2 {
    initial_stream_window_size: String,
    initial_connection_window_size: String,
    max_concurrent_streams: u32,
});

#[derive(Deserialize)]
enum RequestId {
    PreserveOrGenerate,
}

shape!(BackendPolicy {
    target_refs: Vec<Target>,
    request_buffer: RequestBuffer,
    load_balancer: Balancer,
    circuit_breaker: Breaker,
    health_check: HealthCheck,
    timeout: Timeout,
});
shape!(RequestBuffer { limit: String });
shape!(Balancer { r#type: String });
shape!(Breaker {
    max_connections: u32,
    max_pending_requests: u32,
    max_parallel_requests: u32,
    max_parallel_retries: u32,
});
shape!(HealthCheck { passive: Passive });
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "reading it is the check")]
struct Passive {
    #[serde(rename = "consecutive5XxErrors")]
    consecutive_errors: u32,
    consecutive_gateway_errors: u32,
    interval: String,
    base_ejection_time: String,
    max_ejection_percent: u32,
}
shape!(Timeout {
    tcp: TcpTimeout,
    http: HttpTimeout
});
shape!(TcpTimeout {
    connect_timeout: String
});
shape!(HttpTimeout {
    connection_idle_timeout: String,
    stream_idle_timeout: String
});

shape!(PodMonitor { selector: Value, pod_metrics_endpoints: Vec<Endpoint> });
shape!(Endpoint {
    port: String,
    path: String,
    interval: String
});

shape!(PrometheusRule { groups: Vec<RuleGroup> });
shape!(RuleGroup { name: String, rules: Vec<Rule> });
shape!(Rule {
    alert: Option<String>,
    record: Option<String>,
    expr: String,
    r#for: Option<String>,
    labels: Option<Value>,
    annotations: Option<Value>,
});

shape!(Kustomization {
    api_version: String,
    kind: String,
    resources: Option<Vec<String>>,
    components: Option<Vec<String>>,
    patches: Option<Vec<Patch>>,
    replacements: Option<Vec<Replacement>>,
    config_map_generator: Option<Vec<Generator>>,
});
shape!(Generator {
    name: String,
    namespace: String,
    files: Vec<String>,
    options: GeneratorOptions,
});
shape!(GeneratorOptions {
    disable_name_suffix_hash: bool,
    labels: Value
});
shape!(Patch { patch: String, target: Option<Select> });
shape!(Select { kind: String, name: Option<String>, label_selector: Option<String> });
shape!(Replacement { source: Source, targets: Vec<Copied> });
shape!(Source {
    kind: String,
    name: String,
    namespace: String,
    field_path: String,
    options: Option<Part>,
});
shape!(Part {
    delimiter: String,
    index: usize
});
shape!(Copied { select: Select, field_paths: Vec<String> });
