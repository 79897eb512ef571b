//! What a solve came to, and the one door by which a plan leaves.

/// What a solve came to; `P` is the formulation's plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<P> {
    /// Nothing is better.
    Optimal(P),
    /// The proof is not complete, for want of time or room (or a gap was allowed); nothing is better by
    /// more than `gap`, in units of the objective.
    Good {
        /// The best found.
        best: P,
        /// The bound minus its objective, 0 or more.
        gap: f64,
    },
    /// Nothing meets all constraints.
    Infeasible {
        /// What exceeds what.
        why: String,
        /// What comes nearest, as the formulation says; `None` if there is nothing to do at all.
        best_effort: Option<P>,
    },
    /// Time ran out before anything was proven.
    OutOfTime {
        /// What took the time.
        why: String,
        /// The best found; `None` means to keep what is there.
        best: Option<P>,
    },
}

/// A problem that can tell, in plain arithmetic and without the solver, whether a plan solves it.
pub trait Check {
    /// The formulation's plan.
    type Plan;

    /// Whether `plan` meets every constraint.
    ///
    /// # Errors
    /// The first constraint it breaks, with the numbers.
    fn check(&self, plan: &Self::Plan) -> Result<(), String>;

    /// Whether `plan`, made where nothing meets every constraint, keeps those that are never given up
    /// (budgets, bounds, what there is to choose from).
    ///
    /// # Errors
    /// As [`Check::check`].
    fn check_best_effort(&self, plan: &Self::Plan) -> Result<(), String>;
}

impl<P> Outcome<P> {
    /// The same, without any plan that fails the check: the last thing before it leaves, whichever
    /// algorithm made it.
    #[must_use]
    pub fn checked(self, problem: &impl Check<Plan = P>) -> Outcome<P> {
        let passes = |plan: &P| problem.check(plan);
        match self {
            Outcome::Optimal(plan) => match passes(&plan) {
                Ok(()) => Outcome::Optimal(plan),
                Err(why) => Outcome::broken(&why),
            },
            Outcome::Good { best, gap } => match passes(&best) {
                Ok(()) => Outcome::Good { best, gap },
                Err(why) => Outcome::broken(&why),
            },
            Outcome::Infeasible { why, best_effort } => {
                let kept = best_effort.filter(|plan| {
                    let broken = problem.check_best_effort(plan);
                    debug_assert_eq!(broken, Ok(()), "a best effort that is none");
                    broken.is_ok()
                });
                Outcome::Infeasible {
                    why,
                    best_effort: kept,
                }
            }
            Outcome::OutOfTime { why, best } => {
                let kept = best.filter(|plan| passes(plan).is_ok());
                Outcome::OutOfTime { why, best: kept }
            }
        }
    }

    /// The plan to go by, if there is one.
    pub fn plan(&self) -> Option<&P> {
        match self {
            Outcome::Optimal(plan) | Outcome::Good { best: plan, .. } => Some(plan),
            Outcome::Infeasible { best_effort, .. } => best_effort.as_ref(),
            Outcome::OutOfTime { best, .. } => best.as_ref(),
        }
    }

    fn broken(why: &str) -> Outcome<P> {
        debug_assert!(false, "the plan did not pass the check: {why}");
        Outcome::OutOfTime {
            why: format!("the plan found did not pass the check: {why}"),
            best: None,
        }
    }
}
