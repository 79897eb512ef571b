//! Labels (partial choices), and the dominance between them.
//!
//! X dominates Y if it is not later at any slot, its product is not less and its loss not more, and one
//! of two holds. Either any completion gives X an objective better by more than a tie; or X precedes Y
//! in a tie: not more cores and not larger batches, and if both are equal, earlier in the order.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::TimeLimit;

/// Maximum number of labels of similar loss that a label is compared with.
const NEAR_MAX: usize = 256;
/// Maximum number of labels that a label is compared with if there are several slots.
const SEVERAL_MAX: usize = 1024;
/// Labels between two readings of the clock.
const CLOCK_INTERVAL: usize = 256;

/// A choice for each stage of the order up to some place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label {
    /// Sum of the slots' times.
    pub(super) time: u64,
    pub(super) loss: i64,
    pub(super) product: f64,
    pub(super) micro: u64,
    pub(super) batches: u32,
    /// The label of the layer before, and the item of this step.
    pub(super) parent: u32,
    pub(super) item: u32,
    /// Upper bound of its completions.
    pub(super) bound: f64,
}

/// Thresholds for comparing two labels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Differences of the objective up to this are ties.
    pub(super) tie: i64,
    /// Minimum gain of the objective per unit of the product.
    pub(super) gain: f64,
}

/// The labels of a layer, in the order of their choices.
#[derive(Debug, Clone)]
pub(super) struct Front {
    pub(super) labels: Vec<Label>,
    /// Time of each label at each slot.
    times: Vec<u64>,
    slots: usize,
}

impl Label {
    /// Product without its last bits, so that the order of factors does not matter.
    fn key(&self) -> u64 {
        (self.product.to_bits() + (1 << 11)) >> 12
    }

    /// Whether this label dominates `other`, with the times ignored.
    fn beats(&self, other: &Label, rules: Rules, earlier: bool) -> bool {
        if self.loss > other.loss || self.key() < other.key() {
            return false;
        }
        let better = (other.loss - self.loss) as f64 + rules.gain * (self.product - other.product);
        let tie = (self.micro, self.batches) != (other.micro, other.batches) || earlier;
        better > rules.tie as f64
            || (self.micro <= other.micro && self.batches <= other.batches && tie)
    }
}

impl Front {
    pub(super) fn new(slots: usize) -> Front {
        Front {
            labels: Vec::new(),
            times: Vec::new(),
            slots,
        }
    }

    pub(super) fn push(&mut self, label: Label, times: &[u64]) {
        self.labels.push(label);
        self.times.extend_from_slice(times);
    }

    pub(super) fn times(&self, label: usize) -> &[u64] {
        let from = label * self.slots;
        self.times.get(from..from + self.slots).unwrap_or_default()
    }

    /// Drops dominated labels. If time runs out, the rest stays.
    pub(super) fn sweep(&mut self, rules: Rules, time_limit: &TimeLimit<'_>) {
        let mut order: Vec<u32> = (0..self.labels.len() as u32).collect();
        order.sort_unstable_by(|a, b| self.compare(*a, *b));
        let mut keep = vec![true; self.labels.len()];
        let mut stairs = Stairs::default();
        let mut kept: Vec<u32> = Vec::new();
        for (nth, index) in order.iter().enumerate() {
            if nth % CLOCK_INTERVAL == 0 && time_limit.is_over() {
                break;
            }
            let Some(label) = self.labels.get(*index as usize) else {
                continue;
            };
            let beaten = if self.slots <= 1 {
                stairs.below(label, rules.tie) || {
                    let near = stairs.near(label, rules.tie).take(NEAR_MAX);
                    self.beaten(*index, label, near, rules)
                }
            } else {
                self.beaten(*index, label, kept.iter().rev().take(SEVERAL_MAX), rules)
            };
            if !beaten {
                if self.slots <= 1 {
                    stairs.add(*index, label, rules.tie);
                } else {
                    kept.push(*index);
                }
            } else if let Some(keep) = keep.get_mut(*index as usize) {
                *keep = false;
            }
        }
        self.retain(&keep);
    }

