//! Tests of the checks of planners and services: each fault fails exactly its own.

use serde_json::{Value, json};

use super::*;
use crate::inspect::screen::tests::{example, view};

fn failed(section: &Section) -> Vec<(&str, &str)> {
    let checks = section.checks.iter();
    checks
        .filter_map(|check| Some((check.name.as_str(), check.problem.as_deref()?)))
        .collect()
}

fn healthy() -> Value {
    let mut status = example();
    status["latest"]["variants"]["b"]["blocker"] = Value::Null;
    status
}

#[test]
fn each_fault_of_a_service_fails_its_check() {
    let now_ms = 3_663_000;
    let section = service_checks("demo", &Ok(view(healthy())), Some("1.2.9"), now_ms);
    assert_eq!(failed(&section), []);
    assert_eq!(section.checks.len(), 12);
    let deferred = json!({ "reason": "Deferred", "why": "no node" });
    for (pointer, value, name, part) in [
        (
            "/plan",
            Value::Null,
            "a plan is published",
            "no plan for demo",
        ),
        (
            "/latest/at_ms",
            json!(3_602_000),
            "its latest cycle is recent",
            "61 s ago",
        ),
        (
            "/latest/scrapes_failed",
            json!(2),
            "the proxies' statistics are read",
            "2 failed, 1 answered",
        ),
        (
            "/latest/scrapes_answered",
            json!(0),
            "the proxies' statistics are read",
            "no proxy is known",
        ),
        (
            "/latest/proxies_without_weir",
            json!(2),
            "every scraped proxy has Weir",
            "2 answer without",
        ),
        (
            "/latest/outcome",
            json!("infeasible"),
            "the budget carries the demand",
            "optimal for 22",
        ),
        (
            "/latest/variants/a/blocker",
            deferred,
            "every variant has its target",
            "a: Deferred: no node",
        ),
        (
            "/latest/variants/a/failing_ms",
            json!(5.0),
            "every variant's servers answer",
            "servers of a fail",
        ),
        (
            "/latest/variants/b/service_time/drift_ms",
            json!(5.0),
            "every profile holds",
            "of b are",
        ),
        ("/proxies", json!({}), "proxies poll", "no proxy polls"),
        (
            "/leader/refuses",
            json!("nobody leads"),
            "proxies poll",
            "refused: nobody leads",
        ),
        (
            "/proxies/envoy-1/version",
            json!("1.3.0"),
            "every filter has the planner's version",
            "the planner's is 1.2.9; envoy-1: 1.3.0",
        ),
        (
            "/proxies/envoy-1/version",
            json!("2.2.9"),
            "every filter has the planner's version",
            "envoy-1: 2.2.9",
        ),
        (
            "/proxies/envoy-1/version",
            Value::Null,
            "every filter has the planner's version",
            "envoy-1: an earlier one",
        ),
        (
            "/proxies/envoy-1/refused",
            json!("few"),
            "every proxy has slots",
            "envoy-1: few",
        ),
        (
            "/latest",
            Value::Null,
            "its latest cycle is recent",
            "no cycle",
        ),
    ] {
        let mut status = healthy();
        *status.pointer_mut(pointer).unwrap() = value;
        let section = service_checks("demo", &Ok(view(status)), Some("1.2.9"), now_ms);
        match failed(&section).as_slice() {
            [(failed, problem)] => {
                assert_eq!(*failed, name, "{pointer}");
                assert!(problem.contains(part), "{pointer}: {problem}");
            }
            others => panic!("{pointer}: {others:?}"),
        }
    }
    let mut standby = healthy();
    standby["leader"] = json!({ "leads": false, "address": "http://b", "refuses": null });
    standby["proxies"] = json!({});
    let section = service_checks("demo", &Ok(view(standby)), Some("1.2.9"), now_ms);
    assert_eq!(failed(&section), [], "the leader knows the proxies");
    let section = service_checks("demo", &Ok(view(healthy())), None, now_ms);
    assert_eq!(section.checks.len(), 11, "the planner's version is unknown");
}

#[test]
fn refused_status_names_its_remedy() {
    for (failure, remedy) in [
        (Failure::Refused(401, "wrong".to_owned()), KEY),
        (Failure::Refused(403, "less".to_owned()), KEY),
        (Failure::Refused(404, "none".to_owned()), SERVICES),
        (Failure::Unreached("closed".to_owned()), ANSWERS),
    ] {
        let section = service_checks("demo", &Err(failure.clone()), None, 0);
        assert_eq!(section.failed(), 1, "{failure}");
        assert_eq!(section.checks[0].remedy, remedy, "{failure}");
    }
}

#[test]
fn each_fault_of_a_planner_fails_its_check() {
    let metrics = |version: &str| {
        format!(
            "weir_planner_build_info{{version=\"{version}\"}} 1\nweir_planner_plan_revision{{service=\"a\"}} 1\n"
        )
    };
    let good = || PlannerAnswers {
        health: Ok(String::new()),
        readiness: Ok(String::new()),
        metrics: Ok(metrics(VERSION)),
    };
    let refused = || Err(Failure::Refused(503, "late".to_owned()));
    let away = || Err(Failure::Unreached("connection refused".to_owned()));
    assert_eq!(failed(&checks("http://a", &good())), []);
    for (answers, name, part) in [
        (
            PlannerAnswers {
                health: away(),
                ..good()
            },
            "it answers",
            "connection refused",
        ),
        (
            PlannerAnswers {
                health: refused(),
                ..good()
            },
            "its cycles come back",
            "503: late",
        ),
        (
            PlannerAnswers {
                readiness: refused(),
                ..good()
            },
            "it answers polls",
            "503: late",
        ),
        (
            PlannerAnswers {
                metrics: refused(),
                ..good()
            },
            "its metrics are readable",
            "503: late",
        ),
        (
            PlannerAnswers {
                metrics: Ok(metrics("9.9.9")),
                ..good()
            },
            "its version is this command's",
            "9.9.9",
        ),
    ] {
        let section = checks("http://a", &answers);
        match failed(&section).as_slice() {
            [(failed, problem)] => {
                assert_eq!(*failed, name);
                assert!(problem.contains(part), "{problem}");
            }
            others => panic!("{name}: {others:?}"),
        }
    }
    let none = PlannerAnswers {
        metrics: Ok(String::new()),
        ..good()
    };
    let section = checks("http://a", &none);
    let names: Vec<&str> = failed(&section).iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        ["its version is this command's", "it plans for services"]
    );
}

#[test]
fn variant_without_a_profile_fails_no_check_and_is_named() {
    let mut status = healthy();
    let times = &mut status["latest"]["variants"]["a"]["service_time"];
    *times = json!({
        "state": "normal", "measured_ratio": 43.0, "correction": 43.0, "drift_ms": null, "executions": 812,
        "has_profile": false, "profile_ms": 1.0,
    });
    let section = service_checks("demo", &Ok(view(status)), Some("1.2.9"), 3_663_000);
    assert_eq!(failed(&section), []);
    let name = "every profile holds; a: no profile; measured 43 ms over 812 executions";
    assert!(section.checks.iter().any(|check| check.name == name));
}
