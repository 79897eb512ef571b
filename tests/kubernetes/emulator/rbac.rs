//! Tests of RBAC: permissions, and the texts of refusals.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use weir_apiserver::{ApiServer, Verb};

use super::bed::{DEMO, pod, refusal, start};

const WEIR: &str = "system:serviceaccount:demo:weir";

fn bind(server: &ApiServer, kind: &str, rules: &Value) {
    let metadata = |name: &str| json!({"name": name, "namespace": DEMO});
    let api_version = "rbac.authorization.k8s.io/v1";
    let role = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata("resizer"), "rules": rules});
    let binding = json!({"apiVersion": api_version, "kind": format!("{kind}Binding"), "metadata": metadata("resizer"),
        "subjects": [{"kind": "ServiceAccount", "name": "weir", "namespace": DEMO}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "resizer"}});
    server.store().create(&role).unwrap();
    server.store().create(&binding).unwrap();
}

async fn as_weir(server: &ApiServer, namespace: &str) -> Api<Pod> {
    Api::namespaced(
        server.client_without_retries(WEIR).await.unwrap(),
        namespace,
    )
}

fn labelled() -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}))
}

#[tokio::test]
async fn role_allows_only_its_rules() {
    let server = start(|options| options.kubelet = false).await;
    for name in ["a", "b"] {
        server.store().create(&pod(name, 100)).unwrap();
    }
    let api = as_weir(&server, DEMO).await;
    let params = PatchParams::default();
    let refused = refusal(api.patch_resize("a", &params, &labelled()).await);
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        refused.message,
        "pods \"a\" is forbidden: User \"system:serviceaccount:demo:weir\" cannot patch resource \"pods/resize\" in API group \"\" in the namespace \"demo\""
    );
    bind(
        &server,
        "Role",
        &json!([
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"], "resourceNames": ["a"]},
        ]),
    );
    api.patch_resize("a", &params, &labelled()).await.unwrap();
    assert_eq!(
        api.list(&ListParams::default()).await.unwrap().items.len(),
        2
    );
    // Another name, subresource, verb or namespace: each is refused.
    assert_eq!(
        refusal(api.patch_resize("b", &params, &labelled()).await).code,
        403
    );
    assert_eq!(
        refusal(api.patch("a", &params, &labelled()).await).code,
        403
    );
    assert_eq!(
        refusal(api.delete("a", &Default::default()).await).code,
        403
    );
    let elsewhere = as_weir(&server, "default").await;
    assert_eq!(
        refusal(elsewhere.list(&ListParams::default()).await).code,
        403
    );
    let all: Api<Pod> = Api::all(server.client_without_retries(WEIR).await.unwrap());
    let refused = refusal(all.list(&ListParams::default()).await);
    assert_eq!(
        refused.message,
        "pods is forbidden: User \"system:serviceaccount:demo:weir\" cannot list resource \"pods\" in API group \"\" at the cluster scope"
    );
    // The log contains all requests, and the reason of each refusal.
    let log = server.log().requests();
    let of = |status: u16| {
        log.iter()
            .filter(|request| request.status == status)
            .count()
    };
    assert_eq!((of(200), of(403)), (2, 6));
    assert!(log.iter().all(|request| request.subject == WEIR));
    let first = &log[0];
    assert_eq!(
        (first.verb, first.resource.as_str(), first.key.name.as_str()),
        (Verb::Patch, "pods/resize", "a")
    );
    assert_eq!(first.body["metadata"]["labels"]["a"], "b");
}

#[tokio::test]
async fn cluster_role_allows_in_every_namespace() {
    let server = start(|options| options.kubelet = false).await;
    bind(
        &server,
        "ClusterRole",
        &json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}]),
    );
    let all: Api<Pod> = Api::all(server.client_without_retries(WEIR).await.unwrap());
    all.list(&ListParams::default()).await.unwrap();
    let other = server
        .client_without_retries("system:serviceaccount:default:weir")
        .await
        .unwrap();
    let other: Api<Pod> = Api::all(other);
    assert_eq!(refusal(other.list(&ListParams::default()).await).code, 403);
}

#[tokio::test]
async fn unknown_token_is_refused() {
    let server = start(|_| {}).await;
    let client = reqwest::Client::new();
    for token in [None, Some("guessed")] {
        let mut request = client.get(format!("{}/api/v1/pods", server.url()));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 401);
        assert_eq!(
            answer.json::<Value>().await.unwrap()["reason"],
            "Unauthorized"
        );
    }
    let url = server.url();
    drop(server);
    let stopped = weir_bed::wait::until_async("the end", super::bed::LIMIT, async || {
        client.get(&url).send().await.is_err()
    });
    stopped.await.unwrap();
}
