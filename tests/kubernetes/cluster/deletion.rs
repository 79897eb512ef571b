//! Deletion of a test's namespace. On a cluster without a namespace controller,
//! this program empties the namespace and finalizes it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};

/// Time that a namespace controller gets to start.
pub(crate) const NOTICED: Duration = Duration::from_secs(10);

/// Kinds of the tests' objects, owners before the objects they own.
const KINDS: [(&str, &str, &str); 9] = [
    ("weir.dev", "v1alpha1", "SloService"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "ReplicaSet"),
    ("", "v1", "Pod"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("events.k8s.io", "v1", "Event"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("", "v1", "ServiceAccount"),
];

/// Deletes a namespace as its controller would, unless a controller has started to.
pub(crate) async fn finalize_unless_controlled(client: &kube::Client, namespace: &str) {
    let api: Api<Namespace> = Api::all(client.clone());
    let Some(mut ending) = api.get_opt(namespace).await.unwrap() else {
        return;
    };
    let status = ending.status.take().unwrap_or_default();
    if status.conditions.is_some_and(|all| !all.is_empty()) {
        return;
    }
    eprintln!("namespaces: no controller ends them, this program empties and ends {namespace}");
    for (group, version, kind) in KINDS {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let of: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
        let at_once = DeleteParams::default().grace_period(0);
        let emptied = of.delete_collection(&at_once, &ListParams::default()).await;
        if let Err(error) = emptied {
            eprintln!("{} of {namespace}: {error}", kind.plural);
        }
    }
    if let Some(spec) = ending.spec.as_mut() {
        spec.finalizers = None;
    }
    let params = PostParams::default();
    let ended = api.replace_subresource("finalize", namespace, &params, &ending);
    if let Err(error) = ended.await {
        eprintln!("namespace {namespace}: {error}");
    }
}
