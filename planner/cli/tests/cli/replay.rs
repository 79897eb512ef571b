//! Tests of `weir replay` as a separate process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../scenarios")
        .join(name)
}

fn replay(scenario: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("replay").arg(scenario);
    command.args(arguments).env_remove("RUST_LOG");
    command.env("RUST_BACKTRACE", "0");
    command
}

/// JSON reports of a scenario's contenders.
pub(crate) fn contenders(scenario: &Path, arguments: &[&str]) -> Vec<serde_json::Value> {
    let output = run(scenario, &[&["--json"], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(report["contenders"].take()).unwrap()
}

fn run(scenario: &Path, arguments: &[&str]) -> Output {
    replay(scenario, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Copies a shipped scenario with one line replaced.
fn changed(folder: &Path, name: &str, line: &str, by: &str) -> PathBuf {
    let scenario = fs::read_to_string(shipped(name)).unwrap();
    assert!(scenario.contains(line), "{line}");
    let path = folder.join("scenario.yaml");
    fs::write(&path, scenario.replacen(line, by, 1)).unwrap();
    path
}

#[test]
fn equal_seeds_give_equal_bytes_and_another_seed_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = changed(folder.path(), "swell.yaml", "length_s: 120", "length_s: 15");
    let played = |report: &str, more: &[&str]| {
        let report = folder.path().join(report);
        let mut arguments = vec!["--report", report.to_str().unwrap()];
        arguments.extend(["--only", "weir+planner", "fifo-timeout+static"]);
        arguments.extend(more);
        let output = run(&scenario, &arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let speed = text(&output.stderr).lines().last().map(str::to_owned);
        let speed = speed.unwrap_or_default();
        assert!(
            speed.starts_with("2 × ") && speed.ends_with(" requests/s"),
            "{speed}"
        );
        let mut files: Vec<_> = fs::read_dir(&report)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        let bytes: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
        (output.stdout, bytes)
    };
    let (first, again) = (played("a", &["--json"]), played("b", &["--json"]));
    assert!(first == again);
    let json: serde_json::Value = serde_json::from_slice(&first.0).unwrap();
    assert_eq!(json["scenario"]["seed"], 1);
    assert_eq!(json["contenders"].as_array().unwrap().len(), 2);
    let (table, other) = played("c", &["--seed", "2"]);
    assert!(text(&table).contains("weir+planner"), "a table");
    assert!(other != first.1);
}

#[test]
fn check_prints_summary_without_simulation() {
    let output = run(
        &shipped("capacity.yaml"),
        &["--check", "--of-capacity", "3", "--only", "weir+static"],
    );
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in [
        "capacity, seed 1",
        "over 300 s",
        "3.0",
        "contenders: weir+static\n",
    ] {
        assert!(stdout.contains(part), "'{stdout}' does not say '{part}'");
    }
}

#[test]
fn error_names_file_line_field_and_value_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let path = changed(folder.path(), "burst.yaml", "low_s: 30", "lows_s: 30");
    let output = run(&path, &["--report", report.to_str().unwrap()]);
    let stderr = text(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty());
    for part in ["scenario.yaml:", "load.lows_s", "low_s"] {
        assert!(stderr.contains(part), "'{stderr}' does not say '{part}'");
    }
    let output = run(&shipped("burst.yaml"), &["--only", "weir+nobody"]);
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("weir+nobody") && stderr.contains("weir+planner"),
        "{stderr}"
    );
    // Checked before the simulation: a folder with other files in it.
    fs::create_dir(&report).unwrap();
    fs::write(report.join("thesis.txt"), "mine").unwrap();
    let output = run(
        &shipped("burst.yaml"),
        &["--report", report.to_str().unwrap()],
    );
    assert!(text(&output.stderr).contains("thesis.txt"));
    assert_eq!(fs::read(report.join("thesis.txt")).unwrap(), b"mine");
    // Nobody, not even root, can write below a file.
    for below in ["", "more/"] {
        let report = report.join(format!("thesis.txt/{below}report"));
        let output = run(
            &shipped("burst.yaml"),
            &["--report", report.to_str().unwrap()],
        );
        let stderr = text(&output.stderr);
        let begins = stderr.starts_with("error: --report: ") && stderr.contains("thesis.txt");
        assert!(begins, "{stderr}");
        assert_eq!(
            stderr.to_lowercase().matches("not a directory").count(),
            1,
            "{stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn interrupted_replay_leaves_no_report() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    // Long enough to be interrupted on any machine.
    let path = changed(
        folder.path(),
        "overload.yaml",
        "length_s: 120",
        "length_s: 10000",
    );
    let mut child = replay(&path, &["--report", report.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Progress, in the middle of a simulation.
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    // Not INT: a process that a shell starts in the background ignores it.
    let sent = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    // Drains standard error, so that the process cannot block on it.
    std::io::copy(&mut stderr, &mut std::io::sink()).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(line.contains(" of 10000 s"), "{line}");
    let left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["scenario.yaml"]);
}

/// Scenario of one server under two and a half times its throughput or more.
fn overloaded(folder: &Path, parallelism: &str, server: &str) -> PathBuf {
    let path = folder.join("scenario.yaml");
    let text = format!(
        "name: overloaded
length_s: 60
service:
  service: demo
  slo: 4s
  budget: {{cores: 8}}
  variants:
  - name: detector
    cluster: detector
    accuracy: 70
    cores: {{initial: 4}}
    capacity: {{slopeRps: 20, interceptRps: 0}}
    batch: 8
    batchDelay: 20ms
    latency: {{gammaMs: 40, epsilonMs: 0, deltaMs: 0, etaMs: 20, parallelism: {parallelism}}}
servers:
  detector: {{{server}}}
load: {{generator: poisson, rps: 200}}
contenders:
- {{plane: weir, control: static}}
"
    );
    fs::write(&path, text).unwrap();
    path
}

/// The service's profile says another rate; the measured one is served.
#[test]
fn overloaded_server_answers_as_many_requests_as_were_measured() {
    // Requests are sent for 60 s, and the last ones answered within their objective of 4 s.
    const BUSY_S: f64 = 64.0;
    let folder = tempfile::tempdir().unwrap();
    let whole = "throughput: [{batch: 1, rps: 21.5}, {batch: 4, rps: 50}, {batch: 8, rps: 72}]";
    let batches_of_four = format!("{whole}, batch_max: 4");
    // Each execution has a core: half the cores, half the rate.
    let half = "throughput: [{batch: 1, rps: 10, cores: 2}, {batch: 8, rps: 36, cores: 2}]";
    // A batch of 8 takes 400 ms on one core of two executions and 200 ms on three, so 300 ms on two.
    let between = "throughput: [{batch: 1, rps: 12, cores: 2}, {batch: 8, rps: 40, cores: 2}, \
                   {batch: 8, rps: 80, cores: 6}]";
    for (parallelism, server, rps) in [
        ("1", whole, 72.0),
        ("2", whole, 72.0),
        ("2", &batches_of_four, 50.0),
        ("per-core", whole, 72.0),
        ("per-core", half, 72.0),
        ("2", between, 160.0 / 3.0),
    ] {
        let path = overloaded(folder.path(), parallelism, server);
        let output = run(&path, &["--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let contender = &json["contenders"][0];
        let count = |key: &str| contender[key].as_f64().unwrap();
        let answered_rps = (count("on_time") + count("late")) / BUSY_S;
        println!("{parallelism}, {server}: {answered_rps:.2}/s");
        // The filter takes some seconds to find how many must be in flight.
        assert!(
            (answered_rps / rps - 1.0).abs() < 0.08,
            "{parallelism}, {server}: {answered_rps}/s, not {rps}: {contender}"
        );
        let bound = contender["bound"]["on_time"].as_f64().unwrap();
        assert!(count("on_time") <= bound, "{contender}");
    }
}

#[test]
fn unmeasured_batch_is_refused_before_the_simulation() {
    let folder = tempfile::tempdir().unwrap();
    let path = overloaded(folder.path(), "2", "throughput: [{batch: 4, rps: 50}]");
    let output = run(&path, &["--json"]);
    let stderr = text(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty());
    let refusal = "servers.detector.batch_max: 8 (the profile's batch); it must be 1 to 4";
    assert!(stderr.contains(refusal), "{stderr}");
}

#[test]
fn services_that_share_a_budget_have_a_table_each_and_one_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = changed(
        folder.path(),
        "two-services.yaml",
        "length_s: 600",
        "length_s: 20",
    );
    let output = run(&path, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for part in [
        "vision\n",
        "speech\n",
        "all services\n",
        "weir+planner-shared",
        "weir+planner-fixed",
    ] {
        assert!(table.contains(part), "'{table}' does not say '{part}'");
    }
    let output = run(&path, &["--json", "--only", "weir+planner-shared"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["services"][1]["name"], "speech");
    assert_eq!(
        json["services"][1]["contenders"].as_array().unwrap().len(),
        1
    );
    assert_eq!(json["budget"][0]["budget_cores"], 24.0);
    let output = run(&path, &["--check", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["services"][1]["seed"], 2);
    let output = run(
        &path,
        &["--report", folder.path().join("report").to_str().unwrap()],
    );
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(text(&output.stderr).contains("--report"));
    // As of any scenario, file and line.
    let path = changed(
        folder.path(),
        "two-services.yaml",
        "name: speech",
        "name: vision",
    );
    let output = run(&path, &["--check"]);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("services[1].name: vision"), "{stderr}");
}

#[test]
fn warnings_of_the_simulated_planner_show_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = changed(
        folder.path(),
        "replicas.yaml",
        "length_s: 240",
        "length_s: 100",
    );
    let only = ["--only", "weir+planner"];
    let mut verbose = replay(&path, &only);
    let verbose = verbose.env("RUST_LOG", "warn").output().unwrap();
    assert!(text(&verbose.stderr).contains("WARN"), "{verbose:?}");
    let output = run(&path, &only);
    assert!(output.status.success());
    assert!(!text(&output.stderr).contains("WARN"), "{output:?}");
}
