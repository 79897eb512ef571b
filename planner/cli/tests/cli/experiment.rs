//! Tests of `weir experiment` as a separate process.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments")
}

fn run(files: &[&Path], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("experiment").args(files).args(arguments);
    command.env_remove("RUST_LOG").env("RUST_BACKTRACE", "0");
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Copies the experiment `sponge` with fewer plays, and changes it.
fn short(folder: &Path, change: impl Fn(String) -> String) -> PathBuf {
    let written = fs::read_to_string(self::folder().join("sponge.yaml")).unwrap();
    let (from, to) = (
        ("length_s: 600", "seeds: [1, 2, 3]"),
        ("length_s: 20", "seeds: [1]"),
    );
    assert!(written.contains(from.0) && written.contains(from.1));
    let written = written.replace(from.0, to.0).replace(from.1, to.1);
    let path = folder.join("short.yaml");
    fs::write(&path, change(written)).unwrap();
    path
}

#[test]
fn shipped_experiments_are_valid() {
    let files = fs::read_dir(folder()).unwrap();
    let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let output = run(&files, &["--check"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).matches("seeds:").count(), files.len());
}

#[test]
fn report_is_the_same_again() {
    let work = tempfile::tempdir().unwrap();
    let file = short(work.path(), |written| written);
    let played = |name: &str, threads: &str| {
        let report = work.path().join(name);
        let shown = report.to_str().unwrap();
        let output = run(&[&file], &["--report", shown, "--threads", threads]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let mut files: Vec<(String, String)> = fs::read_dir(&report)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, fs::read_to_string(path).unwrap())
            })
            .collect();
        files.sort();
        (text(&output.stdout), files)
    };
    let (first, again) = (played("a", "1"), played("b", "3"));
    assert!(first == again);
    let names: Vec<&str> = first.1.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "experiments.md",
            "sponge-lost-percent.svg",
            "sponge-mean-cores.svg",
            "sponge.json"
        ]
    );
    assert!(first.0.contains("static 16"), "{}", first.0);
    // Readable by all who can read a file that this process makes.
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    let report = work.path().join("a");
    assert_eq!(mode(&report.join("sponge.json")), mode(&file));
    fs::write(report.join("thesis.txt"), "mine").unwrap();
    let output = run(&[&file], &["--report", report.to_str().unwrap()]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("a: thesis.txt is not of a report"),
        "{stderr}"
    );
    // Nobody, not even root, can write below a file.
    let below = report.join("thesis.txt/b").display().to_string();
    let output = run(&[&file], &["--report", &below]);
    let expected = format!("error: --report {below}: Not a directory (os error 20)\n");
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn distance_without_a_reason_fails_after_the_report() {
    let work = tempfile::tempdir().unwrap();
    let published = "
published:
  - { row: static 8, case: 100 KB, column: mean-cores, value: 4 }
";
    let file = short(work.path(), |written| written + published);
    let report = work.path().join("report");
    let output = run(&[&file], &["--report", report.to_str().unwrap()]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("8 played and 4 published (+100 %)"),
        "{stderr}"
    );
    assert!(report.join("experiments.md").is_file());
}

#[test]
fn errors_name_file_line_and_field() {
    let work = tempfile::tempdir().unwrap();
    let file = short(work.path(), |written| {
        written.replace("payload_bytes: 500000", "payload_bites: 500000")
    });
    let output = run(&[&file], &[]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("short.yaml:"), "{stderr}");
    assert!(stderr.contains("payload_bites"), "{stderr}");
    let output = run(&[&file], &["--threads", "0"]);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("0; it must be 1 to 256"), "{stderr}");
}

#[test]
fn example_of_yesterday_plays_the_records_with_another_slo_budget_and_variant() {
    let file = folder().join("../examples/yesterday.yaml");
    let output = run(&[&file], &["--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = results[0]["cases"].as_array().unwrap();
    let planner = |name: &str| -> Vec<f64> {
        let case = cases.iter().find(|case| case["name"] == name).unwrap();
        let row = &case["rows"][0];
        assert_eq!(row["name"], "planner");
        let cells = row["cells"].as_array().unwrap();
        cells
            .iter()
            .map(|one| one["mean"].as_f64().unwrap())
            .collect()
    };
    let [before, slo, budget, variant] =
        ["as it was", "SLO 200 ms", "4 cores", "without large"].map(planner);
    // The large variant takes 240 ms.
    let accuracies = [before[2], slo[2], variant[2]];
    assert!(accuracies[0] > 71.0, "{accuracies:?}");
    assert_eq!(accuracies[1..], [70.0, 70.0]);
    assert!(
        budget[1] <= 4.0 && before[1] > 4.0,
        "{before:?}, {budget:?}"
    );
}
