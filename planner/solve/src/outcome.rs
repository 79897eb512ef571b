//! Result of a solve, and the check that every plan passes before it is returned.

/// Result of a solve; `P` is the formulation's plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<P> {
    /// The plan is proven optimal.
    Optimal(P),
    /// The proof is incomplete, for lack of time or memory, or because a gap was allowed. No plan is
    /// better by more than `gap`, in units of the objective.
    Good {
        /// Best plan found.
        best: P,
        /// Upper bound minus the plan's objective, 0 or more.
        gap: f64,
    },
    /// No plan meets all constraints.
    Infeasible {
        /// Limiting quantity, and the limit that it exceeds.
        why: String,
        /// Best effort as the formulation defines it; `None` if nothing useful can be done.
        best_effort: Option<P>,
    },
    /// The time limit passed before anything was proven.
    OutOfTime {
        /// Part of the solve that took the time.
        why: String,
        /// Best plan found; `None` means to keep the current state.
        best: Option<P>,
    },
}

/// Problem that can check a plan in plain arithmetic, without the solver.
pub trait Check {
    /// The formulation's plan.
    type Plan;

    /// Checks that `plan` meets every constraint.
    ///
    /// # Errors
    /// The first broken constraint, with its numbers.
    fn check(&self, plan: &Self::Plan) -> Result<(), String>;

    /// Checks a best effort, made when no plan meets every constraint, against the constraints that are
    /// always kept (budgets, bounds, the available choices).
    ///
    /// # Errors
    /// As [`Check::check`].
    fn check_best_effort(&self, plan: &Self::Plan) -> Result<(), String>;
}

impl<P> Outcome<P> {
    /// Removes any plan that fails the check. It is the last step before a plan is returned, whichever
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

    /// Plan to follow, if there is one.
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
