//! Phases of policy themis, cycle by cycle: actual state and duration of the load → targets.

use weir_api::Rps;

use super::super::{batches, decide};
use super::*;
use crate::capacity::{Allocation, ResourceLimit, ResourceLimits};
use crate::plan::drafts;
use crate::service::{Replicas, SharedPolicy, Stage};
use crate::solve::latency_model::Parallelism;
use crate::spec::tests::{execute_exactly, service};

const RULE: Themis = Themis {
    horizontal_cores: Cores::whole(1),
    tolerance: 0.0,
};

/// Detect in 80·b/c + 20 ms, classify in 40·b/c + 10 ms; one batch at a time, batches to 4, up to 8 cores per
/// replica and 8 replicas; 500 ms of 1000.
pub(in crate::policy) fn pipeline(budget: u32) -> Service {
    let mut service = service(budget);
    service.policy = SharedPolicy::new(RULE);
    let template = service.variants[0].clone();
    let variant = |(name, gamma_ms, eta_ms): (&str, f64, f64)| {
        let mut variant = template.clone();
        (variant.name, variant.cluster) = (name.to_owned(), name.to_owned());
        (variant.min, variant.max) = (1, 8);
        variant.replicas = Replicas { min: 1, max: 8 };
        let one = Parallelism::Fixed(std::num::NonZeroU32::MIN);
        execute_exactly(&mut variant, one, 4, (gamma_ms, eta_ms));
        variant
    };
    let each = [("detect", 80.0, 20.0), ("classify", 40.0, 10.0)];
    service.variants = each.into_iter().map(variant).collect();
    let stage = |index: usize, name: &str| Stage {
        name: name.to_owned(),
        variants: index..index + 1,
    };
    service.stages = vec![stage(0, "detect"), stage(1, "classify")];
    service
}

fn forecast(rps: f64, lasted: Option<f64>) -> Inputs {
    {
        let mut inputs = Inputs::steady(Rps(rps));
        inputs.forecast.lasted = lasted.map(Rps);
        inputs
    }
}

fn actual(each: [(u32, u32); 2]) -> [Actual; 2] {
    each.map(|(n, cores)| Actual::certain(Allocation::new(n, Cores::whole(cores))))
}

/// Compares replicas, cores of each, and cores of new replicas.
fn check(decision: &Decision, status: SolveStatus, targets: [(u32, u32, u32); 2]) {
    let got: Vec<(u32, f64, f64)> = decision
        .targets
        .iter()
        .map(|target| (target.replicas, target.each.as_f64(), target.start.as_f64()))
        .collect();
    let targets = targets.map(|(n, each, start)| (n, f64::from(each), f64::from(start)));
    assert_eq!(
        (decision.status, got),
        (status, targets.to_vec()),
        "{}",
        decision.why
    );
}

#[test]
fn burst_adds_cores_and_lasting_load_adds_replicas() {
    let service = pipeline(16);
    let running = actual([(1, 1), (1, 1)]);
    // One replica of detect carries 4 / (320 / c + 20 ms): 11.8/s on one core, 40 on four.
    let burst = decide(&service, &running, Some(forecast(40.0, Some(8.0))));
    check(&burst, SolveStatus::Optimal, [(1, 4, 1), (1, 2, 1)]);
    assert!(
        burst.why.contains("not lasting: vertically"),
        "{}",
        burst.why
    );
    // The load has lasted: the serving replicas keep their cores until the others are ready …
    let running = actual([(1, 4), (1, 2)]);
    let lasting = forecast(40.0, Some(35.0));
    let started = decide(&service, &running, Some(lasting));
    check(&started, SolveStatus::Optimal, [(4, 4, 1), (2, 2, 1)]);
    assert!(
        started.why.contains("lasting: horizontally"),
        "{}",
        started.why
    );
    // … which so far only those of detect are …
    let mut running = actual([(4, 1), (1, 2)]);
    running[0].reserved = Cores::whole(7);
    running[1].starting = Allocation::one(Cores::whole(1));
    let waiting = decide(&service, &running, Some(lasting));
    check(&waiting, SolveStatus::Optimal, [(4, 1, 1), (2, 2, 1)]);
    // … and then shrink in place.
    let after = decide(&service, &actual([(4, 1), (2, 1)]), Some(lasting));
    check(&after, SolveStatus::Optimal, [(4, 1, 1), (2, 1, 1)]);
}

#[test]
fn overloaded_replicas_shrink_to_free_cores_for_more() {
    // On eight cores each they carry 33 and 67 requests/s, in replicas of one core 100.
    let mut service = pipeline(22);
    service.variants[0].replicas.max = 12;
    let running = actual([(1, 8), (1, 8)]);
    let decision = decide(&service, &running, Some(forecast(100.0, Some(100.0))));
    assert!(
        decision.why.contains("lasting: horizontally"),
        "{}",
        decision.why
    );
    let cores: Cores = decision
        .targets
        .iter()
        .zip(&running)
        .map(|(target, actual)| target.cores(actual.ready))
        .sum();
    assert_eq!(cores, Cores::whole(22), "{}", decision.why);
    assert!(
        decision
            .targets
            .iter()
            .all(|target| target.each > Cores::whole(1))
    );
    // Fractions of a core make room too.
    let mut uneven = actual([(6, 2), (6, 1)]);
    uneven[0] = Actual::certain(Allocation::new(6, Cores::from_millis(1900)));
    service.budget = 22;
    service.variants[0].max = 2;
    let tight = decide(&service, &uneven, Some(forecast(140.0, Some(140.0))));
    check(&tight, SolveStatus::Optimal, [(12, 1, 1), (7, 1, 1)]);
    service.variants[0].max = 8;
    // With enough budget they keep their cores.
    service.budget = 40;
    let roomy = decide(&service, &running, Some(forecast(100.0, Some(100.0))));
    assert!(
        roomy
            .targets
            .iter()
            .all(|target| target.each == Cores::whole(8)),
        "{}",
        roomy.why
    );
}

