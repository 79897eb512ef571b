//! `weir check` as a separate process: kinds, all errors with their places, and the output as JSON.

mod kinds;
mod others;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("check").args(arguments).current_dir(root());
    command.env_remove("RUST_LOG");
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Checks a text given on standard input.
fn given(text: &str, arguments: &[&str]) -> Output {
    let mut command = command(&["-"]);
    command.args(arguments).stdin(Stdio::piped());
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let input = child.stdin.take();
    input.unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn report(output: &Output) -> Value {
    let stderr = text(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// Returns a shipped file with each first text replaced by the second.
fn changed(file: &str, changes: &[(&str, &str)]) -> String {
    let mut text = fs::read_to_string(root().join(file)).unwrap();
    for (what, by) in changes {
        assert!(text.contains(what), "{file}: no '{what}'");
        text = text.replacen(what, by, 1);
    }
    text
}

/// Line and column, from 1, of the n-th place of a word.
fn place(text: &str, word: &str, nth: usize) -> (u64, u64) {
    let (at, _) = text
        .match_indices(word)
        .nth(nth)
        .unwrap_or_else(|| panic!("no {word} in {text}"));
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line as u64, column as u64)
}

/// Checks that exactly these errors are reported: the place of a word, the path, and a part of the message.
fn check(kind: &str, text: &str, expected: &[(&str, &str, &str)]) {
    let output = given(text, &["--json"]);
    let report = report(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert_eq!(report["kind"], kind, "{report}");
    let errors = report["errors"].as_array().unwrap();
    for (word, path, message) in expected {
        let (line, column) = place(text, word, 0);
        let found = errors.iter().any(|error| {
            error["line"] == line
                && error["column"] == column
                && error["path"] == *path
                && error["message"].as_str().unwrap().contains(message)
        });
        assert!(found, "no {line}:{column}: {path}: {message} in {report:#}");
    }
    assert_eq!(errors.len(), expected.len(), "{report:#}");
    assert_eq!(report["complete"], true, "{report:#}");
}

const SERVICE: &str = "planner/service.example.yaml";

#[test]
fn shipped_files_have_no_errors_and_are_recognized() {
    let mut files = vec![
        (SERVICE.to_owned(), "service"),
        ("k8s/service.example.yaml".to_owned(), "service"),
        (
            "istio/gateway/resnet/sloservice.yaml".to_owned(),
            "resource",
        ),
    ];
    for (folder, kind) in [
        ("problems", "problem"),
        ("scenarios", "scenario"),
        ("experiments", "experiment"),
    ] {
        for entry in fs::read_dir(root().join("planner").join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".yaml") {
                files.push((format!("planner/{folder}/{name}"), kind));
            }
        }
    }
    for (file, kind) in files {
        let output = run(&[&file]);
        let stdout = text(&output.stdout);
        assert_eq!(stdout, format!("{file}: {kind}, no errors\n"));
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn problem_without_formulation_is_recognized() {
    for name in ["infadapter", "sponge", "ipa", "infaas", "themis"] {
        let line = format!("formulation: {name}\n");
        for by in ["", "fromulation: sponge\n", "formulation: none\n"] {
            let text = changed(&format!("planner/problems/{name}.yaml"), &[(&line, by)]);
            let report = report(&given(&text, &["--json"]));
            assert_eq!(report["kind"], "problem", "{name}");
            let errors = report["errors"].as_array().unwrap();
            let at_formulation =
                |error: &Value| error["path"].as_str().unwrap().contains("mulation");
            assert!(errors.iter().any(at_formulation), "{report:#}");
        }
    }
}

#[test]
fn profile_plugin_and_plan_are_recognized() {
    let variant = json!({"name": "a", "cluster": "a", "share": 1, "slots": 2, "batch": 1,
        "service_ms": 10, "service_min_ms": 5, "accuracy": 70});
    let plugin = json!({"service": "a", "plan": {"variants": [variant.clone()]}});
    let services = json!({"planner": {"cluster": "p", "key": "k"},
        "services": [{"service": "a", "match": {"hosts": ["a.example"]}}, {"service": "b"}]});
    let plan = json!({"format": 1, "service": "a", "revision": 1, "max_age_ms": 1000,
        "variants": [variant]});
    let model =
        "latency: {gammaMs: 1, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: per-core}\n";
    for (kind, file) in [
        ("profile", model.to_owned()),
        ("plugin", plugin.to_string()),
        ("plugin", services.to_string()),
        ("plan", plan.to_string()),
    ] {
        let output = given(&file, &["--json"]);
        let report = report(&output);
        let expected = json!({"file": "-", "kind": kind, "errors": [], "complete": true});
        assert_eq!(report, expected);
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn all_errors_of_a_service_are_reported() {
    let text = changed(
        SERVICE,
        &[
            ("slo: 1s ", "slo: 0s "),
            ("mode: active", "mode: activ"),
            ("budget: {cores: 20}", "budget: {cores: 20, kores: 1}"),
            ("slopeRps: 24.45", "slopRps: 24.45"),
            ("gammaMs: 86", "gammaMs: -86"),
            ("accuracy: 76.13", "accuracy: many"),
            ("name: resnet152", "name: resnet18"),
            ("listen: 127.0.0.1:8080", "listen: nowhere"),
            ("readiness: 15s", "readiness: 15s\n    readyness: 15s"),
        ],
    );
    check(
        "service",
        &text,
        &[
            ("0s ", "slo", "0s; it must be 1ms to 1h"),
            ("activ ", "mode", "activ"),
            ("kores", "budget.kores", "kores"),
            ("slopRps", "variants[0].capacity.slopRps", "slopeRps"),
            ("-86", "variants[1].latency.gammaMs", "-86; it must be 0 to"),
            (
                "many\n",
                "variants[1].accuracy",
                "many; it must be a number",
            ),
            ("nowhere", "listen", "nowhere; it must be an address"),
            ("readyness", "variants[2].readyness", "unknown field"),
        ]
        .into_iter()
        .chain([(
            "resnet18\n    cluster: resnet152",
            "variants[2].name",
            "stands twice",
        )])
        .collect::<Vec<_>>(),
    );
}

#[test]
fn key_that_stands_twice_is_one_of_the_errors() {
    let text = changed(
        SERVICE,
        &[
            ("slo: 1s ", "slo: .nan "),
            ("budget: {cores: 20}", "budget: {cores: 20, cores: 21}"),
            ("gammaMs: 86", "gammaMs: .inf"),
        ],
    );
    check(
        "service",
        &text,
        &[
            (".nan", "slo", ".nan; it must be a duration"),
            ("cores: 21}", "budget.cores", "a second time"),
            (
                ".inf",
                "variants[1].latency.gammaMs",
                "inf; it must be 0 to",
            ),
        ],
    );
}

#[test]
fn old_keys_are_errors_that_name_the_present_ones() {
    let text = changed(
        SERVICE,
        &[
            ("slo: 1s ", "slo_ms: 1000 "),
            ("mode: active", "mode: active\nlatency_budget: 0.4"),
            (
                "budget: {cores: 20}",
                "budget: {cores: 20, held: {memory: 1Gi}}",
            ),
            ("slopeRps: 24.45", "slope_rps: 24.45"),
            ("readiness: 15s", "readiness_s: 15"),
            ("accuracy: 76.13", "accuracy: 176.13"),
        ],
    );
    check(
        "service",
        &text,
        &[
            (
                "slo_ms",
                "slo_ms",
                "no longer a key; it is slo, a duration such as 250ms",
            ),
            (
                "latency_budget",
                "latency_budget",
                "no longer a key; it is latencyBudget",
            ),
            ("held", "budget.held", "no longer a key; it is resources"),
            (
                "slope_rps",
                "variants[0].capacity.slope_rps",
                "no longer a key; it is slopeRps",
            ),
            ("176.13", "variants[1].accuracy", "176.13; it must be 0 to"),
            (
                "readiness_s",
                "variants[2].readiness_s",
                "no longer a key; it is readiness, a duration such as 5s",
            ),
        ],
    );
}

#[test]
fn missing_keys_are_reported_at_their_parent() {
    let text = changed(
        SERVICE,
        &[
            ("    cluster: resnet50\n", ""),
            ("keyEnv: WEIR_KEY ", "# "),
            ("budget: {cores: 20}", "budget: {}"),
        ],
    );
    check(
        "service",
        &text,
        &[
            (
                "name: resnet50",
                "variants[1].cluster",
                "missing field `cluster`",
            ),
            ("service: demo", "keyEnv, keyFile", "both missing"),
            ("budget: {}", "budget.cores", "missing field `cores`"),
        ],
    );
}

#[test]
fn every_document_of_a_resource_file_is_checked() {
    let resource = |name: &str, slo: &str, cores: i64| {
        format!(
            "apiVersion: weir.dev/v1alpha1\nkind: SloService\nmetadata: {{name: {name}}}\nspec:\n  slo: {slo}\n  budget: {{cores: {cores}}}\n  proxies: {{pods: {{labels: {{app: gateway}}}}}}\n  variants:\n  - name: a\n    cluster: a\n    accuracy: 70\n    cores: {{initial: 1}}\n    profile: {{configMap: a}}\n"
        )
    };
    let other = "apiVersion: v1\nkind: Service\nmetadata: {name: other}\n";
    let text = format!(
        "{}---\n{other}---\n{}",
        resource("one", "7000s", 8),
        resource("Two", "1s", 70_000)
    );
    check(
        "resource",
        &text,
        &[
            ("7000s", "spec.slo", "1h56m40s; it must be 1ms to"),
            ("70000}", "spec.budget.cores", "70000; it must be 1 to"),
            ("Two", "metadata.name", "Two; it must be"),
        ],
    );
}

#[test]
fn error_over_several_keys_does_not_hide_others() {
    let text = changed(
        SERVICE,
        &[
            ("initial: 6 ", "initial: 16 "),
            (
                "mode: active",
                "mode: active\nkeyFile: x\ndemand: {smoothing: 0s}",
            ),
            ("readiness: 15s", "readiness: 2h\n    workload: {name: A}"),
        ],
    );
    check(
        "service",
        &text,
        &[
            ("WEIR_KEY   ", "keyEnv, keyFile", "both given"),
            ("0s}", "demand.smoothing", "0s; it must be 100ms to"),
            (
                "variants:\n  - name: resnet18 ",
                "variants[].cores.initial",
                "at most budget.cores (20)",
            ),
            ("2h", "variants[2].readiness", "2h; it must be 0s to"),
            (
                "http://127.0.0.1:9003",
                "variants[2].resize, workload",
                "both given",
            ),
        ],
    );
}

#[test]
fn errors_for_people_begin_with_file_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("service.yaml");
    let service = changed(SERVICE, &[("slo: 1s ", "slo: 0s ")]);
    fs::write(&file, &service).unwrap();
    let output = run(&[file.to_str().unwrap()]);
    let (line, column) = place(&service, "0s ", 0);
    let place = format!("{}:{line}:{column}", file.display());
    let expected = format!("{place}: slo: 0s; it must be 1ms to 1h\n");
    assert_eq!(text(&output.stdout), expected);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn unknown_kind_and_unreadable_text_are_errors() {
    let output = given("what: 1\n", &[]);
    let stdout = text(&output.stdout);
    for part in [
        "-:1:1: ",
        "service, resource, profile, scenario, experiment, problem, plugin, plan",
        "--kind",
    ] {
        assert!(stdout.contains(part), "{stdout}");
    }
    assert_eq!(output.status.code(), Some(1));
    let output = given("what: 1\n", &["--kind", "plan", "--json"]);
    assert_eq!(report(&output)["kind"], "plan");
    assert_eq!(output.status.code(), Some(1));
    let output = given("slo: 1s\nlist: [1, 2\nmore: 3\n", &["--json"]);
    let report = report(&output);
    assert_eq!(report["errors"].as_array().unwrap().len(), 1, "{report}");
    assert!(
        report["errors"][0]["line"].as_u64().unwrap() >= 2,
        "{report}"
    );
    let missing = run(&["nobody.yaml"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("nobody.yaml: No such file"));
}
