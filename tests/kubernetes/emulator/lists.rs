//! Tests of reading: lists, pages, selectors, discovery, and refusals of malformed requests.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use kube::discovery::{Discovery, verbs};
use serde_json::{Value, json};

use super::bed::{DEMO, admin, config, pod, pods, read, refusal, start};

#[tokio::test]
async fn lists_are_filtered_and_paged() {
    let server = start(|_| {}).await;
    let api: Api<ConfigMap> = Api::namespaced(admin(&server).await, DEMO);
    for i in 0..7 {
        let value = if i % 2 == 0 { "even" } else { "odd" };
        api.create(&PostParams::default(), &config(&format!("c{i}"), value))
            .await
            .unwrap();
    }
    let names = |list: kube::core::ObjectList<ConfigMap>| -> Vec<String> {
        list.items
            .into_iter()
            .map(|item| item.metadata.name.unwrap())
            .collect()
    };
    let even = ListParams::default().labels("of in (even, none)");
    assert_eq!(
        names(api.list(&even).await.unwrap()),
        ["c0", "c2", "c4", "c6"]
    );
    let one = ListParams::default().fields("metadata.name=c3");
    assert_eq!(names(api.list(&one).await.unwrap()), ["c3"]);
    assert_eq!(
        refusal(
            api.list(&ListParams::default().fields("data.key=odd"))
                .await
        )
        .code,
        400
    );

    let mut page = api.list(&ListParams::default().limit(3)).await.unwrap();
    let mut all = Vec::new();
    let version = page.metadata.resource_version.clone();
    while let Some(token) = page
        .metadata
        .continue_
        .clone()
        .filter(|token| !token.is_empty())
    {
        assert_eq!(page.items.len(), 3);
        all.extend(names(page));
        // An object created between two pages does not change the list's version, from which a watch starts.
        api.create(
            &PostParams::default(),
            &config(&format!("b{}", all.len()), "odd"),
        )
        .await
        .unwrap();
        page = api
            .list(&ListParams::default().limit(3).continue_token(&token))
            .await
            .unwrap();
        assert_eq!(page.metadata.resource_version, version);
    }
    all.extend(names(page));
    assert_eq!(all, (0..7).map(|i| format!("c{i}")).collect::<Vec<_>>());

    let first = api.list(&ListParams::default().limit(1)).await.unwrap();
    server.store().forget_history();
    api.create(&PostParams::default(), &config("d", "odd"))
        .await
        .unwrap();
    server.store().forget_history();
    let next = ListParams::default()
        .limit(1)
        .continue_token(&first.metadata.continue_.unwrap());
    assert_eq!(refusal(api.list(&next).await).code, 410);
}

#[tokio::test]
async fn pods_are_selected_by_node_and_phase() {
    let server = start(|_| {}).await;
    server.store().create(&pod("a", 100)).unwrap();
    super::bed::until_pod(&server, "a", "a ready pod", super::bed::is_ready).await;
    let api = pods(&server).await;
    for (fields, found) in [
        ("spec.nodeName=node-a,status.phase=Running", 1),
        ("spec.nodeName=node-b", 0),
        ("status.phase!=Running", 0),
    ] {
        let list = api
            .list(&ListParams::default().fields(fields))
            .await
            .unwrap();
        assert_eq!(list.items.len(), found, "{fields}");
    }
}

