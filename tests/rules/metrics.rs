//! Names of metrics: each that a file names exists; labels are found in them by Envoy and by Prometheus.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::Value;
use weir_api::metrics::{GROUP, Kind, LABELS, Metric, encode, encode_group, stats_tag};
use weir_planner::telemetry::metrics;

use crate::tree::{files_with, read};

/// Crates and modules, whose names look like metrics.
const OTHERS: [&str; 17] = [
    "weir_abi",
    "weir_api",
    "weir_apiserver",
    "weir_bed",
    "weir_console",
    "weir_console_bg",
    "weir_draw",
    "weir_experiment",
    "weir_filter",
    "weir_forecast",
    "weir_fuzz",
    "weir_measure",
    "weir_planner",
    "weir_profile",
    "weir_replay",
    "weir_sim",
    "weir_solve",
];

/// Names in Prometheus' output: those of a histogram's parts beside its own.
fn known() -> BTreeSet<String> {
    let planner = metrics::names().unwrap();
    assert!(planner.len() > 20, "{planner:?}");
    let planner = planner.into_iter().map(|name| {
        let is_histogram = name.ends_with("_duration_seconds");
        (name, is_histogram)
    });
    let filter = Metric::ALL.map(|it| (it.name().to_owned(), it.kind() == Kind::Histogram));
    let mut known = BTreeSet::new();
    for (name, is_histogram) in filter.into_iter().chain(planner) {
        if is_histogram {
            known.extend(["_bucket", "_sum", "_count"].map(|part| format!("{name}{part}")));
        }
        known.insert(name);
    }
    known
}

/// Words of a text that begin as metrics do, without the labels in them.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    // The `n` is of an escaped line break.
    let words = words.map(|word| {
        if word.starts_with("nweir_") {
            &word[1..]
        } else {
            word
        }
    });
    let ours = words.filter(|word| word.starts_with("weir_") && !word.ends_with('_'));
    ours.map(|word| word.split("__").next().unwrap_or(word))
}

#[test]
fn metrics_that_files_name_exist() {
    let known = known();
    let (mut count, mut unknown) = (0, BTreeSet::new());
    for path in files_with(&["md", "yaml", "json", "rs"]) {
        // Names of the past; names that are not to be read.
        if path.ends_with("CHANGELOG.md") || path.ends_with("planner/api/src/metrics/series.rs") {
            continue;
        }
        for name in named(&read(&path)) {
            if known.contains(name) {
                count += 1;
            } else if !OTHERS.contains(&name) {
                unknown.insert(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "no metrics: {unknown:#?}");
    assert!(count > 100, "{count} names");
}

/// The tables of the reference have bare names in their first column, all of them and no other.
#[test]
fn reference_lists_exactly_the_existing_metrics() {
    let page = read("docs/reference/metrics.md");
    let (filter, planner) = page.split_once("## Of the planner").unwrap();
    let listed = |part: &str, prefix: &str| -> BTreeSet<String> {
        let rows = part.lines().filter(|line| line.starts_with("| `"));
        let first = rows.map(|row| row.split(" | ").next().unwrap());
        let names = first.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        names.map(|name| format!("{prefix}{name}")).collect()
    };
    let filters = Metric::ALL.map(|metric| metric.name().to_owned());
    assert_eq!(listed(filter, "weir_"), BTreeSet::from(filters));
    let planners: BTreeSet<String> = metrics::names().unwrap().into_iter().collect();
    assert_eq!(listed(planner, "weir_planner_"), planners);
}

/// Series of all metrics, with names and values that are easily mistaken for others.
fn series() -> Vec<(Metric, &'static str, &'static str)> {
    let values = ["res-net-18", "variant", "x-slo-ms", "a", "2"];
    let both = |metric| {
        let of = move |service| values.map(|value| (metric, service, value));
        ["demo", "demo-two", "service", "7"]
            .into_iter()
            .flat_map(of)
    };
    Metric::ALL.into_iter().flat_map(both).collect()
}

fn labels(metric: Metric, service: &str, value: &str) -> BTreeMap<String, String> {
    let own = metric.label().map(|label| (label, value));
    let group = metric.has_group().then_some((GROUP, value));
    let all = own.into_iter().chain([("service", service)]).chain(group);
    all.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Name of a series, whose group has the same name as its variant.
fn long_form(metric: Metric, service: &str, value: &str) -> String {
    match metric.has_group() {
        true => encode_group(metric, service, value, value),
        false => encode(metric, service, value),
    }
}

/// The same as Envoy does: each expression sees the whole name; what the first groups match is removed.
#[test]
fn stats_tags_convert_names_to_labels() {
    let tags = LABELS.map(|label| (label, Regex::new(&stats_tag(label)).unwrap()));
    for (metric, service, value) in series() {
        let name = format!("wasmcustom.{}", long_form(metric, service, value));
        let (mut rest, mut found) = (name.clone(), BTreeMap::new());
        for (label, regex) in &tags {
            let Some(groups) = regex.captures(&name) else {
                continue;
            };
            found.insert((*label).to_owned(), groups[2].to_owned());
            rest = rest.replacen(&groups[1], "", 1);
        }
        assert_eq!(rest, format!("wasmcustom.{}", metric.name()), "{name}");
        assert_eq!(found, labels(metric, service, value), "{name}");
    }
    for other in [
        "cluster.weir_slots__service__b",
        "wasmcustom.other__service__b",
    ] {
        assert!(
            tags.iter().all(|(_, regex)| !regex.is_match(other)),
            "{other}"
        );
    }
}

/// The rules for Prometheus before proxies without `stats_tags`, applied as Prometheus does: anchored, in order.
#[test]
fn relabelling_converts_long_names_to_labels() {
    let page = read("docs/how-to/monitoring.md");
    let (_, from) = page
        .split_once("```yaml\nmetric_relabel_configs:\n")
        .unwrap();
    let (block, _) = from.split_once("```").unwrap();
    let rules: Vec<Value> = serde_saphyr::from_str(block).unwrap();
    let text = |rule: &Value, key: &str| rule[key].as_str().unwrap().to_owned();
    let rules: Vec<_> = rules
        .iter()
        .map(|rule| {
            let regex = Regex::new(&format!("^(?s:{})$", text(rule, "regex"))).unwrap();
            (regex, text(rule, "target_label"), text(rule, "replacement"))
        })
        .collect();
    let underscored = |value: &str| value.replace('-', "_");
    for (metric, service, value) in series() {
        let parts: &[&str] = match metric.kind() {
            Kind::Histogram => &["_bucket", "_sum", "_count"],
            Kind::Counter | Kind::Gauge => &[""],
        };
        for part in parts {
            let name = underscored(&long_form(metric, service, value)) + part;
            let mut found = BTreeMap::from([("__name__".to_owned(), name.clone())]);
            for (regex, target, replacement) in &rules {
                let Some(groups) = regex.captures(&found["__name__"]) else {
                    continue;
                };
                let expand = |template: &str| {
                    let mut text = String::new();
                    groups.expand(template, &mut text);
                    text
                };
                let (target, to) = (expand(target), expand(replacement));
                found.insert(target, to);
            }
            let mut expected = labels(metric, &underscored(service), &underscored(value));
            expected.insert("__name__".to_owned(), format!("{}{part}", metric.name()));
            assert_eq!(found, expected, "{name}");
        }
    }
}
