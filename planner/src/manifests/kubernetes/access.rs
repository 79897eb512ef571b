//! Rights of the planner, and its network policy.
//!
//! ClusterRoles read, write and evict; each service binds them in the namespace of its model servers alone.
//! Without the second the planner can only advise.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde_json::{Value, json};

use super::super::options::{PLANNER, PLANNER_PORT};
use super::super::typed::typed;
use super::super::{calls, network};
use super::parts::Part;
use super::{Document, Frame, ManifestError, selector};

/// ClusterRole with write access.
pub(super) const WRITE_ROLE: &str = "weir-planner-acts";
/// ClusterRole with read access.
pub(super) const READ_ROLE: &str = "weir-planner";
/// ClusterRole for evictions.
pub(super) const EVICT_ROLE: &str = "weir-planner-evicts";
const LEADS: &str = "weir-planner-leads";
const NODES: &str = "weir-planner-nodes";
const RBAC: &str = "rbac.authorization.k8s.io";

const READS_WHY: &str = "What it reads, and what it writes about itself: events, and the status of its own resources. Each service \
    binds it (and weir-planner-acts) in the namespace of its model servers (k8s/services, k8s/acts). The autoscalers are read so \
    that it never works against one, the budgets so that it never takes more pods away than they allow. ConfigMaps are read by name alone: \
    the profiles that resources of the same namespace refer to.";
const ACTS_WHY: &str = "What it changes: resources of pods in place, and numbers of replicas; never a pod template, never a deletion.";
const EVICTS_WHY: &str = "Bound for services with `resize.fallback: replace` alone.";
const LEADS_WHY: &str =
    "Which replica plans: one Lease. A right to create cannot name what is created.";
const NODES_WHY: &str = "Optional: how much room nodes have. Without it a resize that does not fit is learnt of from the kubelet.";
const NETWORK_WHY: &str = "Polls, REST and forwarded polls come from the planner that does not lead; the key is asked for as well. Out: names (any \
    address: resolvers are in other namespaces, or on the node), the API server (any address: it has many), and the planner that leads. \
    k8s/services and the mesh's folders add policies of their own for what each service needs.";

pub(super) fn account(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let body = frame.object("v1", "ServiceAccount", PLANNER, json!({}));
    Ok(vec![Document::new("", typed::<ServiceAccount>(body)?)])
}

pub(super) fn rbac(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let api = format!("{RBAC}/v1");
    let cluster_role = |name, list: Value| {
        let rest = json!({ "rules": list });
        typed::<ClusterRole>(frame.object_in("", &api, "ClusterRole", name, rest))
    };
    let own = |kind, rest| frame.object(&api, kind, LEADS, rest);
    let nodes = bound(frame, "ClusterRole", NODES);
    let nodes = frame.object_in("", &api, "ClusterRoleBinding", NODES, nodes);
    let leads = own("Role", json!({ "rules": leader_role() }));
    let leader = own("RoleBinding", bound(frame, "Role", LEADS));
    let evicts = json!([rule("", &["pods/eviction"], &["create"])]);
    let nodes_read = read(&[("", &["nodes"])]);
    Ok(vec![
        Document::new(READS_WHY, cluster_role(READ_ROLE, read_role())?),
        Document::new(ACTS_WHY, cluster_role(WRITE_ROLE, write_role())?),
        Document::new(EVICTS_WHY, cluster_role(EVICT_ROLE, evicts)?),
        Document::new(LEADS_WHY, typed::<Role>(leads)?),
        Document::new("", typed::<RoleBinding>(leader)?),
        Document::new(NODES_WHY, cluster_role(NODES, nodes_read)?),
        Document::new("", typed::<ClusterRoleBinding>(nodes)?),
    ])
}

/// Returns the binding of a ClusterRole in the namespace of a service's model servers.
pub(super) fn binding(frame: &Frame, part: &Part, role: &str) -> Result<Value, ManifestError> {
    let api = format!("{RBAC}/v1");
    let name = format!("{role}.{}", part.service.name);
    let rest = bound(frame, "ClusterRole", role);
    let body = frame.object_in(part.models, &api, "RoleBinding", &name, rest);
    typed::<RoleBinding>(body)
}

fn bound(frame: &Frame, kind: &str, name: &str) -> Value {
    json!({
        "roleRef": { "apiGroup": RBAC, "kind": kind, "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": PLANNER, "namespace": frame.options.namespace }],
    })
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

fn write_role() -> Value {
    let scale = &["deployments/scale", "statefulsets/scale"];
    json!([
        rule("", &["pods/resize"], &["patch"]),
        rule("apps", scale, &["patch"]),
    ])
}

fn leader_role() -> Value {
    let group = "coordination.k8s.io";
    let mut lease = rule(group, &["leases"], &["get", "update", "patch"]);
    if let Some(lease) = lease.as_object_mut() {
        let name = crate::operator::leader::LEASE;
        lease.insert("resourceNames".to_owned(), json!([name]));
    }
    json!([lease, rule(group, &["leases"], &["create"])])
}

pub(super) fn network(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let planners = json!({ "podSelector": { "matchLabels": selector() } });
    let rest = json!({ "spec": {
        "podSelector": { "matchLabels": selector() },
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{ "from": [planners], "ports": [network::tcp(PLANNER_PORT)] }],
        "egress": network::egress(&calls::of_planner(frame.options)),
    } });
    let body = frame.object("networking.k8s.io/v1", "NetworkPolicy", PLANNER, rest);
    Ok(vec![Document::new(
        NETWORK_WHY,
        typed::<NetworkPolicy>(body)?,
    )])
}
