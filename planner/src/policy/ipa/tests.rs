//! Decisions of policy ipa on a pipeline of two stages.

mod batching;
mod loaded;

use super::super::{batches, decide};
use weir_api::Cores;

use super::*;
use crate::capacity::{ResourceLimit, ResourceLimits};
use crate::plan::{Conditions, capacities, drafts, drafts_under};
use crate::policy::{Infadapter, Sponge};
use crate::service::SharedPolicy;
use crate::solve::latency_model::Parallelism;
use crate::spec::tests::{execute_exactly, service};

const RULE: Ipa = Ipa {
    alpha: 2.0,
    beta: 1.0,
    delta: 1e-6,
    tolerance: 1.0,
};

/// Detect: n 40 % in 20·b + 10 ms, m 60 % in 80·b + 20 ms; classify: r 70 % in 30·b + 10 ms, s 75 % in
/// 90·b + 10 ms. Batches to 8, `budget` cores, 500 ms of 1000.
pub(in crate::policy) fn pipeline(budget: u32) -> Service {
    let mut service = service(budget);
    service.policy = SharedPolicy::new(RULE);
    let template = service.variants[0].clone();
    let variant = |(name, accuracy, gamma_ms, eta_ms): (&str, f64, f64, f64)| {
        let mut variant = template.clone();
        (variant.name, variant.cluster) = (name.to_owned(), name.to_owned());
        variant.accuracy = accuracy;
        (variant.min, variant.max) = (0, budget);
        execute_exactly(&mut variant, Parallelism::PerCore, 8, (gamma_ms, eta_ms));
        variant
    };
    let each = [
        ("n", 40.0, 20.0, 10.0),
        ("m", 60.0, 80.0, 20.0),
        ("r", 70.0, 30.0, 10.0),
        ("s", 75.0, 90.0, 10.0),
    ];
    service.variants = each.into_iter().map(variant).collect();
    let stage = |name: &str, variants| Stage {
        name: name.to_owned(),
        variants,
    };
    service.stages = vec![stage("detect", 0..2), stage("classify", 2..4)];
    service
}

fn forecast(rps: f64, window_full: bool) -> Inputs {
    {
        let mut inputs = Inputs::steady(Rps(rps));
        inputs.forecast.window_full = window_full;
        inputs
    }
}

fn allocations(cores: [u32; 4]) -> Vec<Allocation> {
    let one = |cores| Allocation::one(Cores::whole(cores));
    cores.into_iter().map(one).collect()
}

fn cores(cores: [u32; 4]) -> Vec<Actual> {
    allocations(cores)
        .into_iter()
        .map(Actual::certain)
        .collect()
}

fn targets_of(cores: [u32; 4]) -> Vec<Target> {
    allocations(cores).into_iter().map(Target::of).collect()
}

fn decided(service: &Service, running: [u32; 4], rps: f64) -> Decision {
    decide(service, &cores(running), Some(forecast(rps, true)))
}

/// Exhaustive search for one variant per stage: best objective, and its cores.
fn brute(service: &Service, rps: f64) -> Option<(f64, [u32; 4])> {
    let mut best: Option<(f64, [u32; 4])> = None;
    let fits = |index: usize, batch: u32, n: u32| {
        let variant = &service.variants[index];
        let ms = promised(variant).service_ms(batch, 1.0);
        let reserve = Reserve::of(service, Inputs::steady(Rps(rps)).forecast);
        let busy_ms = reserve.occupancy(variant).service_ms(batch, 1.0);
        let carries = f64::from(n * batch) * 1e3 / busy_ms >= rps;
        carries.then_some(ms + f64::from(batch - 1) * 1e3 / rps)
    };
    for detect in [0, 1] {
        for classify in [2, 3] {
            for n in 1..=service.budget {
                for m in 1..=service.budget - n {
                    for b in 1..=8_u32 {
                        for c in 1..=8_u32 {
                            let (Some(first), Some(second)) =
                                (fits(detect, b, n), fits(classify, c, m))
                            else {
                                continue;
                            };
                            if first + second > service.latency_max_ms {
                                continue;
                            }
                            let [x, y] = [detect, classify].map(|v| service.variants[v].accuracy);
                            // Variants that stay loaded count.
                            let mut cores = [0, 1, 2, 3].map(|v: usize| service.variants[v].min);
                            cores[detect] = cores[detect].max(n);
                            cores[classify] = cores[classify].max(m);
                            let all: u32 = cores.iter().sum();
                            if all > service.budget {
                                continue;
                            }
                            let worth =
                                2.0 * x * y / 100.0 - f64::from(all) - 1e-6 * f64::from(b + c);
                            if best.is_none_or(|(best, _)| worth > best) {
                                best = Some((worth, cores));
                            }
                        }
                    }
                }
            }
        }
    }
    best
}

