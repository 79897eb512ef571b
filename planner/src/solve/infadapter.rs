//! InfAdapter's problem (EuroMLSys '23, Eq. 1) as an integer programme for HiGHS:
//!
//! maximise α·AA − (β·RC + γ·LC) over binaries x_{m,n} (variant m has n cores) and shares s_m, with
//! AA = Σ accuracy_m·s_m, RC = Σ n·x_{m,n} / B, LC ≥ readiness_m for every m loaded anew, subject to
//! Σ_n x_{m,n} = 1, Σ s_m = 1, s_m ≤ Σ_n th_m(n)·x_{m,n} / λ and RC ≤ 1. That p_m(n) ≤ L is in the
//! options: th_m(n) is 0 where it does not hold.
//!
//! Solved to optimality within a time limit, on one thread. What is read back are the cores alone;
//! the shares that go with them are exact ([`super::quota`]).

use std::time::Duration;

use good_lp::solvers::highs::highs;
use good_lp::{
    Expression, ProblemVariables, ResolutionError, Solution, SolutionStatus, SolverModel, Variable,
    WithInitialSolution, constraint, variable,
};

use super::check::{check, check_cores, loading, objective};
use super::{Allocation, Choice, Outcome, Problem, greedy, quota};

/// Solves `problem`, beginning with the `current` cores where they are of use. Takes about `limit`
/// at most for the optimum, and as long again for what is said where there is none.
pub fn solve(problem: &Problem, current: Option<&[u32]>, limit: Duration) -> Outcome {
    let start = greedy::start(problem, current);
    let warm = start
        .as_ref()
        .map(|start| (start.cores.as_slice(), start.shares.as_slice()));
    match cores(problem, Goal::Objective, warm, limit) {
        Ok((cores, proven)) => finish(problem, &cores, proven, limit, start),
        Err(ResolutionError::Infeasible) => overloaded(problem, limit),
        Err(error) => Outcome::OutOfTime {
            why: error.to_string(),
            best: start,
        },
    }
}

fn finish(
    problem: &Problem,
    cores: &[u32],
    proven: bool,
    limit: Duration,
    start: Option<Allocation>,
) -> Outcome {
    let Some(allocation) = problem.allocation(cores) else {
        debug_assert!(
            false,
            "the solver's cores {cores:?} do not solve {problem:?}"
        );
        return Outcome::OutOfTime {
            why: "the solver's answer did not pass the check".to_owned(),
            best: start,
        };
    };
    debug_assert_eq!(check(problem, &allocation), Ok(()));
    if proven {
        return Outcome::Optimal(allocation);
    }
    let gap = bound(problem, limit) - allocation.objective;
    Outcome::Good {
        allocation,
        gap: gap.max(0.0),
    }
}

/// The demand is above all capacity: the most there is, shared out in proportion.
fn overloaded(problem: &Problem, limit: Duration) -> Outcome {
    let best_effort = cores(problem, Goal::Capacity, None, limit)
        .ok()
        .and_then(|(cores, _)| {
            let shares = quota::by_capacity(&problem.capacities(&cores))?;
            let objective = objective(problem, &cores, &shares);
            let allocation = Allocation {
                cores,
                shares,
                objective,
            };
            check_cores(problem, &allocation)
                .is_ok()
                .then_some(allocation)
        });
    let demand = problem.demand_rps;
    let budget = problem.budget;
    let why = match &best_effort {
        Some(allocation) => {
            let capacity: f64 = problem.capacities(&allocation.cores).iter().sum();
            format!(
                "a demand of {demand:.1} requests/s exceeds the {capacity:.1} that {budget} cores can carry"
            )
        }
        None => format!(
            "no variant can answer in time with {budget} cores, let alone {demand:.1} requests/s"
        ),
    };
    Outcome::Infeasible { why, best_effort }
}

/// An upper bound on the objective: the same problem with fractions of choices allowed.
fn bound(problem: &Problem, limit: Duration) -> f64 {
    let model = Model::new(problem, Goal::Objective, false);
    let most = problem.objective.alpha
        * problem
            .variants
            .iter()
            .map(|v| v.accuracy)
            .fold(0.0, f64::max);
    let worth = model.worth.clone();
    let solved = model.optimise(None, limit);
    solved
        .ok()
        .filter(|solution| matches!(solution.status(), SolutionStatus::Optimal))
        .map_or(most, |s| s.eval(worth))
}

