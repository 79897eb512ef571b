//! `weir profile` as a separate process, against emulated servers of known latency model.

mod batching;
mod faults;
mod service;

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use weir_bed::emulator::{Emulator, LatencyModel, Noise, Parallelism, ServerConfig};
use weir_bed::wait;

/// Latency model of the emulated server, slow against what a noisy machine adds.
const MODEL: LatencyModel = LatencyModel {
    gamma_ms: 60.0,
    epsilon_ms: 30.0,
    delta_ms: 5.0,
    eta_ms: 15.0,
};

/// Emulated server with 5 % noise that executes one batch at a time.
async fn server(cores: f64) -> Emulator {
    let config = ServerConfig {
        cores,
        parallelism: Parallelism::Fixed(NonZeroU32::MIN),
        noise: Some(Noise {
            sigma: 0.05,
            seed: 3,
        }),
        ..ServerConfig::new("small", MODEL)
    };
    Emulator::start(config).await.unwrap()
}

/// Folder with a request.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tensor = json!({"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]});
    let request = json!({"inputs": [tensor]}).to_string();
    fs::write(folder.path().join("request.json"), request).unwrap();
    folder
}

async fn profile(folder: &Path, url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["profile", "--request", "request.json", "--url", url]);
    command.args(arguments).current_dir(folder);
    command.env_remove("RUST_LOG").kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(240), command.output());
    output.await.unwrap().unwrap()
}

fn url(server: &Emulator) -> String {
    format!("{}/v2/models/small/infer", server.url())
}

