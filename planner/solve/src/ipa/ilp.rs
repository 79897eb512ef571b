//! IPA's problem as integer programmes: x_{s,o} = 1 if stage s takes option o (a variant and a batch
//! with its replicas), Σ_o x = 1 for each stage, Σ time·x ≤ SLA along each path.
//!
//! PAS′ is linear: one programme. The product is not linear, but its logarithm is. So the Pareto
//! front of accuracy and cost is walked from its cheap end (ε-constraint): each step minimises the
//! cost, with Σ ln a·x at least the value that could still beat the incumbent, until no choice is
//! that accurate. The optimum is good to the solver's own tolerances (some 1e-7), and the solver
//! breaks ties.

use good_lp::{Expression, ProblemVariables, ResolutionError, Variable, constraint, variable};

use super::choices::Choice;
use super::{Accuracy, Plan, Problem};
use crate::mip::{Mip, reason};
use crate::{Outcome, Solver, TOLERANCE, TimeLimit};

/// Scale of rows and objectives, so that a solver's absolute tolerances are relatively small.
const SCALE: f64 = 1000.0;
/// Maximum number of initial plans of the walk.
const INITIAL_PLANS_MAX: usize = 8;
/// Minimum relative increase of accuracy to the next point of the front.
const STEP: f64 = 1e-7;

/// Returns the best plan by `solver`.
pub fn solve_with(problem: &Problem, solver: Solver, time_limit: &TimeLimit<'_>) -> Outcome<Plan> {
    if let Some(outcome) = problem.infeasible(time_limit) {
        return outcome.checked(problem);
    }
    let outcome = match problem.accuracy {
        Accuracy::Product => front(problem, solver, time_limit),
        Accuracy::Ranks => ranks(problem, solver, time_limit),
    };
    outcome.checked(problem)
}

fn ranks(problem: &Problem, solver: Solver, time_limit: &TimeLimit<'_>) -> Outcome<Plan> {
    let value = |choice: &Choice| problem.weights.alpha * choice.rank - problem.cost(choice);
    match solved(problem, &value, None, solver, time_limit) {
        Ok((plan, true)) => Outcome::Optimal(plan),
        Ok((plan, false)) => late(Some(plan)),
        Err(error) => failed(&error, None),
    }
}

/// State of the walk along the front.
struct Walk<'a> {
    problem: &'a Problem,
    solver: Solver,
    time_limit: &'a TimeLimit<'a>,
    best: Option<Plan>,
}

fn front(problem: &Problem, solver: Solver, time_limit: &TimeLimit<'_>) -> Outcome<Plan> {
    let mut walk = Walk {
        problem,
        solver,
        time_limit,
        best: None,
    };
    match walk.walk() {
        Ok(true) => match walk.best {
            Some(best) => Outcome::Optimal(best),
            None => failed(&ResolutionError::Infeasible, None),
        },
        Ok(false) => late(walk.best),
        Err(error) => failed(&error, walk.best),
    }
}

impl Walk<'_> {
    /// Walks the front; returns whether it reached the end.
    fn walk(&mut self) -> Result<bool, ResolutionError> {
        let (problem, alpha) = (self.problem, self.problem.weights.alpha);
        let max = problem.stages.iter().map(|stage| {
            let factors = stage.choices.iter().map(|choice| choice.factor);
            factors.fold(0.0, f64::max)
        });
        let most_percent = 100.0 * max.product::<f64>();
        if alpha > 0.0 && !self.find_initial_plans(most_percent)? {
            return Ok(false);
        }
        let mut min_percent: Option<f64> = None;
        loop {
            let cheapest = |choice: &Choice| -problem.cost(choice);
            let (plan, proven) = match self.next(&cheapest, min_percent) {
                Err(ResolutionError::Infeasible) => return Ok(true),
                solved => solved?,
            };
            if !proven {
                return Ok(false);
            }
            if alpha <= 0.0 {
                return Ok(true);
            }
            // More accuracy never costs less, so the next plan must have at least this value to be
            // better.
            let cost = alpha * plan.accuracy_percent - plan.objective;
            let known = self.best.as_ref().map_or(0.0, |best| best.objective);
            let here = plan.accuracy_percent.max(min_percent.unwrap_or_default());
            let next = (here * (1.0 + STEP)).max((known + cost) / alpha);
            if next > most_percent * (1.0 + TOLERANCE) {
                return Ok(true);
            }
            min_percent = Some(next);
        }
    }

    /// Finds good initial plans, with which the walk takes larger steps. α·PAS is never below its
    /// tangent in Σ ln a, so the tangent's optimum is a better plan, unless no better plan is near.
    fn find_initial_plans(&mut self, most_percent: f64) -> Result<bool, ResolutionError> {
        let problem = self.problem;
        let mut at = most_percent;
        for _ in 0..INITIAL_PLANS_MAX {
            let slope = problem.weights.alpha * at;
            let tangent = |choice: &Choice| slope * choice.factor.ln() - problem.cost(choice);
            let (plan, proven) = self.next(&tangent, None)?;
            if !proven {
                return Ok(false);
            }
            if (plan.accuracy_percent - at).abs() <= STEP * at {
                break;
            }
            at = plan.accuracy_percent;
        }
        Ok(true)
    }

    /// Finds the plan of greatest value with at least that accuracy, and updates the incumbent.
    fn next(
        &mut self,
        value: &dyn Fn(&Choice) -> f64,
        min_percent: Option<f64>,
    ) -> Result<(Plan, bool), ResolutionError> {
        let solver = self.solver;
        let (plan, proven) = solved(self.problem, value, min_percent, solver, self.time_limit)?;
        let known = self.best.as_ref();
        if known.is_none_or(|best| plan.objective > best.objective) {
            self.best = Some(plan.clone());
        }
        Ok((plan, proven && !self.time_limit.is_over()))
    }
}

