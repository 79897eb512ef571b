//! Decisions of policy infaas.

use std::time::Duration;

use weir_api::Rps;

use super::super::decide;
use super::*;
use crate::capacity::Allocation;
use crate::service::SharedPolicy;
use crate::solve::latency_model::Parallelism;
use crate::spec::tests::service;

/// a: 40 ms and 70 %; b: 80 ms and 80 %; c: 400 ms and 90 %, too slow for the 300 ms allowed; 8 cores.
pub(in crate::policy) fn infaas(accuracy_min: f64, slack_rps: f64) -> Service {
    let mut service = service(8);
    service.latency_max_ms = 300.0;
    service.policy = SharedPolicy::new(Infaas {
        accuracy_min,
        slack_rps,
        loading_weight_per_s: 0.01,
    });
    let mut third = service.variants[1].clone();
    third.name = "c".to_owned();
    service.variants.push(third);
    service.stages[0].variants = 0..3;
    for (variant, (ms, accuracy)) in
        service
            .variants
            .iter_mut()
            .zip([(40.0, 70.0), (80.0, 80.0), (400.0, 90.0)])
    {
        variant.accuracy = accuracy;
        (variant.min, variant.max) = (0, 8);
        variant.profile.parallelism = Parallelism::PerCore;
        variant.profile.fit = None;
        variant.profile.utilisation = 1.0;
        variant.profile.latency.model = crate::solve::latency_model::LatencyModel::constant(ms);
    }
    service
}

fn actual(cores: [u32; 3]) -> [Actual; 3] {
    cores.map(|cores| Actual::certain(Allocation::one(Cores::whole(cores))))
}

fn check(
    service: &Service,
    running: [u32; 3],
    rps: f64,
    window_full: bool,
    desired: [u32; 3],
    status: SolveStatus,
) -> Decision {
    let forecast = {
        let mut inputs = Inputs::steady(Rps(rps));
        inputs.forecast.window_full = window_full;
        inputs
    };
    let decision = decide(service, &actual(running), Some(forecast));
    let desired = stay(&actual(desired));
    assert_eq!(
        (&decision.targets, decision.status),
        (&desired, status),
        "{rps}: {}",
        decision.why
    );
    decision
}

#[test]
fn cheapest_replicas_with_accuracy_and_latency_run() {
    // A replica of a carries 25 requests/s, one of b 12.5.
    check(
        &infaas(0.0, 0.0),
        [1, 0, 0],
        60.0,
        true,
        [3, 0, 0],
        SolveStatus::Optimal,
    );
    check(
        &infaas(0.0, 20.0),
        [1, 0, 0],
        60.0,
        true,
        [4, 0, 0],
        SolveStatus::Optimal,
    );
    check(
        &infaas(75.0, 0.0),
        [1, 0, 0],
        60.0,
        true,
        [0, 5, 0],
        SolveStatus::Optimal,
    );
    // Only c is accurate enough, and it is too slow.
    let decision = decide_for(&infaas(85.0, 0.0));
    assert_eq!(
        (decision.status, decision.kept),
        (SolveStatus::Infeasible, true)
    );
}

fn decide_for(service: &Service) -> Decision {
    let forecast = Inputs::steady(Rps(60.0));
    decide(service, &actual([3, 0, 0]), Some(forecast))
}

#[test]
fn budget_holds_and_no_replica_stops_before_window_is_full() {
    let service = infaas(0.0, 0.0);
    check(
        &service,
        [1, 0, 0],
        900.0,
        true,
        [8, 0, 0],
        SolveStatus::Infeasible,
    );
    let early = check(
        &service,
        [4, 1, 0],
        60.0,
        false,
        [4, 1, 0],
        SolveStatus::Optimal,
    );
    assert!(
        early.kept
            && early
                .why
                .ends_with("kept: the demand's window has not filled yet"),
        "{}",
        early.why
    );
    check(
        &service,
        [1, 0, 0],
        60.0,
        false,
        [3, 0, 0],
        SolveStatus::Optimal,
    );
}

/// A replica of a carries 25 requests/s, one of b 12.5: three of a carry 75, or six of b, or two of each. At 0.7 of a's
/// price these cost 3, 4.2 and 3.4; at 0.4 3, 2.4 and 2.8.
#[test]
fn lowest_price_decides() {
    for (price, desired) in [(0.7, [3, 0, 0]), (0.4, [0, 6, 0])] {
        let mut service = infaas(0.0, 0.0);
        service.variants[1].price = price;
        check(&service, [0; 3], 75.0, true, desired, SolveStatus::Optimal);
    }
}

/// Demand of 60 requests/s, or another, of which these shares require these accuracies.
fn requiring(rps: f64, shares: &[(f64, f64)]) -> Inputs {
    let mut inputs = Inputs::steady(Rps(rps));
    inputs.accuracies = Some(AccuracyMix::new(shares.iter().copied()));
    inputs
}