fn written(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("profile.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn latency_model_of_a_server_is_found_with_few_points() {
    let (server, folder) = (server(1.0).await, folder());
    let resize = format!("{}/emulator/resources", server.url());
    let extent = [
        "--cores",
        "1,4",
        "--batches",
        "1,4,8",
        "--batch-requests",
        "--tell-batch",
    ];
    let time = ["--precision", "2", "--point-time", "8", "--resize", &resize];
    let output = profile(folder.path(), &url(&server), &[&extent[..], &time].concat()).await;
    assert!(output.status.success(), "{output:?}");

    let profile = written(folder.path());
    let points = profile["origin"]["points"].as_array().unwrap();
    let combination = |point: &Value| (point["cores"].to_string(), point["batch"].to_string());
    let combinations: BTreeSet<(String, String)> = points.iter().map(combination).collect();
    assert_eq!(combinations.len(), 6, "{points:?}");
    let latency = &profile["latency"];
    let ms = |key: &str| latency[key].as_f64().unwrap();
    let found = LatencyModel {
        gamma_ms: ms("gammaMs"),
        epsilon_ms: ms("epsilonMs"),
        delta_ms: ms("deltaMs"),
        eta_ms: ms("etaMs"),
    };
    // A busy machine delays the requests, so the bound is twice the 5 % of noise. Throughput is what the
    // points are of: two in flight at once are two of twice the time on half the cores each.
    let at_once = latency["parallelism"].as_f64().unwrap();
    for (batch, cores) in [
        (2, 1.0),
        (6, 1.0),
        (3, 2.0),
        (6, 2.0),
        (2, 3.0),
        (6, 3.0),
        (8, 3.0),
    ] {
        let real = f64::from(batch) / MODEL.service_ms(batch, cores);
        let predicted = at_once * f64::from(batch) / found.service_ms(batch, cores / at_once);
        assert!(
            (predicted / real - 1.0).abs() < 0.1,
            "{batch} on {cores}: {predicted} {real}"
        );
    }
    assert!(profile["origin"]["rSquared"].as_f64().unwrap() > 0.99);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_of_one_size_gets_one_number_that_a_service_file_takes() {
    let (server, folder) = (server(2.0).await, folder());
    let labels: String = (0..4).map(|label| {
        let request = json!({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [label]}]});
        // The emulator's prediction is the number of bytes that it was sent.
        let bytes = request.to_string().len();
        let label = if label == 0 { 0 } else { bytes };
        format!("{}\n", json!({"request": request, "label": label}))
    }).collect();
    fs::write(folder.path().join("labels.jsonl"), labels).unwrap();
    let arguments = ["--cores", "2", "--labels", "labels.jsonl"];
    let output = profile(folder.path(), &url(&server), &arguments).await;
    assert!(output.status.success(), "{output:?}");
    let found = written(folder.path());
    let rps = found["latency"]["parallelism"].as_f64().unwrap() * 1e3
        / found["latency"]["meanMs"].as_f64().unwrap();
    let real = 1e3 / MODEL.service_ms(1, 2.0);
    assert!((rps / real - 1.0).abs() < 0.1, "{rps} {real}: {found}");
    assert_eq!(found["accuracy"], 75.0);

    let service = "\
service: digits
listen: 127.0.0.1:8080
keyEnv: KEY
slo: 800ms
latencyBudget: 0.9
mode: advisory
budget: {cores: 4}
proxies: {stats: ['http://127.0.0.1:1/stats']}
variants:
- {name: small, cluster: small, cores: {initial: 2, min: 2, max: 2}, profile: {file: profile.yaml}}
";
    fs::write(folder.path().join("service.yaml"), service).unwrap();
    let check = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["check", "service.yaml"])
        .current_dir(folder.path())
        .output();
    let check = check.await.unwrap();
    assert!(check.status.success(), "{check:?}");

    // Nothing is measured twice, and nothing is lost.
    let again = profile(folder.path(), &url(&server), &arguments).await;
    assert!(
        error(&again).contains("--output profile.yaml: it exists; --resume goes on"),
        "{again:?}"
    );
    let resumed = [&arguments[..2], &["--resume"]].concat();
    let before = server.executions().len();
    let again = profile(folder.path(), &url(&server), &resumed).await;
    assert!(again.status.success(), "{again:?}");
    assert_eq!(written(folder.path())["latency"], found["latency"]);
    let warm_up = server.executions().len() - before;
    assert!(warm_up <= 201, "{warm_up}");
    let other = format!("{}?x", url(&server));
    let again = profile(folder.path(), &other, &resumed).await;
    assert!(
        error(&again).contains("--resume: profile.yaml is of http://127.0.0.1:"),
        "{again:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_server_is_measured_with_the_same_request() {
    let (server, folder) = (server(2.0).await, folder());
    let arguments = [
        "--cores",
        "2",
        "--protocol",
        "v2-grpc",
        "--plot",
        "plot.svg",
    ];
    let output = profile(folder.path(), &url(&server), &arguments).await;
    assert!(output.status.success(), "{output:?}");
    let found = written(folder.path());
    let latency = &found["latency"];
    let rps = latency["parallelism"].as_f64().unwrap() * 1e3 / latency["meanMs"].as_f64().unwrap();
    let real = 1e3 / MODEL.service_ms(1, 2.0);
    assert!((rps / real - 1.0).abs() < 0.1, "{rps} {real}: {found}");
    let subject = found["origin"]["url"].as_str().unwrap();
    assert!(subject.ends_with("/infer over gRPC"), "{subject}");
    assert!(folder.path().join("plot.svg").exists());
    let other = format!("{}/v2/models/other/infer", server.url());
    let arguments = ["--protocol", "v2-grpc", "--ready-time", "0", "--replace"];
    let output = profile(folder.path(), &other, &arguments).await;
    let error = error(&output);
    assert!(
        error.contains("does not answer: status 404: NotFound"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_breaks_ends_the_measurement_and_its_points_are_kept() {
    let (server, folder) = (server(1.0).await, folder());
    let address = url(&server);
    let arguments = ["--timeout", "2", "--point-time", "30", "--precision", "1"];
    let measuring = profile(folder.path(), &address, &arguments);
    let stopping = async {
        let path = folder.path().join("profile.yaml");
        let measured = wait::until("a point", Duration::from_secs(60), || path.exists());
        measured.await.unwrap();
        server.crash();
    };
    let (output, ()) = tokio::join!(measuring, stopping);
    let error = error(&output);
    assert!(
        error.contains("points are kept in profile.yaml: --resume goes on"),
        "{error}"
    );
    assert!(
        error.contains("10 requests in a row failed, the last with: "),
        "{error}"
    );
    let kept = written(folder.path());
    assert!(kept["latency"].is_null());
    assert!(!kept["origin"]["points"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_and_arguments_are_refused_by_name() {
    let (server, folder) = (server(1.0).await, folder());
    let address = url(&server);
    fs::write(folder.path().join("wrong.jsonl"), "{}\n").unwrap();
    for (arguments, expected) in [
        (&["--cores", "0"][..], "--cores: 0; it must be 0.01 to 1024"),
        (
            &["--cores", "1,1"],
            "--cores: it must be 1 to 32 different numbers",
        ),
        (
            &["--cores", "1,2"],
            "--cores: several; it must be one number, or --cgroup, --resize or --via",
        ),
        (&["--batches", "0"], "--batches: 0; it must be 1 to 1024"),
        (
            &["--precision", "NaN"],
            "--precision: NaN; it must be 0.1 to 50 percent",
        ),
        (
            &["--fit-error", "60"],
            "--fit-error: 60; it must be 0.1 to 50 percent",
        ),
        (
            &["--labels", "wrong.jsonl"],
            "--labels wrong.jsonl: line 1: missing field `request`",
        ),
        (
            &["--labels", "none.jsonl"],
            "--labels none.jsonl: No such file",
        ),
        (
            &["--cgroup", "."],
            "--cgroup: .; it must be a control group",
        ),
        (&["--cgroup", "small"], "--cgroup: small: it does not exist"),
    ] {
        let output = profile(folder.path(), &address, arguments).await;
        assert!(error(&output).contains(expected), "{expected}: {output:?}");
    }
    for (url, arguments, expected) in [
        (
            "http://127.0.0.1:9/",
            &["--ready-time", "0"][..],
            "http://127.0.0.1:9/ does not answer: ",
        ),
        (
            &format!("{}/v2/models/other/infer", server.url()),
            &["--ready-time", "0"],
            "does not answer: status 404",
        ),
        (
            "http://127.0.0.1:9/",
            &["--batches", "2"],
            "--batches: 2; it must be 1, or --batch-requests",
        ),
    ] {
        let output = profile(folder.path(), url, arguments).await;
        assert!(error(&output).contains(expected), "{expected}: {output:?}");
    }
    assert!(!folder.path().join("profile.yaml").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_the_server_refuses_ends_it_at_once() {
    let refusing = post(|| async { (StatusCode::BAD_REQUEST, "inputs: missing") });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = axum::Router::new().route("/predict", refusing);
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let url = format!("http://{address}/predict");
    let output = profile(folder().path(), &url, &[]).await;
    let error = error(&output);
    assert!(
        error.contains("does not answer: status 400: inputs: missing"),
        "{error}"
    );
    serving.abort();
}
