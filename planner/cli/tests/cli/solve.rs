//! `weir solve` as a separate process: the shipped examples, errors, and the outputs shown in
//! `docs/reference/solve.md`.

mod page;
mod refused;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const FORMULATIONS: [&str; 5] = ["infadapter", "sponge", "ipa", "infaas", "themis"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> String {
    fs::read_to_string(root().join(path(name))).unwrap()
}

/// Path relative to the repository's root, where the program runs.
fn path(name: &str) -> String {
    format!("planner/problems/{name}.yaml")
}

/// Returns an example with `what` replaced by `by`.
fn changed(name: &str, what: &str, by: &str) -> String {
    let text = example(name);
    assert!(text.contains(what), "{name}: no '{what}'");
    text.replacen(what, by, 1)
}

fn solve(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("solve").args(arguments).current_dir(root());
    command.env_remove("RUST_LOG").env("RUST_BACKTRACE", "0");
    command
}

fn run(arguments: &[&str]) -> Output {
    solve(arguments).output().unwrap()
}

/// Solves a problem given on standard input.
fn given(input: impl AsRef<[u8]>, arguments: &[&str]) -> Output {
    let mut command = solve(&["-"]);
    command.args(arguments).stdin(Stdio::piped());
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    // A process that rejects an argument does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_ref());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn answer(output: &Output) -> Value {
    let stderr = text(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// Checks an error: exit code, empty standard output, and each part on standard error.
fn refused(output: &Output, code: i32, parts: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    for part in parts {
        assert!(stderr.contains(part), "'{stderr}' does not say '{part}'");
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * (1.0 + one.abs())
}

#[test]
fn every_example_is_optimal_and_matches_integer_programme() {
    for name in FORMULATIONS {
        let own = run(&[&path(name), "--json"]);
        assert_eq!(own.status.code(), Some(0), "{name}: {}", text(&own.stderr));
        assert!(text(&own.stderr).starts_with("own in "), "{name}");
        let own = answer(&own);
        assert_eq!(own["formulation"], name);
        assert_eq!(own["outcome"], "optimal", "{own}");
        assert!(own.get("why").is_none() && own.get("gap").is_none());
        if name == "sponge" {
            continue;
        }
        for solver in ["highs", "microlp"] {
            let other = run(&[&path(name), "--json", "--solver", solver]);
            assert!(text(&other.stderr).starts_with(solver), "{name}");
            let other = answer(&other);
            assert_eq!(other["outcome"], "optimal", "{solver}: {other}");
            let (own, other) = (&own["plan"], &other["plan"]);
            if name == "themis" {
                // Two objectives: cores, then batches. No two plans are equal in both.
                for scaling in ["vertical", "horizontal"] {
                    assert_eq!(own[scaling]["stages"], other[scaling]["stages"], "{solver}");
                    assert_eq!(own[scaling]["cores"], other[scaling]["cores"], "{solver}");
                }
            } else {
                let (own, other) = (number(&own["objective"]), number(&other["objective"]));
                assert!(near(own, other), "{name}, {solver}: {own} and {other}");
            }
        }
    }
}

#[test]
fn sponge_with_integer_solver_is_refused() {
    for solver in ["highs", "microlp"] {
        let output = run(&[&path("sponge"), "--solver", solver]);
        refused(&output, 1, &["solver: an integer programme must be own"]);
    }
}

#[test]
fn json_answers_have_the_documented_fields() {
    let plan = |name: &str| answer(&run(&[&path(name), "--json"]))["plan"].clone();
    for (name, fields, list, each) in [
        (
            "infadapter",
            "accuracy_percent cores objective variants",
            "/variants",
            "capacity_rps cores loads name share",
        ),
        (
            "sponge",
            "batch cores latency_ms objective on_time throughput_rps",
            "",
            "",
        ),
        (
            "ipa",
            "accuracy_percent cores latency_ms objective stages",
            "/stages",
            "accuracy_percent batch cores latency_ms queue_ms replicas stage variant",
        ),
        (
            "infaas",
            "architectures loading_cost moved objective resources running_cost",
            "/architectures",
            "carried_qps name needed_qps variants",
        ),
        (
            "themis",
            "handover horizontal phase vertical",
            "/vertical/stages",
            "batch cores instances latency_ms name throughput_rps wait_ms",
        ),
    ] {
        let plan = plan(name);
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect();
        let found: BTreeSet<String> = names(&plan);
        assert_eq!(found, fields.split(' ').map(str::to_owned).collect());
        if !list.is_empty() {
            let rows = plan.pointer(list).unwrap().as_array().unwrap();
            assert!(rows.len() > 1, "{name}: {plan}");
            for row in rows {
                let found: BTreeSet<String> = names(row);
                assert_eq!(found, each.split(' ').map(str::to_owned).collect());
            }
        }
    }
}

#[test]
fn example_answers_match_hand_computed_values() {
    let plan = |name: &str| answer(&run(&[&path(name), "--json"]))["plan"].clone();
    let infadapter = plan("infadapter");
    let of = |field: &str| [0, 1, 2].map(|index| infadapter["variants"][index][field].clone());
    assert_eq!(of("cores"), [json!(0), json!(6), json!(14)]);
    let capacity = 0.8 * (3.81 * 14.0 - 2.25);
    let share = capacity / (75.0 * 1.1);
    assert!(near(number(&of("share")[2]), share), "{infadapter}");
    let worth = share * 0.7831 + (1.0 - share) * 0.7613 - 0.0125 - 0.001;
    assert!(near(number(&infadapter["objective"]), worth));
    let sponge = plan("sponge");
    assert_eq!((&sponge["cores"], &sponge["batch"]), (&json!(4), &json!(8)));
    assert!(near(number(&sponge["throughput_rps"]), 8.0 / 0.092));
    let ipa = plan("ipa");
    let worth = 2.0 * 0.641 * 69.75 - 12.0 - 2e-6;
    assert!(near(number(&ipa["objective"]), worth), "{ipa}");
    let infaas = plan("infaas");
    assert!(near(number(&infaas["objective"]), 11.0 + 3.76), "{infaas}");
    let themis = plan("themis");
    let cores = ["vertical", "horizontal"].map(|scaling| themis[scaling]["cores"].clone());
    assert_eq!(cores, [json!(10), json!(8)]);
    assert_eq!(themis["phase"], "vertical");
}

#[test]
fn json_and_yaml_from_file_or_standard_input_give_equal_answers() {
    let folder = tempfile::tempdir().unwrap();
    for name in FORMULATIONS {
        let yaml = example(name);
        let document: Value = serde_saphyr::from_str(&yaml).unwrap();
        let file = folder.path().join("problem.json");
        fs::write(&file, document.to_string()).unwrap();
        let expected = run(&[&path(name), "--json"]).stdout;
        for output in [
            run(&[file.to_str().unwrap(), "--json"]),
            given(&yaml, &["--json"]),
            given(document.to_string(), &["--json", "--formulation", name]),
        ] {
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!(text(&output.stdout), text(&expected), "{name}");
        }
        // The formulation may be given as an argument instead.
        let bare = changed(name, &format!("formulation: {name}\n"), "");
        let output = given(&bare, &["--json", "--formulation", name]);
        assert_eq!(text(&output.stdout), text(&expected), "{name}");
        refused(&given(&bare, &[]), 1, &["formulation: missing must be"]);
    }
}
