//! Tests of conditions: order of gravity, and values that persist.

use std::collections::BTreeMap;

use weir_api::{Cores, Revision, Rps};

use super::*;
use crate::backends::Blocker;
use crate::spec::tests::service;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// Report of a cycle without problems: `small` has 2 of 2 cores, `large` 4 of 4.
async fn report() -> CycleReport {
    let mut report = crate::control_loop::tests::reports(1).await.remove(0);
    let variant = |cores| VariantReport {
        cores_target: Cores::whole(cores),
        cores_actual: Cores::whole(cores),
        replicas_target: 1,
        replicas_ready: 1,
        ..VariantReport::default()
    };
    report.variants = BTreeMap::from([
        ("small".to_owned(), variant(2)),
        ("large".to_owned(), variant(4)),
    ]);
    report.revision = Some(Revision(7));
    report.outcome = SolveStatus::Optimal;
    report.kept = false;
    report.why = "optimal for 12 requests/s".to_owned();
    report.demand_rps = Some(Rps(12.345_678));
    (report.scrapes_answered, report.scrapes_failed) = (1, 0);
    report
}

fn blocker(report: &mut CycleReport, name: &str, reason: Reason, why: &str) {
    let why = why.to_owned();
    report.variants.get_mut(name).unwrap().blocker = Some(Blocker { reason, why });
}

/// Formats each condition as `Type=Status Reason: message`.
fn shown(status: &SloServiceStatus) -> Vec<String> {
    let shown = |c: &Condition| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message);
    status.conditions.iter().map(shown).collect()
}

fn active() -> Service {
    let mut service = service(8);
    service.mode = Mode::Active;
    service
}

#[tokio::test]
async fn cycle_without_problems_sets_healthy_conditions() {
    let status = planned_status(
        &active(),
        &report().await,
        &[],
        3,
        &SloServiceStatus::default(),
        at(0),
    );
    assert_eq!(
        shown(&status),
        [
            "Accepted=True Valid: the resource is gone by",
            "ProfileReady=True Given: every variant's latency is given in the resource",
            "Planned=True Optimal: optimal for 12 requests/s",
            "Actuated=True InForce: cores: large 4, small 2",
            "Degraded=False AsExpected: ",
            "Ready=True Serving: a plan is in force",
        ]
    );
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!((status.demand_rps, status.cores), (Some(12.346), Some(6.0)));
}

#[tokio::test]
async fn gravest_blocker_is_reported() {
    // Blockers → Actuated, Degraded.
    type Blockers = &'static [(&'static str, Reason)];
    let table: &[(Blockers, &str, &str)] = &[
        (
            &[("small", Reason::Waiting)],
            "False Waiting: small: why",
            "False AsExpected: ",
        ),
        (
            &[("small", Reason::Deferred)],
            "False Deferred: small: why",
            "True NodesFull: no node has capacity for the target of small: add nodes, or lower budget.cores; why",
        ),
        (
            &[("small", Reason::Deferred), ("large", Reason::Forbidden)],
            "False Forbidden: large: why",
            "True Forbidden: large: why",
        ),
        (
            &[
                ("large", Reason::ConflictingWriter),
                ("small", Reason::NoWorkload),
            ],
            "False ConflictingWriter: large: why",
            "True ConflictingWriter: large: why",
        ),
    ];
    for (blockers, actuated, degraded) in table {
        let mut report = report().await;
        for (name, reason) in *blockers {
            blocker(&mut report, name, *reason, "why");
        }
        let status = planned_status(
            &active(),
            &report,
            &[],
            1,
            &SloServiceStatus::default(),
            at(0),
        );
        let shown = shown(&status);
        assert_eq!(shown[3], format!("Actuated={actuated}"));
        assert_eq!(shown[4], format!("Degraded={degraded}"));
    }
}

