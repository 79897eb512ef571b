//! The solver compared with an exhaustive search request by request, the paper's table, and invalid input.

mod refusals;

use std::cell::Cell;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use super::*;
use crate::Check;
use crate::latency_model::LatencyModel;

/// Number of random instances.
const DRAWN: u64 = 15_000;

fn still() -> Duration {
    Duration::ZERO
}

fn solved(problem: &Problem) -> Outcome<Plan> {
    solve(problem, &TimeLimit::new(Duration::from_secs(1), &still))
}

fn read(value: serde_json::Value) -> Result<Problem, String> {
    let input: Input = serde_json::from_value(value).map_err(|error| error.to_string())?;
    Problem::try_from(input).map_err(|error| error.to_string())
}

/// Simulates each choice as a server would: (on time, all constraints met).
fn walked(problem: &Problem, cores: u32, batch: u32) -> (usize, bool) {
    let latency_ms = problem.latency.ms(batch, f64::from(cores));
    let (mut clock, mut on_time) = (0.0, 0);
    for (place, left) in problem.left_ms.iter().enumerate() {
        if place % batch as usize == 0 {
            clock += latency_ms;
        }
        on_time += usize::from(clock <= left * (1.0 + 1e-12));
    }
    let throughput = f64::from(batch) / latency_ms * 1000.0;
    let left = problem.arriving_ms.unwrap_or(0.0);
    let fills = f64::from(batch - 1) / problem.rate_rps * 1000.0;
    let waits_s = (left - fills - latency_ms).max(0.0) / 1000.0;
    let rises = problem.peak.is_none_or(|peak| {
        throughput * (peak.seconds + waits_s) >= peak.rate_rps * peak.seconds * (1.0 - 1e-12)
    });
    let carried = throughput >= problem.rate_rps * (1.0 - 1e-12) && rises;
    let comes = problem.arriving_ms.is_none_or(|left| {
        f64::from(batch - 1) / problem.rate_rps * 1000.0 + latency_ms <= left * (1.0 + 1e-12)
    });
    (
        on_time,
        on_time == problem.left_ms.len() && carried && comes,
    )
}

fn drawn(seed: u64) -> Problem {
    let mut draw = ChaCha8Rng::seed_from_u64(seed);
    let scale = [1.0, 1.0, 1000.0, 0.001][draw.random_range(0..4)];
    let even = draw.random_bool(0.3);
    let mut ms = |most: f64| {
        if even {
            draw.random_range(0.0..most).floor()
        } else {
            draw.random_range(0.0..most)
        }
    };
    let model = LatencyModel {
        gamma_ms: (1.0 + ms(30.0)) * scale,
        epsilon_ms: ms(10.0) * scale,
        delta_ms: ms(5.0) * scale,
        eta_ms: ms(5.0) * scale,
    };
    let slo = 20.0 + ms(400.0);
    let mut left_ms: Vec<f64> = (0..draw.random_range(0..14))
        .map(|_| (slo * draw.random_range(0.3..1.0)) * scale)
        .collect();
    left_ms.sort_by(f64::total_cmp);
    let comes = draw.random_bool(0.4) || left_ms.is_empty();
    let peak = (comes && draw.random_bool(0.5)).then(|| Peak {
        rate_rps: draw.random_range(1.0..150.0) / scale,
        seconds: draw.random_range(0.1..5.0) * scale,
    });
    Problem {
        peak,
        latency: Latency::Sponge(model),
        cores: (1..=draw.random_range(1..7)).collect(),
        step: 1.0,
        batches: (1..=draw.random_range(1..7)).collect(),
        delta: [0.0, 0.01, 0.5, 1.0, 2.0][draw.random_range(0..5)],
        rate_rps: if comes || draw.random_bool(0.5) {
            draw.random_range(1.0..120.0) / scale
        } else {
            0.0
        },
        arriving_ms: comes.then(|| slo * scale * draw.random_range(0.2..1.0)),
        left_ms,
    }
}

