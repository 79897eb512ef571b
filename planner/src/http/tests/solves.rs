//! Tests of solving over HTTP.

use serde_json::json;

use super::*;

fn sponge(rate_rps: f64) -> Value {
    json!({
        "formulation": "sponge", "cores": 16, "batches": 16, "rate_rps": rate_rps,
        "latency": {"model": "sponge", "gamma_ms": 40.0, "epsilon_ms": 8.0, "delta_ms": 2.0, "eta_ms": 5.0},
        "arriving": {"slo_ms": 1000, "network_ms": [100, 400]},
    })
}

async fn post(endpoints: &Endpoints, query: &str, body: impl Into<reqwest::Body>) -> Response {
    let url = format!("http://{}/v1/solve{query}", endpoints.address);
    endpoints
        .client
        .post(url)
        .bearer_auth(KEY)
        .body(body)
        .send()
        .await
        .unwrap()
}

#[tokio::test]
async fn feasible_problem_yields_plan_and_infeasible_one_reason() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let solved = post(&endpoints, "", sponge(60.0).to_string()).await;
    assert_eq!(solved.status(), 200);
    let answer: Value = solved.json().await.unwrap();
    assert_eq!(
        (&answer["formulation"], &answer["outcome"]),
        (&json!("sponge"), &json!("optimal"))
    );
    let plan = &answer["plan"];
    assert!(plan["throughput_rps"].as_f64().unwrap() >= 60.0, "{plan}");
    let answer: Value = post(&endpoints, "", sponge(1e6).to_string())
        .await
        .json()
        .await
        .unwrap();
    assert_eq!(answer["outcome"], "infeasible");
    assert!(
        answer["why"]
            .as_str()
            .unwrap()
            .starts_with("a rate of 1000000.0 requests/s exceeds")
    );
}

#[tokio::test]
async fn invalid_problem_is_refused_by_field() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let bad = |value: f64| sponge(value).to_string();
    for (query, body, message) in [
        ("", bad(-1.0), "rate_rps: -1 must be 0 to"),
        ("", "{".to_owned(), "JSON: EOF while parsing"),
        (
            "",
            "[]".to_owned(),
            "the document: a list must be an object",
        ),
        (
            "?formulation=ipa",
            bad(1.0),
            "formulation: sponge must be ipa",
        ),
        (
            "?formulation=gurobi",
            bad(1.0),
            "formulation: 'gurobi' must be one of",
        ),
        (
            "?solver=gurobi",
            bad(1.0),
            "solver: 'gurobi' must be own, highs or microlp",
        ),
        (
            "?solver=microlp",
            bad(1.0),
            "solver: an integer programme must be own",
        ),
        (
            "?time_limit_ms=0",
            bad(1.0),
            "time_limit_ms: 0 must be 1 to 10000 ms",
        ),
        (
            "?time_limit_ms=99999",
            bad(1.0),
            "time_limit_ms: 99999 must be",
        ),
        ("?colour=red", bad(1.0), "unknown field `colour`"),
    ] {
        let refused = error(post(&endpoints, query, body).await, 400).await;
        assert!(
            refused.contains(message),
            "{query}: '{refused}' is not '{message}'"
        );
    }
    let large = vec![b' '; solve::BODY_MAX + 1];
    error(post(&endpoints, "", large).await, 413).await;
    let url = format!("http://{}/v1/solve", endpoints.address);
    let nobody = endpoints
        .client
        .post(&url)
        .body(bad(1.0))
        .send()
        .await
        .unwrap();
    assert!(error(nobody, 401).await.contains("Bearer"));
}

#[tokio::test]
async fn second_concurrent_solve_is_refused() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let taken = Arc::clone(&endpoints.app.solves)
        .acquire_owned()
        .await
        .unwrap();
    let busy = post(&endpoints, "", sponge(1.0).to_string()).await;
    assert_eq!(busy.headers()["retry-after"], "1");
    error(busy, 429).await;
    drop(taken);
    assert_eq!(
        post(&endpoints, "", sponge(1.0).to_string()).await.status(),
        200
    );
}
