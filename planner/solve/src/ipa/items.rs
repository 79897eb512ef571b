//! The problem in the form that the search uses: stages in topological order, times as integer parts
//! of the SLA and losses as integer units of the objective, so that sums do not depend on their
//! order.
//!
//! Maximise gain·Π factor − Σ loss. For PAS′ the gain is 0 and the losses contain the ranks.

use super::choices::{Choice, Stage};
use super::pareto::{Front, Label, Rules};
use super::{Accuracy, Problem};
use crate::{TOLERANCE, TimeLimit};

/// Parts of the SLA: the rounding errors of the maximum number of stages are far below the tolerance.
const PARTS: f64 = (1u64 << 40) as f64;
/// Units of the maximum of the greatest accuracy term and the least cost.
const UNITS: f64 = (1u64 << 40) as f64;
/// Maximum sum of losses, in units.
const LOSS_MAX: f64 = (1u64 << 61) as f64;

/// One choice of a stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) parts: u64,
    pub(super) loss: i64,
    pub(super) factor: f64,
    /// Cores, in millionths.
    pub(super) micro: u64,
    pub(super) batch: u32,
    /// Index in the stage's choices.
    pub(super) choice: usize,
}

/// Stage that has not run but has a predecessor that has; the slot keeps the latest end of its
/// predecessors.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// Its place in the order.
    pub(super) stage: usize,
    /// Its slot in the layer before.
    pub(super) from: Option<usize>,
    /// Whether the stage of this step is a predecessor.
    pub(super) fed: bool,
    /// Latest start with which the SLA can still be met.
    pub(super) latest: u64,
}

/// Decision of one stage.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Undominated choices, in the input's order.
    pub(super) items: Vec<Item>,
    /// The stage's own slot.
    pub(super) slot: usize,
    /// Slots after the step.
    pub(super) slots: Vec<Slot>,
    /// Least and greatest product of the stages before.
    pub(super) products: (f64, f64),
    /// Dominance rules for labels after this stage.
    pub(super) rules: Rules,
}

/// The whole problem.
#[derive(Debug, Clone)]
pub(super) struct Items {
    pub(super) steps: Vec<Step>,
    pub(super) paths: Vec<Vec<usize>>,
    pub(super) gain: f64,
    /// Differences up to this are ties.
    pub(super) tie: i64,
    pub(super) limit: u64,
    /// Possible error of bounds.
    pub(super) slack: f64,
    /// Objective of one unit.
    pub(super) unit: f64,
}

impl Items {
    pub(super) fn new(problem: &Problem, time_limit: &TimeLimit<'_>) -> Items {
        let (order, count) = (&problem.graph.order, problem.stages.len());
        let stages = || order.iter().filter_map(|stage| problem.stages.get(*stage));
        let (unit, scale, most) = unit(problem);
        let gain = match problem.accuracy {
            Accuracy::Product => 100.0 * problem.weights.alpha / unit,
            Accuracy::Ranks => 0.0,
        };
        let tie = (TOLERANCE * scale / unit).round() as i64;
        let limit = (PARTS * (1.0 + TOLERANCE / 2.0)) as u64 + count as u64;
        let mut items: Vec<Vec<Item>> = Vec::with_capacity(count);
        for stage in stages() {
            let within = stage
                .choices
                .iter()
                .enumerate()
                .filter_map(|(index, choice)| {
                    let item = item(problem, index, choice, unit, gain);
                    (item.parts <= limit).then_some(item)
                });
            items.push(within.collect());
        }
        let place = |stage: &usize| order.iter().position(|s| s == stage).unwrap_or_default();
        let paths = problem.graph.paths.iter();
        let paths = paths.map(|path| path.iter().map(place).collect()).collect();
        let before = order
            .iter()
            .filter_map(|stage| problem.graph.before.get(*stage));
        let before: Vec<Vec<usize>> = before.map(|b| b.iter().map(place).collect()).collect();
        let mut steps = steps(items, &before, limit);
        add_rules(&mut steps, gain, tie, time_limit);
        Items {
            steps,
            paths,
            gain,
            tie,
            limit,
            slack: 4.0 + most / unit * 1e-15,
            unit,
        }
    }
}

/// Returns the objective of one unit, the maximum of the greatest accuracy term and the least cost of
/// any choice, and the maximum distance of an objective from 0.
fn unit(problem: &Problem) -> (f64, f64, f64) {
    let max = |stage: &Stage, of: &dyn Fn(&Choice) -> f64| {
        stage
            .choices
            .iter()
            .map(of)
            .fold(f64::NEG_INFINITY, f64::max)
    };
    let stages = &problem.stages;
    let value: f64 = match problem.accuracy {
        Accuracy::Product => {
            100.0
                * stages
                    .iter()
                    .map(|s| max(s, &|c| c.factor))
                    .product::<f64>()
        }
        Accuracy::Ranks => stages.iter().map(|s| max(s, &|c| c.rank)).sum(),
    };
    let value = problem.weights.alpha * value;
    let cost: f64 = stages.iter().map(|s| -max(s, &|c| -problem.cost(c))).sum();
    let most: f64 = stages.iter().map(|s| max(s, &|c| problem.cost(c))).sum();
    let scale = value.max(cost);
    let most = most + value;
    let unit = (scale / UNITS).max(most / LOSS_MAX);
    (if unit > 0.0 { unit } else { 1.0 }, scale, most)
}