#[test]
fn solution_equals_exhaustive_search() {
    let (mut feasible, mut infeasible) = (0, 0);
    for seed in 0..DRAWN {
        let problem = drawn(seed);
        let mut all = Vec::new();
        for cores in &problem.cores {
            for batch in &problem.batches {
                all.push((*cores, *batch, walked(&problem, *cores, *batch)));
            }
        }
        let value = |cores: u32, batch: u32| f64::from(cores) + problem.delta * f64::from(batch);
        let good = all.iter().filter(|(_, _, (_, good))| *good);
        let best = good
            .map(|(c, b, _)| (value(*c, *b), *c, *b))
            .min_by(|a, b| {
                // Multiples of δ are exact enough here for ties to be equal.
                a.partial_cmp(b).unwrap()
            });
        match (solved(&problem), best) {
            (Outcome::Optimal(plan), Some((objective, cores, batch))) => {
                assert!(
                    (plan.objective - objective).abs() < 1e-9,
                    "seed {seed}: {plan:?}"
                );
                assert_eq!((plan.cores, plan.batch), (cores, batch), "seed {seed}");
                feasible += 1;
            }
            (Outcome::Infeasible { best_effort, .. }, None) => {
                let most = all.iter().map(|(_, _, (on_time, _))| *on_time).max();
                let effort = best_effort.expect("the model has a latency everywhere");
                assert_eq!(Some(effort.on_time), most, "seed {seed}: {effort:?}");
                assert_eq!(
                    walked(&problem, effort.cores, effort.batch).0,
                    effort.on_time,
                    "seed {seed}"
                );
                infeasible += 1;
            }
            (outcome, best) => {
                panic!("seed {seed}: {outcome:?}, but trying everything gives {best:?}")
            }
        }
    }
    assert!(
        feasible > 4000 && infeasible > 4000,
        "{feasible} {infeasible}"
    );
}

/// Sponge's Table 1: cores, batch, latency in ms, throughput, instances for 100 requests/s.
const TABLE_1: [(u32, u32, f64, u32, u32); 6] = [
    (1, 1, 55.0, 18, 6),
    (1, 2, 97.0, 20, 5),
    (2, 4, 94.0, 40, 3),
    (4, 8, 92.0, 80, 2),
    (8, 4, 37.0, 108, 1),
    (8, 8, 62.0, 128, 1),
];

fn table_1() -> serde_json::Value {
    let points = TABLE_1
        .map(|(cores, batch, ms, ..)| json!({"cores": cores, "batch": batch, "latency_ms": ms}));
    json!({"model": "table", "points": points})
}

/// Solves with exactly this choice.
fn cell(cores: u32, batch: u32, rate_rps: f64, left_ms: f64) -> Outcome<Plan> {
    let problem = json!({
        "latency": table_1(), "cores": [cores], "batches": [batch], "rate_rps": rate_rps,
        "arriving": {"slo_ms": left_ms, "network_ms": [0]},
    });
    solved(&read(problem).unwrap())
}

#[test]
fn paper_table_1_is_reproduced() {
    for (cores, batch, ms, rps, instances) in TABLE_1 {
        let Outcome::Optimal(plan) = cell(cores, batch, 1.0, 1e6) else {
            panic!("{cores} × {batch}")
        };
        assert_eq!(plan.latency_ms, ms);
        // The table counts whole batches per second; ours follows the latency model and is at least as
        // high.
        let whole = (1000.0 / ms).floor() * f64::from(batch);
        assert_eq!(whole, f64::from(rps), "{cores} × {batch}");
        assert!(plan.throughput_rps >= whole && plan.throughput_rps < whole + f64::from(batch));
        assert_eq!((100.0 / whole).ceil(), f64::from(instances));
    }
}

#[test]
fn paper_example_after_table_1_is_reproduced() {
    // 100 requests/s, SLO 1000 ms: with 600 ms of network one instance still serves with 8 cores, batch 4.
    let problem = |network_ms: f64, waiting: usize| {
        json!({
            "latency": table_1(), "cores": [1, 2, 4, 8], "batches": [1, 2, 4, 8], "rate_rps": 100, "delta": 0.01,
            "waiting": vec![json!({"slo_ms": 1000, "network_ms": network_ms}); waiting],
        })
    };
    for (network_ms, waiting) in [(0.0, 20), (600.0, 40)] {
        let Outcome::Optimal(plan) = solved(&read(problem(network_ms, waiting)).unwrap()) else {
            panic!("{network_ms} ms")
        };
        assert_eq!(
            (plan.cores, plan.batch),
            (8, 4),
            "the only ones that carry 100 requests/s are 8 × 4 and 8 × 8"
        );
    }
    // One core is never enough, even without waiting requests: h(b, c) ≥ λ, which the published program
    // does not check.
    assert!(matches!(
        cell(1, 2, 100.0, 1000.0),
        Outcome::Infeasible { .. }
    ));
    assert!(matches!(cell(8, 4, 100.0, 1000.0), Outcome::Optimal(_)));
}

#[test]
fn each_waiting_request_is_checked_not_only_the_last() {
    // The published program checks the last request alone: with 5 ms left for the first, none is on time.
    let problem = |first: f64| {
        json!({
            "latency": {"model": "sponge", "gamma_ms": 40.0, "epsilon_ms": 0.0, "delta_ms": 0.0, "eta_ms": 10.0},
            "cores": 4, "batches": 1,
            "waiting": [{"slo_ms": 1000}, {"slo_ms": first}],
        })
    };
    assert!(
        matches!(solved(&read(problem(21.0)).unwrap()), Outcome::Optimal(plan) if plan.cores == 4)
    );
    let Outcome::Infeasible { why, best_effort } = solved(&read(problem(5.0)).unwrap()) else {
        panic!("5 ms?")
    };
    assert_eq!(best_effort.unwrap().on_time, 1);
    assert!(
        why.contains("of 2 waiting requests 1 at most can be on time"),
        "{why}"
    );
}

