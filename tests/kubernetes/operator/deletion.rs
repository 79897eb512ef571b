//! Deletion of a resource and of its namespace.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams};
use serde_json::json;
use weir_apiserver::{ADMIN, Key};
use weir_bed::wait;

use super::bed::{Cluster, MODELS};

/// Longest deletion of a namespace with a resource.
const DELETED_MAX: Duration = Duration::from_secs(10);

/// On a real cluster the planner's RoleBinding goes before resources with finalizers: a finalizer of the planner would
/// hold the namespace for ever.
#[tokio::test]
async fn namespace_with_a_resource_is_deleted_within_ten_seconds() {
    let cluster = Cluster::start_with_both().await;
    cluster.server.store().create(&cluster.demo()).unwrap();
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(20.0);
    cluster.until_condition("demo", "Actuated", "True").await;
    assert!(planner.plan().await.is_ok());

    let admin = cluster.server.client(ADMIN).await.unwrap();
    let api: Api<Namespace> = Api::all(admin);
    api.delete(MODELS, &DeleteParams::default()).await.unwrap();
    let key = Key::new("", MODELS);
    let deleted = || cluster.server.store().get("namespaces", &key).is_none();
    let waited = wait::until("the namespace's end", DELETED_MAX, deleted).await;
    let namespace = cluster.server.store().get("namespaces", &key);
    assert!(waited.is_ok(), "{namespace:?}\n{}", cluster.refusals());
    let ended = async || planner.plan().await == Err(404);
    wait::until_async("the end of the plan", DELETED_MAX, ended)
        .await
        .unwrap();
    planner.end().await.unwrap();
}

#[tokio::test]
async fn deleted_resource_frees_its_workloads_despite_a_finalizer_of_another_program() {
    let cluster = Cluster::start_with_both().await;
    let mut held = cluster.demo();
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    cluster.server.store().create(&held).unwrap();
    let planner = cluster.planner("weir-a").await;
    cluster.until_condition("demo", "Accepted", "True").await;
    let mut next = cluster.demo();
    next["metadata"]["name"] = json!("next");
    cluster.server.store().create(&next).unwrap();
    cluster
        .until_condition("next", "Accepted", "False Taken")
        .await;
    let admin = cluster.server.client(ADMIN).await.unwrap();
    let api = Api::<weir_planner::spec::resource::SloService>::namespaced(admin, MODELS);
    api.delete("demo", &DeleteParams::default()).await.unwrap();
    cluster
        .until_condition("next", "Accepted", "True Valid")
        .await;
    planner.end().await.unwrap();
}