#[test]
fn burst_above_vertical_capacity_gets_most_useful_cores() {
    let service = pipeline(16);
    let running = actual([(1, 1), (1, 1)]);
    // One replica of detect carries 66.7/s on its eight cores, and classify as much on three.
    let burst = decide(&service, &running, Some(forecast(90.0, Some(8.0))));
    let [detect, classify] = [0, 1].map(|n: usize| burst.targets[n]);
    assert_eq!(detect.each, Cores::whole(8), "{}", burst.why);
    assert!(classify.each >= Cores::whole(3), "{}", burst.why);
    assert!(
        burst.why.contains("vertically until more are loaded"),
        "{}",
        burst.why
    );
    // New replicas start in the remaining budget, and take no cores from the others.
    let cores: Cores = burst
        .targets
        .iter()
        .zip(&running)
        .map(|(target, actual)| target.cores(actual.ready))
        .sum();
    assert!(cores <= Cores::whole(16), "{}", burst.why);
    assert!(detect.replicas + classify.replicas > 2, "{}", burst.why);
}

#[test]
fn another_burst_keeps_starting_replicas() {
    let service = pipeline(24);
    let mut running = actual([(1, 4), (1, 2)]);
    running[0].starting = Allocation::new(3, Cores::whole(1));
    running[0].reserved = Cores::whole(7);
    let burst = decide(&service, &running, Some(forecast(60.0, Some(20.0))));
    assert_eq!(burst.targets[0].replicas, 4, "{}", burst.why);
    assert!(burst.targets[0].each > Cores::whole(4), "{}", burst.why);
}

#[test]
fn actual_allocation_is_kept_within_tolerance_and_before_window_is_full() {
    let mut service = pipeline(16);
    let running = actual([(4, 1), (3, 1)]);
    let load = forecast(40.0, Some(35.0));
    check(
        &decide(&service, &running, Some(load)),
        SolveStatus::Optimal,
        [(4, 1, 1), (2, 1, 1)],
    );
    service.policy = SharedPolicy::new(Themis {
        tolerance: 1.0,
        ..RULE
    });
    let kept = decide(&service, &running, Some(load));
    assert!(
        kept.kept && kept.why.ends_with("within the tolerance of it"),
        "{}",
        kept.why
    );
    let mut early = forecast(4.0, None);
    early.forecast.window_full = false;
    let kept = decide(&service, &actual([(4, 2), (3, 1)]), Some(early));
    assert!(
        kept.kept && kept.why.ends_with("has not filled yet"),
        "{}",
        kept.why
    );
    // Replicas that do not carry the load grow at once, and nothing is removed for it.
    let mut early = forecast(60.0, None);
    early.forecast.window_full = false;
    let grown = decide(&service, &running, Some(early));
    for (target, now) in grown.targets.iter().zip(&running) {
        assert!(target.replicas >= now.ready.replicas() && target.each >= now.ready.each());
    }
    assert!(grown.targets[0].each > Cores::whole(1), "{}", grown.why);
}

#[test]
fn demand_above_budget_gets_largest_capacity() {
    let service = pipeline(6);
    let decision = decide(
        &service,
        &actual([(1, 1), (1, 1)]),
        Some(forecast(500.0, None)),
    );
    assert_eq!(decision.status, SolveStatus::Infeasible);
    let cores: Cores = decision
        .targets
        .iter()
        .map(|target| target.cores(Allocation::one(Cores::whole(1))))
        .sum();
    assert!(cores <= Cores::whole(6), "{cores}: {}", decision.why);
    assert!(cores >= Cores::whole(4), "{cores}: {}", decision.why);
}

#[test]
fn each_replica_has_a_slot_per_request_of_its_batch() {
    let service = pipeline(16);
    let allocations = [
        Allocation::new(4, Cores::whole(1)),
        Allocation::new(2, Cores::whole(1)),
    ];
    let load = Some(forecast(44.0, Some(40.0)));
    assert_eq!(batches(&service, &allocations, load), [2, 2]);
    let drafts = drafts(&service, &allocations, load).unwrap();
    let detect = &drafts[0].variants[0];
    assert_eq!((detect.slots, detect.service_ms), (8, 180.0));
    let classify = &drafts[1].variants[0];
    assert_eq!((classify.slots, classify.service_ms), (4, 90.0));
    // A batch of two fills in 23 ms.
    assert_eq!(drafts[0].downstream_ms, 90.0 + 1000.0 / 44.0);
}

#[test]
fn resource_limits_bound_the_replicas() {
    let mut service = pipeline(16);
    let running = actual([(1, 4), (1, 2)]);
    let lasting = forecast(40.0, Some(35.0));
    // Without a limit there would be four and two.
    service.limits = ResourceLimits(vec![ResourceLimit {
        name: "memory".to_owned(),
        most: 5,
        each: vec![1, 1],
    }]);
    let bound = decide(&service, &running, Some(lasting));
    let replicas: Vec<u32> = bound.targets.iter().map(|target| target.replicas).collect();
    assert!(service.limits.fit(&replicas), "{replicas:?} {}", bound.why);
    assert!(
        replicas.iter().all(|n| *n > 0),
        "{replicas:?} {}",
        bound.why
    );
    // Serving replicas keep their cores while they carry the load alone.
    let serving = bound
        .targets
        .iter()
        .zip(&running)
        .all(|(target, now)| target.each >= now.ready.each());
    assert!(serving, "{:?} {}", bound.targets, bound.why);
}
