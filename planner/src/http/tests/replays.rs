//! Tests of the endpoint of replays, with a replay of their own.

use super::replay::{REPLAY_BODY_MAX, REPLAY_LIMITS, ReplayError, ReplayLimits};
use super::*;

fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "required": ["contenders"] })
}

/// Plays the scenarios of these tests.
fn play(
    text: &str,
    limits: ReplayLimits,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<String, ReplayError> {
    assert_eq!(limits.seconds_max, REPLAY_LIMITS.seconds_max);
    match text {
        "invalid" => Err(ReplayError::Invalid {
            path: "load.rates[1]".to_owned(),
            message: "load.rates[1]: -1; it must be 0 or more".to_owned(),
        }),
        "broken" => Err(ReplayError::Broken("a bug".to_owned())),
        "stopped" => Err(ReplayError::Stopped),
        "endless" => {
            while goes_on() {
                std::thread::yield_now();
            }
            Err(ReplayError::Stopped)
        }
        _ => Ok("{\"contenders\": []}".to_owned()),
    }
}

const RUNNER: ReplayRunner = ReplayRunner {
    play,
    scenario: schema,
    report: schema,
};

async fn open() -> Endpoints {
    Endpoints::with(Setup {
        replay: Some(RUNNER),
        ..Setup::default()
    })
    .await
}

async fn post(endpoints: &Endpoints, body: impl Into<reqwest::Body>) -> Response {
    let url = format!("http://{}/v1/replay", endpoints.address);
    let request = endpoints.client.post(url).bearer_auth(KEY);
    request.body(body).send().await.unwrap()
}

#[tokio::test]
async fn report_or_the_wrong_field_is_returned() {
    let endpoints = open().await;
    let played = post(&endpoints, "{}").await;
    assert_eq!(played.status(), 200);
    assert_eq!(played.headers()["content-type"], "application/json");
    for (body, status, pointer) in [
        (&b"invalid"[..], 400, Some("#/load/rates/1")),
        (b"stopped", 400, Some("#/load")),
        (b"\xff", 400, Some("#")),
        (b"broken", 500, None),
    ] {
        let refused = post(&endpoints, body).await;
        assert_eq!(refused.status(), status);
        let document = problem(refused).await;
        let actual = document["errors"][0]["pointer"].as_str();
        assert_eq!(actual, pointer, "{document}");
    }
    let large = " ".repeat(REPLAY_BODY_MAX + 1);
    error(post(&endpoints, large).await, 413).await;
    let url = format!("http://{}/v1/replay", endpoints.address);
    let unknown = endpoints.client.post(url).body("{}").send().await.unwrap();
    error(unknown, 401).await;
    let document: Value = endpoints
        .get("/v1/openapi.json")
        .await
        .json()
        .await
        .unwrap();
    let post = &document["paths"]["/v1/replay"]["post"];
    let body = &post["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(body["required"][0], "contenders");
    let report = &post["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(report["required"][0], "contenders");
}

#[tokio::test]
async fn one_replay_runs_at_once_and_ends_with_its_client() {
    let endpoints = open().await;
    let url = format!("http://{}/v1/replay", endpoints.address);
    let request = endpoints.client.post(url).bearer_auth(KEY).body("endless");
    let running = tokio::spawn(request.send());
    let replays = Arc::clone(&endpoints.app.replays);
    until("a replay", async || replays.available_permits() == 0).await;
    let busy = post(&endpoints, "{}").await;
    assert_eq!(busy.headers()["retry-after"], "1");
    error(busy, 429).await;
    running.abort();
    until("its end", async || replays.available_permits() == 1).await;
    assert_eq!(post(&endpoints, "{}").await.status(), 200);
}

#[tokio::test]
async fn planner_without_the_replay_refuses_it() {
    let endpoints = Endpoints::open(LONG, 64).await;
    error(post(&endpoints, "{}").await, 501).await;
}
