//! Replays a recorded sequence of requests for one pod; each answer must equal that of a real API server.

use std::collections::BTreeMap;

use reqwest::{Client, Method};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_apiserver::{ADMIN, ApiServer};

use super::bed::{DEMO, start, stored};

/// A recorded request and its answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    what: String,
    request: String,
    on: String,
    #[serde(default = "web_0")]
    pod: String,
    #[serde(default)]
    query: String,
    #[serde(default)]
    body: String,
    status: u16,
    generation: Option<i64>,
    wrote: Option<bool>,
    resources: Option<Value>,
    conditions: Option<Value>,
    reason: Option<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    begins: bool,
    #[serde(default)]
    causes: Vec<BTreeMap<String, String>>,
}

fn web_0() -> String {
    "web-0".to_owned()
}

async fn send(server: &ApiServer, case: &Case) -> (u16, Value) {
    let (method, content) = match case.request.as_str() {
        "read" => (Method::GET, "application/json"),
        "strategic" => (Method::PATCH, "application/strategic-merge-patch+json"),
        "json" => (Method::PATCH, "application/json-patch+json"),
        "merge" => (Method::PATCH, "application/merge-patch+json"),
        "apply" => (Method::PATCH, "application/apply-patch+yaml"),
        other => panic!("{other}"),
    };
    let pod = format!(
        "{}/api/v1/namespaces/{DEMO}/pods/{}",
        server.url(),
        case.pod
    );
    let url = format!("{pod}/{}?{}", case.on, case.query);
    let answer = Client::new()
        .request(method, url.replace("/?", "?"))
        .bearer_auth(server.token(ADMIN))
        .header("content-type", content)
        .body(case.body.clone())
        .send()
        .await
        .unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

fn recorded_pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": DEMO},
        "spec": {"nodeName": "node-a", "containers": [{"name": "app", "image": "registry.example/none:0",
            "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"},
                {"resourceName": "memory", "restartPolicy": "RestartContainer"}]}]},
    })
}

#[tokio::test]
async fn resize_answers_equal_a_real_api_servers() {
    let server = start(|options| options.kubelet = false).await;
    server.store().create(&recorded_pod()).unwrap();
    let cases: Vec<Case> = serde_saphyr::from_str(include_str!("resize.yaml")).unwrap();
    assert_eq!(cases.len(), 30);
    let (mut version, mut resources, mut conditions) =
        (server.store().version(), json!({}), json!([]));
    for case in &cases {
        let (status, answer) = send(&server, case).await;
        assert_eq!(status, case.status, "{}: {answer}", case.what);
        if status != 200 {
            check_refusal(case, &answer);
            assert_eq!(server.store().version(), version, "{} wrote", case.what);
            continue;
        }
        let dry = case.query.contains("dryRun");
        let expected = case.resources.clone().unwrap_or(resources.clone());
        let container = &answer["spec"]["containers"][0];
        assert_eq!(container["resources"], expected, "{}", case.what);
        assert_eq!(
            container["resizePolicy"],
            recorded_pod()["spec"]["containers"][0]["resizePolicy"]
        );
        assert_eq!(
            container["image"], "registry.example/none:0",
            "{}",
            case.what
        );
        assert_eq!(answer["metadata"]["labels"], Value::Null, "{}", case.what);
        assert_eq!(
            answer["metadata"]["generation"],
            json!(case.generation),
            "{}",
            case.what
        );
        assert_eq!(answer["status"]["qosClass"], "Burstable", "{}", case.what);
        if let Some(now) = &case.conditions {
            conditions = now.clone();
        }
        assert_eq!(answer["status"]["conditions"], conditions, "{}", case.what);
        let wrote = server.store().version() > version;
        assert_eq!(Some(wrote), case.wrote, "{}", case.what);
        assert!(server.store().version() <= version + 1, "{}", case.what);
        version = server.store().version();
        assert_eq!(
            answer["metadata"]["resourceVersion"],
            json!(version.to_string()),
            "{}",
            case.what
        );
        if !dry {
            resources = expected;
        }
    }
    // The container statuses are the first case's, without the resources that a later case removed.
    let first: Value = serde_json::from_str(&cases[0].body).unwrap();
    let mut status = first["status"]["containerStatuses"][0].clone();
    status.as_object_mut().unwrap().remove("resources");
    status["lastState"] = json!({});
    assert_eq!(
        stored(&server, "web-0")["status"]["containerStatuses"],
        json!([status])
    );
}

fn check_refusal(case: &Case, answer: &Value) {
    assert_eq!(answer["kind"], "Status", "{}", case.what);
    assert_eq!(answer["code"], case.status, "{}", case.what);
    assert_eq!(
        answer["reason"].as_str(),
        case.reason.as_deref(),
        "{}",
        case.what
    );
    let message = answer["message"].as_str().unwrap();
    let cut = |text: &str| match case.begins {
        true => text.split('\n').next().unwrap_or_default().to_owned(),
        false => text.to_owned(),
    };
    assert_eq!(cut(message), case.message, "{}", case.what);
    let causes = answer["details"]["causes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let causes: Vec<BTreeMap<String, String>> = causes
        .into_iter()
        .map(|cause| {
            let fields: BTreeMap<String, String> = serde_json::from_value(cause).unwrap();
            fields
                .into_iter()
                .map(|(key, value)| (key, cut(&value)))
                .collect()
        })
        .collect();
    assert_eq!(causes, case.causes, "{}", case.what);
}
