//! Tests of the API's description, of problem documents and of the ids of requests.

use super::*;
use crate::solve::problem::Formulation;

const REFERENCE: &str = include_str!("../../../../docs/reference/rest.md");

#[tokio::test]
async fn described_paths_exist_and_references_resolve() {
    let endpoints = Endpoints::open(Duration::from_millis(1), 64).await;
    let text = endpoints
        .get("/v1/openapi.json")
        .await
        .text()
        .await
        .unwrap();
    let document: oas3::OpenApiV3Spec = oas3::from_json(&text).unwrap();
    for (path, method, _) in document.operations() {
        assert!(
            REFERENCE.contains(&format!("`{method} {path}")),
            "{method} {path}"
        );
        let path = path.replace("{service}", "demo");
        let url = format!("http://{}{path}", endpoints.address);
        let answer = endpoints
            .client
            .request(method.clone(), url)
            .send()
            .await
            .unwrap();
        assert!(
            ![404, 405].contains(&answer.status().as_u16()),
            "{method} {path}: {answer:?}"
        );
    }
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let schemas = document["components"]["schemas"].as_object().unwrap();
    // Every reference resolves.
    let references: Vec<&str> = text
        .split("\"$ref\":\"#/components/schemas/")
        .skip(1)
        .collect();
    assert!(references.len() > 20, "{}", references.len());
    for reference in references {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    let problem = schemas["Document"].to_string();
    for formulation in Formulation::ALL {
        assert!(
            problem.contains(&format!("\"const\":\"{formulation}\"")),
            "{formulation}"
        );
    }
    // Units and meanings are included.
    assert!(text.contains("h(b, c)") && text.contains("in percent."));
}

#[tokio::test]
async fn every_operation_has_problem_documents_and_complete_schemas() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let text = endpoints
        .get("/v1/openapi.json")
        .await
        .text()
        .await
        .unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let problem = response["content"].get("application/problem+json");
                let is_problem = status.starts_with(['4', '5']);
                assert_eq!(problem.is_some(), is_problem, "{method} {path} {status}");
                assert!(!response["description"].as_str().unwrap().is_empty());
            }
            for parameter in operation["parameters"].as_array().unwrap() {
                let name = &parameter["name"];
                assert!(
                    !parameter["description"].as_str().unwrap().is_empty(),
                    "{name}"
                );
                assert!(parameter["schema"].is_object(), "{name}");
            }
        }
    }
    let schemas = &document["components"]["schemas"];
    for (schema, fields) in [
        ("Plan", &["revision", "variants", "max_age_ms"][..]),
        ("VariantPlan", &["share", "slots", "batch"]),
        ("ServiceStatus", &["plan", "cycles", "proxies", "counters"]),
        ("CycleReport", &["why", "objective", "optimum", "variants"]),
        ("Problem", &["type", "title", "status", "detail"]),
    ] {
        let required = schemas[schema]["required"].as_array().unwrap();
        for field in fields {
            assert!(required.contains(&(*field).into()), "{schema}.{field}");
            let property = &schemas[schema]["properties"][field];
            assert!(property["description"].is_string(), "{schema}.{field}");
        }
    }
    assert!(!text.contains("[`"), "links of the code's documentation");
}

#[tokio::test]
async fn problems_name_the_field() {
    let endpoints = Endpoints::open(LONG, 64).await;
    endpoints.publish(1);
    for (path, kind, parameter) in [
        ("/v1/plans/demo?after=x", "invalid-parameter", "after"),
        (
            "/v1/plans/demo?after=1&after=2",
            "invalid-parameter",
            "after",
        ),
        ("/v1/plans/demo?proxy=%00", "invalid-parameter", "proxy"),
        ("/v1/plans/other", "unknown-service", "service"),
        ("/v1/plans/%ff", "invalid-parameter", "service"),
        ("/v1/services/%ff", "invalid-parameter", "service"),
        ("/v1/services/other", "unknown-service", "service"),
        ("/v1/services/demo?cycles=", "invalid-parameter", "cycles"),
        (
            "/v1/services/demo?colour=red",
            "invalid-parameter",
            "colour",
        ),
    ] {
        let document = problem(endpoints.with_key(path).await).await;
        let expected = format!("urn:problem-type:weir:{kind}");
        assert_eq!(document["type"], expected, "{path}");
        assert_eq!(document["errors"][0]["parameter"], parameter, "{path}");
    }
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    for (body, pointer) in [
        (&b"{"[..], "#"),
        (b"\"\xff\"", "#"),
        (deep.as_bytes(), "#"),
        (b"7", "#"),
        (b"{\"formulation\": 7}", "#/formulation"),
        (
            b"{\"formulation\": \"sponge\", \"cores\": \"x\"}",
            "#/cores",
        ),
    ] {
        let url = format!("http://{}/v1/solve", endpoints.address);
        let request = endpoints.client.post(url).bearer_auth(KEY);
        let answer = request.body(body.to_vec()).send().await.unwrap();
        assert_eq!(answer.status(), 400);
        let document = problem(answer).await;
        assert_eq!(document["errors"][0]["pointer"], pointer, "{document}");
    }
    // The plan is as it was.
    assert_eq!(endpoints.poll("").await.status(), 200);
}

#[tokio::test]
async fn answers_carry_the_id_of_their_request() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let url = format!("http://{}/v1/plans/demo", endpoints.address);
    let request = endpoints.client.get(&url).header("x-request-id", "mine-7");
    let refused = request.send().await.unwrap();
    assert_eq!(refused.headers()["x-request-id"], "mine-7");
    assert_eq!(problem(refused).await["request_id"], "mine-7");
    let request = endpoints
        .client
        .get(&url)
        .header("x-request-id", "not \"mine\"");
    let other = request.send().await.unwrap();
    assert_ne!(other.headers()["x-request-id"], "not \"mine\"");
    let healthy = endpoints.get("/healthz").await;
    assert!(healthy.headers().contains_key("x-request-id"));
}
