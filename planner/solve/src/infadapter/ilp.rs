//! InfAdapter's problem as an integer programme, for HiGHS or microlp:
//!
//! maximise α·AA − (β·RC + γ·LC) over binaries x_{m,n} (variant m has n cores) and shares s_m, with
//! AA = Σ accuracy_m·s_m, RC = Σ n·x_{m,n}, LC ≥ loading_m for every m loaded anew, subject to Σ_n
//! x_{m,n} = 1, Σ s_m = 1, s_m ≤ Σ_n th_m(n)·x_{m,n} / λ and RC ≤ B. The options imply p_m(n) ≤ L:
//! th_m(n) is 0 otherwise.
//!
//! Only the cores are read back; their optimal shares are computed exactly ([`super::quota`]).

use std::time::Duration;

use good_lp::{Expression, ProblemVariables, ResolutionError, Variable, constraint, variable};

use super::check::objective;
use super::{Allocation, Choice, Problem, greedy, quota};
use crate::mip::{Mip, Values, reason};
use crate::{Outcome, Solver, TimeLimit};

/// Solves `problem`, starting from the current cores if they are usable.
pub fn solve_with(
    problem: &Problem,
    solver: Solver,
    time_limit: &TimeLimit<'_>,
) -> Outcome<Allocation> {
    let start = greedy::start(problem, problem.in_force.as_deref());
    match cores(
        problem,
        ModelObjective::Objective,
        start.as_ref(),
        solver,
        time_limit.left(),
    ) {
        Ok((cores, proven)) => finish(problem, &cores, proven, start),
        Err(ResolutionError::Infeasible) => overloaded(problem, solver, time_limit.left()),
        Err(error) => Outcome::OutOfTime {
            why: reason(&error),
            best: start,
        },
    }
    .checked(problem)
}

fn finish(
    problem: &Problem,
    cores: &[u32],
    proven: bool,
    start: Option<Allocation>,
) -> Outcome<Allocation> {
    let Some(best) = problem.allocation(cores) else {
        debug_assert!(
            false,
            "the solver's cores {cores:?} do not solve {problem:?}"
        );
        return Outcome::OutOfTime {
            why: "the solver's answer did not pass the check".to_owned(),
            best: start,
        };
    };
    if proven {
        return Outcome::Optimal(best);
    }
    let gap = (bound(problem) - best.objective).max(0.0);
    Outcome::Good { best, gap }
}

/// Result if the demand exceeds all capacity: the greatest capacity, with shares in proportion.
fn overloaded(problem: &Problem, solver: Solver, limit: Duration) -> Outcome<Allocation> {
    let best_effort = cores(problem, ModelObjective::Capacity, None, solver, limit)
        .ok()
        .and_then(|(cores, _)| {
            let shares = quota::by_capacity(&problem.capacities(&cores))?;
            let objective = objective(problem, &cores, &shares);
            Some(Allocation {
                cores,
                shares,
                objective,
            })
        });
    let demand = problem.demand_rps;
    let why = format!(
        "a demand of {demand:.1} requests/s exceeds what {} cores can carry",
        problem.cores(problem.budget)
    );
    Outcome::Infeasible { why, best_effort }
}

/// Upper bound of the objective: all answers of the greatest accuracy, at no cost.
fn bound(problem: &Problem) -> f64 {
    let each = problem
        .variants
        .iter()
        .map(|v| problem.value_of(v.accuracy));
    each.fold(f64::NEG_INFINITY, f64::max)
}

