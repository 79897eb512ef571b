//! The paper's heuristic (§4.2.2), as a baseline: one architecture after the other, one kind of move for
//! each, from the running replicas.
//!
//! - An overloaded architecture (its variants within the SLO carry less than load and slack) compares
//!   *replicating* a running variant with *upgrading* from it to one that sustains more per replica, on
//!   any resource type. It takes the cheapest move that carries everything and fits. If none fits, it
//!   starts as many of its variants as fit, the cheapest per query/s first.
//! - An underloaded one *downgrades* from a running variant to one that sustains less, or *removes*
//!   replicas, whichever saves most, and only after T_v underloaded cycles in a row.
//! - If more replicas run than the resource rows allow, replicas are removed first: from the last
//!   variant of the last architecture on.
//!
//! The rows are always kept. It is not optimal, and not always feasible where a plan exists. It knows no accuracies.

use serde::{Deserialize, Serialize};

use super::effort::fitting;
use super::units::Units;
use super::{Architecture, Plan, Problem, Variant};
use crate::TOLERANCE;

/// Number of consecutive cycles for which each architecture has been underloaded, as input and output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LowCycles {
    /// Counts in the order of the architectures; missing ones are 0.
    pub cycles: Vec<u32>,
}

/// Result of one cycle of the heuristic.
#[derive(Debug, Clone, PartialEq)]
pub struct HeuristicStep {
    /// The action; it keeps the resource rows, and may fall short of the load.
    pub plan: Plan,
    /// Counts for the next cycle.
    pub low: LowCycles,
}

/// Runs one cycle for all architectures; scales down those underloaded for `t_v` cycles, this one
/// included.
pub fn scale(problem: &Problem, low: &LowCycles, t_v: u32) -> HeuristicStep {
    let (replicas, low) = run_cycle(problem, low, t_v);
    HeuristicStep {
        plan: problem.plan(&replicas),
        low,
    }
}

/// Result of the heuristic without stabilization, if it carries everything.
pub(super) fn without_delay(problem: &Problem) -> Option<Vec<Vec<u32>>> {
    let (replicas, _) = run_cycle(problem, &LowCycles::default(), 1);
    carries_all(problem, &replicas).then_some(replicas)
}

/// Whether these replicas carry load and slack of all architectures.
pub(super) fn carries_all(problem: &Problem, replicas: &[Vec<u32>]) -> bool {
    let mut both = problem.input.architectures.iter().zip(replicas);
    both.all(|(architecture, counts)| {
        let (needs, most) = (architecture.needs(), 1.0 - TOLERANCE / 2.0);
        let both = architecture.variants.iter().zip(counts);
        let serving = both.filter(|(variant, _)| architecture.may_serve(variant));
        let left = serving.fold(needs.times(most), |left, (variant, n)| {
            left.less(variant.sustains_qps * f64::from(*n), needs.rank(variant))
        });
        left.are_met()
    })
}

fn run_cycle(problem: &Problem, low: &LowCycles, t_v: u32) -> (Vec<Vec<u32>>, LowCycles) {
    let (mut replicas, mut left) = running(problem);
    let mut after = LowCycles::default();
    let weight = problem.input.loading_weight_per_s;
    let parts = problem.input.architectures.iter().zip(&problem.takes);
    for (index, ((architecture, takes), counts)) in parts.zip(&mut replicas).enumerate() {
        let scaling = Scaling {
            architecture,
            takes,
            weight,
        };
        let was_low = low.cycles.get(index).copied().unwrap_or_default();
        let needed = architecture.needed_qps();
        let overloaded = carries(architecture, counts) < needed * (1.0 - TOLERANCE / 2.0);
        let (next, low) = if overloaded {
            (scaling.up(counts, &left), 0)
        } else {
            let down = scaling.down(counts, &left);
            let low = if down.is_some() {
                was_low.saturating_add(1)
            } else {
                0
            };
            if low >= t_v.max(1) {
                (down, 0)
            } else {
                (None, low)
            }
        };
        after.cycles.push(low);
        if let Some(next) = next {
            left = left
                .plus(&scaling.usage(counts), 1.0)
                .plus(&scaling.usage(&next), -1.0);
            *counts = next;
        }
    }
    (replicas, after)
}

/// Returns the running replicas, less those that exceed the rows, and the rest of each resource type.
fn running(problem: &Problem) -> (Vec<Vec<u32>>, Units) {
    let mut left = problem.available();
    let mut replicas: Vec<Vec<u32>> = Vec::new();
    for (architecture, takes) in problem.input.architectures.iter().zip(&problem.takes) {
        let mut counts = Vec::new();
        for (variant, takes) in architecture.variants.iter().zip(takes) {
            let fit = fitting(takes, &left).min(variant.replicas);
            left = left.plus(takes, -f64::from(fit));
            counts.push(fit);
        }
        replicas.push(counts);
    }
    (replicas, left)
}

fn carries(architecture: &Architecture, counts: &[u32]) -> f64 {
    let both = architecture.variants.iter().zip(counts);
    both.filter(|(variant, _)| architecture.may_serve(variant))
        .map(|(variant, n)| variant.sustains_qps * f64::from(*n))
        .sum()
}

struct Scaling<'a> {
    architecture: &'a Architecture,
    takes: &'a [Units],
    weight: f64,
}

