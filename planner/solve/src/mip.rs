//! Solver of mixed-integer programmes: passes a good_lp model to HiGHS, or to microlp where HiGHS
//! is not available. The tests compare the formulations' own algorithms with its results.
//!
//! It uses one thread, so that the same model has the same answer.

use std::time::Duration;

use good_lp::solvers::microlp::{MicroLpSolution, microlp};
use good_lp::{
    Constraint, Expression, ProblemVariables, ResolutionError, Solution, SolutionStatus,
    SolverModel, Variable, WithInitialSolution, WithMipGap, WithTimeLimit,
};

#[cfg(feature = "highs")]
use crate::overdue::Overdue;

/// Time after its limit that HiGHS has to notice it.
#[cfg(feature = "highs")]
const LATE_MAX: Duration = Duration::from_millis(200);
/// Runs of HiGHS that have not noticed their limit.
#[cfg(feature = "highs")]
static HIGHS: Overdue = Overdue::none();

const NONE_IN_TIME: &str = "the solver found no plan within its time limit";

/// Solver of an integer programme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Solver {
    /// HiGHS: general, fast for large models.
    #[cfg(feature = "highs")]
    Highs,
    /// microlp: pure Rust, for small models.
    Microlp,
}

impl Solver {
    /// Best solver in this build.
    #[cfg(feature = "highs")]
    pub const BEST: Solver = Solver::Highs;
    /// Best solver in this build.
    #[cfg(not(feature = "highs"))]
    pub const BEST: Solver = Solver::Microlp;
}

/// Model: maximise the objective subject to `rows`.
pub(crate) struct Mip {
    pub(crate) variables: ProblemVariables,
    pub(crate) objective: Expression,
    pub(crate) rows: Vec<Constraint>,
    /// Initial values; the solver chooses those left out.
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

    /// Whether the values are proven optimal, within the requested gap.
    pub(crate) fn proven(&self) -> bool {
        let status = match self {
            #[cfg(feature = "highs")]
            Values::Highs(solution) => solution.status(),
            Values::Microlp(solution) => solution.status(),
        };
        // A gap status is the solver's own arithmetic: it has reached the requested gap.
        !matches!(status, SolutionStatus::TimeLimit)
    }
}

impl Mip {
    /// Solves the model within `limit`; HiGHS within [`LATE_MAX`] more.
    ///
    /// # Errors
    /// The model is infeasible, or the solver fails.
    pub(crate) fn solve(self, solver: Solver, limit: Duration) -> Result<Values, ResolutionError> {
        // Some solvers take a limit of 0 as none.
        let seconds = limit.as_secs_f64().max(1e-3);
        let refused =
            |error: good_lp::solvers::MipGapError| ResolutionError::Str(error.to_string());
        let unsolved = self.variables.maximise(self.objective);
        match solver {
            #[cfg(feature = "highs")]
            Solver::Highs => {
                let (gap, rows, start) = (self.gap, self.rows, self.start);
                let solved = HIGHS.run(limit + LATE_MAX, move || {
                    let model = unsolved.using(good_lp::solvers::highs::highs);
                    let model = model.set_threads(1).set_option("mip_abs_gap", 0.0);
                    let model = model.with_mip_gap(gap).map_err(refused)?;
                    let model = model.with_time_limit(seconds).with_all(rows);
                    with_start(model, start).solve().map(Values::Highs)
                });
                solved.map_err(ResolutionError::Str)?
            }
            Solver::Microlp => {
                let model = unsolved.using(microlp);
                let model = model.with_mip_gap(self.gap).map_err(refused)?;
                let model = model.with_time_limit(seconds).with_all(self.rows);
                with_start(model, self.start).solve().map(Values::Microlp)
            }
        }
    }
}

/// Reason why a solver gave no values.
pub(crate) fn reason(error: &ResolutionError) -> String {
    match error {
        ResolutionError::Other("NoSolutionFound") => NONE_IN_TIME.to_owned(),
        ResolutionError::Other(why) if why.starts_with("Time limit") => NONE_IN_TIME.to_owned(),
        ResolutionError::Str(why) => why.clone(),
        other => other.to_string(),
    }
}

/// Sets the initial values, if there are any: the solver would take an empty list as all zeros.
fn with_start<M: WithInitialSolution>(model: M, start: Vec<(Variable, f64)>) -> M {
    if start.is_empty() {
        model
    } else {
        model.with_initial_solution(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_in_plain_words() {
        for (error, expected) in [
            (ResolutionError::Other("NoSolutionFound"), NONE_IN_TIME),
            (
                ResolutionError::Other("Time limit reached before finding a feasible solution"),
                NONE_IN_TIME,
            ),
            (ResolutionError::Str("it broke".to_owned()), "it broke"),
        ] {
            assert_eq!(reason(&error), expected);
        }
    }
}
