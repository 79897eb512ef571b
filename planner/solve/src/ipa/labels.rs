//! One pass over the stages: labels (partial choices) that may lead to the optimum, layer by layer.

use super::bound::Relaxed;
use super::items::{Items, Slot, Step};
use super::pareto::{Front, Label};
use crate::TimeLimit;

/// Labels between two readings of the clock.
const CLOCK_INTERVAL: usize = 32;
/// Labels that a layer may collect before dominated ones are dropped.
const GATHER: usize = 1 << 17;

/// Result of a pass.
#[derive(Debug)]
pub(super) struct PassResult {
    /// An item for each step: the best by the tie rule if the pass was whole.
    pub(super) found: Option<(Vec<usize>, f64)>,
    /// Upper bound of every choice other than `found` and the known one; infinite if unknown.
    pub(super) ceiling: f64,
    /// Whether only worse labels were dropped.
    pub(super) whole: bool,
}

/// Label of the layer before, and item.
type Origin = (u32, u32);

struct Pass<'a> {
    items: &'a Items,
    relaxed: &'a [Relaxed],
    /// Labels whose bound is below this are worse than the incumbent, by more than a tie.
    floor: f64,
    width: usize,
    /// Greatest bound of the labels dropped for width.
    dropped: f64,
    times: Vec<u64>,
}

/// Runs a pass with at most `width` labels per layer; `known` is the best objective found so far.
pub(super) fn pass(
    items: &Items,
    relaxed: &[Relaxed],
    known: f64,
    width: usize,
    time_limit: &TimeLimit<'_>,
) -> PassResult {
    let mut pass = Pass {
        items,
        relaxed,
        floor: known - items.tie as f64 - items.slack,
        width,
        dropped: f64::NEG_INFINITY,
        times: Vec::new(),
    };
    let mut front = Front::new(1);
    let root = Label {
        time: 0,
        loss: 0,
        product: 1.0,
        micro: 0,
        batches: 0,
        parent: 0,
        item: 0,
        bound: f64::INFINITY,
    };
    front.push(root, &[0]);
    let mut origins: Vec<Vec<Origin>> = Vec::with_capacity(items.steps.len());
    for (place, step) in items.steps.iter().enumerate() {
        let Some(next) = pass.layer(place, step, &front, time_limit) else {
            return PassResult {
                found: None,
                ceiling: f64::INFINITY,
                whole: false,
            };
        };
        origins.push(
            next.labels
                .iter()
                .map(|label| (label.parent, label.item))
                .collect(),
        );
        front = next;
    }
    let whole = pass.dropped == f64::NEG_INFINITY;
    let found = best(items, &front, whole).map(|(index, value)| (trace(&origins, index), value));
    PassResult {
        found,
        ceiling: pass.dropped,
        whole,
    }
}

impl Pass<'_> {
    /// Returns the labels after `step`; `None` if time ran out.
    fn layer(
        &mut self,
        place: usize,
        step: &Step,
        front: &Front,
        time_limit: &TimeLimit<'_>,
    ) -> Option<Front> {
        let mut next = Front::new(step.slots.len());
        let mut gather = GATHER;
        for (index, label) in front.labels.iter().enumerate() {
            if index % CLOCK_INTERVAL == 0 && time_limit.is_over() {
                return None;
            }
            self.extend(place, step, (index, label), front.times(index), &mut next);
            if next.labels.len() >= gather {
                self.narrow(step, &mut next, time_limit);
                gather = (2 * next.labels.len()).max(GATHER);
            }
        }
        self.narrow(step, &mut next, time_limit);
        (!time_limit.is_over()).then_some(next)
    }

    fn narrow(&mut self, step: &Step, next: &mut Front, time_limit: &TimeLimit<'_>) {
        next.sweep(step.rules, time_limit);
        if let Some(bound) = next.truncate(self.width) {
            self.dropped = self.dropped.max(bound);
        }
    }

    /// Adds the extensions of `label` by each item that keeps the SLA and may equal the incumbent.
    fn extend(
        &mut self,
        place: usize,
        step: &Step,
        (index, label): (usize, &Label),
        times: &[u64],
        next: &mut Front,
    ) {
        let start = times.get(step.slot).copied().unwrap_or_default();
        for (pick, item) in step.items.iter().enumerate() {
            let end = start + item.parts;
            if end > self.items.limit || !self.advance(&step.slots, times, end) {
                continue;
            }
            let loss = label.loss + item.loss;
            let product = label.product * item.factor;
            let bound = self.bound(place + 1, loss, product).min(label.bound);
            if bound < self.floor {
                continue;
            }
            let child = Label {
                time: self.times.iter().sum(),
                loss,
                product,
                micro: label.micro + item.micro,
                batches: label.batches + item.batch,
                parent: index as u32,
                item: pick as u32,
                bound,
            };
            next.push(child, &self.times);
        }
    }

    /// Computes the times at the slots after a stage that ends at `end`; returns whether they are
    /// feasible.
    fn advance(&mut self, slots: &[Slot], times: &[u64], end: u64) -> bool {
        self.times.clear();
        for slot in slots {
            let before = slot
                .from
                .and_then(|from| times.get(from))
                .copied()
                .unwrap_or_default();
            let time = if slot.fed { before.max(end) } else { before };
            if time > slot.latest {
                return false;
            }
            self.times.push(time);
        }
        true
    }

    fn bound(&self, layer: usize, loss: i64, product: f64) -> f64 {
        let mut min = f64::INFINITY;
        for relaxed in self.relaxed {
            min = relaxed.of(layer, loss, product, &self.times).min(min);
            if min < self.floor {
                break;
            }
        }
        min
    }
}

/// Returns the best of the complete labels, by the tie rule if none was dropped.
fn best(items: &Items, front: &Front, whole: bool) -> Option<(usize, f64)> {
    let value = |label: &Label| items.gain * label.product - label.loss as f64;
    let most = front
        .labels
        .iter()
        .map(value)
        .fold(f64::NEG_INFINITY, f64::max);
    let floor = if whole { most - items.tie as f64 } else { most };
    let ties = front
        .labels
        .iter()
        .enumerate()
        .filter(|(_, label)| value(label) >= floor);
    let first = ties.min_by_key(|(index, label)| (label.micro, label.batches, *index));
    first.map(|(index, label)| (index, value(label)))
}

fn trace(origins: &[Vec<Origin>], index: usize) -> Vec<usize> {
    let (mut at, mut items) = (index, Vec::with_capacity(origins.len()));
    for layer in origins.iter().rev() {
        let Some((parent, item)) = layer.get(at) else {
            break;
        };
        items.push(*item as usize);
        at = *parent as usize;
    }
    items.reverse();
    items
}
