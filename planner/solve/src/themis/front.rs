//! Exact solution of either programme: along the stages, the Pareto front of (latency, cost) of the
//! choices so far, where cost is cores, then batches. Labels that cannot end within the latency or, by
//! [`relaxed`], within the cores of a known plan are dropped; nothing else is, and nothing is rounded.

use super::choices::{Choice, undominated};
use super::{Phase, Problem, relaxed};
use crate::{TOLERANCE, TimeLimit};

/// Labels collected before the front is built from them: about a ms of work.
const PENDING_MAX: usize = 16_384;
/// Possible error of the bound's arithmetic; costs are integers.
const SLACK: f64 = 1e-3;

/// Result of one programme.
pub(super) enum ProgrammeResult {
    /// Proven optimum.
    Optimal(Vec<Choice>),
    /// Time ran out; no plan has fewer than `min_cores`.
    Good {
        choices: Vec<Choice>,
        min_cores: f64,
    },
    /// No choices meet all constraints.
    Infeasible,
    /// Time ran out before anything was found.
    OutOfTime,
}

/// One choice for each stage so far.
#[derive(Clone, Copy)]
struct Label {
    cores: u32,
    batches: u32,
    ms: f64,
    /// Index in the front before.
    parent: usize,
    parent_rank: usize,
    choice: usize,
    /// Rank in the lexicographic order of choices, the first stage's first.
    rank: usize,
}

const ROOT: Label = Label {
    cores: 0,
    batches: 0,
    ms: 0.0,
    parent: 0,
    parent_rank: 0,
    choice: 0,
    rank: 0,
};

/// Minimises cores, then batches, then latency.
pub(super) fn solve(
    problem: &Problem,
    phase: Phase,
    time_limit: &TimeLimit<'_>,
) -> ProgrammeResult {
    let Some(stages) = problem.choices(phase, problem.load_rps, time_limit) else {
        return ProgrammeResult::OutOfTime;
    };
    let stages: Vec<Vec<Choice>> = stages.into_iter().map(undominated).collect();
    if stages.iter().any(Vec::is_empty) {
        return ProgrammeResult::Infeasible;
    }
    let slo_ms = problem.slo_ms * (1.0 + TOLERANCE);
    let known = relaxed::rounded(&stages, |ms| problem.in_time(ms));
    let cores = |choices: &[Choice]| choices.iter().map(|choice| choice.cost).sum::<u32>();
    let known = known.filter(|choices| cores(choices) <= problem.budget_cores);
    let most = known.as_deref().map_or(problem.budget_cores, cores);
    match Front::new(&stages, slo_ms, most).walk(time_limit) {
        Walk::Done(fronts) => match fronts.last().map_or(0, Vec::len) {
            0 => ProgrammeResult::Infeasible,
            _ => ProgrammeResult::Optimal(path(&stages, &fronts, 0)),
        },
        Walk::Late => known.map_or(ProgrammeResult::OutOfTime, |choices| {
            let min_cores = relaxed::suffixes(&stages)
                .first()
                .map_or(0.0, |all| all.min_cost(slo_ms));
            ProgrammeResult::Good { choices, min_cores }
        }),
    }
}

/// Minimises latency within the budget, then cores, then batches; `None` if there is no solution or time
/// is over.
pub(super) fn fastest(
    problem: &Problem,
    stages: &[Vec<Choice>],
    time_limit: &TimeLimit<'_>,
) -> Option<Vec<Choice>> {
    let stages: Vec<Vec<Choice>> = stages.iter().cloned().map(undominated).collect();
    // Each stage's own fastest choice (of those the cheapest), if the budget allows.
    let each: Vec<Choice> = stages
        .iter()
        .filter_map(|choices| choices.last().copied())
        .collect();
    let cores: u32 = each.iter().map(|choice| choice.cost).sum();
    if each.len() == stages.len() && cores <= problem.budget_cores {
        return Some(each);
    }
    match Front::new(&stages, f64::INFINITY, problem.budget_cores).walk(time_limit) {
        Walk::Done(fronts) => {
            let last = fronts.last()?.len().checked_sub(1)?;
            Some(path(&stages, &fronts, last))
        }
        Walk::Late => None,
    }
}

