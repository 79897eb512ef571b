//! Tests of experiment files: what is refused, and what is played.

mod services;

use serde_json::json;

use super::*;
use crate::Results;

const EXPERIMENT: &str = "
name: small
title: Small
paper: A paper
figures: Fig. 1
question: Who loses the fewest?
scenario:
  name: small
  length_s: 20
  service:
    service: demo
    slo: 1s
    mode: active
    budget: { cores: 4 }
    variants:
      - name: only
        cluster: only
        accuracy: 70
        cores: { initial: 2 }
        capacity: { slopeRps: 20, interceptRps: 0 }
        latency: { gammaMs: 50, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: per-core }
  load: { generator: poisson, rps: 20 }
seeds: [1, 2]
cases:
  - { name: usual }
  - { name: twice, set: { load.rps: 40 }, rows: { Weir: { seed: 7 } } }
rows:
  - { name: two cores, kind: baseline, contender: { plane: fifo-weights, control: static } }
  - { name: one core, kind: baseline, contender: { plane: fifo-weights, control: static },
      set: { service.variants.only.cores.initial: 1 } }
  - { name: Weir, kind: weir, contender: { plane: weir, control: planner } }
columns: [lost-percent, mean-cores, accuracy, objective]
published:
  - { row: two cores, case: usual, column: mean-cores, value: 2 }
claims:
  - { text: half of the cores, source: abstract, case: usual, column: mean-cores, row: one core, to: two cores, ratio: 0.4 }
coverage:
  - { figure: Fig. 1, shows: cores, played: all rows }
";

fn checked(text: &str) -> Result<Experiment, String> {
    check(text, Path::new(""), None).map_err(|wrong| format!("{}: {}", wrong.path, wrong.message))
}

fn played(threads: usize) -> Results {
    let experiment = checked(EXPERIMENT).unwrap();
    experiment.play(threads, &|_| {}).unwrap()
}

#[test]
fn rows_and_cases_change_the_scenario() {
    let results = played(2);
    let cell = |case, row, column| results.cell(case, row, column).unwrap().mean;
    assert_eq!(cell("usual", "two cores", &Column::MeanCores), 2.0);
    assert_eq!(cell("usual", "one core", &Column::MeanCores), 1.0);
    let lost = |case, row| cell(case, row, &Column::LostPercent);
    // One core executes 20 requests/s: half of 40 requests/s are lost at least.
    assert!(lost("twice", "one core") >= 50.0, "{results:?}");
    assert!(lost("twice", "Weir") < 10.0, "{results:?}");
    let bounds = results.cases[1].bounds.unwrap();
    assert!(bounds.lost_percent <= lost("twice", "Weir"), "{bounds:?}");
    assert!(bounds.mean_cores.unwrap() > 1.5, "{bounds:?}");
}

/// 70 % on all of two of the budget's four cores: 70 − 100 · 0.05 · 2 / 4 points.
#[test]
fn objective_is_the_policys_with_what_was_used() {
    let results = played(1);
    let row = |row| results.cell("usual", row, &Column::Objective).unwrap();
    assert!((row("two cores").mean - 67.5).abs() < 1e-3, "{results:?}");
    let bounds = results.cases[0].bounds.unwrap();
    // The only variant's work for 20 requests/s is one core.
    assert_eq!(bounds.accuracy, Some(70.0));
    let best = bounds.objective.unwrap();
    assert!((68.6..69.1).contains(&best), "{best}");
    assert!(best >= row("Weir").max, "{results:?}");
}

#[test]
fn results_do_not_depend_on_threads() {
    assert_eq!(played(1), played(3));
}

#[test]
fn distance_is_that_of_the_mean() {
    let distances = played(1).distances;
    assert_eq!(distances.len(), 1);
    assert_eq!((distances[0].played, distances[0].percent), (2.0, 0.0));
    assert!(!distances[0].lacks_reason());
    let claims = played(1).claims;
    assert_eq!(
        (claims[0].played, claims[0].percent),
        (Some(0.5), Some(25.0))
    );
    assert!(claims[0].lacks_reason());
}

