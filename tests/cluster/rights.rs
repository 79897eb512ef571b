//! The planner's rights: those of `k8s/base/rbac.yaml`, rule by rule, as Roles of the story's namespace, so that
//! nothing of the cluster's is touched. And a story: without those that change anything it says so.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::definition::MANAGER;
use super::ground::{LIMIT, until_within};
use super::place::everywhere;
use super::stage::{Stage, manifest};

/// The planner's account.
pub(crate) const PLANNER: &str = "weir-planner";
/// The role of what changes anything.
const ACTS: &str = "weir-planner-acts";

/// The planner's roles, bound to its account. Those to read the nodes are for the whole cluster, optional, and not
/// among them.
pub(crate) async fn grant(client: &kube::Client, namespace: &str) {
    let mut all: Vec<Value> = manifest("k8s/base/rbac.yaml");
    all.retain(|one| one["metadata"]["name"] != "weir-planner-nodes");
    // What a binding names is there before it, and who can read can do everything: see `until_in_force`.
    let reads = |one: &Value| one["kind"] == "RoleBinding" && one["metadata"]["name"] == PLANNER;
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

/// Waits until the authoriser has seen the roles: it watches them, as everybody does.
pub(crate) async fn until_in_force(planner: &kube::Client, namespace: &str) {
    let pods: Api<Pod> = Api::namespaced(planner.clone(), namespace);
    let may = async || pods.list(&ListParams::default()).await.is_ok();
    assert!(until_within(LIMIT, may).await, "the planner may not read");
}

#[tokio::test]
async fn without_the_right_to_change_anything_it_says_so() {
    everywhere(story).await;
}

async fn story(stage: &Stage<'_>) {
    for name in ["small", "large"] {
        stage.deploy_cores(name, 1, 1).await;
    }
    let bindings: Api<RoleBinding> = stage.api();
    let params = DeleteParams::default();
    bindings.delete(ACTS, &params).await.unwrap();
    // Asked for nothing, and refused it, once the authoriser has seen that.
    let own: Api<Pod> = Api::namespaced(stage.client(), &stage.ground.namespace);
    let pod = stage.pods("small").await.remove(0).metadata.name.unwrap();
    let nothing = Patch::Strategic(json!({}));
    let params = PatchParams::default().dry_run();
    let refused = async || {
        let asked = own.patch_resize(&pod, &params, &nothing).await;
        matches!(asked, Err(kube::Error::Api(status)) if status.code == 403)
    };
    assert!(until_within(LIMIT, refused).await, "it may still resize");

    let (planner, asked) = stage.planner("weir-a").await;
    stage.proxy.load(30.0);
    let mut demo = stage.demo();
    demo["spec"].as_object_mut().unwrap().remove("mode");
    stage.apply(&demo).await.unwrap();
    let said = stage
        .until_condition("demo", "Actuated", "False Advisory")
        .await;
    assert!(said.contains("cores would be: large"), "{said}");
    assert_eq!(asked.forbidden(), []);

    // Made active, without the right: said, and nothing breaks.
    demo["spec"]["mode"] = json!("active");
    stage.apply(&demo).await.unwrap();
    let said = stage
        .until_condition("demo", "Degraded", "True Forbidden")
        .await;
    assert!(said.contains("not allowed to patch pods/resize"), "{said}");
    assert_eq!(stage.cores(&["small", "large"]).await, [1.0, 1.0]);
    assert!(planner.plan().await.is_ok());
    assert_eq!(asked.resizes(), []);
    stage.until_event("demo", "Forbidden").await;
    planner.end().await.unwrap();
}
