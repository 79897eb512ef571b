//! Larger random pipelines compared with the integer programmes.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::*;
use crate::Solver;

/// Difference that HiGHS' own tolerances allow, relative to the objective's terms.
const CLOSE: f64 = 1e-6;

fn agree(document: Value, solver: Solver) -> bool {
    let problem = problem(document.clone());
    let clock = || Duration::ZERO;
    let time_limit = TimeLimit::new(Duration::from_secs(60), &clock);
    match (
        solve(&problem, &time_limit),
        ilp::solve_with(&problem, solver, &time_limit),
    ) {
        (Outcome::Optimal(own), Outcome::Optimal(general)) => {
            let size = own.objective.abs() + problem.weights.beta * own.cores;
            let off = (own.objective - general.objective).abs();
            assert!(off <= CLOSE * size, "{document}:\n{own:?}\n{general:?}");
            true
        }
        (own @ Outcome::Infeasible { .. }, general) => {
            assert_eq!(own, general, "{document}");
            false
        }
        (own, general) => panic!("{document}:\n{own:?}\n{general:?}"),
    }
}

/// Six stages of four variants, in a chain or with two branches, by product or by ranks.
fn any_pipeline(random: &mut ChaCha8Rng, stages: usize) -> Value {
    let seed = random.random_range(0..1_000_000);
    let tightness = random.random_range(-0.02..0.5);
    let mut pipeline = pipelines::pipeline(seed, stages, 4, tightness, random.random_bool(0.2));
    if random.random_bool(0.3) {
        pipeline["accuracy"] = json!("ranks");
    }
    if random.random_bool(0.4) {
        // 0 → (1 → 3, 2) → 4 → …, and 2 → 5: several paths, some of which end early.
        for (stage, after) in [
            (1, vec!["s0"]),
            (2, vec!["s0"]),
            (3, vec!["s1"]),
            (4, vec!["s3", "s2"]),
        ] {
            pipeline["stages"][stage]["after"] = json!(after);
        }
        pipeline["stages"][5]["after"] = json!(["s2"]);
    }
    for stage in pipeline["stages"].as_array_mut().unwrap() {
        for variant in stage["variants"].as_array_mut().unwrap() {
            variant["batches"] = json!([1, 2, 4, 8]);
        }
    }
    pipeline["weights"] =
        json!({"alpha": 10.0, "beta": random.random_range(0.1..2.0), "delta": 0.01});
    pipeline
}

#[cfg(feature = "highs")]
#[test]
fn highs_does_not_beat_the_search() {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let found = (0..60)
        .filter(|_| agree(any_pipeline(&mut random, 6), Solver::Highs))
        .count();
    assert!((40..60).contains(&found), "{found} of 60 have an answer");
}

#[test]
fn microlp_does_not_beat_the_search() {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let mut found = 0;
    for _ in 0..8 {
        let mut small = any_pipeline(&mut random, 6);
        for stage in small["stages"].as_array_mut().unwrap() {
            stage["variants"].as_array_mut().unwrap().truncate(2);
            for variant in stage["variants"].as_array_mut().unwrap() {
                variant["batches"] = json!([1, 4]);
            }
        }
        found += usize::from(agree(small, Solver::Microlp));
    }
    assert!(found >= 3, "{found} of 8 have an answer");
}

#[test]
fn narrow_pass_drops_plans_that_a_wide_pass_keeps() {
    let mut cut = 0;
    for seed in 1..=6 {
        let pipeline = pipelines::pipeline(seed, 10, 10, 0.1, seed % 2 == 0);
        let problem = problem(pipeline);
        let clock = || Duration::ZERO;
        let time_limit = TimeLimit::new(Duration::from_secs(1), &clock);
        let items = items::Items::new(&problem, &time_limit);
        let (relaxed, _) = bound::relax(&items, &time_limit);
        let pass = |width| labels::pass(&items, &relaxed, f64::NEG_INFINITY, width, &time_limit);
        let (narrow, wide) = (pass(64), pass(1 << 18));
        assert!(wide.whole, "seed {seed}");
        let (picks, value) = wide.found.unwrap();
        let plan = search::plan(&problem, &items, &picks).unwrap();
        assert_eq!(unhurried(&problem), Outcome::Optimal(plan), "seed {seed}");
        if !narrow.whole {
            cut += 1;
            let found = narrow.found.map_or(f64::NEG_INFINITY, |found| found.1);
            let ceiling = narrow.ceiling.max(found) + items.slack;
            assert!(
                found <= value + items.tie as f64 && value <= ceiling,
                "seed {seed}: {found} {value} {ceiling}"
            );
        }
    }
    assert!(cut >= 3, "{cut} of 6 were too wide for 64 labels");
}
