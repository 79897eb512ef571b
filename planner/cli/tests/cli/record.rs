//! Tests of `weir record` as a separate process: from an access log to a replay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/record")
        .join(name)
}

fn weir(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).env_remove("RUST_LOG");
    command.env("RUST_BACKTRACE", "0").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Records the fixture into `out` with these further arguments.
fn record(out: &Path, more: &[&str]) -> Output {
    let log = fixture("access.jsonl");
    let mut arguments = vec![
        "record",
        log.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ];
    arguments.extend(more);
    weir(&arguments)
}

#[test]
fn log_becomes_records_that_replay_reads() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("requests.csv");
    let output = record(&out, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected = fs::read_to_string(fixture("requests.csv")).unwrap();
    assert_eq!(fs::read_to_string(&out).unwrap(), expected);
    let (printed, warned) = (text(&output.stdout), text(&output.stderr));
    for part in [
        "6 requests in 120.0 s; of 8 lines 2 are left out",
        "response codes: 200 5, 503 1",
        "variants: resnet18 4, resnet50 1",
        "ties: true, silence_s: 119 }",
        "with these classes: gold",
        "5 records have budgets, which count instead of service.slo",
        "weir replay SCENARIO.yaml --check",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    for part in [
        "access.jsonl:4: no JSON object",
        "access.jsonl:7: slo_ms: soon; it must be a number; the line is left out",
        "access.jsonl:8: nothing arrived in the 118 s before this request",
    ] {
        assert!(warned.contains(part), "{part}: {warned}");
    }
    // The line that it prints, in the template.
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/capacity.yaml");
    let load = printed.lines().find(|line| line.contains("load: {"));
    let scenario = fs::read_to_string(template).unwrap();
    let scenario = scenario
        .replace(
            "load: { generator: poisson, of_capacity: 0.95 }",
            load.unwrap().trim(),
        )
        .replace("length_s: 300 ", "# ")
        .replace(
            "network: 4g",
            "network: none\nclasses: [{ name: default }, { name: gold }]",
        );
    let path = folder.path().join("scenario.yaml");
    fs::write(&path, scenario).unwrap();
    let output = weir(&["replay", path.to_str().unwrap(), "--check", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let checked: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(checked["requests"], 6, "{checked}");
    let notes = text(&output.stderr);
    let part = "load.records: 5 of 6 have budgets, which count instead of service.slo";
    assert!(notes.contains(part), "{notes}");
    let scenario = fs::read_to_string(&path).unwrap();
    let shorter = scenario.replace("ties: true", "ties: true, budgets: service");
    fs::write(&path, format!("length_s: 1\n{shorter}")).unwrap();
    let output = weir(&["replay", path.to_str().unwrap(), "--check"]);
    let notes = text(&output.stderr);
    let left_out = "load.records: 3 of 6 are not played: they arrive after length_s\n";
    assert_eq!(notes, left_out);
}

#[test]
fn times_bound_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("requests.csv");
    let from_to = ["--from", "2026-01-31T12:00:00.2Z", "--to", "1769860801.5"];
    let output = record(&out, &from_to);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = fs::read_to_string(&out).unwrap();
    let arrivals: Vec<&str> = records.lines().skip(1).map(|line| &line[..5]).collect();
    assert_eq!(arrivals, ["0.000", "0.100"]);
    assert!(text(&output.stdout).contains("4 outside of --from and --to"));
}

#[test]
fn wrong_use_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("requests.csv");
    for (more, parts) in [
        (
            &["--from", "2027-01-01T00:00:00Z"][..],
            ["no record: 8 lines", "6 outside"],
        ),
        (&["--from", "2", "--to", "1"], ["--to", "after --from"]),
        (&["--from", "noon"], ["--from", "RFC 3339"]),
    ] {
        let output = record(&out, more);
        assert!(!output.status.success(), "{more:?}");
        let error = text(&output.stderr);
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{more:?}");
    }
    fs::write(&out, "mine").unwrap();
    // Nobody, not even root, can write below a file.
    let below = out.join("requests.csv");
    let expected = format!(
        "error: --out: {}: Not a directory (os error 20)\n",
        below.display()
    );
    assert_eq!(text(&record(&below, &[]).stderr), expected);
    let refused = record(&out, &[]);
    assert!(text(&refused.stderr).contains("--replace"));
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
    assert!(record(&out, &["--replace"]).status.success());
}

#[test]
fn line_later_than_the_window_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (log, out) = (folder.path().join("log"), folder.path().join("out.csv"));
    let line = |second: &str| format!("{{\"start_time\": \"{second}\"}}\n");
    fs::write(&log, ["10", "12", "9.5"].map(line).concat()).unwrap();
    let record = |window: &str| {
        let (log, out) = (log.to_str().unwrap(), out.to_str().unwrap());
        weir(&["record", log, "--window", window, "--out", out])
    };
    let refused = text(&record("1s").stderr);
    assert!(
        refused.contains("line 3: its request arrived 2.5 s before"),
        "{refused}"
    );
    assert!(record("3s").status.success());
}
