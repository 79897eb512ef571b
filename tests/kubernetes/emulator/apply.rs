//! Tests of server-side apply: ownership of fields, conflicts, and removal.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::bed::{DEMO, admin, refusal, start};

fn data(fields: Value) -> Patch<Value> {
    Patch::Apply(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": fields}),
    )
}

fn of(object: &ConfigMap) -> Value {
    json!(object.data.clone().unwrap_or_default())
}

#[tokio::test]
async fn managers_share_conflict_and_remove_fields() {
    let server = start(|_| {}).await;
    let api: Api<ConfigMap> = Api::namespaced(admin(&server).await, DEMO);
    let one = PatchParams::apply("one");
    let two = PatchParams::apply("two");
    let made = api
        .patch("a", &one, &data(json!({"x": "1", "y": "1"})))
        .await
        .unwrap();
    assert_eq!(of(&made), json!({"x": "1", "y": "1"}));
    let managed = made.metadata.managed_fields.unwrap();
    assert_eq!(
        (
            managed[0].manager.as_deref(),
            managed[0].operation.as_deref()
        ),
        (Some("one"), Some("Apply"))
    );
    let fields = json!(managed[0].fields_v1.as_ref().unwrap().0);
    assert_eq!(fields, json!({"f:data": {"f:x": {}, "f:y": {}}}));

    // Applying the same again writes nothing; the same value from another manager is shared.
    let version = server.store().version();
    api.patch("a", &one, &data(json!({"x": "1", "y": "1"})))
        .await
        .unwrap();
    assert_eq!(server.store().version(), version);
    api.patch("a", &two, &data(json!({"x": "1", "z": "2"})))
        .await
        .unwrap();

    // A different value of another manager's field is a conflict, unless forced.
    let conflict = refusal(
        api.patch("a", &two, &data(json!({"y": "2", "z": "2"})))
            .await,
    );
    assert_eq!((conflict.code, conflict.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        conflict.message,
        "Apply failed with 1 conflict: conflict with \"one\": .data.y"
    );
    let causes = conflict.details.unwrap().causes;
    assert_eq!(
        (causes[0].reason.as_str(), causes[0].field.as_str()),
        ("FieldManagerConflict", ".data.y")
    );
    let forced = api
        .patch(
            "a",
            &PatchParams::apply("two").force(),
            &data(json!({"y": "2", "z": "2"})),
        )
        .await
        .unwrap();
    // The first manager still owns `x`, which the second one no longer names.
    assert_eq!(of(&forced), json!({"x": "1", "y": "2", "z": "2"}));

    // A field that no manager names is removed; a field taken over stays.
    let left = api.patch("a", &one, &data(json!({}))).await.unwrap();
    assert_eq!(of(&left), json!({"y": "2", "z": "2"}));
}

#[tokio::test]
async fn fields_written_without_apply_are_owned_too() {
    let server = start(|options| options.workloads = false).await;
    let api: Api<Deployment> = Api::namespaced(admin(&server).await, DEMO);
    let whole = |replicas: Option<u32>, image: &str| {
        let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": image}]}}});
        if let Some(replicas) = replicas {
            spec["replicas"] = json!(replicas);
        }
        Patch::Apply(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}),
        )
    };
    api.patch("web", &PatchParams::apply("git"), &whole(Some(2), "a:1"))
        .await
        .unwrap();
    // A manual scale takes ownership of the field, and applying the old value is a conflict.
    let by_hand = PatchParams {
        field_manager: Some("hand".to_owned()),
        ..PatchParams::default()
    };
    api.patch_scale(
        "web",
        &by_hand,
        &Patch::Merge(json!({"spec": {"replicas": 7}})),
    )
    .await
    .unwrap();
    let conflict = refusal(
        api.patch("web", &PatchParams::apply("git"), &whole(Some(2), "a:1"))
            .await,
    );
    assert_eq!(conflict.code, 409);
    assert_eq!(conflict.details.unwrap().causes[0].field, ".spec.replicas");
    // Without naming the field, the manual value stays, and list items are merged by name.
    let kept = api
        .patch("web", &PatchParams::apply("git"), &whole(None, "a:2"))
        .await
        .unwrap();
    let spec = kept.spec.unwrap();
    assert_eq!(spec.replicas, Some(7));
    assert_eq!(
        spec.template.spec.unwrap().containers[0].image.as_deref(),
        Some("a:2")
    );
    let sidecar = Patch::Apply(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [{"name": "proxy", "image": "p:1"}]}}}}),
    );
    let both = api
        .patch("web", &PatchParams::apply("mesh"), &sidecar)
        .await
        .unwrap();
    let names = |d: Deployment| -> Vec<String> {
        d.spec
            .unwrap()
            .template
            .spec
            .unwrap()
            .containers
            .into_iter()
            .map(|c| c.name)
            .collect()
    };
    assert_eq!(names(both), ["app", "proxy"]);
    let without = Patch::Apply(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}),
    );
    let applied = api
        .patch("web", &PatchParams::apply("mesh"), &without)
        .await
        .unwrap();
    assert_eq!(names(applied), ["app"]);
}