/// The best cores and whether that is proven; `start` is cores and shares to begin with.
fn cores(
    problem: &Problem,
    goal: Goal,
    start: Option<(&[u32], &[f64])>,
    limit: Duration,
) -> Result<(Vec<u32>, bool), ResolutionError> {
    let model = Model::new(problem, goal, true);
    let choices = model.choices.clone();
    let solution = model.optimise(start, limit)?;
    // A gap status is the tolerance of HiGHS' own arithmetic: the gaps asked for are 0.
    let proven = !matches!(solution.status(), SolutionStatus::TimeLimit);
    let chosen = |choices: &Vec<(Choice, Variable)>| {
        let best = choices
            .iter()
            .max_by(|a, b| solution.value(a.1).total_cmp(&solution.value(b.1)));
        best.map_or(0, |(option, _)| option.cores)
    };
    Ok((choices.iter().map(chosen).collect(), proven))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// Eq. 1.
    Objective,
    /// The greatest capacity, the demand left aside.
    Capacity,
}

struct Model {
    variables: ProblemVariables,
    /// By variant: x_{m,n} with its n and th_m(n).
    choices: Vec<Vec<(Choice, Variable)>>,
    /// By variant: s_m.
    shares: Vec<Variable>,
    worth: Expression,
    rows: Vec<good_lp::Constraint>,
}

impl Model {
    fn new(problem: &Problem, goal: Goal, whole: bool) -> Model {
        let mut variables = ProblemVariables::new();
        let choice = if whole {
            variable().binary()
        } else {
            variable().bounds(0.0..=1.0)
        };
        let choices: Vec<Vec<(Choice, Variable)>> = problem
            .variants
            .iter()
            .map(|v| {
                of_use(problem, &v.options)
                    .map(|option| (*option, variables.add(choice.clone())))
                    .collect()
            })
            .collect();
        let (worth, rows) = (Expression::from(0.0), Vec::new());
        let mut model = Model {
            variables,
            choices,
            shares: Vec::new(),
            worth,
            rows,
        };
        model.one_choice_each_within_the_budget(problem);
        match goal {
            Goal::Objective => model.shares_and_loading(problem),
            Goal::Capacity => model.worth = model.capacity(problem),
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
        self.worth -= used * (problem.objective.beta / f64::from(problem.budget.max(1)));
    }

    fn shares_and_loading(&mut self, problem: &Problem) {
        let longest = self.variables.add(variable().min(0.0));
        let mut sum = Expression::from(0.0);
        for (variant, choices) in problem.variants.iter().zip(&self.choices) {
            let share = self.variables.add(variable().bounds(0.0..=1.0));
            self.shares.push(share);
            sum += share;
            self.worth += share * (problem.objective.alpha * variant.accuracy);
            // A share is at most 1, so capacity beyond the demand needs no larger coefficient (which
            // would let a choice rounded to zero lend a visible share).
            let carried = |(option, x): &(Choice, Variable)| {
                ((option.capacity_rps / problem.demand_rps).min(1.0), *x)
            };
            let carried = weighted(choices.iter().map(carried));
            self.rows.push(constraint!(share <= carried));
            if !variant.loaded {
                let time = loading(problem, variant);
                let with_cores = choices
                    .iter()
                    .filter(|(option, _)| option.cores > 0)
                    .map(|(_, x)| (time, *x));
                self.rows.push(constraint!(longest >= weighted(with_cores)));
            }
        }
        self.rows.push(constraint!(sum == 1.0));
        self.worth -= longest * problem.objective.gamma;
    }

    fn capacity(&self, problem: &Problem) -> Expression {
        let terms = self.choices.iter().flatten();
        weighted(terms.map(|(option, x)| (option.capacity_rps / problem.demand_rps, *x)))
    }

    fn optimise(
        self,
        start: Option<(&[u32], &[f64])>,
        limit: Duration,
    ) -> Result<impl Solution, ResolutionError> {
        let start = start
            .map(|(cores, shares)| self.values(cores, shares))
            .unwrap_or_default();
        let solver = self
            .variables
            .maximise(self.worth)
            .using(highs)
            .set_threads(1);
        let exact = solver
            .set_option("mip_rel_gap", 0.0)
            .set_option("mip_abs_gap", 0.0);
        let mut model = exact
            .set_time_limit(limit.as_secs_f64())
            .with_all(self.rows);
        if !start.is_empty() {
            model = model.with_initial_solution(start);
        }
        model.solve()
    }

    /// Cores and shares as values of the variables; what is left out is 0.
    fn values(&self, cores: &[u32], shares: &[f64]) -> Vec<(Variable, f64)> {
        let chosen = self
            .choices
            .iter()
            .zip(cores)
            .filter_map(|(choices, cores)| {
                // More cores than are of use count as those that are.
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

/// Without the numbers of cores beyond the first that carries the whole demand: they cost more and
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
