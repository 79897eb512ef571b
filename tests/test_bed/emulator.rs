//! The variant emulator over HTTP, compared with the model servers it stands for.
//!
//! Order, batching and capacity are tested on a virtual clock beside the code. These tests cover what needs a
//! socket: the protocol, bodies, resources while it runs, abandoned requests, faults.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use weir_bed::emulator::{
    BODY_MAX, Emulator, InferAnswer, LatencyModel, Parallelism, ServerConfig,
};
use weir_bed::wait;

use crate::small::{emulator, infer, status};

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn emulator_speaks_the_open_inference_protocol() {
    let emulator = emulator(|config| config.aliases.push("classifier".into()))
        .await
        .unwrap();
    for (path, expected) in [
        ("/v2/health/live", 200),
        ("/v2/health/ready", 200),
        ("/v2", 200),
        ("/v2/models/small", 200),
        ("/v2/models/small/ready", 200),
        ("/v2/models/classifier/ready", 200),
        ("/v2/models/other", 404),
        ("/v2/models/other/ready", 404),
        ("/v2/models/small/infer", 405),
    ] {
        assert_eq!(status(&emulator, path).await.unwrap(), expected, "{path}");
    }
    let request = json!({"id": "mine", "inputs": [
        {"name": "input", "datatype": "FP32", "shape": [2], "data": [0.5, 1.5]}]});
    let answer = infer(&emulator, request.to_string().into_bytes())
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    let answer: InferAnswer = answer.json().await.unwrap();
    assert_eq!(
        (answer.model_name.as_str(), answer.id.as_str()),
        ("small", "mine")
    );
    assert_eq!(answer.parameters["emulated"], json!(true));
}

