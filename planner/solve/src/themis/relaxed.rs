//! Relaxation with fractions of choices: the least cost of the stages from each one on, for any latency.
//! It is the bound by which the front is pruned; rounded, it is an initial plan.
//!
//! Per stage it uses the lower convex hull of (latency, cost). From every stage's cheapest choice on,
//! latency is reduced where it costs least: all hulls' edges, sorted by cost per ms, give the optimum.

use super::choices::Choice;

/// Least cost of the stages from one on, as a function of latency.
pub(super) struct Relaxed {
    /// Latency and cost of the cheapest choices.
    slowest_ms: f64,
    min_cost: f64,
    /// Cumulative reduction of latency and its cost after each edge, with rising cost per ms.
    bought: Vec<(f64, f64)>,
}

/// Step along a stage's hull: to the choice at index `to` of its undominated choices.
struct Edge {
    stage: usize,
    to: usize,
    less_ms: f64,
    more_cost: f64,
}

/// Returns the relaxation of each suffix of the stages, and of none (cost 0). `stages` are undominated,
/// none empty.
pub(super) fn suffixes(stages: &[Vec<Choice>]) -> Vec<Relaxed> {
    let edges = edges(stages);
    (0..=stages.len())
        .map(|first| {
            let rest = stages.get(first..).unwrap_or_default();
            let cheapest = || {
                rest.iter()
                    .filter_map(|choices| choices.get(cheapest(choices)))
            };
            let mut at = (0.0, 0.0);
            let own = edges.iter().filter(|edge| edge.stage >= first);
            let bought = own.map(|edge| {
                at = (at.0 + edge.less_ms, at.1 + edge.more_cost);
                at
            });
            Relaxed {
                bought: bought.collect(),
                slowest_ms: cheapest().map(|choice| choice.ms).sum(),
                min_cost: cheapest().map(|choice| f64::from(choice.cost)).sum(),
            }
        })
        .collect()
}

impl Relaxed {
    /// Lower bound of the cost of choices within `ms`; infinite if there are none.
    pub(super) fn min_cost(&self, ms: f64) -> f64 {
        let missing = self.slowest_ms - ms;
        if missing <= 0.0 {
            return self.min_cost;
        }
        let next = self.bought.partition_point(|(less, _)| *less < missing);
        let from = next.checked_sub(1).and_then(|last| self.bought.get(last));
        let (less, more) = from.copied().unwrap_or_default();
        match self.bought.get(next) {
            Some((to_less, to_more)) => {
                let part = (missing - less) / (to_less - less);
                self.min_cost + more + part * (to_more - more)
            }
            // Rounding errors may miss the last edge's end by a little.
            None if missing <= less * (1.0 + 1e-9) + 1e-9 => self.min_cost + more,
            None => f64::INFINITY,
        }
    }
}

/// Returns choices within `ms`, usually nearly the cheapest: whole edges are taken until it is met.
pub(super) fn rounded(
    stages: &[Vec<Choice>],
    in_time: impl Fn(f64) -> bool,
) -> Option<Vec<Choice>> {
    let mut chosen: Vec<Choice> = stages
        .iter()
        .map(|choices| choices.get(cheapest(choices)).copied())
        .collect::<Option<_>>()?;
    let total = |chosen: &[Choice]| in_time(chosen.iter().map(|choice| choice.ms).sum());
    for edge in edges(stages) {
        if total(&chosen) {
            break;
        }
        let to = stages
            .get(edge.stage)
            .and_then(|choices| choices.get(edge.to));
        if let (Some(to), Some(at)) = (to, chosen.get_mut(edge.stage)) {
            *at = *to;
        }
    }
    total(&chosen).then_some(chosen)
}

/// Returns all hulls' edges, the cheapest latency first; within a stage in the hull's order.
fn edges(stages: &[Vec<Choice>]) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    for (stage, choices) in stages.iter().enumerate() {
        edges.extend(hull(stage, choices));
    }
    let rate = |edge: &Edge| edge.more_cost / edge.less_ms;
    edges.sort_by(|a, b| {
        rate(a)
            .total_cmp(&rate(b))
            .then((a.stage, a.to).cmp(&(b.stage, b.to)))
    });
    edges
}

/// The fastest of the cheapest choices.
fn cheapest(choices: &[Choice]) -> usize {
    let min = choices.first().map(|choice| choice.cost);
    let same = choices.iter().take_while(|choice| Some(choice.cost) == min);
    same.count().saturating_sub(1)
}

fn hull(stage: usize, choices: &[Choice]) -> Vec<Edge> {
    let mut corners: Vec<(usize, f64, f64)> = Vec::new();
    for (index, choice) in choices.iter().enumerate().skip(cheapest(choices)) {
        let new = (index, choice.ms, f64::from(choice.cost));
        while let [.., before, last] = corners.as_slice() {
            // The last is a corner only if the step after it costs more per ms.
            let (first, second) = (slope(before, last), slope(last, &new));
            if first < second {
                break;
            }
            corners.pop();
        }
        corners.push(new);
    }
    let pairs = corners.windows(2).filter_map(|pair| match pair {
        [from, to] => Some(Edge {
            stage,
            to: to.0,
            less_ms: from.1 - to.1,
            more_cost: to.2 - from.2,
        }),
        _ => None,
    });
    pairs.collect()
}

/// Cost per ms from one corner to the next.
fn slope(from: &(usize, f64, f64), to: &(usize, f64, f64)) -> f64 {
    (to.2 - from.2) / (from.1 - to.1)
}