fn item(problem: &Problem, index: usize, choice: &Choice, unit: f64, gain: f64) -> Item {
    let value = match problem.accuracy {
        Accuracy::Product => 0.0,
        Accuracy::Ranks => problem.weights.alpha * choice.rank,
    };
    Item {
        parts: (choice.time_ms() / problem.sla_ms * PARTS).round() as u64,
        loss: ((problem.cost(choice) - value) / unit).round() as i64,
        // Without a weight, accuracy does not distinguish choices.
        factor: if gain > 0.0 { choice.factor } else { 1.0 },
        micro: (choice.cores * 1e6).round() as u64,
        batch: choice.batch,
        choice: index,
    }
}

/// Minimum time from each stage's start to an end.
fn tails(items: &[Vec<Item>], before: &[Vec<usize>]) -> Vec<u64> {
    let mut tails = vec![0u64; items.len()];
    for (stage, items) in items.iter().enumerate().rev() {
        let mut longest = 0;
        for (tail, before) in tails.iter().zip(before).skip(stage + 1) {
            if before.contains(&stage) {
                longest = longest.max(*tail);
            }
        }
        let min = items.iter().map(|item| item.parts).min();
        if let Some(tail) = tails.get_mut(stage) {
            *tail = min.unwrap_or_default() + longest;
        }
    }
    tails
}

/// Returns the steps with their slots; the items are unchanged.
fn steps(items: Vec<Vec<Item>>, before: &[Vec<usize>], limit: u64) -> Vec<Step> {
    let tails = tails(&items, before);
    let comes_after = |s: usize, stage: usize| before.get(s).is_some_and(|b| b.contains(&stage));
    let slot_of = |open: &[usize], s: usize| open.iter().position(|o| *o == s);
    let mut open: Vec<usize> = vec![0];
    let mut steps = Vec::with_capacity(items.len());
    for (stage, items) in items.into_iter().enumerate() {
        let later = stage + 1..before.len();
        let next: Vec<usize> = later
            .filter(|s| open.contains(s) || comes_after(*s, stage))
            .collect();
        let slots = next.iter().map(|s| Slot {
            stage: *s,
            from: slot_of(&open, *s),
            fed: comes_after(*s, stage),
            latest: limit.saturating_sub(tails.get(*s).copied().unwrap_or_default()),
        });
        steps.push(Step {
            slot: slot_of(&open, stage).unwrap_or_default(),
            slots: slots.collect(),
            items,
            products: (1.0, 1.0),
            rules: Rules { tie: 0, gain: 0.0 },
        });
        open = next;
    }
    steps
}

/// Sets the products and rules that follow from the items, and drops dominated items.
fn add_rules(steps: &mut [Step], gain: f64, tie: i64, time_limit: &TimeLimit<'_>) {
    let factors = steps.iter().map(|step| {
        let factors = || step.items.iter().map(|item| item.factor);
        let min = factors().reduce(f64::min).unwrap_or(1.0);
        (min, factors().reduce(f64::max).unwrap_or(1.0))
    });
    let factors: Vec<(f64, f64)> = factors.collect();
    let mut products = (1.0, 1.0);
    for (stage, (step, factor)) in steps.iter_mut().zip(&factors).enumerate() {
        let after: f64 = factors.iter().skip(stage + 1).map(|f| f.0).product();
        step.products = products;
        step.rules = Rules {
            tie,
            gain: gain * after,
        };
        // Two items differ by their own factors alone, after the least product before them.
        let rules = Rules {
            tie,
            gain: gain * after * products.0,
        };
        step.items = undominated(std::mem::take(&mut step.items), rules, time_limit);
        products = (products.0 * factor.0, products.1 * factor.1);
    }
}

fn undominated(items: Vec<Item>, rules: Rules, time_limit: &TimeLimit<'_>) -> Vec<Item> {
    let mut front = Front::new(1);
    for (index, item) in items.iter().enumerate() {
        let label = Label {
            time: item.parts,
            loss: item.loss,
            product: item.factor,
            micro: item.micro,
            batches: item.batch,
            parent: 0,
            item: index as u32,
            bound: 0.0,
        };
        front.push(label, &[item.parts]);
    }
    front.sweep(rules, time_limit);
    let kept = front.labels.iter();
    kept.filter_map(|label| items.get(label.item as usize).copied())
        .collect()
}