fn late(best: Option<Plan>) -> Outcome<Plan> {
    Outcome::OutOfTime {
        why: "the solver's time ran out".to_owned(),
        best,
    }
}

fn failed(error: &ResolutionError, best: Option<Plan>) -> Outcome<Plan> {
    Outcome::OutOfTime {
        why: reason(error),
        best,
    }
}

/// Returns the plan of greatest value with at least that accuracy, and whether it is proven optimal.
fn solved(
    problem: &Problem,
    value: &dyn Fn(&Choice) -> f64,
    min_percent: Option<f64>,
    solver: Solver,
    time_limit: &TimeLimit<'_>,
) -> Result<(Plan, bool), ResolutionError> {
    let (mip, options) = model(problem, value, min_percent);
    let values = mip.solve(solver, time_limit.left())?;
    let pick = |stage: &Vec<Variable>| {
        let taken = stage.iter().enumerate();
        let taken = taken.max_by(|a, b| values.of(*a.1).total_cmp(&values.of(*b.1)));
        taken.map_or(0, |(index, _)| index)
    };
    let picks: Vec<usize> = options.iter().map(pick).collect();
    let none = || ResolutionError::Str("an answer that is no choice".to_owned());
    let plan = problem.plan(&picks).ok_or_else(none)?;
    Ok((plan, values.proven()))
}

fn model(
    problem: &Problem,
    value: &dyn Fn(&Choice) -> f64,
    min_percent: Option<f64>,
) -> (Mip, Vec<Vec<Variable>>) {
    let mut variables = ProblemVariables::new();
    let mut rows = Vec::new();
    let stages = problem.stages.iter().map(|stage| {
        let each = stage
            .choices
            .iter()
            .map(|_| variables.add(variable().binary()));
        each.collect::<Vec<_>>()
    });
    let options: Vec<Vec<Variable>> = stages.collect();
    let of = |stages: &[usize], weight: &dyn Fn(&Choice) -> f64| {
        let mut sum = Expression::from(0.0);
        for stage in stages {
            let choices = problem.stages.get(*stage).map(|stage| stage.choices.iter());
            let pairs = choices
                .into_iter()
                .flatten()
                .zip(options.get(*stage).into_iter().flatten());
            for (choice, taken) in pairs {
                sum.add_mul(weight(choice), *taken);
            }
        }
        sum
    };
    let all: Vec<usize> = (0..problem.stages.len()).collect();
    for stage in &all {
        rows.push(constraint!(of(&[*stage], &|_| 1.0) == 1.0));
    }
    let limit_ms = problem.limit_ms();
    for path in &problem.graph.paths {
        rows.push(constraint!(
            of(path, &|choice| SCALE * choice.time_ms() / limit_ms) <= SCALE
        ));
    }
    if let Some(percent) = min_percent {
        let min = SCALE * (percent / 100.0).ln();
        rows.push(constraint!(
            of(&all, &|choice| SCALE * choice.factor.ln()) >= min
        ));
    }
    let choices = problem.stages.iter().flat_map(|stage| &stage.choices);
    let max = choices
        .map(|choice| value(choice).abs())
        .fold(0.0, f64::max);
    let scale = if max > 0.0 { SCALE / max } else { 1.0 };
    let mip = Mip {
        objective: of(&all, &|choice| scale * value(choice)),
        variables,
        rows,
        start: Vec::new(),
        gap: 0.0,
    };
    (mip, options)
}
