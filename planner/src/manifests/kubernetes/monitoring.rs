//! Resources for Prometheus Operator and Grafana: what scrapes the planner, the rules, the dashboard. The rules are also a
//! plain file, for a Prometheus without the operator.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

use super::super::options::{PLANNER, PLANNER_PORT};
use super::super::planner_tls;
use super::super::typed::typed;
use super::{Document, File, Frame, ManifestError, dashboard, kustomization, rules, selector};

/// File of the dashboard.
const DASHBOARD: &str = "dashboard.json";

const MONITORING: &str = "For Prometheus Operator, and Grafana's sidecar for dashboards: add `components: [../../monitoring]` to an \
    overlay. Not in the base, because its kinds are not in every cluster.";
const MONITORS: &str = "The planner's own metrics; the filters' are in the proxies' (15090), which Istio's own monitors read.";
const PROMETHEUS: &str = "Prometheus may ask; change the namespace to yours.";
const RESOURCE: &str = "The rules of rules.yaml, for Prometheus Operator. The target of each service is its onTimeTarget.";
const RULES: &str = "Rules for a Prometheus without the operator: name the file in `rule_files`. The target of each \
    service is its onTimeTarget.";

pub(super) fn files(frame: &Frame) -> Result<Vec<File>, ManifestError> {
    let options = frame.options;
    let mut endpoint =
        json!({ "port": options.planner_port(), "path": "/metrics", "interval": "15s" });
    if let (Some(tls), Some(endpoint)) = (&options.planner_tls, endpoint.as_object_mut()) {
        let ca = json!({ "secret": { "name": tls.secret, "key": planner_tls::CA } });
        let name = options.planner_name();
        let config = json!({ "ca": ca, "serverName": tls.name_or(&name) });
        endpoint.insert("scheme".to_owned(), json!("https"));
        endpoint.insert("tlsConfig".to_owned(), config);
    }
    let monitor = json!({ "spec": {
        "selector": { "matchLabels": selector() },
        "podMetricsEndpoints": [endpoint],
    } });
    let monitor = frame.object("monitoring.coreos.com/v1", "PodMonitor", PLANNER, monitor);
    let of = json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "monitoring" } } });
    let policy = json!({ "spec": {
        "podSelector": { "matchLabels": selector() },
        "policyTypes": ["Ingress"],
        "ingress": [{ "from": [of], "ports": [{ "port": PLANNER_PORT, "protocol": "TCP" }] }],
    } });
    let api = "networking.k8s.io/v1";
    let policy = frame.object(api, "NetworkPolicy", "weir-planner-metrics", policy);
    let documents = vec![
        Document::new(MONITORS, monitor),
        Document::new(PROMETHEUS, typed::<NetworkPolicy>(policy)?),
    ];
    let spec = json!({ "spec": { "groups": rules::groups() } });
    let resource = frame.object("monitoring.coreos.com/v1", "PrometheusRule", "weir", spec);
    let mut generator = json!({
        "name": "weir-dashboard", "files": [DASHBOARD],
        "options": { "disableNameSuffixHash": true, "labels": { "grafana_dashboard": "1" } },
    });
    if let (Some(generator), false) = (generator.as_object_mut(), options.namespace.is_empty()) {
        generator.insert("namespace".to_owned(), json!(options.namespace));
    }
    let list = json!({
        "resources": ["podmonitor.yaml", "prometheusrule.yaml"], "configMapGenerator": [generator],
    });
    let shared = |name: &str, why: &str, body: Value| {
        File::shared(
            format!("k8s/monitoring/{name}"),
            vec![Document::new(why, body)],
        )
    };
    Ok(vec![
        File::shared("k8s/monitoring/podmonitor.yaml", documents),
        shared("prometheusrule.yaml", RESOURCE, resource),
        shared("rules.yaml", RULES, json!({ "groups": rules::groups() })),
        shared(DASHBOARD, "", dashboard::dashboard()),
        kustomization("k8s/monitoring", MONITORING, "Component", list),
    ])
}