enum Walk {
    /// The front after each stage, by rising cost and falling latency.
    Done(Vec<Vec<Label>>),
    Late,
}

struct Front<'a> {
    stages: &'a [Vec<Choice>],
    bounds: Vec<relaxed::Relaxed>,
    slo_ms: f64,
    most_cores: u32,
}

impl<'a> Front<'a> {
    fn new(stages: &'a [Vec<Choice>], slo_ms: f64, most_cores: u32) -> Front<'a> {
        Front {
            stages,
            bounds: relaxed::suffixes(stages),
            slo_ms,
            most_cores,
        }
    }

    fn walk(&self, time_limit: &TimeLimit<'_>) -> Walk {
        let mut fronts: Vec<Vec<Label>> = Vec::with_capacity(self.stages.len());
        let root = [ROOT];
        for (choices, bound) in self.stages.iter().zip(self.bounds.iter().skip(1)) {
            let before = fronts.last().map_or(root.as_slice(), Vec::as_slice);
            let mut next: Vec<Label> = Vec::new();
            let mut sorted = 0;
            for (parent, label) in before.iter().enumerate() {
                if time_limit.is_over() {
                    return Walk::Late;
                }
                next.extend(self.steps(parent, label, choices, bound));
                if next.len() > sorted + PENDING_MAX {
                    reduce(&mut next);
                    sorted = next.len();
                }
            }
            reduce(&mut next);
            rank(&mut next);
            fronts.push(next);
        }
        Walk::Done(fronts)
    }

    fn steps<'b>(
        &'b self,
        parent: usize,
        label: &'b Label,
        choices: &'b [Choice],
        bound: &'b relaxed::Relaxed,
    ) -> impl Iterator<Item = Label> + 'b {
        choices
            .iter()
            .enumerate()
            .filter_map(move |(index, choice)| {
                let (cores, ms) = (label.cores + choice.cost, label.ms + choice.ms);
                // The bound adds in another order than the labels: apply the tolerance again.
                let left_ms = self.slo_ms * (1.0 + TOLERANCE) - ms;
                let min = f64::from(cores) + bound.min_cost(left_ms);
                let kept = ms <= self.slo_ms
                    && cores <= self.most_cores
                    && min <= f64::from(self.most_cores) + SLACK;
                kept.then_some(Label {
                    cores,
                    batches: label.batches + choice.batch,
                    ms,
                    parent,
                    parent_rank: label.rank,
                    choice: index,
                    rank: 0,
                })
            })
    }
}

/// Reduces the labels to their front: by rising cost, each faster than all before it.
fn reduce(labels: &mut Vec<Label>) {
    // A stable sort is fast if the first labels are already in order.
    labels.sort_by(|a, b| {
        let by_cost = (a.cores, a.batches).cmp(&(b.cores, b.batches));
        let order = |label: &Label| (label.parent_rank, label.choice);
        by_cost
            .then(a.ms.total_cmp(&b.ms))
            .then(order(a).cmp(&order(b)))
    });
    let mut min = f64::INFINITY;
    labels.retain(|label| {
        let kept = label.ms < min;
        min = min.min(label.ms);
        kept
    });
}

fn rank(labels: &mut [Label]) {
    let mut order: Vec<(usize, usize, usize)> = labels
        .iter()
        .enumerate()
        .map(|(index, label)| (label.parent_rank, label.choice, index))
        .collect();
    order.sort_unstable();
    for (rank, (_, _, index)) in order.into_iter().enumerate() {
        if let Some(label) = labels.get_mut(index) {
            label.rank = rank;
        }
    }
}

/// Returns the choices that led to the label `at` of the last front.
fn path(stages: &[Vec<Choice>], fronts: &[Vec<Label>], mut at: usize) -> Vec<Choice> {
    let mut chosen = Vec::with_capacity(stages.len());
    for (choices, front) in stages.iter().zip(fronts).rev() {
        if let Some(label) = front.get(at) {
            chosen.extend(choices.get(label.choice).copied());
            at = label.parent;
        }
    }
    chosen.reverse();
    chosen
}