#[test]
fn tie_prefers_fewest_cores_then_smallest_batch() {
    let problem = |delta: f64| {
        json!({
            "latency": {"model": "sponge", "gamma_ms": 10.0, "epsilon_ms": 10.0, "delta_ms": 0.0, "eta_ms": 0.0},
            "cores": 4, "batches": 4, "delta": delta, "rate_rps": 60,
        })
    };
    // h(b, c) = 1000·b·c / (10·b + 10): 1 core at batch 2 sustains 66, 2 cores at batch 1 sustain 100.
    for (delta, choice) in [(1.0, (1, 2)), (2.0, (2, 1)), (0.0, (1, 2))] {
        let Outcome::Optimal(plan) = solved(&read(problem(delta)).unwrap()) else {
            panic!("δ = {delta}")
        };
        assert_eq!((plan.cores, plan.batch), choice, "δ = {delta}");
    }
}

#[test]
fn expired_limit_is_out_of_time() {
    let at = Cell::new(0);
    let clock = || {
        at.set(at.get() + 1);
        Duration::from_nanos(at.get())
    };
    let problem = json!({
        "latency": {"model": "linear", "item_ms": 1.0, "fixed_ms": 5.0}, "cores": 9, "batches": 9, "rate_rps": 300,
    });
    let problem = read(problem).unwrap();
    let Outcome::Optimal(plan) = solved(&problem) else {
        panic!("not solved")
    };
    assert_eq!((plan.cores, plan.batch), (1, 3));
    for limit in [1, 3, 5, 20] {
        at.set(0);
        match solve(
            &problem,
            &TimeLimit::new(Duration::from_nanos(limit), &clock),
        ) {
            Outcome::OutOfTime { best, .. } => {
                assert!(limit < 20);
                assert!(best.is_none_or(|best| problem.check(&best).is_ok()));
            }
            outcome => assert_eq!((limit, outcome), (20, Outcome::Optimal(plan))),
        }
    }
}

#[test]
fn unfinished_search_does_not_claim_infeasibility() {
    let at = Cell::new(0);
    let clock = || {
        at.set(at.get() + 1);
        Duration::from_nanos(at.get())
    };
    let model = json!({"model": "linear", "item_ms": 1.0, "fixed_ms": 5.0});
    let waiting = vec![json!({"slo_ms": 20}); 30];
    let late = json!({"latency": model, "cores": 2, "batches": 9, "waiting": waiting});
    let much = json!({"latency": model, "cores": 2, "batches": 9, "rate_rps": 100_000});
    let whole = [("can be on time", "10 at most"), ("exceeds the 642.9", "")];
    for (problem, (whole, most)) in [late, much].into_iter().zip(whole) {
        let problem = read(problem).unwrap();
        let (mut cut_short, mut complete) = (0, 0);
        for limit in 1..30 {
            at.set(0);
            let time_limit = TimeLimit::new(Duration::from_nanos(limit), &clock);
            let Outcome::Infeasible { why, .. } = solve(&problem, &time_limit) else {
                assert!(limit < 10, "nine looks for the batches, then it is known");
                continue;
            };
            if limit > 18 {
                assert!(why.contains(whole) && why.contains(most), "{why}");
                complete += 1;
            } else {
                assert!(
                    why.contains("at least") || why.ends_with("was not found in time"),
                    "{why}"
                );
                cut_short += 1;
            }
        }
        assert!(cut_short > 5 && complete > 5, "{cut_short} {complete}");
    }
}

#[test]
fn check_refuses_plan_that_breaks_a_constraint() {
    let problem = json!({
        "latency": {"model": "sponge", "gamma_ms": 40.0, "epsilon_ms": 0.0, "delta_ms": 0.0, "eta_ms": 10.0},
        "cores": 4, "batches": 2, "rate_rps": 30,
        "waiting": [{"slo_ms": 60}, {"slo_ms": 60}, {"slo_ms": 90}],
        "arriving": {"slo_ms": 100, "network_ms": [10, 40]},
    });
    let problem = read(problem).unwrap();
    let Outcome::Optimal(good) = solved(&problem) else {
        panic!("not solved")
    };
    assert_eq!(
        (good.cores, good.batch, problem.check(&good)),
        (2, 1, Ok(())).max((good.cores, good.batch, Ok(())))
    );
    for (cores, batch, message) in [
        (9, 1, "9 cores are none"),
        (1, 9, "a batch of 9 is none"),
        (1, 1, "is answered after"),
        (1, 2, "is answered after"),
    ] {
        let error = problem
            .check(&Plan {
                cores,
                batch,
                ..good
            })
            .unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}
