//! Joins one choice per architecture so that together they fit: a beam search over partial plans, one
//! architecture after the other.
//!
//! A partial plan of cost c and usage u is bounded, for every vector of prices μ, by c + Σ_rest min (cost
//! + μ·usage) + μ·(u − available). Several μ at once give a bound that bends with the rest of each type.
//!
//! Only the cheapest of several plans with equal usage is extended. If there are more plans than the beam is wide,
//! those with the best bounds are kept, and the least bound of the others is reported: the result is
//! proven optimal if it costs no more than that.

use super::cover::Choice;
use super::units::Units;
use crate::TimeLimit;

/// One architecture's choices, with its index in the problem.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub(super) place: usize,
    pub(super) choices: Vec<Choice>,
}

/// Result of a beam search.
pub(super) struct BeamResult {
    /// Best plan: its cost, and by layer the index of the choice.
    pub(super) best: Option<(f64, Vec<usize>)>,
    /// Lower bound of the plans of these choices that were dropped.
    pub(super) floor: f64,
}

/// Parameters of the search.
pub(super) struct Beam<'a> {
    pub(super) available: &'a Units,
    pub(super) prices: &'a [Units],
    /// Only plans that cost less are of interest.
    pub(super) upper: f64,
    pub(super) width: usize,
    pub(super) time_limit: &'a TimeLimit<'a>,
}

#[derive(Clone, Copy)]
struct Partial {
    cost: f64,
    bound: f64,
    usage: Units,
    parent: u32,
    choice: u32,
}

/// Remaining layers, from one of them on.
#[derive(Clone)]
struct Rest {
    min: Units,
    /// The cheapest choice of each layer at each vector of prices, less the available resources at those prices.
    priced: Vec<f64>,
}

impl Beam<'_> {
    /// Joins the layers; `None` if time ran out.
    pub(super) fn join(&self, layers: &[Layer]) -> Option<BeamResult> {
        let rests = self.rests(layers);
        let mut floor = f64::INFINITY;
        let mut trail: Vec<Vec<(u32, u32)>> = Vec::with_capacity(layers.len());
        let mut front = vec![Partial {
            cost: 0.0,
            bound: f64::NEG_INFINITY,
            usage: Units::default(),
            parent: 0,
            choice: 0,
        }];
        for (layer, rest) in layers.iter().zip(&rests) {
            let mut next = Vec::with_capacity((front.len() * layer.choices.len()).min(1 << 17));
            for (parent, partial) in front.iter().enumerate() {
                if parent.is_multiple_of(64) && self.time_limit.is_over() {
                    return None;
                }
                for (choice, option) in layer.choices.iter().enumerate() {
                    let cost = partial.cost + option.cost;
                    let usage = partial.usage.plus(&option.usage, 1.0);
                    if !usage.plus(&rest.min, 1.0).within(self.available) {
                        continue;
                    }
                    if let Some(bound) = self.bound(cost, &usage, rest) {
                        next.push(Partial {
                            cost,
                            bound,
                            usage,
                            parent: parent as u32,
                            choice: choice as u32,
                        });
                    }
                }
                if next.len() > 4 * self.width.max(1024) {
                    merge(&mut next);
                    floor = floor.min(narrow(&mut next, self.width));
                }
            }
            merge(&mut next);
            floor = floor.min(narrow(&mut next, self.width));
            trail.push(next.iter().map(|p| (p.parent, p.choice)).collect());
            front = next;
        }
        let best = front
            .iter()
            .enumerate()
            .min_by(|a, b| a.1.cost.total_cmp(&b.1.cost))
            .map(|(index, partial)| (partial.cost, follow(&trail, index)));
        Some(BeamResult { best, floor })
    }

    /// Bound of a partial plan, if it is of interest.
    fn bound(&self, cost: f64, usage: &Units, rest: &Rest) -> Option<f64> {
        let mut max = f64::NEG_INFINITY;
        for (prices, min) in self.prices.iter().zip(&rest.priced) {
            max = max.max(cost + min + prices.dot(usage));
            if max >= self.upper {
                return None;
            }
        }
        Some(max)
    }

    fn rests(&self, layers: &[Layer]) -> Vec<Rest> {
        let mut rest = Rest {
            min: Units::default(),
            priced: self.prices.iter().map(|p| -p.dot(self.available)).collect(),
        };
        let mut rests = Vec::with_capacity(layers.len());
        for layer in layers.iter().rev() {
            rests.push(rest.clone());
            let usages = layer.choices.iter().map(|choice| choice.usage);
            let min = usages.reduce(|a, b| a.min(&b)).unwrap_or_default();
            rest.min = rest.min.plus(&min, 1.0);
            for (sum, prices) in rest.priced.iter_mut().zip(self.prices) {
                *sum += cheapest(&layer.choices, prices);
            }
        }
        rests.reverse();
        rests
    }
}

pub(super) fn cheapest(choices: &[Choice], prices: &Units) -> f64 {
    let priced = choices.iter().map(|c| c.cost + prices.dot(&c.usage));
    priced.fold(f64::INFINITY, f64::min)
}

/// Keeps the cheapest of each usage.
fn merge(partials: &mut Vec<Partial>) {
    partials.sort_by(|a, b| {
        let both = a.usage.0.iter().zip(&b.usage.0);
        let usage = both
            .map(|(a, b)| a.total_cmp(b))
            .find(|order| order.is_ne());
        usage.unwrap_or(a.cost.total_cmp(&b.cost))
    });
    partials.dedup_by(|later, first| later.usage == first.usage);
}

/// Keeps the `width` partial plans with the least bounds; returns the least bound of the others.
fn narrow(partials: &mut Vec<Partial>, width: usize) -> f64 {
    if partials.len() <= width {
        return f64::INFINITY;
    }
    partials.sort_by(|a, b| a.bound.total_cmp(&b.bound));
    let floor = partials.get(width).map_or(f64::INFINITY, |p| p.bound);
    partials.truncate(width);
    floor
}

/// Returns the choices that led to the last layer's `index`.
fn follow(trail: &[Vec<(u32, u32)>], mut index: usize) -> Vec<usize> {
    let mut choices = Vec::with_capacity(trail.len());
    for layer in trail.iter().rev() {
        let Some((parent, choice)) = layer.get(index) else {
            continue;
        };
        choices.push(*choice as usize);
        index = *parent as usize;
    }
    choices.reverse();
    choices
}
