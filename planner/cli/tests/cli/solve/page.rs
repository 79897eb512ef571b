//! Tests of `docs/reference/solve.md` and the examples' comments against the program: outputs, keys and limits.

use weir_planner::http::solve as http;
use weir_planner::solve::{infaas, infadapter, ipa, latency_model, sponge, themis};

use super::*;

const PAGE: &str = include_str!("../../../../../docs/reference/solve.md");

#[test]
fn schema_has_every_formulation_and_examples_have_every_key() {
    let output = run(&["--schema"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let schema = answer(&output);
    let documents = schema["oneOf"].as_array().unwrap();
    let named = documents
        .iter()
        .map(|one| &one["properties"]["formulation"]["const"]);
    assert!(named.eq(FORMULATIONS), "{documents:?}");
    for (name, document) in FORMULATIONS.iter().zip(documents) {
        let mut keys = BTreeSet::new();
        collect(&schema, document, false, &mut keys);
        assert!(keys.len() > 8, "{name}: {keys:?}");
        let example = example(name);
        let words = words(&example);
        for key in keys {
            assert!(words.contains(&*key), "{name}.yaml does not explain {key}");
        }
    }
    let mut keys = BTreeSet::new();
    for model in ["Latency", "Throughput"] {
        collect(&schema, &schema["$defs"][model], true, &mut keys);
    }
    assert!(keys.len() > 12, "{keys:?}");
    let words = words(PAGE);
    for key in keys {
        assert!(
            words.contains(&*key),
            "docs/reference/solve.md does not tell {key}"
        );
    }
}

#[test]
fn defaults_in_example_comments_are_correct() {
    for name in FORMULATIONS {
        let mut documented = 0;
        let spelt_out: Vec<String> = example(name)
            .lines()
            .map(|line| {
                let remark = line.trim_start().strip_prefix("# ").unwrap_or_default();
                let key = remark.trim_start().split(' ').next().unwrap_or_default();
                let letter = |c: char| c.is_ascii_lowercase() || c == '_';
                match key.strip_suffix(':') {
                    Some(key) if key.chars().all(letter) => {
                        documented += 1;
                        line.replacen("# ", "", 1)
                    }
                    _ => line.to_owned(),
                }
            })
            .collect();
        assert!(documented > 0, "{name}");
        let output = given(spelt_out.join("\n"), &["--json"]);
        let expected = run(&[&path(name), "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), text(&expected.stdout), "{name}");
    }
}

fn words(text: &str) -> BTreeSet<&str> {
    let apart = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    text.split(apart).collect()
}

/// Collects the keys of a part of the schema and the parts it refers to; those of latency models only
/// if `models`.
fn collect(schema: &Value, part: &Value, models: bool, keys: &mut BTreeSet<String>) {
    match part {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get("properties") {
                keys.extend(properties.keys().cloned());
            }
            if let Some(Value::String(reference)) = fields.get("$ref") {
                let name = reference.strip_prefix("#/$defs/").unwrap();
                if models || !["Latency", "Throughput"].contains(&name) {
                    collect(schema, &schema["$defs"][name], models, keys);
                }
            }
            for field in fields.values() {
                collect(schema, field, models, keys);
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| collect(schema, item, models, keys)),
        _ => {}
    }
}

#[test]
fn page_shows_each_example() {
    for name in FORMULATIONS {
        let example = format!("$ weir solve {}", path(name));
        assert!(
            PAGE.lines().any(|line| line.starts_with(&example)),
            "{name}"
        );
    }
}

#[test]
fn limits_on_page_equal_those_of_program() {
    let rows: Vec<Vec<&str>> = PAGE
        .lines()
        .skip_while(|line| *line != "## Limits")
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let limits = limits();
    assert_eq!(rows.len(), limits.len());
    for (of, constant, limit) in limits {
        let quoted = format!("`{constant}`");
        let row = rows.iter().find(|row| row[0] == of && row[3] == quoted);
        let shown = row.unwrap_or_else(|| panic!("no {of} {constant}"))[2];
        assert_eq!(shown.parse(), Ok(limit), "{of} {constant}");
    }
}

fn limits() -> Vec<(&'static str, &'static str, f64)> {
    let count = |count: usize| count as f64;
    let whole = |count: u32| f64::from(count);
    vec![
        (
            "infadapter",
            "VARIANTS_MAX",
            count(infadapter::VARIANTS_MAX),
        ),
        ("infadapter", "OPTIONS_MAX", count(infadapter::OPTIONS_MAX)),
        ("infadapter", "BUDGET_MAX", whole(infadapter::BUDGET_MAX)),
        ("infadapter", "DEMAND_MAX", infadapter::input::DEMAND_MAX),
        ("infadapter", "WEIGHT_MAX", infadapter::input::WEIGHT_MAX),
        (
            "infadapter",
            "READINESS_MAX_S",
            infadapter::input::READINESS_MAX_S,
        ),
        ("sponge", "CHOICES_MAX", whole(sponge::CHOICES_MAX)),
        ("sponge", "WAITING_MAX", count(sponge::WAITING_MAX)),
        ("sponge", "RATE_MAX", sponge::input::RATE_MAX),
        ("sponge", "DELTA_MAX", sponge::input::DELTA_MAX),
        ("ipa", "STAGES_MAX", count(ipa::STAGES_MAX)),
        ("ipa", "VARIANTS_MAX", count(ipa::VARIANTS_MAX)),
        ("ipa", "PATHS_MAX", count(ipa::PATHS_MAX)),
        ("ipa", "BATCH_MAX", whole(ipa::BATCH_MAX)),
        ("ipa", "CHOICES_MAX", count(ipa::CHOICES_MAX)),
        ("ipa", "REPLICAS_MAX", whole(ipa::REPLICAS_MAX)),
        ("ipa", "CORES_MAX", ipa::CORES_MAX),
        ("ipa", "RATE_MAX", ipa::RATE_MAX),
        ("ipa", "WEIGHT_MAX", ipa::WEIGHT_MAX),
        (
            "infaas",
            "ARCHITECTURES_MAX",
            count(infaas::ARCHITECTURES_MAX),
        ),
        ("infaas", "VARIANTS_MAX", count(infaas::VARIANTS_MAX)),
        ("infaas", "RESOURCES_MAX", count(infaas::RESOURCES_MAX)),
        ("infaas", "ACCURACIES_MAX", count(infaas::ACCURACIES_MAX)),
        ("infaas", "REPLICAS_MAX", whole(infaas::REPLICAS_MAX)),
        ("infaas", "AMOUNT_MAX", infaas::AMOUNT_MAX),
        ("infaas", "LOADING_S_MAX", infaas::LOADING_S_MAX),
        ("infaas", "LATENCY_MS_MAX", infaas::LATENCY_MS_MAX),
        ("themis", "STAGES_MAX", count(themis::STAGES_MAX)),
        ("themis", "BATCH_MAX", whole(themis::BATCH_MAX)),
        ("themis", "CORES_MAX", whole(themis::CORES_MAX)),
        ("themis", "INSTANCES_MAX", whole(themis::INSTANCES_MAX)),
        ("themis", "BUDGET_MAX", whole(themis::BUDGET_MAX)),
        ("themis", "LOAD_MAX_RPS", themis::LOAD_MAX_RPS),
        ("latency_model", "MS_MAX", latency_model::MS_MAX),
        (
            "latency_model",
            "BATCH_MAX",
            whole(latency_model::BATCH_MAX),
        ),
        ("latency_model", "CORES_MAX", latency_model::CORES_MAX),
        (
            "latency_model",
            "POINTS_MAX",
            count(latency_model::POINTS_MAX),
        ),
        (
            "latency_model",
            "CELLS_MAX",
            count(latency_model::CELLS_MAX),
        ),
        (
            "latency_model",
            "NOISE_PERCENT_MAX",
            latency_model::NOISE_PERCENT_MAX,
        ),
        (
            "latency_model",
            "RATES_MAX",
            count(latency_model::RATES_MAX),
        ),
        ("latency_model", "RPS_MAX", latency_model::RPS_MAX),
        ("http", "BODY_MAX", count(http::BODY_MAX)),
        ("http", "SOLVES_MAX", count(http::SOLVES_MAX)),
        ("http", "LIMIT_MAX", http::LIMIT_MAX.as_secs_f64() * 1e3),
        ("http", "LIMIT", http::LIMIT.as_secs_f64() * 1e3),
    ]
}
