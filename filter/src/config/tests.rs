//! Accepted configurations, and the messages of refused ones.

use crate::time::Span;
use weir_api::Revision;

use super::*;
use crate::request::protocol::{METHODS_MAX, PATHS_MAX};

const PLAN: &str = r#""plan":{"variants":[{"name":"a","cluster":"a","share":1,"slots":2}]}"#;

#[track_caller]
fn refused(json: &str, message: &str) {
    let error = Config::parse(json.as_bytes())
        .expect_err(message)
        .to_string();
    assert!(error.contains(message), "'{error}' lacks '{message}'");
}

#[test]
fn minimal_configuration_is_valid() {
    let config = Config::parse(format!(r#"{{"service":"demo",{PLAN}}}"#).as_bytes()).unwrap();
    assert_eq!(config.deadline.default, Span::from_secs(1));
    assert_eq!(config.static_plan.unwrap().revision, Revision(1));
    let json = r#"{"service":"demo","planner":{"cluster":"planner","key":"k"}}"#;
    let planner = Config::parse(json.as_bytes()).unwrap().planner.unwrap();
    assert_eq!(planner.authority, "weir-planner");
}

#[test]
fn absent_key_gets_its_default() {
    let config = Config::parse(format!(r#"{{"service":"demo",{PLAN}}}"#).as_bytes()).unwrap();
    assert_eq!((config.role, config.variant.as_deref()), (Role::Both, None));
    assert_eq!(config.max_retries, 0);
    let queue = (config.batch_wait, config.correct, config.overlap);
    assert_eq!(queue, (None, true, true));
    assert_eq!(config.bypass, Bypass::default());
    assert!(config.skew.estimate);
    assert_eq!(
        (config.source_header(), config.claim_headers.len()),
        (None, 0)
    );
    assert_eq!(config.deadline.delay_allowance, Span::from_millis(250));
}

#[test]
fn present_key_overrides_the_default() {
    let json = r#"{"service":"demo","role":"gate","variant":"a",
        "bypass":{"methods":["TRACE"],"paths":[]},
        "skew":{"delay_ms":80,"source_header":"x-forwarded-for"},
        "queue":{"batch_wait_ms":0,"correct":false,"overlap":false},
        "planner":{"cluster":"planner","key":"k"}}"#;
    let config = Config::parse(json.as_bytes()).unwrap();
    assert_eq!(
        (config.role.label(), config.variant.as_deref()),
        ("gate", Some("a"))
    );
    assert_eq!(config.bypass.methods, ["TRACE"]);
    assert!(config.bypass.paths.is_empty());
    assert_eq!(
        (config.batch_wait, config.correct, config.overlap),
        (Some(Span::ZERO), false, false)
    );
    assert_eq!(config.source_header(), Some(0));
    assert_eq!(config.claim_headers, ["x-forwarded-for"]);
    assert_eq!(config.deadline.delay_allowance, Span::from_millis(80));
    let bypass = |value: &str| {
        let json = format!(r#"{{"service":"demo",{PLAN},"bypass":{value}}}"#);
        Config::parse(json.as_bytes()).unwrap().bypass
    };
    assert_eq!(bypass("{}"), Bypass::default());
    assert_eq!(bypass(r#"{"paths":[]}"#).methods, Bypass::default().methods);
    assert_eq!(bypass(r#"{"get_paths":["/docs"]}"#).get_paths.len(), 1);
}

#[test]
fn invalid_role_bypass_batch_and_skew_are_refused_with_their_path() {
    let refused_with = |more: &str, message: &str| {
        refused(&format!(r#"{{"service":"demo",{PLAN},{more}}}"#), message);
    };
    for (more, message) in [
        (r#""max_retries":4"#, "max_retries: 4 must be 0 to 3"),
        (r#""max_retries":-1"#, "max_retries: invalid value"),
        (
            r#""role":"door""#,
            "role: unknown variant `door`, expected one of `both`, `router`, `gate`",
        ),
        (
            r#""role":"router","variant":"a""#,
            "variant: 'a' must be left out where `role` is 'router'",
        ),
        (
            r#""variant":"a""#,
            "variant: 'a' must be left out where `role` is 'both'",
        ),
        (
            r#""role":"gate","variant":"A""#,
            "variant: 'A' must be 1 to 63 of",
        ),
        (
            r#""role":"gate","variant":"b""#,
            "variant: 'b' must be one of those in `plan.variants`",
        ),
        (
            r#""bypass":{"path":[]}"#,
            "bypass.path: unknown field `path`",
        ),
        (
            r#""bypass":{"methods":["GET","get"]}"#,
            "bypass.methods[1]: 'get' must be",
        ),
        (
            r#""bypass":{"methods":[""]}"#,
            "bypass.methods[0]: '' must be",
        ),
        (
            r#""bypass":{"paths":["/ok","healthz"]}"#,
            "bypass.paths[1]: 'healthz' must be a path",
        ),
        (
            r#""bypass":{"paths":["/*"]}"#,
            "bypass.paths[0]: '/*' must be",
        ),
        (
            r#""bypass":{"paths":["/a*b*"]}"#,
            "bypass.paths[0]: '/a*b*' must be",
        ),
        (r#""bypass":{"paths":"/a"}"#, "bypass.paths: invalid type"),
        (
            r#""bypass":{"get_paths":["docs"]}"#,
            "bypass.get_paths[0]: 'docs' must be a path",
        ),
        (
            r#""queue":{"batch_wait_ms":60001}"#,
            "queue.batch_wait_ms: 60001 must be 0 to 60000",
        ),
        (
            r#""queue":{"batch_wait_ms":-1}"#,
            "queue.batch_wait_ms: invalid value",
        ),
        (
            r#""role":"router","queue":{"batch_wait_ms":5}"#,
            "queue.batch_wait_ms: 5 must be left out",
        ),
        (
            r#""queue":{"correct":"yes"}"#,
            "queue.correct: invalid type",
        ),
        (
            r#""skew":{"delay_ms":3600001}"#,
            "skew.delay_ms: 3600001 must be 0 to 3600000",
        ),
        (r#""skew":{"delay":5}"#, "skew.delay: unknown field `delay`"),
        (
            r#""skew":{"source_header":"X-Client"}"#,
            "skew.source_header: 'X-Client' must be a header's name",
        ),
        (
            r#""skew":{"source_header":""}"#,
            "skew.source_header: '' must be",
        ),
        (
            r#""skew":{"source_header":":path"}"#,
            "skew.source_header: ':path' must be",
        ),
        (
            r#""skew":{"estimate":false,"source_header":"x"}"#,
            "skew.source_header: 'x' must be left out",
        ),
    ] {
        refused_with(more, message);
    }
    let list = |item: &str, count: usize| vec![format!("\"{item}\""); count].join(",");
    for (key, item, most) in [("methods", "GET", METHODS_MAX), ("paths", "/a", PATHS_MAX)] {
        let message = format!("bypass.{key}: {} of them must be at most {most}", most + 1);
        refused_with(
            &format!(r#""bypass":{{"{key}":[{}]}}"#, list(item, most + 1)),
            &message,
        );
    }
    let long = format!("/{}", "é".repeat(300));
    refused_with(
        &format!(r#""bypass":{{"paths":["{long}"]}}"#),
        "é…' must be a path",
    );
    let most = format!(
        r#"{{"service":"demo",{PLAN},"bypass":{{"methods":[{}],"paths":[{}]}}}}"#,
        list("GET", METHODS_MAX),
        list("/a", PATHS_MAX)
    );
    assert!(Config::parse(most.as_bytes()).is_ok());
}

#[test]
fn plan_copied_from_the_planner_is_a_valid_static_plan() {
    let json = r#"{"service":"demo","plan":{"format":1,"service":"demo","revision":1790000000000,
        "published_ms":1790000000000,"max_age_ms":60000,"downstream_ms":40.5,
        "variants":[{"name":"a","cluster":"a","share":1.0,"slots":2,"batch":1,"service_ms":3.5,"accuracy":70}]}}"#;
    let plan = Config::parse(json.as_bytes()).unwrap().static_plan.unwrap();
    assert_eq!(plan.revision, Revision(1), "any plan of a planner is newer");
    assert_eq!(plan.downstream_ms, 40.5);
}

#[test]
fn invalid_configuration_is_refused_with_its_path() {
    refused("", "(top level): EOF");
    refused("{}", "missing field `service`");
    refused(r#"{"service":"demo"}"#, "planner: (left out) must be given");
    refused(
        r#"{"service":"Demo","planner":{"cluster":"p","key":"k"}}"#,
        "service: 'Demo' must be",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"slo":5}}"#),
        "unknown field `slo`, expected one of",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"min":5}}}}"#),
        "deadline.min: unknown field `min`",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"min_ms":"5"}}}}"#),
        "deadline.min_ms: invalid type",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"min_ms":0}}}}"#),
        "deadline.min_ms: 0 must be 1 to",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"min_ms":5000,"max_ms":10}}}}"#),
        "deadline.min_ms: 5000 must be at most",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"default_ms":5}}}}"#),
        "deadline.default_ms: 5 must be min_ms to",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"reserve_ms":60000}}}}"#),
        "deadline.reserve_ms: 60000 must be less",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"queue":{{"max_requests":0}}}}"#),
        "queue.max_requests: 0 must be 1 to",
    );
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"on_stale":"panic"}}"#),
        "on_stale: unknown variant `panic`",
    );
    refused(
        r#"{"service":"demo","on_stale":"static","planner":{"cluster":"p","key":"k"}}"#,
        "on_stale: 'static' must be 'keep' or 'refuse'",
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

#[test]
fn health_rules_are_read_and_checked() {
    let read = |health: &str| {
        let json = format!(r#"{{"service":"demo",{PLAN}{health}}}"#);
        Config::parse(json.as_bytes()).unwrap().health
    };
    let default = crate::health::Policy::default();
    assert_eq!(read(""), default);
    assert_eq!(read(r#","health":{"eject":true}"#), default);
    assert!(!read(r#","health":{"eject":false}"#).eject);
    let policy = read(
        r#","health":{"path":"/v2/health/ready","eject":{"errors":3,"base_ms":100,"max_ms":800}}"#,
    );
    assert_eq!(policy.path.as_deref(), Some("/v2/health/ready"));
    assert_eq!((policy.eject, policy.errors), (true, 3));
    assert_eq!(policy.base, Span::from_millis(100));
    assert_eq!(policy.max, Span::from_millis(800));
    for (health, message) in [
        (r#"{"path":"ready"}"#, "health.path: 'ready' must be a path"),
        (r#"{"eject":3}"#, "true, false, or a table of errors"),
        (
            r#"{"eject":{"errors":0}}"#,
            "health.eject.errors: 0 must be 1 to 1000",
        ),
        (
            r#"{"eject":{"base_ms":0}}"#,
            "health.eject.base_ms: 0 must be 1 to",
        ),
        (
            r#"{"eject":{"base_ms":90,"max_ms":80}}"#,
            "health.eject.max_ms: 80 must be health.eject.base_ms (90) to",
        ),
        (r#"{"eject":{"often":1}}"#, "unknown field `often`"),
    ] {
        refused(
            &format!(r#"{{"service":"demo",{PLAN},"health":{health}}}"#),
            message,
        );
    }
    refused(
        &format!(r#"{{"service":"demo",{PLAN},"failover":""}}"#),
        "failover: '' must be",
    );
    let gate = format!(r#"{{"service":"demo","role":"gate",{PLAN},"failover":"-x"}}"#);
    refused(
        &gate,
        "failover: '-x' must be left out where `role` is 'gate'",
    );
    let gate = format!(r#"{{"service":"demo","role":"gate",{PLAN},"health":{{}}}}"#);
    refused(
        &gate,
        "health: (given) must be left out where `role` is 'gate'",
    );
}
