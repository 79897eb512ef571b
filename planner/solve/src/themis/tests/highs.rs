//! Larger problems, compared with HiGHS.

use rand::{RngExt, SeedableRng};

use super::*;
use crate::Solver;

fn whole(scaling: Option<&Scaling>) -> Option<(u32, u32)> {
    scaling.map(|s| (s.cores, s.stages.iter().map(|stage| stage.batch).sum()))
}

#[test]
fn large_pipelines_equal_highs() {
    let (mut optimal, mut infeasible) = (0, 0);
    for seed in 0..60 {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let mut input = any_input(&mut chance, (8, 8, 8, 20), 1.0);
        input.budget_cores = chance.random_range(20..1280);
        let problem = Problem::try_from(input).unwrap();
        let time_limit = TimeLimit::new(Duration::from_secs(60), &|| Duration::ZERO);
        match (
            at_leisure(&problem),
            ilp::solve_with(&problem, Solver::Highs, &time_limit),
        ) {
            (Outcome::Optimal(ours), Outcome::Optimal(theirs)) => {
                for (ours, theirs) in [
                    (&ours.vertical, &theirs.vertical),
                    (&ours.horizontal, &theirs.horizontal),
                ] {
                    assert_eq!(whole(ours.as_ref()), whole(theirs.as_ref()), "seed {seed}");
                }
                optimal += 1;
            }
            (Outcome::Infeasible { .. }, Outcome::Infeasible { .. }) => infeasible += 1,
            (ours, theirs) => panic!("seed {seed}: {ours:?}\n{theirs:?}"),
        }
    }
    assert!(optimal >= 20 && infeasible >= 5, "{optimal} {infeasible}");
}

#[test]
fn microlp_equals_the_programmes() {
    for seed in 0..40 {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let problem = Problem::try_from(any_input(&mut chance, (3, 3, 3, 3), 1.0)).unwrap();
        let time_limit = TimeLimit::new(Duration::from_secs(60), &|| Duration::ZERO);
        let theirs = ilp::solve_with(&problem, Solver::Microlp, &time_limit);
        match (at_leisure(&problem), theirs) {
            (Outcome::Optimal(ours), Outcome::Optimal(theirs)) => {
                assert_eq!(
                    whole(ours.vertical.as_ref()),
                    whole(theirs.vertical.as_ref()),
                    "seed {seed}"
                );
                assert_eq!(
                    whole(ours.horizontal.as_ref()),
                    whole(theirs.horizontal.as_ref()),
                    "seed {seed}"
                );
            }
            (Outcome::Infeasible { .. }, Outcome::Infeasible { .. }) => {}
            (ours, theirs) => panic!("seed {seed}: {ours:?}\n{theirs:?}"),
        }
    }
}