impl Scaling<'_> {
    fn usage(&self, counts: &[u32]) -> Units {
        let both = self.takes.iter().zip(counts);
        both.fold(Units::default(), |sum, (takes, n)| {
            sum.plus(takes, f64::from(*n))
        })
    }

    /// C·(δ + λ·T_load·max(δ, 0)), from `before` to `after`.
    fn cost(&self, before: &[u32], after: &[u32]) -> f64 {
        let variants = self.architecture.variants.iter();
        variants
            .zip(before.iter().zip(after))
            .map(|(variant, (before, after))| {
                let change = f64::from(*after) - f64::from(*before);
                variant.cost * (change + self.weight * variant.loading_s * change.max(0.0))
            })
            .sum()
    }

    fn fits(&self, before: &[u32], after: &[u32], left: &Units) -> bool {
        let more = self.usage(after).plus(&self.usage(before), -1.0);
        more.within(left)
    }

    fn serving(&self) -> impl Iterator<Item = (usize, &Variant)> {
        let variants = self.architecture.variants.iter().enumerate();
        variants.filter(|(_, variant)| self.architecture.may_serve(variant))
    }

    fn up(&self, counts: &[u32], left: &Units) -> Option<Vec<u32>> {
        let missing = self.architecture.needed_qps() - carries(self.architecture, counts);
        let runs = |index: usize| counts.get(index).copied().unwrap_or_default();
        let mut moves = Vec::new();
        for (to, variant) in self.serving() {
            let nothing_runs = carries(self.architecture, counts) <= 0.0;
            if runs(to) > 0 || nothing_runs {
                moves.extend(increased(counts, to, missing / variant.sustains_qps));
            }
            for (from, old) in self.serving() {
                if runs(from) > 0 && variant.sustains_qps > old.sustains_qps {
                    let carried = missing + f64::from(runs(from)) * old.sustains_qps;
                    let without = stopped(counts, from);
                    moves.extend(increased(&without, to, carried / variant.sustains_qps));
                }
            }
        }
        moves.retain(|after| self.fits(counts, after, left));
        let whole = moves
            .into_iter()
            .min_by(|a, b| self.cost(counts, a).total_cmp(&self.cost(counts, b)));
        whole.or_else(|| Some(self.start_fitting(counts, *left)))
    }

    /// Starts as many replicas as fit, the cheapest per query/s first.
    fn start_fitting(&self, counts: &[u32], mut left: Units) -> Vec<u32> {
        let mut after = counts.to_vec();
        let mut order: Vec<(usize, &Variant)> = self.serving().collect();
        let cost_per_query = |variant: &Variant| {
            variant.cost * (1.0 + self.weight * variant.loading_s) / variant.sustains_qps
        };
        order.sort_by(|a, b| cost_per_query(a.1).total_cmp(&cost_per_query(b.1)));
        for (index, variant) in order {
            let missing = self.architecture.needed_qps() - carries(self.architecture, &after);
            let (Some(takes), Some(n)) = (self.takes.get(index), after.get_mut(index)) else {
                continue;
            };
            let needed = (missing / variant.sustains_qps).ceil().max(0.0) as u32;
            let more = needed
                .min(fitting(takes, &left))
                .min(super::REPLICAS_MAX - *n);
            left = left.plus(takes, -f64::from(more));
            *n += more;
        }
        after
    }

    fn down(&self, counts: &[u32], left: &Units) -> Option<Vec<u32>> {
        let spare = carries(self.architecture, counts) - self.architecture.needed_qps();
        let mut moves = Vec::new();
        for ((from, old), n) in self.architecture.variants.iter().enumerate().zip(counts) {
            if *n == 0 {
                continue;
            }
            if !self.architecture.may_serve(old) {
                moves.push(stopped(counts, from));
                continue;
            }
            let mut after = counts.to_vec();
            if let Some(slot) = after.get_mut(from) {
                *slot -= (spare / old.sustains_qps).floor().clamp(0.0, f64::from(*n)) as u32;
            }
            moves.push(after);
            let missing = f64::from(*n) * old.sustains_qps - spare;
            for (to, variant) in self.serving() {
                if missing > 0.0 && variant.sustains_qps < old.sustains_qps {
                    let without = stopped(counts, from);
                    moves.extend(increased(&without, to, missing / variant.sustains_qps));
                }
            }
        }
        moves.retain(|after| self.fits(counts, after, left) && self.cost(counts, after) < 0.0);
        moves
            .into_iter()
            .min_by(|a, b| self.cost(counts, a).total_cmp(&self.cost(counts, b)))
    }
}

/// Adds replicas of one variant, rounded up; `None` above the maximum.
fn increased(counts: &[u32], index: usize, more: f64) -> Option<Vec<u32>> {
    let mut after = counts.to_vec();
    let n = after.get_mut(index)?;
    let increased = f64::from(*n) + more.ceil();
    (increased <= f64::from(super::REPLICAS_MAX)).then(|| *n = increased as u32)?;
    Some(after)
}

fn stopped(counts: &[u32], index: usize) -> Vec<u32> {
    let mut after = counts.to_vec();
    if let Some(n) = after.get_mut(index) {
        *n = 0;
    }
    after
}
