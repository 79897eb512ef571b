//! Golden reports of replays, identical to the byte on every machine so far. `golden/scenario.yaml` uses a
//! little of every feature.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Load of each kind, with its contender.
const LOADS: [(&str, &str); 8] = [
    ("generator: poisson, rps: 45", "weir+planner"),
    (
        "generator: diurnal, low_rps: 10, high_rps: 90, period_s: 15",
        "edf-without-feasibility+vpa",
    ),
    (
        "generator: burst, low_rps: 20, high_rps: 90, low_s: 4, high_s: 2",
        "weir+planner",
    ),
    (
        "generator: ramp, low_rps: 5, high_rps: 80",
        "weir-global+hpa",
    ),
    (
        "generator: step, low_rps: 5, high_rps: 70, at_s: 9",
        "fifo-timeout+static",
    ),
    (
        "generator: on-off, low_rps: 0, high_rps: 90, low_s: 2, high_s: 3",
        "weir+planner",
    ),
    (
        "generator: swell, low_rps: 20, high_rps: 70",
        "fifo-timeout+static",
    ),
    ("rates: [30, 0, 52.5], loop: true", "weir+planner"),
];

/// A different report means a change of replay's behaviour, or a machine with different results. Only the
/// former is a reason to regenerate the golden files.
#[test]
fn reports_equal_golden_files() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/golden");
    let scenario = fs::read_to_string(golden.join("scenario.yaml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut reported = String::new();
    for (load, contender) in LOADS {
        assert!(scenario.contains(LOADS[0].0));
        let written = scenario.replacen(LOADS[0].0, load, 1);
        let path = folder.path().join("scenario.yaml");
        fs::write(&path, written).unwrap();
        reported += &format!("{load}\n{}\n", in_few_lines(&json(&path, contender)));
    }
    let file = golden.join("report.txt");
    if std::env::var_os("WEIR_GOLDEN").is_some_and(|value| value == "renew") {
        fs::write(&file, &reported).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    let mut lines = expected.lines().zip(reported.lines());
    let (was, is) = lines.find(|(was, is)| was != is).unwrap_or_default();
    assert!(
        expected == reported,
        "the report is another than in {}; the first line that differs was\n{was}\nand is\n{is}\n\
         If replay is meant to do something else now, renew the file and look at what has changed:\n\
         WEIR_GOLDEN=renew cargo xtask test --test cli golden",
        file.display()
    );
}

/// Returns the output of `weir replay --json`.
fn json(scenario: &Path, contender: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["replay", "--json", "--only", contender, "--"])
        .arg(scenario)
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// The same JSON with the scenario and each contender on one line.
fn in_few_lines(json: &str) -> String {
    let mut lines = String::new();
    for line in json.trim_end().lines() {
        let inner = line.trim_start();
        let depth = line.len() - inner.len();
        let begins = depth <= 2 || (depth == 4 && inner.starts_with('{'));
        let gap = match (lines.is_empty(), begins) {
            (true, _) => "",
            (_, true) => "\n",
            (_, false) => " ",
        };
        lines += gap;
        lines += inner;
    }
    lines + "\n"
}
