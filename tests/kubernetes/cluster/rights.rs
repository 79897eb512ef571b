//! The planner's rights: the rules of `k8s/base/rbac.yaml` and their bindings, as Roles of the test's namespace, so that nothing
//! cluster-wide changes. Also the test of a planner without the rights to write.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::clusters::on_each_cluster;
use super::definition::MANAGER;
use super::fixture::{Fixture, manifest};
use super::sandbox::{LIMIT, until_within};

/// Name of the planner's service account.
pub(crate) const PLANNER: &str = "weir-planner";
/// Name of the binding of all rights to write.
const ACTS: &str = "weir-planner-acts.resnet";

/// Creates the planner's roles and binds them to its account. The optional, cluster-wide right to read nodes
/// is left out.
pub(crate) async fn grant(client: &kube::Client, namespace: &str) {
    let mut all: Vec<Value> = manifest("k8s/base/rbac.yaml");
    for bindings in ["k8s/services/resnet/rights.yaml", "k8s/acts/resnet.yaml"] {
        all.extend(manifest(bindings));
    }
    all.retain(|one| one["metadata"]["name"] != "weir-planner-nodes");
    // Roles come before their bindings. The binding that allows reading comes last: once it is effective, all
    // of them are (see `until_in_force`).
    let reads = |one: &Value| one["kind"] == "RoleBinding" && one["roleRef"]["name"] == PLANNER;
    all.sort_by_key(|one| (one["kind"] == "RoleBinding", reads(one)));
    for mut one in all {
        let kind = match one["kind"].as_str().unwrap() {
            "RoleBinding" => {
                one["roleRef"]["kind"] = json!("Role");
                for subject in one["subjects"].as_array_mut().unwrap() {
                    subject["namespace"] = json!(namespace);
                }
                ApiResource::erase::<RoleBinding>(&())
            }
            _ => {
                one["kind"] = json!("Role");
                ApiResource::erase::<k8s_openapi::api::rbac::v1::Role>(&())
            }
        };
        one["metadata"]["namespace"] = json!(namespace);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
        let (name, params) = (
            one["metadata"]["name"].as_str().unwrap(),
            PatchParams::apply(MANAGER),
        );
        api.patch(name, &params, &Patch::Apply(&one)).await.unwrap();
    }
}

/// Waits until the authorizer has the roles; it watches them like any other client.
pub(crate) async fn until_in_force(planner: &kube::Client, namespace: &str) {
    let pods: Api<Pod> = Api::namespaced(planner.clone(), namespace);
    let may = async || pods.list(&ListParams::default()).await.is_ok();
    assert!(until_within(LIMIT, may).await, "the planner may not read");
}

#[tokio::test]
async fn planner_without_write_rights_reports_forbidden() {
    on_each_cluster(scenario).await;
}

async fn scenario(fixture: &Fixture<'_>) {
    for name in ["small", "large"] {
        fixture.deploy_cores(name, 1, 1).await;
    }
    let bindings: Api<RoleBinding> = fixture.api();
    let params = DeleteParams::default();
    bindings.delete(ACTS, &params).await.unwrap();
    // An empty dry-run patch, refused once the authorizer has seen the deletion.
    let own: Api<Pod> = Api::namespaced(fixture.client(), &fixture.sandbox.namespace);
    let pod = fixture.pods("small").await.remove(0).metadata.name.unwrap();
    let nothing = Patch::Strategic(json!({}));
    let params = PatchParams::default().dry_run();
    let refused = async || {
        let answer = own.patch_resize(&pod, &params, &nothing).await;
        matches!(answer, Err(kube::Error::Api(status)) if status.code == 403)
    };
    assert!(until_within(LIMIT, refused).await, "it may still resize");

    let (planner, requests) = fixture.planner("weir-a").await;
    fixture.proxy.load(30.0);
    let mut demo = fixture.demo();
    demo["spec"].as_object_mut().unwrap().remove("mode");
    fixture.apply(&demo).await.unwrap();
    let message = fixture
        .until_condition("demo", "Actuated", "False Advisory")
        .await;
    assert!(message.contains("cores would be: large"), "{message}");
    assert_eq!(requests.forbidden(), []);

    // In active mode without the right: the planner reports it and keeps running.
    demo["spec"]["mode"] = json!("active");
    fixture.apply(&demo).await.unwrap();
    let message = fixture
        .until_condition("demo", "Degraded", "True Forbidden")
        .await;
    assert!(
        message.contains("not allowed to patch pods/resize"),
        "{message}"
    );
    assert_eq!(fixture.cores(&["small", "large"]).await, [1.0, 1.0]);
    assert!(planner.plan().await.is_ok());
    assert_eq!(requests.resizes(), []);
    fixture.until_event("demo", "Forbidden").await;
    planner.end().await.unwrap();
}
