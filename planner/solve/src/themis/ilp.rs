//! Both programmes as integer programmes: a binary for each setting of each stage, one of them 1;
//! minimise cores·(1 + the maximum sum of batches) + batches.
//!
//! The solver breaks further ties, in latency. Its rows hold to its own tolerance, about 1e-6.

use std::time::Duration;

use good_lp::{Expression, ProblemVariables, ResolutionError, Variable, constraint, variable};

use super::choices::Choice;
use super::front::ProgrammeResult;
use super::{Phase, Plan, Problem, join};
use crate::mip::{Mip, Solver};
use crate::{Check, Outcome, TimeLimit};

/// Solves both programmes with `solver` and selects the phase.
pub fn solve_with(problem: &Problem, solver: Solver, time_limit: &TimeLimit<'_>) -> Outcome<Plan> {
    let horizontal = programme(problem, Phase::Horizontal, solver, &time_limit.part(0.5));
    let vertical = programme(problem, Phase::Vertical, solver, time_limit);
    let outcome = join::join(problem, vertical, horizontal, time_limit);
    let solved = matches!(outcome, Outcome::Optimal(_) | Outcome::Good { .. });
    if let (true, Some(Err(broken))) = (solved, outcome.plan().map(|plan| problem.check(plan))) {
        let why = format!("the solver's tolerance is wider than the check's: {broken}");
        return Outcome::OutOfTime { why, best: None };
    }
    outcome.checked(problem)
}

fn programme(
    problem: &Problem,
    phase: Phase,
    solver: Solver,
    time_limit: &TimeLimit<'_>,
) -> ProgrammeResult {
    let Some(stages) = problem.choices(phase, problem.load_rps, time_limit) else {
        return ProgrammeResult::OutOfTime;
    };
    if stages.iter().any(Vec::is_empty) {
        return ProgrammeResult::Infeasible;
    }
    let (mip, binaries) = model(problem, &stages);
    let limit = time_limit.left();
    if limit == Duration::ZERO {
        return ProgrammeResult::OutOfTime;
    }
    let values = match mip.solve(solver, limit) {
        Ok(values) => values,
        Err(ResolutionError::Infeasible) => return ProgrammeResult::Infeasible,
        Err(_) => return ProgrammeResult::OutOfTime,
    };
    let chosen = stages.iter().zip(&binaries).map(|(choices, binaries)| {
        let valued = choices.iter().zip(binaries);
        let valued = valued.map(|(choice, binary)| (choice, values.of(*binary)));
        let one = valued.max_by(|(_, a), (_, b)| a.total_cmp(b));
        one.map(|(choice, _)| *choice)
    });
    match chosen.collect::<Option<Vec<Choice>>>() {
        Some(choices) if values.proven() => ProgrammeResult::Optimal(choices),
        Some(choices) => ProgrammeResult::Good {
            choices,
            min_cores: 0.0,
        },
        None => ProgrammeResult::OutOfTime,
    }
}

fn model(problem: &Problem, stages: &[Vec<Choice>]) -> (Mip, Vec<Vec<Variable>>) {
    let mut variables = ProblemVariables::new();
    let batches: u32 = problem.stages.iter().map(|stage| stage.batch_max).sum();
    let each_core = 1.0 + f64::from(batches);
    let (mut objective, mut cores, mut part) = (
        Expression::from(0.0),
        Expression::from(0.0),
        Expression::from(0.0),
    );
    let (mut rows, mut binaries) = (Vec::new(), Vec::new());
    for choices in stages {
        let mut one = Expression::from(0.0);
        let mut own = Vec::with_capacity(choices.len());
        for choice in choices {
            let binary = variables.add(variable().binary());
            let cost = f64::from(choice.cost);
            objective.add_mul(-(cost * each_core + f64::from(choice.batch)), binary);
            cores.add_mul(cost, binary);
            part.add_mul(choice.ms / problem.slo_ms, binary);
            one.add_mul(1.0, binary);
            own.push(binary);
        }
        rows.push(constraint!(one == 1.0));
        binaries.push(own);
    }
    rows.push(constraint!(cores <= f64::from(problem.budget_cores)));
    rows.push(constraint!(part <= 1.0));
    let mip = Mip {
        variables,
        objective,
        rows,
        start: Vec::new(),
        gap: 0.0,
    };
    (mip, binaries)
}
