//! Upper bound on the objective of any completion of a partial choice, by multipliers θ on the paths'
//! latencies.
//!
//! For a label with loss c, product A and times r at its slots, any θ ≥ 0 gives −c + Σ θ·(SLA − r) +
//! W(A). W(A) is the maximum of gain·A·Π a − Σ (loss + θ·time) over the choices of the remaining
//! stages, without the SLA. W is a maximum of lines in A, so it is convex. It is built backwards as
//! an upper envelope: W_i(A) = max over items of W_{i+1}(a·A) − loss − θ·time.

use super::items::{Item, Items, Step};
use crate::TimeLimit;

/// Maximum number of iterations for the best multiplier of a single path.
const ITERATIONS_MAX: usize = 40;
/// Number of iterations with several paths.
const ITERATIONS_SEVERAL: usize = 120;

/// Bound for one choice of multipliers.
#[derive(Debug, Clone)]
pub(super) struct Relaxed {
    /// Multipliers by path.
    theta: Vec<f64>,
    /// Envelopes before each step, and after the last.
    layers: Vec<Layer>,
    limit: f64,
}

#[derive(Debug, Clone)]
struct Layer {
    /// Sum, for each slot, of the multipliers of the unfinished paths through it.
    cut: Vec<f64>,
    envelope: Vec<Piece>,
    /// θ of the layer's own stage.
    price: f64,
}

/// Line slope·A + base, valid from `from` on.
#[derive(Debug, Clone, Copy)]
struct Piece {
    from: f64,
    slope: f64,
    base: f64,
}

/// One choice of items, with its value.
#[derive(Debug, Clone)]
pub(super) struct Primal {
    pub(super) items: Vec<usize>,
    pub(super) value: f64,
    /// Times by path.
    pub(super) times: Vec<f64>,
}

fn at(envelope: &[Piece], product: f64) -> f64 {
    let place = envelope.partition_point(|piece| piece.from <= product);
    let piece = envelope.get(place.saturating_sub(1));
    piece.map_or(f64::INFINITY, |p| p.slope * product + p.base)
}

impl Relaxed {
    fn new(items: &Items, theta: Vec<f64>) -> Relaxed {
        let count = items.steps.len();
        let last = Piece {
            from: 0.0,
            slope: items.gain,
            base: 0.0,
        };
        let mut layers = vec![Layer {
            cut: Vec::new(),
            envelope: vec![last],
            price: 0.0,
        }];
        for (stage, step) in items.steps.iter().enumerate().rev() {
            let through = items
                .paths
                .iter()
                .zip(&theta)
                .filter(|(path, _)| path.contains(&stage));
            let price = through.map(|(_, theta)| *theta).sum();
            let next = layers
                .last()
                .map_or(&[][..], |layer| layer.envelope.as_slice());
            let envelope = envelope(step, price, next);
            // The slots before this stage are those after the stage before it.
            let slots: Vec<usize> = match stage.checked_sub(1).and_then(|s| items.steps.get(s)) {
                Some(step) => step.slots.iter().map(|slot| slot.stage).collect(),
                None => vec![0],
            };
            let cut = slots.iter().map(|slot| {
                let goes_on = |path: &&Vec<usize>| path.iter().find(|s| **s >= stage) == Some(slot);
                let on = items
                    .paths
                    .iter()
                    .zip(&theta)
                    .filter(|(path, _)| goes_on(path));
                on.map(|(_, theta)| *theta).sum()
            });
            let cut = cut.collect();
            layers.push(Layer {
                cut,
                envelope,
                price,
            });
        }
        layers.reverse();
        debug_assert_eq!(layers.len(), count + 1);
        Relaxed {
            theta,
            layers,
            limit: items.limit as f64,
        }
    }

    /// Bound of a label before the step `layer`.
    pub(super) fn of(&self, layer: usize, loss: i64, product: f64, times: &[u64]) -> f64 {
        let Some(layer) = self.layers.get(layer) else {
            return f64::INFINITY;
        };
        let left = layer
            .cut
            .iter()
            .zip(times)
            .map(|(theta, time)| theta * (self.limit - *time as f64));
        left.sum::<f64>() - loss as f64 + at(&layer.envelope, product)
    }

