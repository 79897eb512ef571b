//! Rights of the planner, and network policies.
//!
//! Two ClusterRoles are bound only in the model servers' namespace: one reads, one writes. Without the
//! second the planner can only advise; the overlay `advisory` removes it.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde_json::{Value, json};

use super::super::istio::INGRESS_NAMESPACE;
use super::super::options::{PLANNER, PLANNER_PORT};
use super::super::typed::typed;
use super::{Document, Frame, ManifestError, selector};

/// ClusterRole with write access.
pub(super) const WRITE_ROLE: &str = "weir-planner-acts";
/// ClusterRole with read access.
const READ_ROLE: &str = "weir-planner";
const LEADS: &str = "weir-planner-leads";
const NODES: &str = "weir-planner-nodes";
const RBAC: &str = "rbac.authorization.k8s.io";
/// Statistics ports of proxies: Istio's and Envoy Gateway's.
const STATS_PORTS: [u16; 2] = [15090, 19001];

const READS_WHY: &str = "What it reads, and what it writes about itself: events, and the status of its own resources. Bound in the \
    namespace of the model servers; bind it (and weir-planner-acts) in each further one. The autoscalers are read so \
    that it never works against one, the budgets so that it never takes more pods away than they allow.";
const ACTS_WHY: &str = "What it changes: resources of pods in place, and numbers of replicas; never a pod template, never a deletion. \
    With `resize.fallback: replace` it also evicts (`create` of `pods/eviction`). The overlay advisory leaves this out.";
const LEADS_WHY: &str = "Which replica plans.";
const NODES_WHY: &str = "Optional: how much room nodes have. Without it a resize that does not fit is learnt of from the kubelet.";
const NETWORK_WHY: &str = "Polls and REST from where proxies are, and from the planner that does not lead; the key is asked for as well. Out: names, the API server (any \
    address: it has many), the proxies' statistics, istiod where there is a sidecar, and the planner that leads.";

pub(super) fn account(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let body = frame.object("v1", "ServiceAccount", PLANNER, json!({}));
    Ok(vec![Document::new("", typed::<ServiceAccount>(body)?)])
}

pub(super) fn rbac(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let api = format!("{RBAC}/v1");
    let rules = |rules: Value| json!({ "rules": rules });
    let cluster_role = |name, list| frame.object_in("", &api, "ClusterRole", name, rules(list));
    let bound = |kind: &str, name: &str| {
        json!({
            "roleRef": { "apiGroup": RBAC, "kind": kind, "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": PLANNER, "namespace": frame.options.namespace }],
        })
    };
    let in_models = |name: &str| {
        let rest = bound("ClusterRole", name);
        let body = frame.object_in(frame.models, &api, "RoleBinding", name, rest);
        typed::<RoleBinding>(body)
    };
    let own = |kind, rest| frame.object(&api, kind, LEADS, rest);
    let nodes = frame.object_in(
        "",
        &api,
        "ClusterRoleBinding",
        NODES,
        bound("ClusterRole", NODES),
    );
    Ok(vec![
        Document::new(
            READS_WHY,
            typed::<ClusterRole>(cluster_role(READ_ROLE, read_role()))?,
        ),
        Document::new("", in_models(READ_ROLE)?),
        Document::new(
            ACTS_WHY,
            typed::<ClusterRole>(cluster_role(WRITE_ROLE, write_role(frame.replaces)))?,
        ),
        Document::new("", in_models(WRITE_ROLE)?),
        Document::new(LEADS_WHY, typed::<Role>(own("Role", rules(leader_role())))?),
        Document::new(
            "",
            typed::<RoleBinding>(own("RoleBinding", bound("Role", LEADS)))?,
        ),
        Document::new(
            NODES_WHY,
            typed::<ClusterRole>(cluster_role(NODES, read(&[("", &["nodes"])])))?,
        ),
        Document::new("", typed::<ClusterRoleBinding>(nodes)?),
    ])
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

fn read(all: &[(&str, &[&str])]) -> Value {
    let each = all.iter();
    each.map(|(group, resources)| rule(group, resources, &["get", "list", "watch"]))
        .collect()
}

fn read_role() -> Value {
    json!([
        rule("", &["pods"], &["get", "list", "watch"]),
        rule("", &["configmaps"], &["get"]),
        rule(
            "apps",
            &["deployments", "statefulsets"],
            &["get", "list", "watch"]
        ),
        rule(
            "apps",
            &["deployments/scale", "statefulsets/scale"],
            &["get"]
        ),
        rule("policy", &["poddisruptionbudgets"], &["list", "watch"]),
        rule(
            "autoscaling",
            &["horizontalpodautoscalers"],
            &["list", "watch"]
        ),
        rule(
            "autoscaling.k8s.io",
            &["verticalpodautoscalers"],
            &["list", "watch"]
        ),
        rule("weir.dev", &["sloservices"], &["get", "list", "watch"]),
        rule("weir.dev", &["sloservices/status"], &["patch"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ])
}

fn write_role(replaces: bool) -> Value {
    let scale = &["deployments/scale", "statefulsets/scale"];
    let mut rules = vec![
        rule("", &["pods/resize"], &["patch"]),
        rule("apps", scale, &["patch"]),
    ];
    if replaces {
        rules.push(rule("", &["pods/eviction"], &["create"]));
    }
    rules.into()
}

fn leader_role() -> Value {
    json!([rule(
        "coordination.k8s.io",
        &["leases"],
        &["get", "create", "update", "patch"]
    )])
}

pub(super) fn network(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let tcp = |port: u16| json!({ "port": port, "protocol": "TCP" });
    let of = |name: &str| json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } } });
    let names = json!([tcp(53), { "port": 53, "protocol": "UDP" }]);
    let servers = json!([tcp(443), tcp(6443)]);
    let stats = STATS_PORTS.map(tcp);
    let planners = json!({ "podSelector": { "matchLabels": selector() } });
    let rest = json!({ "spec": {
        "podSelector": { "matchLabels": selector() },
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{
            "from": [of(INGRESS_NAMESPACE), of(frame.models), of("envoy-gateway-system"), planners],
            "ports": [tcp(PLANNER_PORT)],
        }],
        "egress": [
            { "to": [of("kube-system")], "ports": names },
            { "ports": servers },
            { "to": [{ "namespaceSelector": {} }], "ports": stats },
            { "to": [of(INGRESS_NAMESPACE)], "ports": [tcp(15012)] },
            { "to": [planners], "ports": [tcp(PLANNER_PORT)] },
        ],
    } });
    let body = frame.object("networking.k8s.io/v1", "NetworkPolicy", PLANNER, rest);
    Ok(vec![Document::new(
        NETWORK_WHY,
        typed::<NetworkPolicy>(body)?,
    )])
}