    /// Keeps the `width` labels with the greatest bounds; returns the greatest bound dropped.
    pub(super) fn truncate(&mut self, width: usize) -> Option<f64> {
        if self.labels.len() <= width {
            return None;
        }
        let mut order: Vec<(f64, u32)> = (0u32..)
            .zip(&self.labels)
            .map(|(i, l)| (l.bound, i))
            .collect();
        let by_bound = |a: &(f64, u32), b: &(f64, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        let (_, first_out, _) = order.select_nth_unstable_by(width, by_bound);
        let dropped = first_out.0;
        let mut keep = vec![false; self.labels.len()];
        for (_, index) in order.iter().take(width) {
            if let Some(keep) = keep.get_mut(*index as usize) {
                *keep = true;
            }
        }
        self.retain(&keep);
        Some(dropped)
    }

    fn retain(&mut self, keep: &[bool]) {
        let slots = self.slots;
        let mut flags = keep.iter();
        self.labels.retain(|_| flags.next() == Some(&true));
        let mut at = 0;
        self.times.retain(|_| {
            let kept = keep.get(at / slots) == Some(&true);
            at += 1;
            kept
        });
    }

    fn beaten<'a>(
        &self,
        index: u32,
        label: &Label,
        mut by: impl Iterator<Item = &'a u32>,
        rules: Rules,
    ) -> bool {
        let times = self.times(index as usize);
        by.any(|other| {
            let not_later = |(x, y): (&u64, &u64)| x <= y;
            let found = self.labels.get(*other as usize);
            found.is_some_and(|found| found.beats(label, rules, *other < index))
                && self.times(*other as usize).iter().zip(times).all(not_later)
        })
    }

    /// Orders labels so that one comes before those it dominates.
    fn compare(&self, a: u32, b: u32) -> Ordering {
        let (Some(x), Some(y)) = (self.labels.get(a as usize), self.labels.get(b as usize)) else {
            return Ordering::Equal;
        };
        let sums = (x.time, x.loss).cmp(&(y.time, y.loss));
        let products = || y.key().cmp(&x.key());
        let rest = || (x.micro, x.batches, a).cmp(&(y.micro, y.batches, b));
        sums.then_with(products).then_with(rest)
    }
}

/// Kept labels for at most one slot: none of them is later than the label compared with them.
#[derive(Default)]
struct Stairs {
    /// Key of the product and loss, both rising: no label with at least that product has less loss.
    steps: Vec<(u64, i64)>,
    /// All kept labels, by loss in units of a tie.
    near: BTreeMap<i64, Vec<u32>>,
}

impl Stairs {
    /// Whether a kept label has at least that product and less loss, by more than a tie.
    fn below(&self, label: &Label, tie: i64) -> bool {
        let key = label.key();
        let at = self.steps.partition_point(|step| step.0 < key);
        self.steps
            .get(at)
            .is_some_and(|step| label.loss - step.1 > tie)
    }

    fn near(&self, label: &Label, tie: i64) -> impl Iterator<Item = &u32> {
        let step = label.loss.div_euclid(tie + 1);
        let of = |step: i64| {
            self.near
                .get(&step)
                .into_iter()
                .flat_map(|all| all.iter().rev())
        };
        of(step).chain(of(step - 1))
    }

    fn add(&mut self, index: u32, label: &Label, tie: i64) {
        let step = label.loss.div_euclid(tie + 1);
        self.near.entry(step).or_default().push(index);
        let key = label.key();
        let at = self.steps.partition_point(|step| step.0 < key);
        if self.steps.get(at).is_some_and(|step| step.1 <= label.loss) {
            return;
        }
        let to = at + usize::from(self.steps.get(at).is_some_and(|step| step.0 == key));
        let before = self.steps.get(..at).unwrap_or_default();
        let from = before.partition_point(|step| step.1 < label.loss);
        self.steps.splice(from..to, [(key, label.loss)]);
    }
}
