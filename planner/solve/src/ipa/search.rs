//! Search: bounds first, then passes over the stages with more and more labels, until a pass drops
//! only worse ones.

use super::items::{Item, Items};
use super::labels::pass;
use super::{Plan, Problem, bound};
use crate::{Outcome, TimeLimit};

/// Labels per layer, pass by pass: narrow passes find good plans, with which wide passes drop more.
const WIDTHS: [usize; 4] = [64, 1024, 16_384, LABELS_MAX];
/// Maximum number of labels of a layer: some 20 MB.
const LABELS_MAX: usize = 1 << 18;

/// Returns the best plan of a problem that has one.
pub(super) fn best(problem: &Problem, time_limit: &TimeLimit<'_>) -> Outcome<Plan> {
    let items = Items::new(problem, time_limit);
    let mut known = fastest(&items);
    let mut ceiling = without_limit(&items);
    let (relaxed, primals) = bound::relax(&items, time_limit);
    for primal in primals {
        let kept = primal.times.iter().all(|time| *time <= items.limit as f64);
        if kept && primal.value > known.1 {
            known = (primal.items, primal.value);
        }
    }
    let roots = relaxed.iter().map(bound::Relaxed::root);
    ceiling = roots.fold(ceiling, f64::min);
    for width in WIDTHS {
        let passed = pass(&items, &relaxed, known.1, width, time_limit);
        if let Some(found) = passed.found {
            if passed.whole {
                return match plan(problem, &items, &found.0) {
                    Some(plan) => Outcome::Optimal(plan),
                    None => nothing_found(),
                };
            }
            if found.1 > known.1 {
                known = found;
            }
        }
        ceiling = ceiling.min(passed.ceiling.max(known.1));
        if time_limit.is_over() {
            break;
        }
    }
    match plan(problem, &items, &known.0) {
        Some(best) => Outcome::Good {
            best,
            gap: (ceiling - known.1).max(0.0) * items.unit,
        },
        None => nothing_found(),
    }
}

fn nothing_found() -> Outcome<Plan> {
    debug_assert!(false, "a choice that is none");
    Outcome::OutOfTime {
        why: "no plan was found".to_owned(),
        best: None,
    }
}

/// Returns each stage's fastest item, and their objective.
fn fastest(items: &Items) -> (Vec<usize>, f64) {
    let (mut picks, mut product, mut loss) = (Vec::new(), 1.0, 0i64);
    for step in &items.steps {
        let all = step.items.iter().enumerate();
        if let Some((pick, item)) = all.min_by_key(|(_, item)| (item.parts, item.loss)) {
            picks.push(pick);
            product *= item.factor;
            loss += item.loss;
        }
    }
    (picks, items.gain * product - loss as f64)
}

/// Upper bound of the objective without the SLA.
fn without_limit(items: &Items) -> f64 {
    let most = |of: &dyn Fn(&Item) -> f64, items: &[Item]| {
        items.iter().map(of).fold(f64::NEG_INFINITY, f64::max)
    };
    let steps = &items.steps;
    let product: f64 = steps
        .iter()
        .map(|s| most(&|i| i.factor, &s.items))
        .product();
    let kept: f64 = steps
        .iter()
        .map(|s| most(&|i| -(i.loss as f64), &s.items))
        .sum();
    items.gain * product + kept
}

/// Returns the plan of one item for each step.
pub(super) fn plan(problem: &Problem, items: &Items, picks: &[usize]) -> Option<Plan> {
    let mut choices = vec![0; problem.stages.len()];
    if picks.len() != choices.len() {
        return None;
    }
    for ((stage, step), pick) in problem.graph.order.iter().zip(&items.steps).zip(picks) {
        *choices.get_mut(*stage)? = step.items.get(*pick)?.choice;
    }
    problem.plan(&choices)
}
