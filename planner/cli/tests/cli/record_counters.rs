//! Tests of `weir record` with counters: from a proxy's statistics, or an answer of Prometheus, to a replay.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use weir_bed::wait;

const PATIENCE: Duration = Duration::from_secs(60);

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).env_remove("RUST_LOG");
    command.env("RUST_BACKTRACE", "0");
    command
}

fn weir(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Counters that grow by 4 of class gold and 1 of class bulk with each answer.
async fn statistics(State(answers): State<Arc<AtomicU64>>) -> String {
    let answer = answers.fetch_add(1, Ordering::SeqCst);
    let (gold, bulk) = (1000 + 4 * answer, answer);
    format!(
        "# TYPE weir_class_arrivals_total counter\n\
         weir_class_arrivals_total{{service=\"demo\",class=\"gold\"}} {gold}\n\
         weir_class_arrivals_total{{service=\"demo\",class=\"bulk\"}} {bulk}\n\
         weir_arrivals_total{{service=\"demo\"}} {}\n",
        gold + bulk
    )
}

/// A proxy's statistics: their address, and the number of answers so far.
async fn proxy() -> (String, Arc<AtomicU64>) {
    let answers = Arc::new(AtomicU64::new(0));
    let routes = axum::Router::new().route("/stats/prometheus", get(statistics));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = routes.with_state(Arc::clone(&answers));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (format!("http://{address}/stats/prometheus"), answers)
}

/// Number of records of each class.
fn classes(out: &Path) -> [u64; 2] {
    let records = fs::read_to_string(out).unwrap();
    let of = |class: &str| {
        let column = format!(",{class},");
        records
            .lines()
            .skip(1)
            .filter(|line| line.contains(&column))
            .count() as u64
    };
    [of("gold"), of("bulk")]
}

#[tokio::test(flavor = "multi_thread")]
async fn interruption_ends_polls_and_leaves_whole_records() {
    let (url, answers) = proxy().await;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("requests.csv");
    let arguments = ["record", "--stats", &url, "--interval", "100ms", "--out"];
    let mut record = command(&arguments);
    let record = record
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let record = record.spawn().unwrap();
    let enough = || answers.load(Ordering::SeqCst) >= 4;
    wait::until("four answers", PATIENCE, enough).await.unwrap();
    let id = record.id().to_string();
    let interrupt = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(interrupt.success());
    let output = record.wait_with_output().unwrap();
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let grown = classes(&out);
    assert!(grown[1] >= 2 && grown[0] == 4 * grown[1], "{grown:?}");
    for part in [
        format!("{} answers of 1 proxies, 0 failed", grown[1] + 1),
        "with these classes: bulk, gold".to_owned(),
    ] {
        assert!(printed.contains(&part), "{part}: {printed}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_end_after_their_time() {
    let (url, _) = proxy().await;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("requests.csv");
    let limits = ["--interval", "100ms", "--for", "300ms"];
    let mut record = command(&["record", "--stats", &url, "--service", "demo"]);
    record.args(limits).arg("--out").arg(&out);
    let output = tokio::task::spawn_blocking(move || record.output().unwrap());
    let output = output.await.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let grown = classes(&out);
    assert!((1..=4).contains(&grown[1]), "{grown:?}");
    let mut record = command(&["record", "--stats", &url, "--service", "other", "--out"]);
    record.arg(folder.path().join("other.csv"));
    let refused = tokio::task::spawn_blocking(move || record.output().unwrap());
    let error = text(&refused.await.unwrap().stderr);
    assert!(
        error.contains("--service: other; it must be one of demo"),
        "{error}"
    );
}

#[test]
fn proxy_that_does_not_answer_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("requests.csv");
    let (url, out) = ("http://127.0.0.1:1/stats/prometheus", out.to_str().unwrap());
    let refused = weir(&["record", "--stats", url, "--out", out]);
    let error = text(&refused.stderr);
    assert!(
        !refused.status.success() && error.contains(&format!("--stats {url}: ")),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

const RANGE: &str = r#"{"status": "success", "data": {"resultType": "matrix", "result": [
  {"metric": {"__name__": "weir_class_arrivals_total", "service": "demo", "class": "gold"},
   "values": [[1769860800, "100"], [1769860815, "400"], [1769860830, "430"]]},
  {"metric": {"__name__": "weir_class_arrivals_total", "service": "demo", "class": "bulk"},
   "values": [[1769860800, "7"], [1769860815, "7"], [1769860830, "97"]]}]}}"#;

#[test]
fn range_becomes_records_that_replay_reads() {
    let folder = tempfile::tempdir().unwrap();
    let (range, out) = (
        folder.path().join("range.json"),
        folder.path().join("requests.csv"),
    );
    fs::write(&range, RANGE).unwrap();
    let record = |more: &[&str]| {
        let mut arguments = vec!["record", "--range", range.to_str().unwrap()];
        arguments.extend(["--out", out.to_str().unwrap(), "--replace"]);
        arguments.extend(more);
        weir(&arguments)
    };
    let output = record(&[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(classes(&out), [330, 90]);
    let first = fs::read_to_string(&out).unwrap();
    assert!(record(&["--seed", "2"]).status.success());
    assert_ne!(fs::read_to_string(&out).unwrap(), first);
    let bounded = record(&["--from", "1769860815"]);
    assert_eq!(classes(&out), [30, 90]);
    assert!(text(&bounded.stdout).contains("300 outside of --from and --to"));
    assert!(record(&[]).status.success());
    assert_eq!(fs::read_to_string(&out).unwrap(), first);
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/capacity.yaml");
    let printed = text(&output.stdout);
    let load = printed
        .lines()
        .find(|line| line.contains("load: {"))
        .unwrap();
    let scenario = fs::read_to_string(template).unwrap();
    let scenario = scenario
        .replace(
            "load: { generator: poisson, of_capacity: 0.95 }",
            load.trim(),
        )
        .replace("length_s: 300 ", "# ")
        .replace(
            "network: 4g",
            "network: none\nclasses: [{ name: bulk }, { name: gold }]",
        );
    let path = folder.path().join("scenario.yaml");
    fs::write(&path, scenario).unwrap();
    let output = weir(&["replay", path.to_str().unwrap(), "--check", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let checked: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(checked["requests"], 420, "{checked}");
}

#[test]
fn wrong_use_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("requests.csv");
    let range = folder.path().join("range.json");
    let (out, path) = (out.to_str().unwrap(), range.to_str().unwrap());
    for (content, more, part) in [
        ("{\n", &["--range", path][..], "line 2 column"),
        (
            &*RANGE.replace("\"430\"", "\"4.5\""),
            &["--range", path],
            "data.result[0].values[2][1]: 4.5",
        ),
        (
            &*RANGE.replace("\"430\"", "\"NaN\""),
            &["--range", path],
            "data.result[0].values[2][1]: NaN",
        ),
        (
            RANGE,
            &["--range", path, "--service", "x"],
            "--service: x; it must be one of demo",
        ),
        (
            RANGE,
            &["--range", path, "--to", "5"],
            "no record: the counters did not grow; 420",
        ),
        (
            RANGE,
            &["--range", path, "--for", "5s"],
            "cannot be used with",
        ),
        (RANGE, &["--range", path, "log"], "cannot be used with"),
        (RANGE, &[], "--range"),
        (
            RANGE,
            &["--stats", "http://a/", "--interval", "1ms"],
            "100ms to 60s",
        ),
    ] {
        fs::write(&range, content).unwrap();
        let refused = weir(&[&["record", "--out", out], more].concat());
        let error = text(&refused.stderr);
        assert!(
            !refused.status.success() && error.contains(part),
            "{part}: {error}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{more:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_log_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("requests.csv");
    let part = folder.path().join("requests.csv.part");
    let mut record = command(&["record", "-", "--out"]);
    let record = record
        .arg(&out)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let record = record.spawn().unwrap();
    wait::until("the begun file", PATIENCE, || part.exists())
        .await
        .unwrap();
    let id = record.id().to_string();
    let interrupt = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(interrupt.success());
    // The pipe stays open until here: the command ends by the signal alone.
    let mut record = record;
    let input = record.stdin.take();
    let output = record.wait_with_output().unwrap();
    drop(input);
    let error = text(&output.stderr);
    assert!(
        !output.status.success() && error.contains("is not written"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
