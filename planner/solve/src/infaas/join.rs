//! One choice for each architecture, so that together they fit: a beam of partial plans, one
//! architecture after the other.
//!
//! A partial plan of cost c and usage u is bounded, for every vector of prices μ, by
//! c + Σ_rest min (cost + μ·usage) + μ·(u − available); several μ at once make that a bound that bends
//! with what is left of each type. Of plans of equal usage the cheapest goes on. Where there are more
//! plans than the beam is wide the best-bounded go on, and the least bound among the others is told: what
//! is found is proven when it is no dearer than that.

use super::cover::Choice;
use super::units::Units;
use crate::Patience;

/// One architecture's choices, and where it stands in the problem.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub(super) place: usize,
    pub(super) choices: Vec<Choice>,
}

/// What a beam came to.
pub(super) struct Joined {
    /// Its cost, and by layer the index of the choice.
    pub(super) best: Option<(f64, Vec<usize>)>,
    /// No plan of these choices that was not followed is below.
    pub(super) floor: f64,
}

/// What is asked for.
pub(super) struct Beam<'a> {
    pub(super) available: &'a Units,
    pub(super) prices: &'a [Units],
    /// Only what is below is of interest.
    pub(super) upper: f64,
    pub(super) width: usize,
    pub(super) patience: &'a Patience<'a>,
}

#[derive(Clone, Copy)]
struct Partial {
    cost: f64,
    bound: f64,
    usage: Units,
    parent: u32,
    choice: u32,
}

/// The rest of the layers, from one of them on.
#[derive(Clone)]
struct Rest {
    least: Units,
    /// By prices: the cheapest of each layer, less what is available at those prices.
    priced: Vec<f64>,
}

impl Beam<'_> {
    /// Joins the layers; `None` where patience ran out.
    pub(super) fn join(&self, layers: &[Layer]) -> Option<Joined> {
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
                if parent.is_multiple_of(64) && self.patience.is_over() {
                    return None;
                }
                for (choice, option) in layer.choices.iter().enumerate() {
                    let cost = partial.cost + option.cost;
                    let usage = partial.usage.plus(&option.usage, 1.0);
                    if !usage.plus(&rest.least, 1.0).within(self.available) {
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
        Some(Joined { best, floor })
    }

    /// The bound on a partial plan, if it is of interest.
    fn bound(&self, cost: f64, usage: &Units, rest: &Rest) -> Option<f64> {
        let mut greatest = f64::NEG_INFINITY;
        for (prices, least) in self.prices.iter().zip(&rest.priced) {
            greatest = greatest.max(cost + least + prices.dot(usage));
            if greatest >= self.upper {
                return None;
            }
        }
        Some(greatest)
    }

    fn rests(&self, layers: &[Layer]) -> Vec<Rest> {
        let mut rest = Rest {
            least: Units::default(),
            priced: self.prices.iter().map(|p| -p.dot(self.available)).collect(),
        };
        let mut rests = Vec::with_capacity(layers.len());
        for layer in layers.iter().rev() {
            rests.push(rest.clone());
            let usages = layer.choices.iter().map(|choice| choice.usage);
            let least = usages.reduce(|a, b| a.least(&b)).unwrap_or_default();
            rest.least = rest.least.plus(&least, 1.0);
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

/// Keeps `width` of them with the least bounds; the least bound of the others.
fn narrow(partials: &mut Vec<Partial>, width: usize) -> f64 {
    if partials.len() <= width {
        return f64::INFINITY;
    }
    partials.sort_by(|a, b| a.bound.total_cmp(&b.bound));
    let floor = partials.get(width).map_or(f64::INFINITY, |p| p.bound);
    partials.truncate(width);
    floor
}

/// The choices that led to the last layer's `index`.
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