#[tokio::test]
async fn body_of_any_kind_is_counted_and_limited() {
    let emulator = emulator(|_| {}).await.unwrap();
    let bytes: Vec<u8> = (0..3_000_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for body in [Vec::new(), b"{not json".to_vec(), bytes] {
        let answer: InferAnswer = infer(&emulator, body.clone())
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        assert_eq!(answer.output("bytes"), Some(body.len() as u64));
        assert_eq!(
            answer.output("crc32"),
            Some(u64::from(crc32fast::hash(&body)))
        );
        assert_eq!(answer.id, "r1");
    }
    // Refused by its announced length; the client may notice while it is still sending.
    if let Ok(refused) = infer(&emulator, vec![0; BODY_MAX + 1]).await {
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
    assert_eq!(emulator.executions().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn execution_takes_the_latency_models_time() {
    let emulator = emulator(|config| {
        config.latency = LatencyModel {
            gamma_ms: 30.0,
            epsilon_ms: 6.0,
            delta_ms: 2.0,
            eta_ms: 4.0,
        }
        .into();
        config.cores = 2.0;
    })
    .await
    .unwrap();
    let started = Instant::now();
    let answers: Vec<_> = (0..6).map(|_| infer(&emulator, Vec::new())).collect();
    for answer in answers
        .into_iter()
        .map(|answer| async { answer.await.unwrap().status() })
    {
        assert_eq!(answer.await, 200);
    }
    // Six of 42 ms, each awaited before the next, so one at a time.
    assert!(started.elapsed() >= Duration::from_millis(6 * 42));
    for execution in emulator.executions() {
        let took = execution.ended_ms - execution.started_ms;
        assert!((took - 42.0).abs() < 1e-3, "{took}");
        assert_eq!(execution.cores, 1.0);
    }
    let seconds = started.elapsed().as_secs_f64();
    let used = emulator.core_seconds();
    assert!(
        used >= 2.0 * 0.252 && used <= 2.0 * (seconds + 1.0),
        "{used} core-seconds in {seconds} s"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cores_change_at_run_time_and_are_never_exceeded() {
    let emulator = emulator(|config| {
        config.latency = LatencyModel {
            gamma_ms: 40.0,
            ..LatencyModel::default()
        }
        .into();
    })
    .await
    .unwrap();
    let resources = format!("{}/emulator/resources", emulator.url());
    let url = format!("{}/v2/models/small/infer", emulator.url());
    let client = Client::new();
    let requests: Vec<_> = (0..12)
        .map(|_| tokio::spawn(client.post(&url).send()))
        .collect();
    wait::until("work to start", LIMIT, || emulator.load().0 > 0)
        .await
        .unwrap();
    let change = client
        .put(&resources)
        .json(&json!({"cores": 4.0}))
        .send()
        .await
        .unwrap();
    assert_eq!(change.status(), 200);
    assert_eq!(
        change.json::<Value>().await.unwrap(),
        json!({"cores": 4.0, "parallelism": null, "batch": 1})
    );
    for request in requests {
        assert_eq!(request.await.unwrap().unwrap().status(), 200);
    }
    let done = emulator.executions();
    assert_eq!(done.len(), 12);
    let together = |at: f64| {
        done.iter()
            .filter(|d| d.started_ms <= at && at < d.ended_ms)
            .count()
    };
    let most = done.iter().map(|d| together(d.started_ms)).max();
    assert_eq!(most, Some(4));
    assert!(done.is_sorted_by_key(|d| d.arrived_ms) && done.is_sorted_by_key(|d| d.started_ms));

    // Two at once on four cores: two cores each, half the time.
    let fixed = json!({"parallelism": 2});
    let change = client.put(&resources).json(&fixed).send().await.unwrap();
    assert_eq!(
        change.json::<Value>().await.unwrap(),
        json!({"cores": 4.0, "parallelism": 2, "batch": 1})
    );
    infer(&emulator, Vec::new()).await.unwrap();
    let last = emulator.executions().pop().unwrap();
    assert_eq!((last.cores, last.order), (2.0, 13));
    assert!((last.ended_ms - last.started_ms - 20.0).abs() < 1e-3);
}

#[tokio::test]
async fn invalid_resources_are_refused_by_name_and_change_nothing() {
    let emulator = emulator(|config| {
        config.parallelism = Parallelism::Fixed(NonZeroU32::new(3).unwrap());
    })
    .await
    .unwrap();
    let resources = format!("{}/emulator/resources", emulator.url());
    let client = Client::new();
    for (body, field) in [
        (r#"{"cores": -1}"#, "cores: -1"),
        (r#"{"cores": 1e9}"#, "cores: 1000000000"),
        (r#"{"cores": "two"}"#, "cores: "),
        (r#"{"cores": 2, "parallelism": 0}"#, "parallelism: "),
        (r#"{"cores": 2, "threads": 4}"#, "threads"),
        ("{", "EOF"),
    ] {
        let answer = client.put(&resources).body(body).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{body}");
        let message = answer.json::<Value>().await.unwrap()["error"].to_string();
        assert!(message.contains(field), "{body}: {message}");
    }
    let now: Value = reqwest::get(&resources)
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(now, json!({"cores": 1.0, "parallelism": 3, "batch": 1}));
    assert!(emulator.set_cores(f64::NAN).is_err());
    let bad = ServerConfig {
        cores: -2.0,
        ..ServerConfig::new("m", LatencyModel::default())
    };
    assert!(
        Emulator::start(bad)
            .await
            .unwrap_err()
            .to_string()
            .contains("cores: -2")
    );
}

#[tokio::test]
async fn network_latency_delays_requests_and_answers() {
    const HOP: Duration = Duration::from_millis(50);
    let emulator = emulator(|_| {}).await.unwrap();
    emulator.away_by(HOP);
    let sent = Instant::now();
    assert_eq!(
        infer(&emulator, b"{}".to_vec()).await.unwrap().status(),
        200
    );
    let answered = Instant::now();
    let executions = emulator.executions();
    let run = executions.first().unwrap();
    let at = |ms: f64| emulator.instant(ms).into_std();
    assert!(at(run.arrived_ms) >= sent + HOP, "{run:?}");
    assert!(answered >= at(run.ended_ms) + HOP, "{run:?}");
}

#[tokio::test]
async fn abandoned_request_is_executed_all_the_same() {
    let emulator = emulator(|config| config.latency = LatencyModel::constant(50.0).into())
        .await
        .unwrap();
    let url = format!("{}/v2/models/small/infer", emulator.url());
    let client = Client::new();
    let mut requests = Vec::new();
    for n in 0..3 {
        let request = client
            .post(&url)
            .header("x-request-id", format!("r{n}"))
            .header("x-slo-ms", "80");
        requests.push(tokio::spawn(request.send()));
        let arrived = || emulator.load().0 + emulator.load().1 == n + 1;
        wait::until("the request to arrive", LIMIT, arrived)
            .await
            .unwrap();
    }
    requests.iter().for_each(|request| request.abort());
    wait::until("all to be executed", LIMIT, || emulator.load() == (0, 0))
        .await
        .unwrap();
    let done = emulator.executions();
    let ids: Vec<&str> = done.iter().map(|d| d.request_id.as_str()).collect();
    assert_eq!(ids, ["r0", "r1", "r2"]);
    assert_eq!(done[2].headers["x-slo-ms"], "80");
    assert!(done[2].started_ms >= done[1].ended_ms);
    let after = format!("{}/emulator/executions?after=2", emulator.url());
    let shown: Value = reqwest::get(after).await.unwrap().json().await.unwrap();
    assert_eq!(
        (shown.as_array().unwrap().len(), &shown[0]["request_id"]),
        (1, &json!("r2"))
    );
    emulator.reset();
    assert_eq!(emulator.executions(), []);
}

#[tokio::test]
async fn emulator_fails_as_configured() {
    let emulator = emulator(|_| {}).await.unwrap();
    emulator.fail_next(2);
    for expected in [500, 500, 200] {
        assert_eq!(
            infer(&emulator, Vec::new()).await.unwrap().status(),
            expected
        );
    }
    emulator.slow_by(5.0).unwrap();
    infer(&emulator, Vec::new()).await.unwrap();
    let last = emulator.executions().pop().unwrap();
    assert!((last.ended_ms - last.started_ms - 5.0).abs() < 1e-3);

    emulator.set_cores(0.0).unwrap();
    let url = format!("{}/v2/models/small/infer", emulator.url());
    let held = tokio::spawn(Client::new().post(&url).send());
    wait::until("the request to wait", LIMIT, || emulator.load() == (1, 0))
        .await
        .unwrap();
    emulator.hang_up();
    assert!(held.await.unwrap().is_err());
    assert_eq!(emulator.load(), (1, 0));
    assert_eq!(status(&emulator, "/v2/health/live").await.unwrap(), 200);

    emulator.crash();
    assert_eq!(emulator.load(), (0, 0));
    wait::until_async("no connections", LIMIT, async || {
        infer(&emulator, Vec::new()).await.is_err()
    })
    .await
    .unwrap();
    emulator.come_back().await.unwrap();
    assert_eq!(status(&emulator, "/v2/health/ready").await.unwrap(), 200);
}

#[tokio::test]
async fn loading_server_is_alive_but_not_ready() {
    let emulator = emulator(|config| config.ready_after = Duration::from_millis(300))
        .await
        .unwrap();
    for (path, expected) in [
        ("/v2/health/live", 200),
        ("/v2/health/ready", 503),
        ("/v2/models/small/ready", 503),
    ] {
        assert_eq!(status(&emulator, path).await.unwrap(), expected, "{path}");
    }
    assert_eq!(infer(&emulator, Vec::new()).await.unwrap().status(), 503);
    let ready = async || status(&emulator, "/v2/health/ready").await.unwrap() == 200;
    wait::until_async("the model", LIMIT, ready).await.unwrap();
    assert_eq!(infer(&emulator, Vec::new()).await.unwrap().status(), 200);
    assert_eq!(emulator.executions().len(), 1);
}
