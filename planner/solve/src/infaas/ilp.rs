//! INFaaS' problem as an integer programme, with integers δ⁺ and δ⁻ per variant:
//!
//! minimise Σ C·((1 + λ·T_load)·δ⁺ − δ⁻) with Σ L·(N + δ⁺ − δ⁻) ≥ load + slack over the variants within
//! the SLO, the same for the load that requires an accuracy and the variants that have it, Σ takes·(N + δ⁺ − δ⁻) ≤ available, 0 ≤ δ⁻ ≤ N. The loading cost is not negative, so δ⁺ and
//! δ⁻ need not exclude each other.
//!
//! The solver breaks ties.

use good_lp::{
    Constraint, Expression, ProblemVariables, ResolutionError, Variable, constraint, variable,
};

use super::{Plan, Problem, REPLICAS_MAX, effort, greedy};
use crate::mip::{Mip, Values, reason};
use crate::{Outcome, Solver, TimeLimit};

/// Solves the problem with `solver`; see the module.
pub fn solve_with(problem: &Problem, solver: Solver, time_limit: &TimeLimit<'_>) -> Outcome<Plan> {
    if let Some(why) = effort::infeasible_architecture(problem) {
        return effort::infeasible(problem, why).checked(problem);
    }
    let model = Model::new(problem);
    let actions = model.actions.clone();
    let outcome = match model.mip(problem).solve(solver, time_limit.left()) {
        Ok(values) => {
            let plan = problem.plan(&read(problem, &actions, &values));
            if values.proven() && problem.input.gap == 0.0 {
                Outcome::Optimal(plan)
            } else {
                let why = "the solver stopped before the proof".to_owned();
                let best = Some(plan);
                Outcome::OutOfTime { why, best }
            }
        }
        Err(ResolutionError::Infeasible) => {
            let why = "the resource types are too little for load and slack".to_owned();
            effort::infeasible(problem, why)
        }
        Err(error) => Outcome::OutOfTime {
            why: reason(&error),
            best: greedy::without_delay(problem).map(|replicas| problem.plan(&replicas)),
        },
    };
    outcome.checked(problem)
}

/// δ⁺ and δ⁻, by architecture and variant.
type Actions = Vec<Vec<(Variable, Variable)>>;

struct Model {
    variables: ProblemVariables,
    actions: Actions,
}

impl Model {
    fn new(problem: &Problem) -> Model {
        let mut variables = ProblemVariables::new();
        let architectures = problem.input.architectures.iter();
        let actions = architectures
            .map(|architecture| {
                let started = architecture.variants.iter().map(|variant| {
                    let more = f64::from(REPLICAS_MAX - variant.replicas);
                    let plus = variable().integer().bounds(0.0..=more);
                    let minus = variable()
                        .integer()
                        .bounds(0.0..=f64::from(variant.replicas));
                    (variables.add(plus), variables.add(minus))
                });
                started.collect()
            })
            .collect();
        Model { variables, actions }
    }

    fn mip(self, problem: &Problem) -> Mip {
        let input = &problem.input;
        let mut cost = Expression::from(0.0);
        let mut rows: Vec<Constraint> = Vec::new();
        let mut used = vec![Expression::from(0.0); input.resources.len()];
        let parts = input.architectures.iter().zip(&problem.takes);
        for ((architecture, takes), actions) in parts.zip(&self.actions) {
            let needs = architecture.needs();
            let mut carried = vec![Expression::from(0.0); needs.iter().count()];
            let variants = architecture.variants.iter().zip(takes);
            for ((variant, takes), (plus, minus)) in variants.zip(actions) {
                let started = variant.cost * (1.0 + input.loading_weight_per_s * variant.loading_s);
                cost += started * *plus - variant.cost * *minus;
                let after = f64::from(variant.replicas) + *plus - *minus;
                for (used, each) in used.iter_mut().zip(&takes.0) {
                    if *each > 0.0 {
                        *used += *each * after.clone();
                    }
                }
                if architecture.may_serve(variant) {
                    for carried in carried.iter_mut().take(needs.rank(variant)) {
                        *carried += variant.sustains_qps * after.clone();
                    }
                }
            }
            for (carried, need) in carried.into_iter().zip(needs.iter()) {
                if need.qps > 0.0 {
                    rows.push(constraint!(carried >= need.qps));
                }
            }
        }
        for (used, resource) in used.into_iter().zip(&input.resources) {
            rows.push(constraint!(used <= resource.available));
        }
        Mip {
            variables: self.variables,
            objective: -cost,
            rows,
            start: Vec::new(),
            gap: input.gap as f32,
        }
    }
}

fn read(problem: &Problem, actions: &Actions, values: &Values) -> Vec<Vec<u32>> {
    let parts = problem.input.architectures.iter().zip(actions);
    parts
        .map(|(architecture, actions)| {
            let variants = architecture.variants.iter().zip(actions);
            variants
                .map(|(variant, (plus, minus))| {
                    let change = values.of(*plus).round() - values.of(*minus).round();
                    (f64::from(variant.replicas) + change).max(0.0) as u32
                })
                .collect()
        })
        .collect()
}
