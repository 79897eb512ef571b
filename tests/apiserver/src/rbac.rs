//! Authorization: Roles and ClusterRoles with their bindings, from the store.
//!
//! `system:masters` has all rights; discovery is open to all authenticated subjects. Aggregated
//! roles are not supported.

use serde_json::Value;

use super::cluster::Cluster;
use super::object::{Key, list, text};
use super::request::{ApiRequest, Subject};
use super::status::Refusal;

const ROLES: &str = "roles.rbac.authorization.k8s.io";
const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const CLUSTER_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";

/// Authorizes a request.
///
/// # Errors
///
/// 403: no rule allows it.
pub(super) fn authorise(cluster: &Cluster, request: &ApiRequest) -> Result<(), Refusal> {
    if request
        .subject
        .groups
        .iter()
        .any(|group| group == "system:masters")
    {
        return Ok(());
    }
    let cluster_bindings = cluster.store.list(CLUSTER_BINDINGS, "", None);
    let mut bindings: Vec<&Value> = cluster_bindings.map(|(_, binding)| &**binding).collect();
    let namespace = &request.key.namespace;
    if !namespace.is_empty() {
        let own = cluster.store.list(BINDINGS, namespace, None);
        bindings.extend(own.map(|(_, binding)| &**binding));
    }
    let allowed = bindings
        .into_iter()
        .filter(|binding| binds(binding, &request.subject))
        .any(|binding| role_allows(cluster, binding, request));
    if allowed {
        Ok(())
    } else {
        Err(refused(request))
    }
}

fn binds(binding: &Value, subject: &Subject) -> bool {
    list(binding, "/subjects").iter().any(|bound| {
        let name = text(bound, "/name");
        match text(bound, "/kind") {
            "User" => name == subject.user,
            "Group" => subject.groups.iter().any(|group| group == name),
            "ServiceAccount" => {
                let own = text(binding, "/metadata/namespace");
                let namespace = match text(bound, "/namespace") {
                    "" => own,
                    namespace => namespace,
                };
                subject.user == format!("system:serviceaccount:{namespace}:{name}")
            }
            _ => false,
        }
    })
}

fn role_allows(cluster: &Cluster, binding: &Value, request: &ApiRequest) -> bool {
    let name = text(binding, "/roleRef/name");
    let (shelf, namespace) = match text(binding, "/roleRef/kind") {
        "Role" => (ROLES, text(binding, "/metadata/namespace")),
        _ => (CLUSTER_ROLES, ""),
    };
    let role = cluster.store.get(shelf, &Key::new(namespace, name));
    role.is_some_and(|role| {
        list(&role, "/rules")
            .iter()
            .any(|rule| rule_allows(rule, request))
    })
}

fn rule_allows(rule: &Value, request: &ApiRequest) -> bool {
    let has = |path: &str, value: &str| {
        let all = list(rule, path).iter().filter_map(Value::as_str);
        all.into_iter().any(|one| one == "*" || one == value)
    };
    let resource = request.resource();
    let any_of_sub = format!("*/{}", request.subresource);
    let resources = has("/resources", &resource)
        || (!request.subresource.is_empty() && has("/resources", &any_of_sub));
    let names = list(rule, "/resourceNames");
    let named = names.is_empty()
        || names
            .iter()
            .any(|name| name.as_str() == Some(&request.key.name));
    has("/verbs", request.verb.name())
        && has("/apiGroups", &request.kind.group)
        && resources
        && named
}

/// Returns the refusal of a request that no rule allows.
pub(super) fn refused(request: &ApiRequest) -> Refusal {
    let kind = &request.kind;
    let place = match request.key.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace \"{namespace}\""),
    };
    let of = match request.key.name.as_str() {
        "" => kind.id.clone(),
        name => format!("{} \"{name}\"", kind.id),
    };
    let message = format!(
        "{of} is forbidden: User \"{}\" cannot {} resource \"{}\" in API group \"{}\" {place}",
        request.subject.user,
        request.verb.name(),
        request.resource(),
        kind.group,
    );
    Refusal::new(403, "Forbidden", message).of(&kind.group, &kind.plural, &request.key.name)
}