#[test]
fn bad_values_are_refused_by_their_path() {
    let cases = [
        (
            "seeds: [1, 2]",
            "seeds: []",
            "seeds: 0 of them; it must be 1 to 64",
        ),
        (
            "name: twice",
            "name: usual",
            "cases[1].name: usual; it must be another name",
        ),
        (
            "load.rps: 40",
            "load.rps.more: 40",
            "cases[1].set: load.rps.more: more; 20 has no keys",
        ),
        (
            "load.rps: 40",
            "load.rps: -1",
            "cases[1].set: second 0: -1 requests/s must be",
        ),
        (
            "variants.only.",
            "variants.huge.",
            "rows[1].set: service.variants.huge.cores.initial",
        ),
        (
            "control: planner",
            "control: magic",
            "rows[2].contender.control",
        ),
        ("length_s: 20", "length_s: 0", "scenario.length_s: 0"),
        (
            "row: two cores",
            "row: three cores",
            "published[0].row: three cores; it must be a row",
        ),
        (
            "case: usual",
            "case: unusual",
            "published[0].case: unusual; it must be a case",
        ),
        (
            "column: mean-cores",
            "column: plans",
            "published[0].column: plans",
        ),
        ("kind: weir", "kind: ours", "rows[2].kind"),
        (
            "parallelism: per-core }",
            "parallelism: 1 }\n    policy: sponge",
            "columns[3]: objective, with policy sponge; it must be left out",
        ),
        (
            "columns: [lost-percent,",
            "columns: [{ on-time-percent: gold },",
            "columns[0].on-time-percent: gold; it must be one of the scenario's classes",
        ),
        (
            "rows: { Weir:",
            "rows: { Nobody:",
            "cases[1].rows: Nobody; it must be a row",
        ),
        ("seed: 7", "seed: x", "cases[1].rows.Weir: "),
        (
            "to: two cores",
            "to: ten cores",
            "claims[0].to: ten cores; it must be a row",
        ),
        (
            "ratio: 0.4",
            "ratio: 0",
            "claims[0].ratio: 0; it must be a number above 0",
        ),
        (
            "played: all rows",
            "played: all rows, missing: a GPU",
            "coverage[0]: Fig. 1; it must have either played or missing",
        ),
    ];
    for (good, bad, complaint) in cases {
        assert!(EXPERIMENT.contains(good), "{good}");
        let error = checked(&EXPERIMENT.replace(good, bad)).unwrap_err();
        assert!(error.starts_with(complaint), "{bad}: {error}");
    }
}

#[test]
fn input_is_a_file_or_its_substitute() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rates.txt"), "5\n".repeat(20)).unwrap();
    let input = "
inputs:
  - file: rates.txt
    cases: [usual]
    set: { load: { file: $FILE } }
    substitute: a generated load
";
    let text = format!("{EXPERIMENT}{input}");
    let with = check(&text, Path::new(""), Some(folder.path())).unwrap();
    assert_eq!(with.cases[0].inputs, ["rates.txt"]);
    assert!(with.cases[0].scenarios[0].contains("rates.txt"));
    let without = check(&text, Path::new(""), None).unwrap();
    let substitute = "a generated load (substitute for rates.txt)";
    assert_eq!(without.cases[0].inputs, [substitute]);
    let empty = tempfile::tempdir().unwrap();
    let error = check(&text, Path::new(""), Some(empty.path())).unwrap_err();
    assert!(error.message.contains("no such file"), "{error:?}");
    assert_eq!(error.path, "inputs[0]");
}

