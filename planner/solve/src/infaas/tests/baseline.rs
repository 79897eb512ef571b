//! The greedy heuristic: its moves, its delay before scaling down, and that it never beats the
//! optimum.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::greedy::{LowCycles, scale};
use super::*;
use crate::Check;

fn input(load_qps: f64, cpus: f64, gpus: f64, running: [u32; 3]) -> Input {
    let [cpu, small, big] = running;
    let variants = vec![
        variant("cpu", "cpu", (1.0, 10.0, 2.0, cpu)),
        variant("gpu", "gpu", (4.0, 60.0, 10.0, small)),
        variant("gpu-batched", "gpu", (6.0, 100.0, 10.0, big)),
    ];
    Input {
        resources: vec![resource("cpu", cpus), resource("gpu", gpus)],
        architectures: vec![architecture("resnet", load_qps, variants)],
        loading_weight_per_s: 0.0,
        gap: 0.0,
    }
}

fn replicas(plan: &Plan) -> Vec<u32> {
    plan.architectures[0]
        .variants
        .iter()
        .map(|a| a.replicas)
        .collect()
}

#[test]
fn heuristic_replicates_upgrades_downgrades_and_removes() {
    // Load, cpus, gpus, running → replicas.
    for (load_qps, cpus, gpus, running, after) in [
        // Two more of the running variant, at 2; an upgrade would cost 3.
        (30.0, 9.0, 9.0, [1, 0, 0], [3, 0, 0]),
        // Five more at 5; the upgrade stops one, 4 − 1.
        (60.0, 9.0, 9.0, [1, 0, 0], [0, 1, 0]),
        (60.0, 9.0, 0.0, [1, 0, 0], [6, 0, 0]),
        // On the same resource type.
        (90.0, 0.0, 1.0, [0, 1, 0], [0, 0, 1]),
        // Nothing runs: the cheapest alone.
        (60.0, 9.0, 9.0, [0, 0, 0], [0, 1, 0]),
        // Nothing is enough: as many as fit.
        (200.0, 2.0, 1.0, [1, 0, 0], [2, 0, 1]),
        // Four for six is a downgrade; two are removed.
        (55.0, 9.0, 9.0, [0, 0, 1], [0, 1, 0]),
        (25.0, 9.0, 9.0, [5, 0, 0], [3, 0, 0]),
        (30.0, 9.0, 9.0, [3, 0, 0], [3, 0, 0]),
        // More replicas run than the resources allow.
        (10.0, 2.0, 0.0, [4, 1, 0], [1, 0, 0]),
    ] {
        let problem = Problem::try_from(input(load_qps, cpus, gpus, running)).unwrap();
        let plan = scale(&problem, &LowCycles::default(), 1).plan;
        assert_eq!(
            replicas(&plan),
            after,
            "{load_qps} {cpus} {gpus} {running:?}"
        );
        assert_eq!(problem.check_best_effort(&plan), Ok(()));
    }
}

#[test]
fn heuristic_scales_down_after_t_v_low_cycles() {
    let low = Problem::try_from(input(25.0, 9.0, 0.0, [5, 0, 0])).unwrap();
    let even = Problem::try_from(input(50.0, 9.0, 0.0, [5, 0, 0])).unwrap();
    let high = Problem::try_from(input(51.0, 9.0, 0.0, [5, 0, 0])).unwrap();
    let mut counts = LowCycles::default();
    // Observed load → replicas of the first variant, and counted cycles. A load that is not low
    // resets the count.
    for (step, (observed, after, counted)) in [
        (&low, 5, 1),
        (&low, 5, 2),
        (&even, 5, 0),
        (&low, 5, 1),
        (&high, 6, 0),
        (&low, 5, 1),
        (&low, 5, 2),
        (&low, 3, 0),
        (&low, 5, 1),
    ]
    .into_iter()
    .enumerate()
    {
        let scaled = scale(observed, &counts, 3);
        assert_eq!(
            (replicas(&scaled.plan)[0], scaled.low.cycles[0]),
            (after, counted),
            "step {step}"
        );
        counts = scaled.low;
    }
}

#[test]
fn heuristic_never_beats_the_optimum() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (mut worse, mut equal, mut short) = (0, 0, 0);
    for case in 0..2000 {
        let mut any = |most: u32| f64::from(rng.random_range(0..most));
        let running = [any(6) as u32, any(3) as u32, any(2) as u32];
        let problem = input(any(200), any(12), any(4), running);
        let problem = Problem::try_from(problem).unwrap();
        let plan = scale(&problem, &LowCycles::default(), 1).plan;
        assert_eq!(problem.check_best_effort(&plan), Ok(()), "case {case}");
        if problem.check(&plan).is_err() {
            short += 1;
            continue;
        }
        let Outcome::Optimal(best) = solved(&problem) else {
            panic!("case {case}: the heuristic found a plan, the solver none")
        };
        assert!(plan.objective >= best.objective - 1e-9, "case {case}");
        if plan.objective > best.objective + 1e-9 {
            worse += 1
        } else {
            equal += 1
        }
    }
    assert!(
        worse > 100 && equal > 100 && short > 100,
        "{worse} {equal} {short}"
    );
}
