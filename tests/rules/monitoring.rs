//! Rules and dashboard for Prometheus and Grafana: every expression is valid, and every metric and label in it is one
//! that the filter, the planner or an Envoy exports.

use std::collections::{BTreeMap, BTreeSet};

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{Expr, LabelModifier, VectorSelector, parse};
use serde_json::Value;
use weir_api::metrics::{GROUP, Kind, Metric};
use weir_planner::service::{SolveStatus, VariantState};
use weir_planner::telemetry::metrics;

use crate::tree::read;

const RULES: &str = "k8s/monitoring/rules.yaml";
const RESOURCE: &str = "k8s/monitoring/prometheusrule.yaml";
const DASHBOARD: &str = "k8s/monitoring/dashboard.json";
const PAGE: &str = "docs/how-to/monitoring.md";
/// Functions of one value without labels.
const WITHOUT_LABELS: [&str; 3] = ["absent", "scalar", "vector"];

type Labels = BTreeSet<String>;

fn labels<const N: usize>(names: [&str; N]) -> Labels {
    names.map(str::to_owned).into()
}

/// Labels of every series, by its name in Prometheus.
fn known() -> BTreeMap<String, Labels> {
    let mut known = BTreeMap::new();
    let mut add = |name: &str, is_histogram: bool, labels: Labels| {
        if !is_histogram {
            known.insert(name.to_owned(), labels);
            return;
        }
        for part in ["_sum", "_count"] {
            known.insert(format!("{name}{part}"), labels.clone());
        }
        let buckets = labels.into_iter().chain(["le".to_owned()]);
        known.insert(format!("{name}_bucket"), buckets.collect());
    };
    for metric in Metric::ALL {
        let group = metric.has_group().then_some(GROUP);
        let own = metric.label().into_iter().chain(["service"]).chain(group);
        let own = own.map(str::to_owned).collect();
        add(metric.name(), metric.kind() == Kind::Histogram, own);
    }
    for one in metrics::descriptions().unwrap() {
        let is_histogram = one.name.ends_with("_duration_seconds");
        add(&one.name, is_histogram, one.labels.into_iter().collect());
    }
    // Envoy's own, of which the page says in Envoy's form what they mean.
    let page = read(PAGE);
    for dotted in page.split('`').skip(1).step_by(2) {
        if dotted.starts_with("wasm.weir.") || dotted.starts_with("listener_manager.") {
            let name = format!("envoy_{}", dotted.replace('.', "_"));
            add(&name, false, Labels::new());
        }
    }
    known
}

/// Values of labels that are closed lists.
fn values(label: &str) -> Option<Vec<&'static str>> {
    match label {
        "outcome" => Some(SolveStatus::ALL.map(SolveStatus::label).into()),
        "state" => Some(VariantState::ALL.map(VariantState::label).into()),
        _ => None,
    }
}

/// Labels of an expression's result.
///
/// # Errors
/// A name or a label that nobody exports.
fn result(expr: &Expr, known: &BTreeMap<String, Labels>) -> Result<Labels, String> {
    match expr {
        Expr::VectorSelector(selector) => selected(selector, known),
        Expr::MatrixSelector(matrix) => selected(&matrix.vs, known),
        Expr::Paren(inner) => result(&inner.expr, known),
        Expr::Unary(inner) => result(&inner.expr, known),
        Expr::Subquery(inner) => result(&inner.expr, known),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) => Ok(Labels::new()),
        Expr::Binary(binary) => {
            let (left, right) = (result(&binary.lhs, known)?, result(&binary.rhs, known)?);
            let modifier = binary.modifier.as_ref();
            let is_matched = modifier.is_some_and(|it| it.matching.is_some());
            // One side may be a number.
            if left.is_empty() || right.is_empty() {
                return Ok(&left | &right);
            }
            if left != right && !is_matched {
                return Err(format!("{left:?} never match {right:?}"));
            }
            Ok(left)
        }
        Expr::Aggregate(aggregate) => {
            let inner = result(&aggregate.expr, known)?;
            match &aggregate.modifier {
                None => Ok(Labels::new()),
                Some(LabelModifier::Include(by)) => {
                    let by: Labels = by.labels.iter().cloned().collect();
                    match by.difference(&inner).next() {
                        None => Ok(by),
                        Some(unknown) => Err(format!("by {unknown}, of {inner:?}")),
                    }
                }
                Some(LabelModifier::Exclude(_)) => {
                    Err("without: name the labels with by".to_owned())
                }
            }
        }
        Expr::Call(call) => {
            let mut labels = Labels::new();
            for argument in &call.args.args {
                labels.extend(result(argument, known)?);
            }
            if call.func.name == "label_replace" {
                let texts = call.args.args.iter().filter_map(|it| match &**it {
                    Expr::StringLiteral(text) => Some(text.val.as_str()),
                    _ => None,
                });
                let texts: Vec<&str> = texts.collect();
                let [new, _, old, _] = texts[..] else {
                    return Err(format!("label_replace with {texts:?}"));
                };
                if !labels.contains(old) {
                    return Err(format!("no label {old}, of {labels:?}"));
                }
                labels.insert(new.to_owned());
            }
            if WITHOUT_LABELS.contains(&call.func.name) {
                labels.clear();
            }
            if call.func.name == "histogram_quantile" && !labels.remove("le") {
                return Err("histogram_quantile without le".to_owned());
            }
            Ok(labels)
        }
        Expr::Extension(_) => Err("an extension".to_owned()),
    }
}

