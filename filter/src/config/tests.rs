//! What is taken, and what is refused with which words.

use std::time::Duration;

use weir_api::Revision;

use super::*;

const PLAN: &str = r#""plan":{"variants":[{"name":"a","cluster":"a","share":1,"slots":2}]}"#;

#[track_caller]
fn refused(json: &str, message: &str) {
    let error = Config::parse(json.as_bytes())
        .expect_err(message)
        .to_string();
    assert!(error.contains(message), "'{error}' lacks '{message}'");
}

#[test]
fn the_shortest_configurations() {
    let config = Config::parse(format!(r#"{{"service":"demo",{PLAN}}}"#).as_bytes()).unwrap();
    assert_eq!(config.deadline.default, Duration::from_secs(1));
    assert_eq!(config.static_plan.unwrap().revision, Revision(1));
    let json = r#"{"service":"demo","planner":{"cluster":"planner","key":"k"}}"#;
    let planner = Config::parse(json.as_bytes()).unwrap().planner.unwrap();
    assert_eq!(planner.authority, "weir-planner");
}

#[test]
fn a_plan_copied_from_the_planner_is_taken_as_the_static_one() {
    let json = r#"{"service":"demo","plan":{"format":1,"service":"demo","revision":1790000000000,
        "published_ms":1790000000000,"max_age_ms":60000,
        "variants":[{"name":"a","cluster":"a","share":1.0,"slots":2,"batch":1,"service_ms":3.5,"accuracy":70}]}}"#;
    let plan = Config::parse(json.as_bytes()).unwrap().static_plan.unwrap();
    assert_eq!(plan.revision, Revision(1), "any plan of a planner is newer");
}

#[test]
fn what_is_wrong_is_named_with_its_path() {
    refused("", "(top level): EOF");
    refused("{}", "missing field `service`");
    refused(r#"{"service":"demo"}"#, "needs a `planner`");
    refused(
        r#"{"service":"Demo","planner":{"cluster":"p","key":"k"}}"#,
        "service: 'Demo' must be",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"slo":5}}"#),
        "unknown field `slo`, expected one of",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"least":5}}}}"#),
        "deadline.least: unknown field `least`",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"least_ms":"5"}}}}"#),
        "deadline.least_ms: invalid type",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"least_ms":0}}}}"#),
        "deadline.least_ms: 0 must be 1 to",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"least_ms":5000,"greatest_ms":10}}}}"#),
        "deadline.least_ms: 5000 must be at most",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"default_ms":5}}}}"#),
        "deadline.default_ms: 5 must be least_ms to",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"reserve_ms":60000}}}}"#),
        "deadline.reserve_ms: 60000 must be less",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"queue":{{"held_max":0}}}}"#),
        "queue.held_max: 0 must be 1 to",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"on_stale":"panic"}}"#),
        "on_stale: unknown variant `panic`",
    );
    refused(
        r#"{"service":"demo","on_stale":"static","planner":{"cluster":"p","key":"k"}}"#,
        "'static' needs",
    );
    refused(
        r#"{"service":"demo","planner":{"cluster":"p"}}"#,
        "planner: missing field `key`",
    );
    refused(
        r#"{"service":"demo","planner":{"cluster":"p","key":""}}"#,
        "planner.key: (not shown) must be",
    );
    refused(
        r#"{"service":"demo","plan":{"variants":[{"name":"a","cluster":"a","share":1}]}}"#,
        "plan.variants[0]: missing field `slots`",
    );
    refused(
        r#"{"service":"demo","plan":{"variants":[{"name":"a","cluster":"a","share":0,"slots":1}]}}"#,
        "plan: variants[].share: they sum to 0",
    );
    refused(
        r#"{"service":"demo","plan":{"service":"other","variants":[]}}"#,
        "plan.service: 'other' must be 'demo'",
    );
}
