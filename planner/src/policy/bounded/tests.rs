//! Resource limits, compared with an exhaustive search.

use std::time::Duration;

use proptest::prelude::*;
use weir_api::{Cores, Rps};

use super::super::decide;
use super::*;
use crate::capacity::{Allocation, ResourceLimits};
use crate::policy::Infaas;
use crate::service::{Inputs, Replicas, SharedPolicy};
use crate::solve::latency_model::{LatencyModel, Parallelism};
use crate::spec::tests::service;

fn forecast(rps: f64, window_full: bool) -> Option<Inputs> {
    Some({
        let mut inputs = Inputs::steady(Rps(rps));
        inputs.forecast.window_full = window_full;
        inputs
    })
}

fn memory(most: u64, each: &[u64]) -> ResourceLimit {
    ResourceLimit {
        name: "memory".to_owned(),
        most,
        each: each.to_vec(),
    }
}

/// a: 0.8·(20·n − 2) on n cores, 70 %; b: 0.8·(10·n − 2), 80 %; each 0 to 6 replicas of 1 to 4 cores.
fn infadapter(limits: Vec<ResourceLimit>) -> Service {
    let mut service = service(64);
    for variant in &mut service.variants {
        (variant.min, variant.max) = (1, 4);
        variant.replicas = Replicas { min: 0, max: 6 };
    }
    service.objective.tolerance = 0.0;
    service.limits = ResourceLimits(limits);
    service
}

/// a: 40 ms and 70 %, b: 80 ms and 80 %; a core each, up to 6 replicas.
fn infaas(limits: Vec<ResourceLimit>) -> Service {
    let mut service = infadapter(limits);
    service.policy = SharedPolicy::new(Infaas {
        accuracy_min: 0.0,
        slack_rps: 0.0,
        loading_weight_per_s: 0.0,
    });
    for (variant, ms) in service.variants.iter_mut().zip([40.0, 80.0]) {
        (variant.min, variant.max) = (1, 1);
        variant.profile.parallelism = Parallelism::Fixed(std::num::NonZeroU32::MIN);
        variant.profile.fit = None;
        variant.profile.utilisation = 1.0;
        variant.profile.latency.model = LatencyModel::constant(ms);
    }
    service
}

fn actual(each: &[(u32, u32)]) -> Vec<Actual> {
    let one = |(replicas, cores): &(u32, u32)| {
        Actual::certain(Allocation::new(*replicas, Cores::whole(*cores)))
    };
    each.iter().map(one).collect()
}

const NOTHING: [(u32, u32); 2] = [(0, 0), (0, 0)];

/// Best objective within the limits, by exhaustive search.
fn exhaustive(service: &Service, rps: f64) -> Option<f64> {
    let mut best = None::<f64>;
    for a in 0..=6 {
        for b in 0..=6 {
            if !service.limits.fit(&[a, b]) {
                continue;
            }
            let mut service = service.clone();
            service.limits = ResourceLimits::default();
            service.variants[0].replicas.max = a;
            service.variants[1].replicas.max = b;
            let decision = decide(&service, &actual(&NOTHING), forecast(rps, true));
            if decision.status == SolveStatus::Optimal {
                let worth = decision.optimum.unwrap();
                best = Some(best.map_or(worth, |best| best.max(worth)));
            }
        }
    }
    best
}

#[test]
fn decision_within_limits_is_unchanged() {
    for service in [infadapter, infaas] {
        let free = decide(&service(vec![]), &actual(&NOTHING), forecast(60.0, true));
        let wide = service(vec![memory(1000, &[4, 6])]);
        assert_eq!(decide(&wide, &actual(&NOTHING), forecast(60.0, true)), free);
    }
}

#[test]
fn memory_limit_removes_replicas_of_larger_variant() {
    // 60 requests/s by b alone (80 %) need two replicas of four cores, which carry 30 each.
    let decision = |most| {
        let service = infadapter(vec![memory(most, &[4, 6])]);
        decide(&service, &actual(&NOTHING), forecast(60.0, true))
    };
    let roomy = decision(12);
    assert_eq!(replicas(&roomy.targets), [0, 2]);
    let tight = decision(10);
    assert_eq!(replicas(&tight.targets), [1, 1], "{}", tight.why);
    assert_eq!(tight.status, SolveStatus::Optimal);
    assert!(
        tight
            .why
            .ends_with("; more replicas would hold too much memory: 10 of 10"),
        "{}",
        tight.why
    );
    let single = decision(5);
    assert_eq!(replicas(&single.targets), [1, 0], "{}", single.why);
    // No allocation carries this demand, so the largest capacity is chosen.
    let service = infadapter(vec![memory(8, &[4, 6])]);
    let most = decide(&service, &actual(&NOTHING), forecast(500.0, true));
    assert_eq!(
        (replicas(&most.targets), most.status),
        (vec![2, 0], SolveStatus::Infeasible)
    );
}