/// Returns the best cores, and whether they are proven optimal.
fn cores(
    problem: &Problem,
    kind: ModelObjective,
    start: Option<&Allocation>,
    solver: Solver,
    limit: Duration,
) -> Result<(Vec<u32>, bool), ResolutionError> {
    let model = Model::new(problem, kind);
    let choices = model.choices.clone();
    let values = model.solve(start, solver, limit)?;
    let chosen = |choices: &Vec<(Choice, Variable)>| {
        let value = |x: Variable| values.of(x);
        let best = choices
            .iter()
            .max_by(|a, b| value(a.1).total_cmp(&value(b.1)));
        best.map_or(0, |(option, _)| option.cores)
    };
    Ok((choices.iter().map(chosen).collect(), values.proven()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelObjective {
    /// Eq. 1.
    Objective,
    /// Capacity, with the demand ignored.
    Capacity,
}

struct Model {
    variables: ProblemVariables,
    /// x_{m,n} of each variant, with its n and th_m(n).
    choices: Vec<Vec<(Choice, Variable)>>,
    /// s_m of each variant.
    shares: Vec<Variable>,
    objective: Expression,
    rows: Vec<good_lp::Constraint>,
}

impl Model {
    fn new(problem: &Problem, kind: ModelObjective) -> Model {
        let mut variables = ProblemVariables::new();
        let choice = variable().binary();
        let choices: Vec<Vec<(Choice, Variable)>> = problem
            .variants
            .iter()
            .map(|v| {
                of_use(problem, &v.options)
                    .map(|option| (*option, variables.add(choice.clone())))
                    .collect()
            })
            .collect();
        let (objective, rows) = (Expression::from(0.0), Vec::new());
        let mut model = Model {
            variables,
            choices,
            shares: Vec::new(),
            objective,
            rows,
        };
        model.one_choice_each_within_the_budget(problem);
        match kind {
            ModelObjective::Objective => model.shares_and_loading(problem),
            ModelObjective::Capacity => model.objective = model.capacity(problem),
        }
        model
    }

    fn one_choice_each_within_the_budget(&mut self, problem: &Problem) {
        let mut used = Expression::from(0.0);
        for choices in &self.choices {
            let sum: Expression = choices.iter().map(|(_, x)| *x).sum();
            self.rows.push(constraint!(sum == 1.0));
            used += weighted(
                choices
                    .iter()
                    .map(|(option, x)| (f64::from(option.cores), *x)),
            );
        }
        self.rows
            .push(constraint!(used.clone() <= f64::from(problem.budget)));
        self.objective -= used * problem.core_cost();
    }

    fn shares_and_loading(&mut self, problem: &Problem) {
        let longest = self.variables.add(variable().min(0.0));
        let mut sum = Expression::from(0.0);
        for (variant, choices) in problem.variants.iter().zip(&self.choices) {
            let share = self.variables.add(variable().bounds(0.0..=1.0));
            self.shares.push(share);
            sum += share;
            self.objective += share * problem.value_of(variant.accuracy);
            // A share is at most 1, so capacity beyond the demand needs no larger coefficient. A
            // larger one would let a choice rounded to zero allow a visible share.
            let carried = |(option, x): &(Choice, Variable)| {
                ((option.capacity_rps / problem.demand_rps).min(1.0), *x)
            };
            let carried = weighted(choices.iter().map(carried));
            self.rows.push(constraint!(share <= carried));
            if !variant.loaded {
                let cost = problem.loading_cost(variant);
                let with_cores = choices
                    .iter()
                    .filter(|(option, _)| option.cores > 0)
                    .map(|(_, x)| (cost, *x));
                self.rows.push(constraint!(longest >= weighted(with_cores)));
            }
        }
        self.rows.push(constraint!(sum == 1.0));
        self.objective -= longest;
    }

    fn capacity(&self, problem: &Problem) -> Expression {
        let terms = self.choices.iter().flatten();
        weighted(terms.map(|(option, x)| (option.capacity_rps / problem.demand_rps, *x)))
    }

    fn solve(
        self,
        start: Option<&Allocation>,
        solver: Solver,
        limit: Duration,
    ) -> Result<Values, ResolutionError> {
        let start = start.map(|start| self.values(&start.cores, &start.shares));
        let mip = Mip {
            variables: self.variables,
            objective: self.objective,
            rows: self.rows,
            start: start.unwrap_or_default(),
            gap: 0.0,
        };
        mip.solve(solver, limit)
    }

    /// Returns cores and shares as values of the variables; those left out are 0.
    fn values(&self, cores: &[u32], shares: &[f64]) -> Vec<(Variable, f64)> {
        let chosen = self
            .choices
            .iter()
            .zip(cores)
            .filter_map(|(choices, cores)| {
                // Superfluous cores are replaced by the largest useful number.
                let chosen = choices
                    .iter()
                    .find(|(option, _)| option.cores == *cores)
                    .or(choices.last());
                chosen.map(|(_, x)| (*x, 1.0))
            });
        chosen
            .chain(self.shares.iter().copied().zip(shares.iter().copied()))
            .collect()
    }
}

/// Drops the numbers of cores beyond the first that carries the whole demand: they cost more and
/// carry no more of it.
fn of_use<'a>(problem: &Problem, options: &'a [Choice]) -> impl Iterator<Item = &'a Choice> {
    let demand = problem.demand_rps;
    let enough = options
        .iter()
        .position(|option| option.capacity_rps >= demand);
    options
        .iter()
        .take(enough.map_or(usize::MAX, |last| last + 1))
}

fn weighted(terms: impl Iterator<Item = (f64, Variable)>) -> Expression {
    let mut sum = Expression::from(0.0);
    for (weight, variable) in terms {
        sum.add_mul(weight, variable);
    }
    sum
}