#[tokio::test]
async fn service_is_ready_unless_a_person_must_act() {
    let none = SloServiceStatus::default();
    let ready = |service: &Service, report: &CycleReport| {
        let status = planned_status(service, report, &[], 1, &none, at(0));
        shown(&status).pop().unwrap()
    };
    for (reason, expected) in [
        (Reason::Waiting, "Ready=True Serving: a plan is in force"),
        (Reason::Replacing, "Ready=True Serving: a plan is in force"),
        (Reason::Deferred, "Ready=False Deferred: small: why"),
        (Reason::Forbidden, "Ready=False Forbidden: small: why"),
        (Reason::NoWorkload, "Ready=False NoWorkload: small: why"),
    ] {
        let mut report = report().await;
        blocker(&mut report, "small", reason, "why");
        assert_eq!(ready(&active(), &report), expected);
        // The mode advisory changes no cores, so nothing stops it.
        let mut advisory = active();
        advisory.mode = Mode::Advisory;
        assert_eq!(
            ready(&advisory, &report),
            "Ready=True Serving: a plan is in force"
        );
        report.revision = None;
        let unplanned =
            "Ready=False NoPlan: no variant has a core that serves: optimal for 12 requests/s";
        assert_eq!(ready(&active(), &report), unplanned);
    }
    let refused = refused_status("Taken", "it is taken", 2, &none, at(0));
    assert_eq!(
        shown(&refused).pop().unwrap(),
        "Ready=False Taken: it is taken"
    );
}

#[tokio::test]
async fn degradation_is_reported_with_reason() {
    let mut report = report().await;
    report.variants.get_mut("large").unwrap().cores_actual = Cores::whole(1);
    (report.scrapes_answered, report.scrapes_failed) = (2, 1);
    let none = SloServiceStatus::default();
    let conditions = shown(&planned_status(&active(), &report, &[], 1, &none, at(0)));
    assert_eq!(
        conditions[3..],
        [
            "Actuated=False Resizing: large 1 of 4 cores, 1 of 1 replicas, small 2 of 2 cores, 1 of 1 replicas",
            "Degraded=True ProxiesLost: 1 of 3 proxies did not answer",
            "Ready=True Serving: a plan is in force",
        ]
    );
    report.revision = None;
    report.scrapes_failed = 0;
    report.outcome = SolveStatus::Infeasible;
    let mut advisory = active();
    advisory.mode = Mode::Advisory;
    let conditions = shown(&planned_status(&advisory, &report, &[], 1, &none, at(0)));
    assert_eq!(
        conditions[2..],
        [
            "Planned=False NoPlan: no variant has a core that serves: optimal for 12 requests/s",
            "Actuated=False Advisory: mode advisory changes nothing; cores would be: large 4, small 2",
            "Degraded=True DemandAboveCapacity: optimal for 12 requests/s",
            "Ready=False NoPlan: no variant has a core that serves: optimal for 12 requests/s",
        ]
    );
}

#[tokio::test]
async fn unchanged_condition_keeps_time_and_refusal_keeps_plans() {
    let good = report().await;
    let first = planned_status(
        &active(),
        &good,
        &[],
        1,
        &SloServiceStatus::default(),
        at(0),
    );
    let mut bad = good.clone();
    blocker(&mut bad, "small", Reason::Deferred, "full");
    let second = planned_status(&active(), &bad, &[], 1, &first, at(5));
    let since =
        |status: &SloServiceStatus, index: usize| status.conditions[index].last_transition_time.0;
    assert_eq!((since(&second, 2), since(&second, 3)), (at(0), at(5)));
    let third = refused_status("Invalid", &"slo: 0s  ".repeat(500), 2, &second, at(9));
    assert_eq!(third.conditions.len(), 6);
    assert_eq!(third.conditions[0].message.chars().count(), MESSAGE_MAX);
    assert_eq!((since(&third, 0), since(&third, 3)), (at(9), at(5)));
    assert_eq!(
        third.conditions[3].observed_generation,
        Some(1),
        "that is of before"
    );
    assert_eq!(
        (third.why, third.observed_generation),
        (second.why, Some(2))
    );
}
