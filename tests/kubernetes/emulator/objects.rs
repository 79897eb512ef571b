//! Tests of objects and verbs: versions, generations, dry runs, names, deletions, scale.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use weir_apiserver::Key;

use super::bed::{DEMO, LIMIT, admin, config, deployment, pod, pods, read, refusal, start};

#[tokio::test]
async fn object_versions_follow_create_update_and_delete() {
    let server = start(|_| {}).await;
    let api: Api<Deployment> = Api::namespaced(admin(&server).await, DEMO);
    let made = api
        .create(&PostParams::default(), &deployment("web", 0, 100))
        .await
        .unwrap();
    let meta = made.metadata.clone();
    assert_eq!(
        (meta.generation, meta.uid.as_ref().map(String::len)),
        (Some(1), Some(36))
    );
    assert!(meta.creation_timestamp.is_some());
    let again = refusal(
        api.create(&PostParams::default(), &deployment("web", 0, 100))
            .await,
    );
    assert_eq!((again.code, again.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(again.message, "deployments.apps \"web\" already exists");

    // The generation grows with a change of the spec, not with one of the metadata or an empty patch.
    let set = |value: Value| Patch::Merge(value);
    let params = PatchParams::default();
    let labelled = api
        .patch(
            "web",
            &params,
            &set(json!({"metadata": {"labels": {"a": "b"}}})),
        )
        .await
        .unwrap();
    assert_eq!(labelled.metadata.generation, Some(1));
    assert_ne!(labelled.metadata.resource_version, meta.resource_version);
    let paused = api
        .patch(
            "web",
            &params,
            &set(json!({"spec": {"minReadySeconds": 3}})),
        )
        .await
        .unwrap();
    assert_eq!(paused.metadata.generation, Some(2));
    let both = set(json!({"status": {"collisionCount": 3}, "spec": {"replicas": 9}}));
    let status = api.patch_status("web", &params, &both).await.unwrap();
    assert_eq!(status.spec.unwrap().replicas, Some(0));
    assert_eq!(status.status.unwrap().collision_count, Some(3));

    // A write with an outdated version is refused.
    let mut old = made.clone();
    old.spec.as_mut().unwrap().replicas = Some(2);
    let stale = refusal(api.replace("web", &PostParams::default(), &old).await);
    assert_eq!((stale.code, stale.reason.as_str()), (409, "Conflict"));
    let wrong = DeleteParams::default().preconditions(Preconditions {
        uid: Some("other".to_owned()),
        ..Preconditions::default()
    });
    assert_eq!(refusal(api.delete("web", &wrong).await).code, 409);
    assert!(
        api.delete("web", &DeleteParams::default())
            .await
            .unwrap()
            .is_right()
    );
    let not_found = refusal(api.get("web").await);
    assert_eq!(
        (not_found.code, not_found.message.as_str()),
        (404, "deployments.apps \"web\" not found")
    );
}

#[tokio::test]
async fn dry_run_answers_without_effect() {
    let server = start(|_| {}).await;
    let api: Api<ConfigMap> = Api::namespaced(admin(&server).await, DEMO);
    let before = server.store().version();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = api.create(&dry, &config("a", "1")).await.unwrap();
    assert!(made.metadata.uid.is_some());
    assert_eq!(server.store().version(), before);
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn names_are_generated_and_validated() {
    let server = start(|_| {}).await;
    let api: Api<ConfigMap> = Api::namespaced(admin(&server).await, DEMO);
    let unnamed: ConfigMap = read(json!({"metadata": {"generateName": "some-"}}));
    let names = [
        api.create(&PostParams::default(), &unnamed)
            .await
            .unwrap()
            .metadata
            .name
            .unwrap(),
        api.create(&PostParams::default(), &unnamed)
            .await
            .unwrap()
            .metadata
            .name
            .unwrap(),
    ];
    assert!(
        names
            .iter()
            .all(|name| name.starts_with("some-") && name.len() == 10)
    );
    assert_ne!(names[0], names[1]);
    let bad = refusal(api.create(&PostParams::default(), &config("No", "1")).await);
    assert_eq!(
        (bad.code, bad.details.unwrap().causes[0].field.as_str()),
        (422, "metadata.name")
    );
    let nowhere: Api<ConfigMap> = Api::namespaced(admin(&server).await, "nowhere");
    let refused = refusal(
        nowhere
            .create(&PostParams::default(), &config("a", "1"))
            .await,
    );
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (404, "namespaces \"nowhere\" not found")
    );
}

#[tokio::test]
async fn finalizer_delays_deletion() {
    let server = start(|_| {}).await;
    let api: Api<ConfigMap> = Api::namespaced(admin(&server).await, DEMO);
    let mut held = config("a", "1");
    held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    api.create(&PostParams::default(), &held).await.unwrap();
    let going = api
        .delete("a", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert!(going.metadata.deletion_timestamp.is_some());
    // A second deletion changes nothing.
    let again = api
        .delete("a", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert_eq!(
        again.metadata.resource_version,
        going.metadata.resource_version
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("a", &PatchParams::default(), &free)
        .await
        .unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

/// As on Kubernetes 1.36: rights go before resources with finalizers, and the namespace takes nothing new.
#[tokio::test]
async fn namespace_stays_while_a_finalizer_holds_an_object() {
    let server = start(|_| {}).await;
    let client = admin(&server).await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), DEMO);
    let mut held = config("a", "1");
    held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    api.create(&PostParams::default(), &held).await.unwrap();
    api.create(&PostParams::default(), &config("b", "1"))
        .await
        .unwrap();
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "weir", "namespace": DEMO}, "subjects": [],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "weir"}});
    server.store().create(&binding).unwrap();
    let namespaces: Api<Namespace> = Api::all(client);
    let deleted = namespaces.delete(DEMO, &DeleteParams::default()).await;
    let ending = deleted.unwrap().left().unwrap();
    assert_eq!(ending.status.unwrap().phase.as_deref(), Some("Terminating"));
    let shown = namespaces.get(DEMO).await.unwrap().status.unwrap();
    let message = shown.conditions.unwrap()[0].message.clone();
    assert_eq!(
        message.as_deref(),
        Some("Some resources are remaining: configmaps has 1 resource instances")
    );
    let of_rights = "rolebindings.rbac.authorization.k8s.io";
    assert!(
        server
            .store()
            .get(of_rights, &Key::new(DEMO, "weir"))
            .is_none()
    );
    let refused = refusal(api.create(&PostParams::default(), &config("c", "1")).await);
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message,
        "configmaps \"c\" is forbidden: unable to create new content in namespace demo because it is being terminated"
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("a", &PatchParams::default(), &free)
        .await
        .unwrap();
    let key = Key::new("", DEMO);
    let deleted = || server.store().get("namespaces", &key).is_none();
    weir_bed::wait::until("the namespace's end", LIMIT, deleted)
        .await
        .unwrap();
}

