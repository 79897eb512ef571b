//! Traces made of reports and calls.

use weir_api::{Revision, Rps};

use super::*;
use crate::service::SolveStatus;
use crate::telemetry::status::Stages;

fn report() -> CycleReport {
    CycleReport {
        at_ms: 1_700_000_000_123,
        cycle_ms: 24.0,
        confirm_ms: 6.0,
        stages_ms: Stages {
            observe: 8.0,
            forecast: 1.0,
            solve: 5.0,
            actuate: 7.0,
            publish: 3.0,
        },
        revision: Some(Revision(7)),
        plans_published: 1,
        plans_rejected: 0,
        measured_rps: None,
        demand_rps: Some(Rps(12.5)),
        forecast: None,
        routed_accuracy_percent: None,
        requests: None,
        scrapes_answered: 2,
        scrapes_failed: 1,
        proxies_without_weir: 2,
        outcome: SolveStatus::Optimal,
        kept: true,
        why: "é".repeat(TEXT_CHARS_MAX + 1),
        objective: None,
        optimum: None,
        resizes_confirmed: 0,
        resizes_failed: 0,
        resources: Default::default(),
        shared_budget: None,
        variants: Default::default(),
    }
}

fn call(begin_ms: u64, end_ms: u64) -> Call {
    Call {
        name: "call",
        begin: Duration::from_millis(begin_ms),
        end: Duration::from_millis(end_ms),
        failure: None,
        attributes: Vec::new(),
    }
}

fn trace(report: &CycleReport, calls: Vec<Call>, omitted: u64) -> CycleTrace {
    let calls = Calls {
        list: calls,
        omitted,
    };
    let took = Duration::from_millis(31);
    CycleTrace::new(("demo", Mode::Active), report, took, calls)
}

#[test]
fn stages_follow_each_other_below_the_cycle() {
    let trace = trace(&report(), Vec::new(), 0);
    assert_eq!(trace.begin, Duration::from_millis(1_700_000_000_123));
    let spans = trace.spans.iter().map(|span| {
        let ms = |time: Duration| time.as_millis();
        (span.name, span.parent, ms(span.begin), ms(span.end))
    });
    let expected = [
        ("cycle", None, 0, 31),
        ("observe", Some(0), 0, 8),
        ("forecast", Some(0), 8, 9),
        ("solve", Some(0), 9, 14),
        ("actuate", Some(0), 14, 21),
        ("publish", Some(0), 21, 24),
        ("confirm", Some(0), 24, 30),
    ];
    assert_eq!(spans.collect::<Vec<_>>(), expected);
}

#[test]
fn call_is_part_of_the_stage_in_which_it_begins() {
    for (begin_ms, stage) in [
        (0, "observe"),
        (7, "observe"),
        (9, "solve"),
        (14, "actuate"),
        (20, "actuate"),
        (21, "publish"),
        (24, "confirm"),
        (30, "confirm"),
    ] {
        let trace = trace(&report(), vec![call(begin_ms, 31)], 0);
        let parent = trace.spans.last().unwrap().parent.unwrap();
        assert_eq!(trace.spans[parent].name, stage, "{begin_ms}");
    }
}

#[test]
fn first_plan_divides_the_calls_of_the_second_half() {
    let plan = |begin_ms| Call {
        name: PUBLISH_PLAN,
        ..call(begin_ms, 31)
    };
    // As if 8 ms had passed between solve and actuate.
    let calls = vec![call(9, 14), call(23, 24), plan(29), call(30, 31), plan(31)];
    let trace = trace(&report(), calls, 0);
    let parents = trace.spans[7..].iter().map(|span| span.parent.unwrap());
    let stages: Vec<&str> = parents.map(|parent| trace.spans[parent].name).collect();
    assert_eq!(
        stages,
        ["solve", "actuate", "publish", "confirm", "confirm"]
    );
}

#[test]
fn attributes_are_those_of_the_report_and_texts_are_cut() {
    let trace = trace(&report(), Vec::new(), 3);
    let value = |name: &str| {
        let mut attributes = trace.spans[0].attributes.iter();
        let found = attributes.find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    };
    for (name, expected) in [
        ("weir.service", Some(TraceValue::text("demo"))),
        ("weir.mode", Some(TraceValue::text("active"))),
        ("weir.outcome", Some(TraceValue::text("optimal"))),
        ("weir.kept", Some(TraceValue::Flag(true))),
        ("weir.revision", Some(TraceValue::Count(7))),
        ("weir.demand_rps", Some(TraceValue::Number(12.5))),
        ("weir.measured_rps", None),
        ("weir.scrapes_failed", Some(TraceValue::Count(1))),
        ("weir.proxies_without_weir", Some(TraceValue::Count(2))),
        ("weir.calls_omitted", Some(TraceValue::Count(3))),
        (
            "weir.reason",
            Some(TraceValue::Text("é".repeat(TEXT_CHARS_MAX))),
        ),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
}

#[test]
fn cycle_without_a_valid_plan_has_failed() {
    for (revision, rejected, failure) in [
        (Some(7), 0, None),
        (Some(7), 2, Some("2 plans failed their check")),
        (None, 0, Some("no plan could be made")),
        (None, 1, Some("no plan could be made")),
    ] {
        let report = CycleReport {
            revision: revision.map(Revision),
            plans_rejected: rejected,
            ..report()
        };
        let trace = trace(&report, Vec::new(), 0);
        assert_eq!(trace.spans[0].failure.as_deref(), failure);
    }
}

#[test]
fn calls_beyond_the_maximum_are_counted() {
    let mut calls = Calls::default();
    for _ in 0..CALLS_MAX + 44 {
        calls.add(|| call(1, 2));
    }
    assert_eq!((calls.list.len(), calls.omitted), (CALLS_MAX, 44));
}
