//! Tests of tokens and tables.

use axum::http::Request;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use weir_apiserver::ADMIN;

use super::bed::{DEMO, admin, read, refusal, start};

#[tokio::test]
async fn service_account_token_authenticates_its_account() {
    let server = start(|_| {}).await;
    let api: Api<ServiceAccount> = Api::namespaced(admin(&server).await, DEMO);
    let params = PostParams::default();
    let request: TokenRequest = read(json!({"spec": {"audiences": [], "expirationSeconds": 600}}));
    let refused = refusal(api.create_token_request("weir", &params, &request).await);
    assert_eq!((refused.code, refused.reason.as_str()), (404, "NotFound"));
    let account: ServiceAccount = read(json!({"metadata": {"name": "weir"}}));
    api.create(&params, &account).await.unwrap();
    let short: TokenRequest = read(json!({"spec": {"audiences": [], "expirationSeconds": 599}}));
    let refused = refusal(api.create_token_request("weir", &params, &short).await);
    assert_eq!(refused.code, 422);
    assert_eq!(
        refused.message,
        "TokenRequest.authentication.k8s.io \"weir\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"
    );
    let given = api.create_token_request("weir", &params, &request).await;
    let token = given.unwrap().status.unwrap().token.unwrap();

    let mut config = kube::Config::new(server.url().parse().unwrap());
    config.auth_info.token = Some(token.into());
    let pods: Api<Pod> = Api::namespaced(kube::Client::try_from(config).unwrap(), DEMO);
    let refused = refusal(pods.list(&ListParams::default()).await);
    assert_eq!(
        refused.message,
        "pods is forbidden: User \"system:serviceaccount:demo:weir\" cannot list resource \"pods\" in API group \"\" in the namespace \"demo\""
    );
}

#[tokio::test]
async fn table_has_the_definitions_columns() {
    let server = start(|_| {}).await;
    let column =
        |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "plans.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "plans", "singular": "plan", "kind": "Plan"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "additionalPrinterColumns": [
                    column("Cores", "number", ".spec.cores"),
                    column("Ready", "string", ".status.conditions[?(@.type=='Ready')].status"),
                    column("Why", "string", ".status.why"),
                    column("Age", "date", ".metadata.creationTimestamp"),
                ]}]},
    });
    server.store().create(&definition).unwrap();
    let plan = json!({"apiVersion": "example.com/v1", "kind": "Plan", "metadata": {"name": "a", "namespace": DEMO},
        "spec": {"cores": 2.5}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    server.store().create(&plan).unwrap();
    let client = server.client(ADMIN).await.unwrap();
    for path in ["plans", "plans/a"] {
        let path = format!("/apis/example.com/v1/namespaces/{DEMO}/{path}");
        let request = Request::get(path).header(
            "accept",
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        );
        let table: Value = client
            .request(request.body(Vec::new()).unwrap())
            .await
            .unwrap();
        assert_eq!(table["kind"], "Table");
        let columns = table["columnDefinitions"].as_array().unwrap().iter();
        let columns: Vec<&Value> = columns.map(|column| &column["name"]).collect();
        assert_eq!(columns, ["Name", "Cores", "Ready", "Why", "Age"]);
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert_eq!(
            cells[..4],
            [json!("a"), json!(2.5), json!("True"), json!(null)]
        );
        assert!(cells[4].as_str().unwrap().ends_with('s'), "{table}");
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    }
}
