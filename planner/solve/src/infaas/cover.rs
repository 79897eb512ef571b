//! One architecture at given prices: the cheapest replicas that carry its load, and the choices that cost
//! little more.
//!
//! With a price μ_t on each resource type, a variant's replicas cost f(n) = lo·n up to the N that run and
//! hi per replica beyond, hi ≥ lo: convex. The rest is a covering knapsack, min Σ f_j(n_j) subject to Σ
//! L_j·n_j ≥ need. Branch and bound, most expensive variant first, with the cover by fractions of replicas
//! as the bound. It is convex in each n, so the values to try are an interval around the fraction's.

use super::accuracy::Needs;
use super::search::{Keep, NODES_MAX, Search};
use super::units::Units;
use crate::TimeLimit;

/// Variant in the form that the search uses.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Queries/s per replica; 0 if it is too slow to serve.
    pub(super) load: f64,
    /// Saving per stopped replica.
    pub(super) lo: f64,
    /// Cost of a new replica.
    pub(super) hi: f64,
    /// Running replicas.
    pub(super) have: u32,
    /// Maximum number of replicas that can be useful.
    pub(super) cap: u32,
    /// Number of needs that it is accurate enough for, from the first on.
    pub(super) rank: usize,
    pub(super) needs: Units,
}

impl Item {
    pub(super) fn cost(&self, n: u32) -> f64 {
        cost(self.lo, self.hi, self.have, n)
    }
}

/// Cost of `n` replicas, of which `have` run.
pub(super) fn cost(lo: f64, hi: f64, have: u32, n: u32) -> f64 {
    lo * f64::from(n.min(have)) + hi * f64::from(n.saturating_sub(have))
}

/// Replicas of each variant that carry the load.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice {
    pub(super) replicas: Vec<u32>,
    /// Cost without the prices.
    pub(super) cost: f64,
    pub(super) usage: Units,
    /// Cost with the prices.
    pub(super) priced: f64,
}

/// Covering problem of one architecture.
#[derive(Debug, Clone)]
pub(super) struct Cover {
    pub(super) items: Vec<Item>,
    pub(super) needs: Needs,
}

/// Result of a search.
#[derive(Debug, Clone)]
pub(super) struct SearchResult {
    /// Choices, cheapest first.
    pub(super) choices: Vec<Choice>,
    /// Lower bound of all other choices, at these prices; infinite if there are no others.
    pub(super) floor: f64,
}

impl Cover {
    /// Upper bound of the cost of any choice.
    pub(super) fn cost_max(&self) -> f64 {
        self.items
            .iter()
            .map(|item| item.cost(item.cap).max(0.0))
            .sum()
    }

    /// Lower bound of the cost of any choice: its load by fractions of the replicas that cost least for it.
    pub(super) fn cost_min(&self) -> f64 {
        let serving = self.items.iter().filter(|item| item.load > 0.0);
        let each = serving.map(|item| item.lo.max(0.0) / item.load);
        let least = each.fold(f64::INFINITY, f64::min);
        let savings = self
            .items
            .iter()
            .map(|item| item.lo.min(0.0) * f64::from(item.have));
        savings.sum::<f64>()
            + if least.is_finite() {
                least * self.needs.total()
            } else {
                0.0
            }
    }

    /// Whether no replica can be removed without losing load or a saving; other choices are dominated.
    pub(super) fn is_minimal(&self, replicas: &[u32]) -> bool {
        let both = || self.items.iter().zip(replicas);
        let left = both().fold(self.needs, |left, (item, n)| {
            left.less(item.load * f64::from(*n), item.rank)
        });
        !both().any(|(item, n)| {
            let saves = *n > item.have || item.lo >= 0.0;
            *n > 0 && saves && left.less(-item.load, item.rank).are_met()
        })
    }

    pub(super) fn choice(&self, replicas: Vec<u32>, prices: &Units) -> Choice {
        let (mut cost, mut usage) = (0.0, Units::default());
        for (item, n) in self.items.iter().zip(&replicas) {
            cost += item.cost(*n);
            usage = usage.plus(&item.needs, f64::from(*n));
        }
        let priced = cost + usage.dot(prices);
        Choice {
            replicas,
            cost,
            usage,
            priced,
        }
    }

    /// Returns the cheapest choice, if it costs at most `known`, and the lower bound of the cost.
    pub(super) fn cheapest(
        &self,
        prices: &Units,
        known: Option<&Choice>,
        time_limit: &TimeLimit<'_>,
    ) -> (Option<Choice>, f64) {
        let mut search = Search::new(self, prices, Keep::One, time_limit);
        let known = known.map(|known| self.choice(known.replicas.clone(), prices));
        search.limit = known.as_ref().map_or(f64::INFINITY, |known| known.priced);
        search.kept.extend(known);
        let root = search.run();
        let best = search.kept.pop();
        let value = best.as_ref().map_or(f64::INFINITY, |best| best.priced);
        (
            best,
            if search.nodes > NODES_MAX {
                root
            } else {
                value
            },
        )
    }

    /// Returns at most `count` choices whose priced cost is within `most`, without dominated ones (another
    /// is no worse in cost and in every resource).
    pub(super) fn within(
        &self,
        prices: &Units,
        most: f64,
        count: usize,
        time_limit: &TimeLimit<'_>,
    ) -> SearchResult {
        let mut limit = most;
        for _ in 0..SHRINKS_MAX {
            let mut search = Search::new(self, prices, Keep::All, time_limit);
            search.limit = limit;
            let root = search.run();
            let Search {
                mut kept,
                nodes,
                cut,
                ..
            } = search;
            if nodes > NODES_MAX {
                limit = root + (limit.min(root + 1e3 * root.abs().max(1.0)) - root) / 8.0;
                continue;
            }
            kept.sort_by(|a, b| a.priced.total_cmp(&b.priced));
            let mut floor = if cut { limit } else { f64::INFINITY };
            if let Some(first_out) = kept.get(count) {
                floor = first_out.priced;
            }
            kept.truncate(count);
            return SearchResult {
                choices: undominated(kept),
                floor,
            };
        }
        let (best, floor) = self.cheapest(prices, None, time_limit);
        SearchResult {
            choices: best.into_iter().collect(),
            floor,
        }
    }
}

/// Maximum number of retries, each with a smaller limit, after a search that visited too many nodes.
const SHRINKS_MAX: usize = 8;

/// Removes dominated choices. They are sorted by priced cost, so a dominating choice comes first, as prices
/// are not negative.
fn undominated(choices: Vec<Choice>) -> Vec<Choice> {
    let mut kept: Vec<Choice> = Vec::with_capacity(choices.len());
    for choice in choices {
        let beaten = kept
            .iter()
            .any(|other| other.cost <= choice.cost && other.usage.within(&choice.usage));
        if !beaten {
            kept.push(choice);
        }
    }
    kept
}
