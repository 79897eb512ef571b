//! `weir profile` where something fails: outputs, the terminal, the server's answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Starts a server that answers each request with `answer`, which takes the request's number; returns its address.
async fn answering(answer: fn(u32) -> (StatusCode, &'static str)) -> String {
    let requests = Arc::new(AtomicU32::new(0));
    let handler = post(move || {
        let request = requests.fetch_add(1, Ordering::Relaxed);
        async move {
            // The emulated server takes that long.
            tokio::time::sleep(Duration::from_millis(5)).await;
            answer(request)
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = axum::Router::new().route("/v2/models/small/infer", handler);
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}/v2/models/small/infer")
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_requests_are_reported_with_their_part() {
    let folder = folder();
    let url = answering(|request| match request > 200 && request % 20 == 0 {
        true => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
        false => (StatusCode::OK, "{}"),
    });
    // Precise beyond what can be reached, so that the whole time is measured.
    let time = ["--point-time", "8", "--precision", "0.1"];
    let arguments = [&time[..], &["--concurrency-max", "1"]].concat();
    let output = profile(folder.path(), &url.await, &arguments).await;
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(table.contains("failed %"), "{table}");
    assert!(table.contains(" requests failed ("), "{table}");
    let progress = String::from_utf8(output.stderr.clone()).unwrap();
    let expected = "requests of this point failed, the last with: status 503: busy";
    assert!(progress.contains(expected), "{progress}");
    let origin = &written(folder.path())["origin"];
    let percent = origin["failedPercent"].as_f64().unwrap();
    assert!((1.0..10.0).contains(&percent), "{origin}");
    let mut points = origin["points"].as_array().unwrap().iter();
    assert!(
        points.any(|point| point["failed"].as_u64() > Some(0)),
        "{origin}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_that_is_no_json_is_a_failure_in_the_inference_protocol_alone() {
    let folder = folder();
    let url = answering(|_| (StatusCode::OK, "not json")).await;
    let error = error(&profile(folder.path(), &url, &[]).await);
    let expected = "does not answer: the answer's body is no JSON";
    assert!(error.contains(expected), "{error}");
    let http = ["--protocol", "http", "--point-time", "2"];
    let output = profile(folder.path(), &url, &http).await;
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let folder = folder();
    let unreachable = ["--ready-time", "0"];
    for (arguments, expected) in [
        (
            ["--output", "nodir/x.yaml"],
            "error: --output: nodir/x.yaml: No such file",
        ),
        (
            ["--output", "."],
            "error: --output: .: a folder; it must be a file",
        ),
        (
            ["--plot", "nodir/x.svg"],
            "error: --plot: nodir/x.svg: No such file",
        ),
        // Nobody, not even root, can write below a file.
        (
            ["--output", "request.json/x.yaml"],
            "error: --output: request.json/x.yaml: Not a directory (os error 20)\n",
        ),
    ] {
        let arguments = [&arguments[..], &unreachable].concat();
        let output = profile(folder.path(), "http://127.0.0.1:9/", &arguments).await;
        let error = error(&output);
        assert!(error.starts_with(expected), "{expected}: {error}");
    }
    let left = fs::read_dir(folder.path()).unwrap();
    assert_eq!(left.count(), 1, "only the request");
}

/// Starts `program ARGUMENTS` with its control group's quota, sends it SIGHUP once it has changed the quota, and returns
/// the quota at the end and whether it was ended by that signal.
async fn quota_after_hangup(program: &[&str], time: &str) -> (String, String) {
    let (server, folder) = (server(1.0).await, folder());
    let group = tempfile::tempdir().unwrap();
    let quota = group.path().join("cpu.max");
    fs::write(&quota, "150000 100000").unwrap();
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).current_dir(folder.path());
    command.args([
        "profile",
        "--request",
        "request.json",
        "--url",
        &url(&server),
    ]);
    command.args(["--cores", "0.3", "--precision", "0.1", "--point-time", time]);
    command
        .args(["--concurrency-max", "1"])
        .stdout(std::process::Stdio::null());
    command.arg("--cgroup").arg(group.path()).kill_on_drop(true);
    command.stderr(std::process::Stdio::piped());
    let process = command.spawn().unwrap();
    let read = || fs::read_to_string(&quota).unwrap();
    let changed = wait::until("a quota", Duration::from_secs(60), || {
        read().starts_with("30000 ")
    });
    changed.await.unwrap();
    let id = process.id().unwrap().to_string();
    let hangup = Command::new("kill").args(["-HUP", &id]).status().await;
    assert!(hangup.unwrap().success());
    let output = process.wait_with_output().await.unwrap();
    (read(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_terminal_restores_the_servers_cores() {
    let weir = env!("CARGO_BIN_EXE_weir");
    // The tests themselves may have been started with nohup.
    let plain = ["env", "--default-signal=HUP", weir];
    let (quota, error) = quota_after_hangup(&plain, "60").await;
    assert_eq!(quota, "150000 100000");
    assert!(error.ends_with("error: interrupted\n"), "{error}");
    // nohup's child goes on.
    let (quota, error) = quota_after_hangup(&["nohup", weir], "3").await;
    assert_eq!(quota, "150000 100000");
    assert!(!error.contains("interrupted"), "{error}");
}