    /// Bound of the whole problem.
    pub(super) fn root(&self) -> f64 {
        self.of(0, 0, 1.0, &[0])
    }

    /// Returns the choice that attains the bound.
    fn primal(&self, items: &Items) -> Primal {
        let (mut product, mut loss) = (1.0, 0i64);
        let (mut chosen, mut parts) = (Vec::new(), Vec::new());
        for ((step, layer), next) in items
            .steps
            .iter()
            .zip(&self.layers)
            .zip(self.layers.iter().skip(1))
        {
            let mut best: Option<(f64, usize, &Item)> = None;
            for (index, item) in step.items.iter().enumerate() {
                let value = priced(item, layer.price) + at(&next.envelope, product * item.factor);
                if best.is_none_or(|(most, _, _)| value > most) {
                    best = Some((value, index, item));
                }
            }
            if let Some((_, index, item)) = best {
                chosen.push(index);
                parts.push(item.parts);
                product *= item.factor;
                loss += item.loss;
            }
        }
        let along =
            |path: &Vec<usize>| path.iter().filter_map(|s| parts.get(*s)).sum::<u64>() as f64;
        Primal {
            items: chosen,
            value: items.gain * product - loss as f64,
            times: items.paths.iter().map(along).collect(),
        }
    }
}

fn priced(item: &Item, price: f64) -> f64 {
    -(item.loss as f64) - price * item.parts as f64
}

/// Returns the envelope before `step`, on the products that can occur there.
fn envelope(step: &Step, price: f64, next: &[Piece]) -> Vec<Piece> {
    let (min, most) = step.products;
    let mut by_factor: Vec<(f64, f64)> = Vec::with_capacity(step.items.len());
    by_factor.extend(
        step.items
            .iter()
            .map(|item| (item.factor, priced(item, price))),
    );
    by_factor.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
    let mut lines: Vec<(f64, f64)> = Vec::new();
    let mut highest = f64::NEG_INFINITY;
    for (factor, value) in by_factor {
        if value <= highest {
            continue;
        }
        highest = value;
        let from = next
            .partition_point(|piece| piece.from <= min * factor)
            .saturating_sub(1);
        let to = next.partition_point(|piece| piece.from <= most * factor);
        let pieces = next.get(from..to).unwrap_or_default();
        lines.extend(pieces.iter().map(|p| (p.slope * factor, p.base + value)));
    }
    lines.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut envelope: Vec<Piece> = Vec::new();
    for (slope, base) in lines {
        let mut from = 0.0;
        while let Some(top) = envelope.last() {
            if slope > top.slope {
                from = (top.base - base) / (slope - top.slope);
                if from > top.from.max(min) {
                    break;
                }
            }
            // The line is steeper and above the top line already at its beginning, or equally steep
            // and not lower.
            from = 0.0;
            envelope.pop();
        }
        if envelope.is_empty() || from <= most {
            envelope.push(Piece { from, slope, base });
        }
    }
    envelope
}

/// Returns the bounds to compare labels with, the best of the whole problem first, and the choices
/// met on the way.
pub(super) fn relax(items: &Items, time_limit: &TimeLimit<'_>) -> (Vec<Relaxed>, Vec<Primal>) {
    if time_limit.is_over() {
        return (Vec::new(), Vec::new());
    }
    let free = Relaxed::new(items, vec![0.0; items.paths.len()]);
    let primal = free.primal(items);
    let limit = items.limit as f64;
    if primal.times.iter().all(|time| *time <= limit) {
        return (vec![free], vec![primal]);
    }
    let (best, mut primals) = match items.paths.len() {
        1 => single(items, time_limit, &free, &primal),
        _ => several(items, time_limit, &free, &primal),
    };
    primals.push(primal);
    let factors: &[f64] = &[1.0, 1.25, 0.8, 1.6, 0.6, 2.5, 0.35, 5.0, 0.1];
    let mut all = Vec::with_capacity(factors.len() + 1);
    for factor in factors {
        if time_limit.is_over() {
            break;
        }
        let relaxed = Relaxed::new(items, best.iter().map(|theta| theta * factor).collect());
        primals.push(relaxed.primal(items));
        all.push(relaxed);
    }
    all.push(free);
    (all, primals)
}

