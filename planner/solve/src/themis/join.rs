//! The policy: joins the results of both programmes into one plan.

use super::best_effort::{best_effort, why};
use super::front::ProgrammeResult;
use super::{Fits, Handover, Phase, Plan, Problem, Scaling};
use crate::{Outcome, TimeLimit};

pub(super) fn join(
    problem: &Problem,
    vertical: ProgrammeResult,
    horizontal: ProgrammeResult,
    time_limit: &TimeLimit<'_>,
) -> Outcome<Plan> {
    let late = matches!(vertical, ProgrammeResult::OutOfTime)
        || matches!(horizontal, ProgrammeResult::OutOfTime);
    let (vertical, vertical_gap) = scaling_and_gap(problem, vertical);
    let (horizontal, horizontal_gap) = scaling_and_gap(problem, horizontal);
    let plan = plan(problem, vertical, horizontal);
    if late {
        let why = "the time was over before both programmes were answered".to_owned();
        return Outcome::OutOfTime { why, best: plan };
    }
    let Some(best) = plan else {
        return Outcome::Infeasible {
            why: why(problem, &time_limit.part(0.3)),
            best_effort: best_effort(problem, time_limit),
        };
    };
    match (vertical_gap, horizontal_gap) {
        (None, None) => Outcome::Optimal(best),
        (vertical, horizontal) => Outcome::Good {
            best,
            gap: vertical.unwrap_or_default() + horizontal.unwrap_or_default(),
        },
    }
}

fn scaling_and_gap(problem: &Problem, found: ProgrammeResult) -> (Option<Scaling>, Option<f64>) {
    match found {
        ProgrammeResult::Optimal(choices) => (Some(problem.scaling(&choices)), None),
        ProgrammeResult::Good { choices, min_cores } => {
            let scaling = problem.scaling(&choices);
            let gap = (f64::from(scaling.cores) - min_cores).max(0.0);
            (Some(scaling), Some(gap))
        }
        ProgrammeResult::Infeasible | ProgrammeResult::OutOfTime => (None, None),
    }
}

/// Returns the plan from each programme's solution; `None` if neither has one.
pub(super) fn plan(
    problem: &Problem,
    vertical: Option<Scaling>,
    horizontal: Option<Scaling>,
) -> Option<Plan> {
    let phase = problem.phase(vertical.is_some(), horizontal.is_some())?;
    let handover = horizontal.as_ref();
    let handover = handover.map(|target| handover_of(problem, vertical.as_ref(), target));
    Some(Plan {
        phase,
        vertical,
        horizontal,
        handover,
    })
}

impl Problem {
    /// Returns the phase to apply now, given which programmes have a solution.
    pub(super) fn phase(&self, vertical: bool, horizontal: bool) -> Option<Phase> {
        match (vertical, horizontal) {
            (false, false) => None,
            (true, false) => Some(Phase::Vertical),
            (true, true) if !self.lasting => Some(Phase::Vertical),
            _ => Some(Phase::Horizontal),
        }
    }
}

fn handover_of(problem: &Problem, vertical: Option<&Scaling>, target: &Scaling) -> Handover {
    // By stage the cores before, during and after.
    let steps = problem.stages.iter().zip(&target.stages).enumerate();
    let steps: Vec<[u32; 3]> = steps
        .map(|(index, (stage, new))| {
            let kept = vertical.and_then(|scaling| scaling.stages.get(index));
            let cores = kept.map_or(stage.running.cores, |setting| setting.cores);
            let before = stage.running.instances * cores;
            let started = new.instances.saturating_sub(stage.running.instances);
            let after = new.instances * new.cores;
            [before, (before + started * new.cores).max(after), after]
        })
        .collect();
    let simultaneous_cores = steps.iter().map(|[_, during, _]| during).sum();
    let sequential = (0..steps.len()).map(|place| {
        let cores = steps
            .iter()
            .enumerate()
            .map(|(index, [before, during, after])| match index.cmp(&place) {
                std::cmp::Ordering::Less => after,
                std::cmp::Ordering::Equal => during,
                std::cmp::Ordering::Greater => before,
            });
        cores.sum()
    });
    let sequential_cores = sequential.max().unwrap_or_default();
    let fits = if simultaneous_cores <= problem.budget_cores {
        Fits::Simultaneous
    } else if sequential_cores <= problem.budget_cores {
        Fits::Sequential
    } else {
        Fits::Never
    };
    Handover {
        simultaneous_cores,
        sequential_cores,
        fits,
    }
}