#[tokio::test]
async fn lease_is_taken_over_by_one_of_two() {
    let server = start(|_| {}).await;
    let api: Api<Lease> = Api::namespaced(admin(&server).await, DEMO);
    let held: Lease = read(
        json!({"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a", "leaseTransitions": 0}}),
    );
    api.create(&PostParams::default(), &held).await.unwrap();
    let seen = api.get("leader").await.unwrap();
    let take = |holder: &str| {
        let mut taken = seen.clone();
        taken.spec.as_mut().unwrap().holder_identity = Some(holder.to_owned());
        taken
    };
    let (params, b, c) = (PostParams::default(), take("b"), take("c"));
    let both = futures_util::future::join(
        api.replace("leader", &params, &b),
        api.replace("leader", &params, &c),
    );
    let (b, c) = both.await;
    assert!(b.is_ok() != c.is_ok(), "{b:?} {c:?}");
    let lost = if b.is_ok() { refusal(c) } else { refusal(b) };
    assert_eq!((lost.code, lost.reason.as_str()), (409, "Conflict"));
    let mut blind = take("d");
    blind.metadata.resource_version = None;
    assert_eq!(
        refusal(api.replace("leader", &params, &blind).await).code,
        422
    );
}

#[tokio::test]
async fn scale_shows_and_sets_replicas() {
    let server = start(|options| options.workloads = false).await;
    let api: Api<Deployment> = Api::namespaced(admin(&server).await, DEMO);
    api.create(&PostParams::default(), &deployment("web", 2, 100))
        .await
        .unwrap();
    let scale = api.get_scale("web").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(2));
    assert_eq!(scale.status.unwrap().selector.as_deref(), Some("app=web"));
    let set = Patch::Merge(json!({"spec": {"replicas": 5}}));
    let scaled = api
        .patch_scale("web", &PatchParams::default(), &set)
        .await
        .unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(5));
    let now = api.get("web").await.unwrap();
    assert_eq!(
        (now.spec.unwrap().replicas, now.metadata.generation),
        (Some(5), Some(2))
    );
    let less = Patch::Merge(json!({"spec": {"replicas": -1}}));
    assert_eq!(
        refusal(api.patch_scale("web", &PatchParams::default(), &less).await).code,
        422
    );
}

#[tokio::test]
async fn only_a_pods_image_may_change() {
    let server = start(|options| options.kubelet = false).await;
    server.store().create(&pod("a", 100)).unwrap();
    let api = pods(&server).await;
    let image = Patch::Strategic(
        json!({"spec": {"containers": [{"name": "app", "image": "example/none:1"}]}}),
    );
    let changed: Pod = api
        .patch("a", &PatchParams::default(), &image)
        .await
        .unwrap();
    assert_eq!(
        changed.spec.unwrap().containers[0].image.as_deref(),
        Some("example/none:1")
    );
    let fixed = Patch::Merge(json!({"spec": {"restartPolicy": "Never"}}));
    assert_eq!(
        refusal(api.patch("a", &PatchParams::default(), &fixed).await).code,
        422
    );
}
