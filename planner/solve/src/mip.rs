//! The general path: a model of good_lp's to HiGHS, or to microlp where HiGHS cannot go. What a
//! formulation's own algorithm finds is held against it in the tests.
//!
//! On one thread, so that the same model has the same answer.

use std::time::Duration;

use good_lp::solvers::microlp::{MicroLpSolution, microlp};
use good_lp::{
    Constraint, Expression, ProblemVariables, ResolutionError, Solution, SolutionStatus,
    SolverModel, Variable, WithInitialSolution, WithMipGap, WithTimeLimit,
};

/// Who solves a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Solver {
    /// HiGHS: for anything, quick at scale.
    #[cfg(feature = "highs")]
    Highs,
    /// microlp: pure Rust, for what is small.
    Microlp,
}

impl Solver {
    /// The best there is in this build.
    #[cfg(feature = "highs")]
    pub const BEST: Solver = Solver::Highs;
    /// The best there is in this build.
    #[cfg(not(feature = "highs"))]
    pub const BEST: Solver = Solver::Microlp;
}

/// A model: maximise `worth` subject to `rows`.
pub(crate) struct Mip {
    pub(crate) variables: ProblemVariables,
    pub(crate) worth: Expression,
    pub(crate) rows: Vec<Constraint>,
    /// Values to begin with; what is left out is the solver's.
    pub(crate) start: Vec<(Variable, f64)>,
    /// Relative gap at which an answer counts as proven; 0 for the optimum.
    pub(crate) gap: f32,
}

/// Values of the variables.
pub(crate) enum Values {
    #[cfg(feature = "highs")]
    Highs(good_lp::solvers::highs::HighsSolution),
    Microlp(MicroLpSolution),
}

impl Values {
    pub(crate) fn of(&self, variable: Variable) -> f64 {
        match self {
            #[cfg(feature = "highs")]
            Values::Highs(solution) => solution.value(variable),
            Values::Microlp(solution) => solution.value(variable),
        }
    }

    /// Whether nothing is better, by more than the gap that was asked for.
    pub(crate) fn proven(&self) -> bool {
        let status = match self {
            #[cfg(feature = "highs")]
            Values::Highs(solution) => solution.status(),
            Values::Microlp(solution) => solution.status(),
        };
        // A gap status is the solver's own arithmetic: the gap asked for is reached.
        !matches!(status, SolutionStatus::TimeLimit)
    }
}

impl Mip {
    /// Solves it within about `limit`.
    ///
    /// # Errors
    /// Infeasible, or what the solver says.
    pub(crate) fn solve(self, solver: Solver, limit: Duration) -> Result<Values, ResolutionError> {
        // A limit of 0 means none to some solvers.
        let seconds = limit.as_secs_f64().max(1e-3);
        let refused =
            |error: good_lp::solvers::MipGapError| ResolutionError::Str(error.to_string());
        let unsolved = self.variables.maximise(self.worth);
        match solver {
            #[cfg(feature = "highs")]
            Solver::Highs => {
                let model = unsolved.using(good_lp::solvers::highs::highs);
                let model = model.set_threads(1).set_option("mip_abs_gap", 0.0);
                let model = model.with_mip_gap(self.gap).map_err(refused)?;
                let model = model.with_time_limit(seconds).with_all(self.rows);
                begun(model, self.start).solve().map(Values::Highs)
            }
            Solver::Microlp => {
                let model = unsolved.using(microlp);
                let model = model.with_mip_gap(self.gap).map_err(refused)?;
                let model = model.with_time_limit(seconds).with_all(self.rows);
                begun(model, self.start).solve().map(Values::Microlp)
            }
        }
    }
}

/// With something to begin with, where there is something: nothing would be taken for all zeros.
fn begun<M: WithInitialSolution>(model: M, start: Vec<(Variable, f64)>) -> M {
    if start.is_empty() {
        model
    } else {
        model.with_initial_solution(start)
    }
}