/// Single path: the bound is convex in θ, and the tangents at two points intersect at the next θ.
fn single(
    items: &Items,
    time_limit: &TimeLimit<'_>,
    free: &Relaxed,
    at_free: &Primal,
) -> (Vec<f64>, Vec<Primal>) {
    let limit = items.limit as f64;
    let slope = |primal: &Primal| limit - primal.times.first().copied().unwrap_or_default();
    let mut met = Vec::new();
    let (mut low, mut low_bound, mut low_slope) = (0.0, free.root(), slope(at_free));
    // At this θ a whole SLA costs about as much as the possible gain.
    let mut theta = 1.0;
    let mut high: Option<(f64, f64, f64)> = None;
    let (mut best, mut min) = (0.0, low_bound);
    for _ in 0..ITERATIONS_MAX {
        if time_limit.is_over() {
            break;
        }
        let relaxed = Relaxed::new(items, vec![theta]);
        let primal = relaxed.primal(items);
        let (bound, slope) = (relaxed.root(), slope(&primal));
        met.push(primal);
        if bound < min {
            (best, min) = (theta, bound);
        }
        if slope < 0.0 {
            (low, low_bound, low_slope) = (theta, bound, slope);
        } else {
            high = Some((theta, bound, slope));
        }
        let Some((above, high_bound, high_slope)) = high else {
            theta *= 8.0;
            continue;
        };
        let meet = (low_bound - high_bound + high_slope * above - low_slope * low)
            / (high_slope - low_slope);
        let reached = low_bound + low_slope * (meet - low);
        let inside = meet > low && meet < above;
        if !inside || min - reached <= (items.tie as f64).max(1e-9 * min.abs()) {
            break;
        }
        theta = meet;
    }
    (vec![best], met)
}

/// Several paths: subgradient method, with Polyak's steps towards the best known value.
fn several(
    items: &Items,
    time_limit: &TimeLimit<'_>,
    free: &Relaxed,
    at_free: &Primal,
) -> (Vec<f64>, Vec<Primal>) {
    let limit = items.limit as f64;
    let (mut best, mut min) = (free.theta.clone(), free.root());
    let (mut theta, mut primal, mut bound) = (best.clone(), at_free.clone(), min);
    let mut at_best = primal.clone();
    let (mut met, mut reach, mut idle) = (Vec::new(), 1.0, 0);
    let mut known = f64::NEG_INFINITY;
    for _ in 0..ITERATIONS_SEVERAL {
        if time_limit.is_over() {
            break;
        }
        let over: Vec<f64> = primal.times.iter().map(|time| time - limit).collect();
        let square: f64 = over
            .iter()
            .zip(&theta)
            .filter(|(over, theta)| **over > 0.0 || **theta > 0.0)
            .map(|(over, _)| over * over)
            .sum();
        if square <= 0.0 {
            break;
        }
        let target = if known.is_finite() {
            known
        } else {
            min - 0.2 * min.abs() - 1.0
        };
        let step = reach * (bound - target).max(1.0) / square;
        for (theta, over) in theta.iter_mut().zip(&over) {
            *theta = (*theta + step * over).max(0.0);
        }
        let relaxed = Relaxed::new(items, theta.clone());
        primal = relaxed.primal(items);
        bound = relaxed.root();
        if primal.times.iter().all(|time| *time <= limit) {
            known = known.max(primal.value);
            met.push(primal.clone());
        }
        if bound < min {
            (best, min, idle) = (theta.clone(), bound, 0);
            at_best.clone_from(&primal);
        } else {
            idle += 1;
            if idle >= 5 {
                (reach, idle) = (reach * 0.6, 0);
                (theta, primal, bound) = (best.clone(), at_best.clone(), min);
            }
        }
    }
    (best, met)
}