fn selected(selector: &VectorSelector, known: &BTreeMap<String, Labels>) -> Result<Labels, String> {
    let name = selector
        .name
        .as_deref()
        .ok_or("a selector without a name")?;
    let labels = known.get(name).ok_or(format!("no metric {name}"))?;
    for Matcher { op, name, value } in &selector.matchers.matchers {
        if !labels.contains(name) {
            return Err(format!("no label {name}, of {labels:?}"));
        }
        let closed = values(name).filter(|_| matches!(op, MatchOp::Equal | MatchOp::NotEqual));
        if closed.is_some_and(|closed| !closed.contains(&value.as_str())) {
            return Err(format!("{name} is never {value}"));
        }
    }
    Ok(labels.clone())
}

/// Labels of an expression's result; panics where it is wrong.
fn check(expr: &str, known: &BTreeMap<String, Labels>) -> Labels {
    let plain = expr.replace("$__rate_interval", "5m");
    let parsed = parse(&plain).unwrap_or_else(|error| panic!("{expr}: {error}"));
    result(&parsed, known).unwrap_or_else(|error| panic!("{expr}: {error}"))
}

/// Names that a template takes from the labels, each after `before`.
fn named(template: &str, before: &str) -> Vec<String> {
    let parts = template.split(before).skip(1);
    let name = |part: &str| {
        part.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    parts.map(name).collect()
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key]
        .as_array()
        .unwrap_or_else(|| panic!("no list {key} in {value}"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("no text {key} in {value}"))
}

/// Series that are known, and those that the rules record.
fn with_records(rules: &Value) -> BTreeMap<String, Labels> {
    let mut known = known();
    for group in list(rules, "groups") {
        for rule in list(group, "rules") {
            if rule.get("record").is_some() {
                let labels = check(text(rule, "expr"), &known);
                known.insert(text(rule, "record").to_owned(), labels);
            }
        }
    }
    known
}

#[test]
fn rules_name_what_is_exported() {
    let rules = yaml(RULES);
    let known = with_records(&rules);
    let page = read(PAGE);
    let mut alerts = 0;
    for rule in list(&rules, "groups")
        .iter()
        .flat_map(|group| list(group, "rules"))
    {
        if rule.get("record").is_some() {
            continue;
        }
        let labels = check(text(rule, "expr"), &known);
        alerts += 1;
        for note in ["summary", "description"] {
            for label in named(text(&rule["annotations"], note), "$labels.") {
                assert!(labels.contains(&label), "{rule}: {label}");
            }
        }
        let name = text(rule, "alert");
        assert!(
            page.contains(&format!("`{name}`")),
            "{PAGE} does not name {name}"
        );
        let severity = text(&rule["labels"], "severity");
        assert!(["critical", "warning"].contains(&severity), "{rule}");
    }
    assert!(alerts > 15, "{alerts} alerts");
}

#[test]
fn error_budget_is_that_of_each_service() {
    let rules = yaml(RULES);
    let known = with_records(&rules);
    let target = "weir:on_time_target:ratio";
    assert_eq!(known[target], labels(["service"]));
    let all = list(&rules, "groups").iter();
    let all: Vec<&Value> = all.flat_map(|group| list(group, "rules")).collect();
    let record = all.iter().find(|rule| rule["record"] == target).unwrap();
    // Without a planner's metric, the default is the target.
    let expr = text(record, "expr");
    let default = format!("+ {}", weir_planner::service::ON_TIME_TARGET);
    assert!(expr.ends_with(&default), "{expr}");
    let burns = all.iter().filter(|rule| {
        let name = rule.get("alert").and_then(Value::as_str);
        name == Some("WeirErrorBudgetBurns")
    });
    let mut pairs = 0;
    for rule in burns {
        let expr = text(rule, "expr");
        let part = format!("(1 - {target})");
        assert_eq!(expr.matches(&part).count(), expr.matches('>').count());
        assert_eq!(check(expr, &known), labels(["service"]), "{expr}");
        pairs += expr.matches(" and ").count();
    }
    assert_eq!(pairs, 4);
}

#[test]
fn resource_has_the_rules_of_the_file() {
    let (rules, resource) = (yaml(RULES), yaml(RESOURCE));
    assert_eq!(rules["groups"], resource["spec"]["groups"]);
    let text = read("k8s/monitoring/kustomization.yaml");
    for name in [RESOURCE, DASHBOARD] {
        let file = name.rsplit('/').next().unwrap();
        assert!(text.contains(file), "{file}: {text}");
    }
}

#[test]
fn dashboard_names_what_is_exported() {
    let known = with_records(&yaml(RULES));
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let mut shown = BTreeSet::new();
    let mut places = BTreeSet::new();
    for panel in list(&dashboard, "panels") {
        let at = &panel["gridPos"];
        let place = (at["x"].as_u64().unwrap(), at["y"].as_u64().unwrap());
        assert!(places.insert(place), "two panels at {place:?}");
        if panel["type"] == "row" {
            continue;
        }
        for target in list(panel, "targets") {
            let expr = text(target, "expr");
            let labels = check(expr, &known);
            for label in named(text(target, "legendFormat"), "{{") {
                assert!(labels.contains(&label), "{expr}: {label}");
            }
            assert!(
                expr.contains("$service") || panel["title"] == "Planners, all services",
                "{expr} is of all services"
            );
            shown.insert(expr.to_owned());
        }
    }
    assert!(shown.len() > 40, "{} expressions", shown.len());
    let variables = list(&dashboard["templating"], "list");
    let service = variables.iter().find(|it| it["name"] == "service").unwrap();
    let query = text(service, "query");
    let inner = query
        .strip_prefix("label_values(")
        .and_then(|it| it.strip_suffix(", service)"));
    assert!(check(inner.unwrap(), &known).contains("service"));
}

#[test]
fn wrong_expressions_are_found() {
    let mut known = known();
    known.insert("weir:recorded".to_owned(), labels(["service"]));
    for (expr, part) in [
        ("never_counted_total", "no metric"),
        ("weir_arrivals_total{variant=\"a\"}", "no label variant"),
        (
            "sum by (variant) (rate(weir_arrivals_total[5m]))",
            "by variant",
        ),
        (
            "sum by (variant) (sum by (service) (weir_slots))",
            "by variant",
        ),
        (
            "weir_planner_cycles_total{outcome=\"never\"}",
            "never never",
        ),
        (
            "histogram_quantile(0.9, sum by (service) (rate(weir_wait_milliseconds_bucket[5m])))",
            "without le",
        ),
        ("sum without (pod) (weir_slots)", "name the labels"),
        ("rate(weir_wait_milliseconds[5m])", "no metric"),
        ("weir_planner_failing > weir:recorded", "never match"),
        ("weir:recorded or weir_planner_failing", "never match"),
        (
            "label_replace(weir:recorded, \"service\", \"$1\", \"stage\", \"(.+)\")",
            "no label stage",
        ),
    ] {
        let parsed = parse(expr).unwrap();
        let refused = result(&parsed, &known).unwrap_err();
        assert!(refused.contains(part), "{expr}: {refused}");
    }
    for (expr, expected) in [
        (
            "max by (service, variant) (weir_planner_cores_shortfall) > 0",
            labels(["service", "variant"]),
        ),
        ("1 - weir:recorded", labels(["service"])),
        (
            "label_replace(weir:recorded, \"stage\", \"$1\", \"service\", \"(.+)\")",
            labels(["service", "stage"]),
        ),
        ("absent(weir_planner_build_info)", labels([])),
        ("envoy_wasm_weir_vm_reload_success > 0", labels([])),
    ] {
        assert_eq!(check(expr, &known), expected, "{expr}");
    }
    assert!(parse("sum by (service (weir_slots)").is_err());
}