#[test]
fn decision_is_best_within_the_budget() {
    let mut exact = 0;
    for (budget, tail) in [
        (4, 1.0),
        (6, 1.0),
        (9, 1.0),
        (14, 1.0),
        (14, 1.4),
        (20, 1.0),
        (20, 1.4),
    ] {
        let mut service = pipeline(budget);
        for variant in &mut service.variants {
            variant.profile.latency.tail = tail;
        }
        for rps in [3.0, 10.0, 25.0, 60.0, 90.0] {
            let decision = decided(&service, [1, 1, 1, 1], rps);
            let message = format!("{budget} {rps}: {}", decision.why);
            let Some((worth, desired)) = brute(&service, rps) else {
                assert_eq!(decision.status, SolveStatus::Infeasible, "{message}");
                let sum: Cores = decision
                    .targets
                    .iter()
                    .map(|target| target.cores(Allocation::NONE))
                    .sum();
                assert!(sum <= Cores::whole(budget), "{message}");
                continue;
            };
            let got = decision.optimum.unwrap();
            match decision.status {
                SolveStatus::Optimal if !decision.kept => {
                    assert!((got - worth).abs() < 1e-9, "{message}: {desired:?}");
                    exact += 1;
                }
                SolveStatus::Optimal => {
                    assert!((got - worth).abs() < 1e-9, "{message}: {desired:?}")
                }
                // The reported gap is an upper bound.
                SolveStatus::Good => {
                    let stated_gap: f64 = message
                        .split("at most ")
                        .nth(1)
                        .and_then(|rest| rest.split(' ').next())
                        .unwrap()
                        .parse()
                        .unwrap();
                    assert!(
                        worth - got <= stated_gap + 0.01,
                        "{message}: {worth} {desired:?}"
                    );
                }
                _ => panic!("{message}: {desired:?}"),
            }
        }
    }
    assert!(exact > 8, "{exact} were exact");
}

#[test]
fn reserve_is_what_queues_need_and_at_most_the_tail() {
    // 500 ms for queues, half of them at each stage: 4.605 / (2 · 0.25 s) = 9.21 requests/s above the mean.
    let mut service = pipeline(20);
    service.variants[0].profile.latency.tail = 1.5;
    for (demand, mean, ratio) in [
        (100.0, 80.0, 1.0),
        (100.0, 95.0, 1.0421),
        (10.0, 9.0, 1.5),
        (10.0, 4.0, 1.321),
        // Nothing arrives.
        (0.0, 0.0, 1.5),
    ] {
        let mut forecast = Inputs::steady(Rps(demand)).forecast;
        forecast.mean = Rps(mean);
        let model = Reserve::of(&service, forecast).occupancy(&service.variants[0]);
        // 20·b + 10 ms.
        let got = model.service_ms(2, 1.0) / 50.0;
        assert!((got - ratio).abs() < 1e-9, "{demand} {mean}: {got}");
    }
    // No time to wait.
    service.latency_max_ms = 1000.0;
    let forecast = Inputs::steady(Rps(100.0)).forecast;
    let model = Reserve::of(&service, forecast).occupancy(&service.variants[0]);
    assert_eq!(model, promised(&service.variants[0]));
}

#[test]
fn demand_above_budget_gets_largest_capacity() {
    let decision = decided(&pipeline(4), [1, 0, 1, 0], 500.0);
    assert_eq!(decision.status, SolveStatus::Infeasible);
    assert!(
        decision.why.contains("exceeds the") && decision.why.contains("; planned for"),
        "{}",
        decision.why
    );
    // n carries 47 per core in batches of 8, r 32: two cores each carry 64 at most.
    assert_eq!(
        decision.targets,
        targets_of([2, 0, 2, 0]),
        "{}",
        decision.why
    );
    let mut hasty = pipeline(4);
    hasty.latency_max_ms = 10.0;
    let decision = decided(&hasty, [1, 0, 1, 0], 1.0);
    assert_eq!(decision.status, SolveStatus::Infeasible, "{}", decision.why);
}

#[test]
fn actual_allocation_is_kept_within_tolerance_and_before_window_is_full() {
    let mut service = pipeline(20);
    let best = decided(&service, [0; 4], 10.0);
    assert!(!best.kept);
    let mut running = best.targets.clone();
    let serving = running
        .iter()
        .position(|target| target.replicas > 0)
        .unwrap();
    running[serving] = Target::one(running[serving].each + Cores::whole(1));
    let actual = |target: &Target| Actual::certain(target.ready(Allocation::one(target.each)));
    let (desired, running) = (
        running.clone(),
        running.iter().map(actual).collect::<Vec<_>>(),
    );
    let again = decide(&service, &running, Some(forecast(10.0, true)));
    assert!(again.kept, "{}", again.why);
    assert_eq!(again.targets, desired);
    service.policy = SharedPolicy::new(Ipa {
        tolerance: 0.9,
        ..RULE
    });
    assert_eq!(
        decide(&service, &running, Some(forecast(10.0, true))).targets,
        best.targets
    );
    let early = decide(&service, &running, Some(forecast(10.0, false)));
    assert!(
        early.kept
            && early
                .why
                .ends_with("kept: the demand's window has not filled yet"),
        "{}",
        early.why
    );
    // An allocation that does not carry the demand is never kept, nor are two variants of a stage.
    for running in [[1, 0, 1, 0], [5, 5, 5, 0]] {
        let decision = decide(&service, &cores(running), Some(forecast(80.0, false)));
        assert!(!decision.kept, "{running:?}: {}", decision.why);
    }
}

#[test]
fn resource_limits_bound_the_replicas() {
    // 10 requests/s get m without a limit. With memory for two pods of 1 GiB they get n and r.
    let mut service = pipeline(14);
    let free = decided(&service, [1, 0, 1, 0], 10.0);
    let runs = |decision: &Decision| {
        decision
            .targets
            .iter()
            .map(|target| target.replicas)
            .collect::<Vec<_>>()
    };
    assert_eq!(runs(&free)[1], 1, "{}", free.why);
    service.limits = ResourceLimits(vec![ResourceLimit {
        name: "memory".to_owned(),
        most: 2,
        each: vec![1, 4, 1, 1],
    }]);
    let bound = decided(&service, [1, 0, 1, 0], 10.0);
    assert_eq!(runs(&bound)[..2], [1, 0], "{}", bound.why);
    assert!(
        service.limits.fit(&runs(&bound)) && bound.status != SolveStatus::Infeasible,
        "{}",
        bound.why
    );
    // The accurate variant of the second stage needs no more memory than the other.
    assert_eq!(runs(&bound)[2..], runs(&free)[2..], "{}", bound.why);
}