#[test]
fn changes_apply_to_the_case_and_the_row_only() {
    let experiment = checked(EXPERIMENT).unwrap();
    let value = |case: usize, row: usize, at: &str| {
        let text = &experiment.cases[case].scenarios[row];
        let scenario: serde_json::Value = serde_json::from_str(text).unwrap();
        scenario.pointer(at).cloned().unwrap()
    };
    assert_eq!(value(0, 0, "/load/rps"), json!(20));
    assert_eq!(value(1, 0, "/load/rps"), json!(40));
    let initial = "/service/variants/0/cores/initial";
    assert_eq!(value(1, 1, initial), json!(1));
    assert_eq!(value(1, 2, initial), json!(2));
    // The row's in that case alone.
    assert_eq!(value(1, 2, "/seed"), json!(7));
    for (case, row) in [(0, 2), (1, 1)] {
        let scenario = &experiment.cases[case].scenarios[row];
        assert!(!scenario.contains("seed"), "{scenario}");
    }
}

#[test]
fn slo_over_recorded_budgets_is_refused_without_load_budgets() {
    let folder = tempfile::tempdir().unwrap();
    let records = "arrival_s,budget_ms\n0.5,100\n19.5,\n";
    std::fs::write(folder.path().join("requests.csv"), records).unwrap();
    let change = |set: &str| {
        let load = "load: { records: requests.csv }\n  classes: [{ name: gold }]";
        let text = EXPERIMENT.replace("load: { generator: poisson, rps: 20 }", load);
        let text = text.replace("set: { load.rps: 40 }", &format!("set: {{ {set} }}"));
        // A service in a file has no keys here.
        let text = text.replace("service.variants.only.cores.initial: 1", "seed: 3");
        let checked = check(&text, folder.path(), None);
        checked.map_err(|wrong| format!("{}: {}", wrong.path, wrong.message))
    };
    for field in [
        "service.slo: 2s",
        "clients.slo_ms: 2000",
        "classes.gold.slo_ms: 2000",
    ] {
        let error = change(field).unwrap_err();
        let (path, _) = field.split_once(':').unwrap();
        let complaint = format!("cases[1].set: {path}: 1 records have budgets of their own");
        assert!(error.starts_with(&complaint), "{error}");
        for budgets in ["service", "recorded"] {
            change(&format!("{field}, load.budgets: {budgets}")).unwrap();
        }
    }
    change("service.budget.cores: 3").unwrap();
    let service = |slo: &str| {
        let (_, service) = EXPERIMENT.split_once("  service:\n").unwrap();
        let (service, _) = service.split_once("  load:").unwrap();
        let service = service.replace("slo: 1s", &format!("slo: {slo}"));
        let service: Value = from_yaml(&service, "service").unwrap();
        std::fs::write(
            folder.path().join(format!("{slo}.yaml")),
            service.to_string(),
        )
        .unwrap();
        service
    };
    for (field, same, other) in [
        (
            "service",
            service("1000ms").to_string(),
            service("2s").to_string(),
        ),
        ("service", "1000ms.yaml".to_owned(), "2s.yaml".to_owned()),
        (
            "clients",
            "{ retries: 1 }".to_owned(),
            "{ slo_ms: 2000 }".to_owned(),
        ),
        (
            "classes",
            "[{ name: gold, share: 2 }]".to_owned(),
            "[{ name: gold, slo_ms: 2000 }]".to_owned(),
        ),
        (
            "classes.gold",
            "{ name: gold, share: 2 }".to_owned(),
            "{ name: gold, slo_ms: 2000 }".to_owned(),
        ),
    ] {
        change(&format!("{field}: {same}")).unwrap();
        let error = change(&format!("{field}: {other}")).unwrap_err();
        let complaint = format!("cases[1].set: {field}: 1 records have budgets of their own");
        assert!(error.starts_with(&complaint), "{error}");
    }
}

#[test]
fn titles_default_to_the_name() {
    let (_, rest) = EXPERIMENT
        .split_once("question: Who loses the fewest?\n")
        .unwrap();
    let experiment = checked(&format!("name: small\n{rest}")).unwrap();
    let results = experiment.play(1, &|_| {}).unwrap();
    let section = crate::section(&experiment, &results);
    assert!(section.starts_with("## small\n\n| lost % |"), "{section}");
}