#[tokio::test]
async fn malformed_or_unknown_requests_are_refused() {
    let server = start(|_| {}).await;
    let client = reqwest::Client::new();
    let token = server.token(weir_apiserver::ADMIN);
    let base = format!("{}/api/v1/namespaces/{DEMO}", server.url());
    let json = "application/json";
    for (method, path, content, body, expected) in [
        ("GET", "/nothings", json, "", 404),
        ("GET", "/pods/a/nothing", json, "", 404),
        ("DELETE", "/pods", json, "", 405),
        ("POST", "/configmaps/a", json, "{}", 405),
        ("POST", "/configmaps", json, "{", 400),
        (
            "POST",
            "/configmaps",
            json,
            r#"{"kind": "Pod", "metadata": {"name": "a"}}"#,
            400,
        ),
        (
            "POST",
            "/configmaps",
            json,
            r#"{"metadata": {"name": "a", "namespace": "b"}}"#,
            400,
        ),
        (
            "POST",
            "/configmaps",
            json,
            r#"{"metadata": {"name": "a"}, "data": 3}"#,
            400,
        ),
        (
            "POST",
            "/configmaps?fieldValidation=Strict",
            json,
            r#"{"metadata": {"name": "a"}, "dat": {"a": "b"}}"#,
            400,
        ),
        (
            "POST",
            "/configmaps",
            json,
            r#"{"metadata": {"name": "a"}, "dat": {"a": "b"}}"#,
            201,
        ),
        ("PATCH", "/configmaps/a", json, "{}", 415),
        (
            "PATCH",
            "/configmaps/a",
            "application/json-patch+json",
            r#"[{"op": "test", "path": "/data", "value": 1}]"#,
            422,
        ),
        (
            "PUT",
            "/configmaps/a",
            json,
            r#"{"metadata": {"name": "b"}}"#,
            400,
        ),
        (
            "PUT",
            "/configmaps/c",
            json,
            r#"{"metadata": {"name": "c"}}"#,
            404,
        ),
    ] {
        let answer = client
            .request(method.parse().unwrap(), format!("{base}{path}"))
            .bearer_auth(&token)
            .header("content-type", content)
            .body(body)
            .send()
            .await
            .unwrap();
        let status = answer.status().as_u16();
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(status, expected, "{method} {path}: {answer}");
        if status >= 400 {
            assert_eq!(
                (&answer["kind"], &answer["code"]),
                (&json!("Status"), &json!(status))
            );
        }
    }
}

#[tokio::test]
async fn discovery_lists_every_kind_and_its_subresources() {
    let server = start(|_| {}).await;
    let client = admin(&server).await;
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    for (group, kind) in [
        ("", "Pod"),
        ("apps", "Deployment"),
        ("policy", "PodDisruptionBudget"),
        ("autoscaling.k8s.io", "VerticalPodAutoscaler"),
        ("events.k8s.io", "Event"),
    ] {
        let group = discovery
            .get(group)
            .unwrap_or_else(|| panic!("no group {group:?}"));
        let (_, found) = group
            .recommended_kind(kind)
            .unwrap_or_else(|| panic!("no {kind}"));
        assert!(found.supports_operation(verbs::WATCH), "{kind}");
    }
    let (resource, _) = discovery.get("").unwrap().recommended_kind("Pod").unwrap();
    let dynamic: Api<kube::core::DynamicObject> = Api::all_with(client.clone(), &resource);
    assert!(
        dynamic
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let core = client.list_core_api_resources("v1").await.unwrap();
    assert!(
        core.resources
            .iter()
            .any(|resource| resource.name == "pods/resize")
    );
}

#[tokio::test]
async fn events_are_the_same_in_both_api_groups() {
    let server = start(|_| {}).await;
    let client = admin(&server).await;
    let new: k8s_openapi::api::events::v1::Event = read(
        json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "a"},
        "note": "hello", "reason": "Told", "type": "Normal", "action": "Tell", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "weir", "reportingInstance": "weir-0"}),
    );
    let other: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(client.clone(), DEMO);
    assert_eq!(
        other
            .create(&PostParams::default(), &new)
            .await
            .unwrap()
            .note
            .as_deref(),
        Some("hello")
    );
    let core: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(client, DEMO);
    let found = core
        .list(&ListParams::default().fields("involvedObject.name=a"))
        .await
        .unwrap();
    assert_eq!(found.items[0].message.as_deref(), Some("hello"));
    assert_eq!(found.items[0].reporting_component.as_deref(), Some("weir"));
}
