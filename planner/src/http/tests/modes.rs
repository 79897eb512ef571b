//! Tests of forecast, profiles and mode, and of keys that may only read.

use reqwest::Method;
use serde_json::json;

use super::*;
use crate::backends::HttpBackends;
use crate::mode::RunMode;
use crate::observe::{Observe, Scrape};

const MODE: &str = "/v1/services/demo/mode";
/// Key that may change the mode.
const WRITER: &str = "writing-key";

async fn send(
    endpoints: &Endpoints,
    (method, path): (Method, &str),
    headers: &[(&str, &str)],
    body: impl Into<reqwest::Body>,
) -> Response {
    let url = format!("http://{}{path}", endpoints.address);
    let mut request = endpoints.client.request(method, url).body(body);
    if headers.iter().all(|(name, _)| *name != "authorization") {
        request = request.bearer_auth(WRITER);
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap()
}

#[tokio::test]
async fn mode_is_changed_if_it_is_the_expected_one() {
    let endpoints = Endpoints::with(Setup {
        keys: format!("{KEY}\n{WRITER} write\n"),
        ..Setup::default()
    })
    .await;
    let put = async |headers: &[(&str, &str)], body: &str| {
        send(&endpoints, (Method::PUT, MODE), headers, body.to_owned()).await
    };
    let paused = r#"{"mode": "paused"}"#;
    let refused = problem(put(&[], paused).await).await;
    assert_eq!(refused["type"], "urn:problem-type:weir:conflict");
    assert!(refused["detail"].as_str().unwrap().contains("spec.mode"));
    endpoints.handle.mode.allow_changes();
    let first = endpoints.with_key(MODE).await;
    let tag = first.headers()["etag"].to_str().unwrap().to_owned();
    let shown: Value = first.json().await.unwrap();
    assert_eq!(
        shown,
        json!({"mode": "active", "configured": "active", "changeable": true})
    );
    for (body, pointer) in [
        ("", "#"),
        ("{", "#"),
        ("7", "#"),
        ("{}", "#"),
        (r#"{"mode": 7}"#, "#/mode"),
        (r#"{"mode": "off"}"#, "#/mode"),
        (r#"{"mode": "paused", "colour": "red"}"#, "#/colour"),
        (r#"{"mode": "paused"} x"#, "#"),
    ] {
        let refused = put(&[], body).await;
        assert_eq!(refused.status(), 400, "{body}");
        assert_eq!(
            problem(refused).await["errors"][0]["pointer"],
            pointer,
            "{body}"
        );
    }
    error(put(&[], &" ".repeat(BODY_MAX + 1)).await, 413).await;
    assert_eq!(endpoints.handle.mode.current().mode, RunMode::Active);
    let changed = put(&[("if-match", &tag)], paused).await;
    assert_eq!(changed.status(), 200);
    assert_ne!(changed.headers()["etag"], tag.as_str());
    // Somebody else has changed it since.
    let stale = problem(put(&[("if-match", &tag)], r#"{"mode": "advisory"}"#).await).await;
    assert_eq!(stale["status"], 412);
    assert_eq!(endpoints.handle.mode.current().mode, RunMode::Paused);
    let status: Value = endpoints.status("").await.json().await.unwrap();
    assert_eq!(status["mode"], "paused");
    let unchanged = send(
        &endpoints,
        (Method::GET, MODE),
        &[("if-none-match", "\"mode-1\"")],
        "",
    );
    assert_eq!(unchanged.await.status(), 304);
    assert_eq!(
        put(&[("if-match", "*")], r#"{"mode": "active"}"#)
            .await
            .status(),
        200
    );
}

#[tokio::test]
async fn limited_key_does_what_its_extent_permits_alone() {
    let endpoints = Endpoints::with(Setup {
        keys: format!("{KEY}\nreading-key read\npolling-key poll\n"),
        ..Setup::default()
    })
    .await;
    endpoints.handle.mode.allow_changes();
    endpoints.publish(1);
    let reader = [("authorization", "Bearer reading-key")];
    for (method, path, status) in [
        (Method::GET, "/v1/services", 200),
        (Method::GET, "/v1/services/demo", 200),
        (Method::GET, MODE, 200),
        (Method::GET, "/v1/plans/demo", 200),
        (Method::GET, "/v1/plans/demo?proxy=a&incarnation=1", 403),
        (Method::GET, "/v1/plans/demo?%70roxy=a", 403),
        (Method::PUT, MODE, 403),
        (Method::POST, "/v1/solve", 403),
    ] {
        let answer = send(&endpoints, (method, path), &reader, r#"{"mode": "paused"}"#).await;
        assert_eq!(answer.status(), status, "{path}");
        if status == 403 {
            let document = problem(answer).await;
            assert_eq!(document["type"], "urn:problem-type:weir:limited-key");
        }
    }
    let status: Value = endpoints.status("").await.json().await.unwrap();
    assert_eq!(status["proxies"], json!({}));
    let poller = [("authorization", "Bearer polling-key")];
    for (method, path, status) in [
        (Method::GET, "/v1/plans/demo?proxy=a&incarnation=1", 200),
        (Method::GET, "/v1/plans/demo", 200),
        (Method::GET, "/v1/services", 403),
        (Method::GET, "/v1/services/demo", 403),
        (Method::GET, "/v1/services/demo/plans", 403),
        (Method::GET, MODE, 403),
        (Method::PUT, MODE, 403),
        (Method::POST, "/v1/solve", 403),
    ] {
        let answer = send(&endpoints, (method, path), &poller, r#"{"mode": "paused"}"#).await;
        assert_eq!(answer.status(), status, "{path}");
    }
    let usual = [("authorization", &*format!("Bearer {KEY}"))];
    let answer = send(
        &endpoints,
        (Method::PUT, MODE),
        &usual,
        r#"{"mode": "paused"}"#,
    )
    .await;
    assert_eq!(answer.status(), 403, "a key without a word");
    assert_eq!(endpoints.handle.mode.current().mode, RunMode::Active);
}

#[tokio::test]
async fn profiles_and_forecast_are_those_of_the_latest_cycle() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let get = async |path: &str| -> Value {
        let path = format!("/v1/services/demo/{path}");
        endpoints.with_key(&path).await.json().await.unwrap()
    };
    assert_eq!(get("forecast").await["forecast"], Value::Null);
    assert_eq!(
        get("profiles").await["variants"][0]["measured"],
        Value::Null
    );
    let report = crate::control_loop::tests::reports(5).await.remove(4);
    endpoints.handle.status.push(report.clone());
    let forecast = get("forecast").await;
    assert_eq!(forecast["at_ms"], report.at_ms);
    let demand = report.forecast.unwrap().demand_rps;
    assert_eq!(forecast["forecast"]["demand_rps"], demand.0);
    let profiles = get("profiles").await;
    let first = &profiles["variants"][0];
    let variant = &endpoints.handle.service.variants[0];
    assert_eq!(first["name"], variant.name);
    assert_eq!(
        first["latency"]["gamma_ms"],
        variant.profile.latency.model.gamma_ms
    );
    assert_eq!(first["measured"]["correction"], 1.0);
    let most = &first["points"][1];
    assert_eq!(most["cores"], variant.cores(variant.max).as_f64());
    assert!(most["service_ms"].as_f64().unwrap() > 0.0);
}

/// Proxies without arrivals.
struct Idle;

impl Observe for Idle {
    async fn scrape(&self) -> Vec<Scrape> {
        Vec::new()
    }
}

#[tokio::test(start_paused = true)]
async fn paused_service_runs_no_cycles_and_keeps_its_plan_fresh() {
    let clock = Clock::start();
    let publishers = Arc::new(Publishers::new(&service(8)));
    let handle = ServiceHandle::with_publishers(service(8), publishers);
    let handle = Arc::new(handle.unwrap());
    handle.mode.allow_changes();
    let running = Arc::clone(&handle);
    let (stop, stopped) = watch::channel(false);
    let cycles = tokio::spawn(async move {
        let client = crate::app::client().unwrap();
        let backends = HttpBackends::new(client, Vec::new(), LONG, Arc::default());
        crate::app::run_cycles(
            &running,
            clock,
            (&Idle, &backends),
            (None, None, None),
            stopped,
            |_| {},
        )
        .await;
    });
    let mut numbers = handle.status.subscribe();
    numbers.wait_for(|number| *number >= 2).await.unwrap();
    handle.mode.set(RunMode::Paused, |_| true).unwrap();
    // The cycle that is running ends.
    tokio::time::sleep(handle.service.cycle * 2).await;
    let before = *numbers.borrow();
    let plan = handle.publishers.entry().newest().unwrap().plan.clone();
    tokio::time::sleep(handle.service.plan_max_age).await;
    assert_eq!(*numbers.borrow(), before, "no cycle ran");
    let renewed = handle.publishers.entry().newest().unwrap();
    assert!(renewed.plan.revision > plan.revision);
    assert_eq!(renewed.plan.variants, plan.variants);
    assert!(clock.now().at.saturating_sub(renewed.at) < handle.service.plan_max_age / 2);
    handle.mode.set(RunMode::Advisory, |_| true).unwrap();
    numbers.wait_for(|number| *number > before).await.unwrap();
    stop.send_replace(true);
    cycles.await.unwrap();
}
