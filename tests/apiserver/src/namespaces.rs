//! The namespace controller: the deletion of a namespace with all its objects.
//!
//! As a real one (Kubernetes 1.36): the namespace becomes `Terminating` and takes no new objects. Rights go first: a
//! RoleBinding is deleted before a resource that has a finalizer. So whoever is to remove the finalizer by rights of that
//! namespace gets 403, and the namespace stays, with a condition that counts the resources. It goes once it is empty.
//! Simplified: it is emptied at once, and goes as soon as its last object does, without the real one's pauses.

use std::sync::Arc;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::kinds::Kind;
use super::object::{Key, set, text};
use super::request::ApiRequest;
use super::status::{Cause, Refusal};

/// Kind id of namespaces.
pub(super) const NAMESPACES: &str = "namespaces";
/// Group whose objects are deleted first.
const RIGHTS: &str = "rbac.authorization.k8s.io";

/// Begins the deletion of a namespace. Returns it in its new state if it still exists.
pub(super) fn delete(cluster: &mut Cluster, name: &str) -> Option<Arc<Value>> {
    let key = Key::new("", name);
    let now = cluster.clock.now();
    cluster.amend(NAMESPACES, &key, |namespace| {
        if !is_terminating(namespace) {
            set(namespace, "/metadata/deletionTimestamp", json!(now));
            set(namespace, "/status/phase", json!("Terminating"));
            // Held by the controller until it is empty.
            set(namespace, "/metadata/finalizers", json!(["kubernetes"]));
        }
    });
    let mut kinds: Vec<Arc<Kind>> = namespaced(cluster);
    kinds.sort_by_key(|kind| kind.group != RIGHTS);
    for kind in kinds {
        for key in keys(cluster, &kind, name) {
            cluster.delete(&kind, &key, None, "Background");
        }
    }
    finish(cluster, name);
    cluster.store.get(NAMESPACES, &key)
}

/// Removes a namespace that is being deleted once it is empty; otherwise its status says what remains.
pub(super) fn finish(cluster: &mut Cluster, name: &str) {
    let key = Key::new("", name);
    let Some(namespace) = cluster.store.get(NAMESPACES, &key) else {
        return;
    };
    if !is_terminating(&namespace) {
        return;
    }
    let mut remaining = Vec::new();
    for kind in namespaced(cluster) {
        let count = keys(cluster, &kind, name).len();
        if count > 0 {
            remaining.push(format!("{} has {count} resource instances", kind.id));
        }
    }
    if remaining.is_empty() {
        if let Some(kind) = cluster.kinds.by_id(NAMESPACES) {
            cluster.remove_now(&kind, &key);
        }
        return;
    }
    let now = cluster.clock.now();
    let message = format!("Some resources are remaining: {}", remaining.join(", "));
    let condition = json!({"type": "NamespaceContentRemaining", "status": "True",
        "reason": "SomeResourcesRemain", "message": message, "lastTransitionTime": now});
    cluster.amend(NAMESPACES, &key, |namespace| {
        if text(namespace, "/status/conditions/0/message") != message {
            set(namespace, "/status/conditions", json!([condition]));
        }
    });
}

/// Refuses a new object in a namespace that is being deleted.
///
/// # Errors
///
/// 403, with cause `NamespaceTerminating`.
pub(super) fn check_new(cluster: &Cluster, request: &ApiRequest, key: &Key) -> Result<(), Refusal> {
    let namespace = cluster.store.get(NAMESPACES, &Key::new("", &key.namespace));
    if !namespace.is_some_and(|namespace| is_terminating(&namespace)) {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {} because it is being terminated",
        key.namespace
    );
    let cause = Cause::new("NamespaceTerminating", "", "");
    Err(Refusal::forbidden(&request.kind, &key.name, &why).with(vec![cause]))
}

fn is_terminating(namespace: &Value) -> bool {
    !text(namespace, "/metadata/deletionTimestamp").is_empty()
}

/// Kinds with objects in namespaces; two that show the same objects count once.
fn namespaced(cluster: &Cluster) -> Vec<Arc<Kind>> {
    let all = cluster.kinds.all();
    all.filter(|kind| kind.namespaced && (kind.shelf == kind.id))
        .cloned()
        .collect()
}

fn keys(cluster: &Cluster, kind: &Kind, namespace: &str) -> Vec<Key> {
    let all = cluster.store.list(&kind.shelf, namespace, None);
    all.map(|(key, _)| key.clone()).collect()
}
