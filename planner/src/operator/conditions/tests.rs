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

/// First status of a service, by the report of a cycle.
fn planned(service: &Service, report: &CycleReport) -> SloServiceStatus {
    let (none, notes) = (SloServiceStatus::default(), WatchNotes::default());
    planned_status(service, report, &[], 1, &notes, &none, at(0))
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
        &WatchNotes::default(),
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
        let status = planned(&active(), &report);
        let shown = shown(&status);
        assert_eq!(shown[3], format!("Actuated={actuated}"));
        assert_eq!(shown[4], format!("Degraded={degraded}"));
    }
}

#[tokio::test]
async fn service_is_ready_unless_a_person_must_act() {
    let none = SloServiceStatus::default();
    let ready = |service: &Service, report: &CycleReport| {
        let status = planned(service, report);
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
    let refused = refused_status(&refusal(2, "Taken", "it is taken"), &none, at(0));
    assert_eq!(
        shown(&refused).pop().unwrap(),
        "Ready=False Taken: generation 2 is refused: it is taken; no generation acts"
    );
}

#[tokio::test]
async fn degradation_is_reported_with_reason() {
    let mut report = report().await;
    report.variants.get_mut("large").unwrap().cores_actual = Cores::whole(1);
    (report.scrapes_answered, report.scrapes_failed) = (2, 1);
    let conditions = shown(&planned(&active(), &report));
    assert_eq!(
        conditions[3..],
        [
            "Actuated=False Resizing: large 1 of 4 cores, 1 of 1 replicas, small 2 of 2 cores, 1 of 1 replicas",
            "Degraded=True ProxiesLost: 1 of 3 proxies did not answer with statistics of Weir",
            "Ready=True Serving: a plan is in force",
        ]
    );
    report.proxies_without_weir = 4;
    let degraded = |report: &CycleReport| shown(&planned(&active(), report)).swap_remove(4);
    assert_eq!(
        degraded(&report),
        "Degraded=True ProxiesLost: 1 of 7 proxies did not answer with statistics of Weir"
    );
    report.scrapes_failed = 0;
    assert_eq!(
        degraded(&report),
        "Degraded=True ProxiesWithoutWeir: 4 of 6 proxies answer without any metric of Weir"
    );
    report.proxies_without_weir = 0;
    report.revision = None;
    report.outcome = SolveStatus::Infeasible;
    let mut advisory = active();
    advisory.mode = Mode::Advisory;
    let conditions = shown(&planned(&advisory, &report));
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
    let first = planned(&active(), &good);
    let mut bad = good.clone();
    blocker(&mut bad, "small", Reason::Deferred, "full");
    let second = planned_status(
        &active(),
        &bad,
        &[],
        1,
        &WatchNotes::default(),
        &first,
        at(5),
    );
    let since =
        |status: &SloServiceStatus, index: usize| status.conditions[index].last_transition_time.0;
    assert_eq!((since(&second, 2), since(&second, 3)), (at(0), at(5)));
    let long = "slo: 0s  ".repeat(500);
    let third = refused_status(&refusal(2, "Invalid", &long), &second, at(9));
    assert_eq!(third.conditions.len(), 6);
    assert_eq!(third.conditions[0].message.chars().count(), MESSAGE_MAX);
    assert_eq!((since(&third, 0), since(&third, 3)), (at(9), at(9)));
    assert_eq!(third.conditions[1], second.conditions[1]);
    assert_eq!(third.plans, second.plans);
}

fn refusal(generation: i64, reason: &'static str, why: &str) -> Refusal {
    Refusal {
        generation,
        reason,
        why: why.to_owned(),
    }
}

#[tokio::test]
async fn refused_edit_names_generation_that_acts() {
    let (none, notes) = (SloServiceStatus::default(), WatchNotes::default());
    let first = planned_status(&active(), &report().await, &[], 2, &notes, &none, at(0));
    let refused = refusal(3, "Invalid", "slo: 0s; it must be 1ms to 1h");
    let status = refused_edit_status(&refused, 2, Mode::Advisory, &first, &first, at(5));
    let message = "generation 3 is refused: slo: 0s; it must be 1ms to 1h; generation 2 acts, in mode advisory";
    assert_eq!(
        shown(&status),
        [
            format!("Accepted=False Invalid: {message}"),
            "ProfileReady=True Given: every variant's latency is given in the resource".to_owned(),
            "Planned=True Optimal: optimal for 12 requests/s".to_owned(),
            "Actuated=True InForce: cores: large 4, small 2".to_owned(),
            "Degraded=False AsExpected: ".to_owned(),
            format!("Ready=False Invalid: {message}"),
        ]
    );
    let of: Vec<i64> = status
        .conditions
        .iter()
        .map(|one| one.observed_generation.unwrap())
        .collect();
    assert_eq!(of, [3, 2, 2, 2, 2, 2]);
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(status.cores, first.cores);
    // The next cycle's status, with the same refusal, keeps the time.
    let next = planned_status(&active(), &report().await, &[], 2, &notes, &first, at(7));
    let next = refused_edit_status(&refused, 2, Mode::Advisory, &next, &status, at(7));
    assert_eq!(next.conditions, status.conditions);
}

#[tokio::test]
async fn refused_resource_of_which_nothing_acts_is_unknown() {
    let (none, notes) = (SloServiceStatus::default(), WatchNotes::default());
    let first = planned_status(&active(), &report().await, &[], 2, &notes, &none, at(0));
    let status = refused_status(&refusal(3, "Invalid", "why"), &first, at(5));
    let message = "generation 3 is refused: why; no generation acts";
    assert_eq!(
        shown(&status),
        [
            format!("Accepted=False Invalid: {message}"),
            "ProfileReady=True Given: every variant's latency is given in the resource".to_owned(),
            format!("Planned=Unknown NotActing: {message}"),
            format!("Actuated=Unknown NotActing: {message}"),
            format!("Degraded=Unknown NotActing: {message}"),
            format!("Ready=False Invalid: {message}"),
        ]
    );
    assert_eq!(status.why, "no generation acts: generation 3 is refused");
    assert_eq!((status.demand_rps, status.cores), (None, None));
}

#[tokio::test]
async fn watches_that_fail_are_reported() {
    let mut report = report().await;
    let none = SloServiceStatus::default();
    let degraded = |report: &CycleReport, notes: &WatchNotes| {
        let status = planned_status(&active(), report, &[], 1, notes, &none, at(0));
        shown(&status).swap_remove(4)
    };
    let notes = WatchNotes {
        proxies: Some("pods cannot be listed: forbidden: no right".to_owned()),
        stale: Some("pods are known as of 61 s ago".to_owned()),
    };
    assert_eq!(
        degraded(&report, &notes),
        "Degraded=True NotObserved: pods are known as of 61 s ago"
    );
    (report.scrapes_answered, report.scrapes_failed) = (0, 0);
    assert_eq!(
        degraded(&report, &notes),
        "Degraded=True NoProxies: pods cannot be listed: forbidden: no right"
    );
    assert_eq!(
        degraded(&report, &WatchNotes::default()),
        "Degraded=True NoProxies: there is no proxy whose statistics could be scraped: check proxies.pods"
    );
    let shown_of = |status: SloServiceStatus| shown(&status);
    assert_eq!(
        shown_of(unobserved_status("forbidden", 1, &none, at(0))),
        [
            "Accepted=True Valid: the resource is gone by",
            "Actuated=Unknown NotObserved: forbidden",
            "Degraded=True NotObserved: forbidden",
            "Ready=False NotObserved: forbidden",
        ]
    );
    assert_eq!(
        shown_of(controller_failed_status("it panicked", 1, &none, at(0))),
        [
            "Planned=Unknown ControllerFailed: it panicked",
            "Actuated=Unknown ControllerFailed: it panicked",
            "Degraded=True ControllerFailed: it panicked",
            "Ready=False ControllerFailed: it panicked",
        ]
    );
}