#[test]
fn each_accuracy_is_carried_by_variants_that_have_it() {
    for (accuracy_min, shares, desired) in [
        (0.0, vec![], [3, 0, 0]),
        (0.0, vec![(60.0, 1.0)], [3, 0, 0]),
        (0.0, vec![(80.0, 0.5)], [1, 3, 0]),
        (0.0, vec![(60.0, 0.5), (71.0, 0.2)], [2, 1, 0]),
        (0.0, vec![(80.0, 1.0)], [0, 5, 0]),
        // c is too slow, so nobody can carry what requires it.
        (0.0, vec![(80.0, 0.5), (90.0, 0.2)], [1, 3, 0]),
        (75.0, vec![(70.0, 0.9)], [0, 5, 0]),
    ] {
        let inputs = requiring(60.0, &shares);
        let decision = decide(&infaas(accuracy_min, 0.0), &actual([1, 0, 0]), Some(inputs));
        let expected = (stay(&actual(desired)), SolveStatus::Optimal);
        let got = (decision.targets, decision.status);
        assert_eq!(got, expected, "{accuracy_min} {shares:?}: {}", decision.why);
    }
    let inputs = requiring(60.0, &[(80.0, 0.5)]);
    let why = decide(&infaas(0.0, 0.0), &actual([1, 0, 0]), Some(inputs)).why;
    let words = "60.0 requests/s: 4 of 8 cores at 0 % or more, 50 % of it at 80 %";
    assert_eq!(why, words);
}

#[test]
fn overload_cuts_each_accuracy_alike() {
    // 120 of 300 requests/s by b would take 10 cores, the rest 8: there are 8 of 18.
    let inputs = requiring(300.0, &[(80.0, 0.4)]);
    let decision = decide(&infaas(0.0, 0.0), &actual([1, 0, 0]), Some(inputs));
    let expected = (stay(&actual([3, 5, 0])), SolveStatus::Infeasible);
    assert_eq!(
        (decision.targets, decision.status),
        expected,
        "{}",
        decision.why
    );
}

#[test]
fn replicas_that_are_not_accurate_enough_are_replaced_before_the_window_is_full() {
    for (running, desired, kept) in [([3, 0, 0], [1, 3, 0], false), ([1, 4, 0], [1, 4, 0], true)] {
        let mut inputs = requiring(60.0, &[(80.0, 0.5)]);
        inputs.forecast.window_full = false;
        let decision = decide(&infaas(0.0, 0.0), &actual(running), Some(inputs));
        let expected = (stay(&actual(desired)), kept);
        assert_eq!(
            (decision.targets, decision.kept),
            expected,
            "{}",
            decision.why
        );
    }
}

/// Actual state with cores that serve and cores that start.
fn starting(cores: [(u32, u32); 3]) -> [Actual; 3] {
    cores.map(|(ready, starting)| Actual {
        starting: Allocation::one(Cores::whole(starting)),
        reserved: Cores::whole(ready + starting),
        ..Actual::certain(Allocation::one(Cores::whole(ready)))
    })
}

#[test]
fn replicas_that_start_are_not_started_again() {
    // 50 requests/s: two of a, or four of b for a hundredth more, which is less than a second of loading.
    let mut service = infaas(0.0, 0.0);
    service.variants[1].price = 0.505;
    for variant in &mut service.variants {
        variant.readiness = Duration::from_secs(10);
    }
    let inputs = Some(Inputs::steady(Rps(50.0)));
    for (actual, desired) in [
        ([(0, 0); 3], [2, 0, 0]),
        ([(0, 0), (0, 4), (0, 0)], [0, 4, 0]),
    ] {
        let decision = decide(&service, &starting(actual), inputs);
        assert_eq!(
            decision.targets,
            stay(&starting(desired.map(|n| (n, 0)))),
            "{}",
            decision.why
        );
    }
}

#[test]
fn replicas_that_start_stay_until_others_carry_the_demand() {
    let service = infaas(0.0, 0.0);
    for (serving, rps, desired) in [
        // 25 of 75 requests/s: two more of a are cheaper than four of b, and serve later.
        (1, 75.0, [3, 4, 0]),
        (3, 75.0, [3, 0, 0]),
        // No room beside others.
        (1, 175.0, [7, 0, 0]),
    ] {
        let inputs = Some(Inputs::steady(Rps(rps)));
        let decision = decide(&service, &starting([(serving, 0), (0, 4), (0, 0)]), inputs);
        assert_eq!(
            decision.targets,
            stay(&actual(desired)),
            "{serving}: {}",
            decision.why
        );
    }
}

#[test]
fn rise_is_planned_for_as_it_will_be_when_replicas_serve() {
    let mut inputs = Inputs::steady(Rps(50.0));
    inputs.forecast.extrapolated = Rps(120.0);
    let decision = decide(&infaas(0.0, 0.0), &actual([2, 0, 0]), Some(inputs));
    assert_eq!(
        decision.targets,
        stay(&actual([5, 0, 0])),
        "{}",
        decision.why
    );
}
