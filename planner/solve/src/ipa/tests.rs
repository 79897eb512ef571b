//! The search compared with exhaustive search, HiGHS and the paper's numbers, and under short
//! limits.

mod exhaustive;
mod general;
mod paper;
mod refusals;
mod rules;
mod small;
mod time_limit;

#[path = "../../benches/ipa/pipelines.rs"]
mod pipelines;

use std::time::Duration;

use super::*;

fn unhurried(problem: &Problem) -> Outcome<Plan> {
    let clock = || Duration::ZERO;
    solve(problem, &TimeLimit::new(Duration::from_secs(1), &clock))
}

fn problem(document: serde_json::Value) -> Problem {
    let input: Input = serde_json::from_value(document).unwrap();
    Problem::try_from(input).unwrap()
}