#[test]
fn actual_allocation_is_kept_within_tolerance_and_before_window_is_full() {
    let mut service = infadapter(vec![memory(10, &[4, 6])]);
    let runs = actual(&[(1, 4), (1, 2)]);
    let best = decide(&service, &runs, forecast(60.0, true));
    assert_ne!(best.targets, stay(&runs));
    let early = decide(&service, &runs, forecast(60.0, false));
    assert_eq!(
        (early.kept, &early.targets),
        (true, &stay(&runs)),
        "{}",
        early.why
    );
    service.objective.tolerance = 1.0;
    let near = decide(&service, &runs, forecast(60.0, true));
    assert_eq!(
        (near.kept, &near.targets),
        (true, &stay(&runs)),
        "{}",
        near.why
    );
    assert!(near.optimum >= best.optimum);
    // An actual allocation above the limits is not kept.
    let too_many = actual(&[(1, 4), (2, 2)]);
    let fewer = decide(&service, &too_many, forecast(60.0, true));
    assert!(service.limits.fit(&replicas(&fewer.targets)), "{fewer:?}");
}

#[test]
fn timeout_reduces_actual_replicas_to_the_limits() {
    let mut service = infadapter(vec![memory(10, &[4, 6])]);
    service.solver_limit = Duration::ZERO;
    let runs = actual(&[(3, 4), (2, 2)]);
    let decision = decide(&service, &runs, forecast(60.0, true));
    assert!(
        service.limits.fit(&replicas(&decision.targets)),
        "{decision:?}"
    );
    assert!(
        replicas(&decision.targets).iter().sum::<u32>() > 0,
        "{decision:?}"
    );
}

#[test]
fn timed_out_branch_leaves_result_unproven() {
    let service = infadapter(vec![memory(2, &[1, 1])]);
    let running = actual(&NOTHING);
    // The branch with one a and two b runs out of time.
    let solve = |service: &Service, _: &[Actual]| {
        let most = [0, 1].map(|index: usize| service.variants[index].replicas.max);
        let (counts, kind, optimum) = match most {
            [a, b] if a >= 2 && b >= 2 => ([2, 2], SolveStatus::Optimal, Some(10.0)),
            [2, 1] => ([1, 1], SolveStatus::Optimal, Some(5.0)),
            [1, 2] => ([1, 2], SolveStatus::OutOfTime, None),
            _ => ([0, 0], SolveStatus::Infeasible, None),
        };
        let mut decision = keep(&running, kind, String::new());
        let one = |n| Target::of(Allocation::new(n, Cores::whole(1)));
        (decision.targets, decision.optimum) = (counts.map(one).to_vec(), optimum);
        decision
    };
    let decision = super::decide(&service, &running, true, solve);
    assert_eq!(
        (replicas(&decision.targets), decision.status),
        (vec![1, 1], SolveStatus::Good)
    );
}

#[test]
fn variant_replicas_stay_within_their_maximum() {
    // Ten of a would be the cheapest for 240 requests/s, but the maximum is six: they carry 150, b carries 90.
    let mut service = infaas(vec![]);
    service.variants[1].replicas.max = 20;
    let decision = decide(&service, &actual(&NOTHING), forecast(240.0, true));
    assert_eq!(
        (replicas(&decision.targets), decision.status),
        (vec![6, 8], SolveStatus::Optimal),
        "{}",
        decision.why
    );
}

proptest! {
    #[test]
    fn result_is_best_within_limits_up_to_tolerance(
        (of_infaas, tolerance) in (any::<bool>(), prop_oneof![Just(0.0), Just(0.01)]),
        rps in 1.0f64..400.0,
        memory_bound in (0u64..40, [1u64..8, 1u64..8]),
        gpus in (0u64..8, [0u64..3, 0u64..3]),
    ) {
        let mut limits = [memory_bound, gpus].map(|(most, each)| memory(most, &each)).to_vec();
        limits[1].name = "gpu".to_owned();
        let mut service = if of_infaas { infaas(limits) } else { infadapter(limits) };
        service.objective.tolerance = tolerance;
        service.solver_limit = Duration::from_secs(10);
        let decision = decide(&service, &actual(&NOTHING), forecast(rps, true));
        prop_assert!(service.limits.fit(&replicas(&decision.targets)), "{decision:?}");
        let Some(best) = exhaustive(&service, rps) else {
            prop_assert_eq!(decision.status, SolveStatus::Infeasible, "{}", decision.why);
            return Ok(());
        };
        let short = best - decision.optimum.unwrap();
        let most = match decision.status {
            SolveStatus::Optimal => 0.0,
            _ => tolerance,
        };
        prop_assert!((-1e-9..=most + 1e-9).contains(&short), "{short} {}", decision.why);
    }
}
