//! Search of one covering knapsack: branch and bound, most expensive variant first, with the cover by
//! fractions of replicas as the bound. It is convex in each n, so the values to try are an interval around
//! the fraction's.

use super::accuracy::Needs;
use super::cover::{Choice, Cover, Item, cost};
use super::units::Units;
use crate::TimeLimit;

/// Maximum number of nodes of one search; beyond it the root's bound covers the rest.
pub(super) const NODES_MAX: usize = 50_000;

/// Solutions to keep.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Keep {
    /// The cheapest.
    One,
    /// All within the limit.
    All,
}

/// A variant in the order of the search, with the prices in its costs.
struct Level {
    variant: usize,
    load: f64,
    lo: f64,
    hi: f64,
    have: u32,
    cap: u32,
    rank: usize,
    /// Whether to keep idle replicas: stopping them saves nothing, and counts as a move.
    idle_is_kept: bool,
}

impl Level {
    fn cost(&self, n: u32) -> f64 {
        cost(self.lo, self.hi, self.have, n)
    }

    /// Least cost per query/s.
    fn cost_per_query(&self) -> f64 {
        let each = if self.have > 0 { self.lo } else { self.hi };
        each / self.load
    }
}

/// Most expensive first; variants without load before all others.
fn levels(cover: &Cover, prices: &Units) -> Vec<Level> {
    let level = |(variant, item): (usize, &Item)| {
        let price = item.needs.dot(prices);
        Level {
            variant,
            load: item.load,
            lo: item.lo + price,
            hi: item.hi + price,
            have: item.have,
            cap: item.cap,
            rank: item.rank,
            idle_is_kept: item.lo < 0.0,
        }
    };
    let mut levels: Vec<Level> = cover.items.iter().enumerate().map(level).collect();
    levels.sort_by(|a, b| {
        let idle = (b.load == 0.0).cmp(&(a.load == 0.0));
        idle.then(b.cost_per_query().total_cmp(&a.cost_per_query()))
    });
    levels
}

/// Replicas of equal cost.
pub(super) struct Piece {
    pub(super) level: usize,
    pub(super) load: f64,
    pub(super) cost: f64,
    pub(super) rank: usize,
}

pub(super) struct Search<'a> {
    cover: &'a Cover,
    prices: &'a Units,
    time_limit: &'a TimeLimit<'a>,
    keep: Keep,
    levels: Vec<Level>,
    /// Variants in the order of the levels.
    order: Vec<usize>,
    /// The cheapest per query/s first.
    pieces: Vec<Piece>,
    pub(super) limit: f64,
    chosen: Vec<u32>,
    pub(super) kept: Vec<Choice>,
    pub(super) nodes: usize,
    /// Whether anything was dropped because of the limit.
    pub(super) cut: bool,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        cover: &'a Cover,
        prices: &'a Units,
        keep: Keep,
        time_limit: &'a TimeLimit<'a>,
    ) -> Search<'a> {
        let levels = levels(cover, prices);
        let mut pieces = Vec::with_capacity(2 * levels.len());
        for (level, at) in levels.iter().enumerate() {
            let more = at.cap.saturating_sub(at.have);
            for (count, each) in [(at.have.min(at.cap), at.lo), (more, at.hi)] {
                let (load, cost) = (f64::from(count) * at.load, f64::from(count) * each);
                if count > 0 && (load > 0.0 || cost < 0.0) {
                    let rank = at.rank;
                    pieces.push(Piece {
                        level,
                        load,
                        cost,
                        rank,
                    });
                }
            }
        }
        pieces.sort_by(|a, b| (a.cost / a.load).total_cmp(&(b.cost / b.load)));
        Search {
            cover,
            prices,
            time_limit,
            keep,
            chosen: Vec::with_capacity(levels.len()),
            order: levels.iter().map(|level| level.variant).collect(),
            levels,
            pieces,
            limit: f64::INFINITY,
            kept: Vec::new(),
            nodes: 0,
            cut: false,
        }
    }

    /// Runs the search; returns the bound at the root.
    pub(super) fn run(&mut self) -> f64 {
        let levels = std::mem::take(&mut self.levels);
        let root = self.fraction(0, self.cover.needs).0;
        if root.is_finite() {
            self.dive(&levels, 0, self.cover.needs, 0.0);
        }
        root
    }

    /// Returns the least cost of carrying `needs` with fractions of the levels from `first` on, and the load
    /// of `first` in it.
    fn fraction(&self, first: usize, needs: Needs) -> (f64, f64) {
        if needs.are_nested() {
            return needs.fraction(&self.pieces, first, &self.cover.needs);
        }
        let mut need = needs.total();
        let (mut cost, mut own) = (0.0, 0.0);
        for piece in self.pieces.iter().filter(|piece| piece.level >= first) {
            let part = if piece.cost < 0.0 {
                1.0
            } else if need > 0.0 {
                (need / piece.load).min(1.0)
            } else {
                break;
            };
            cost += part * piece.cost;
            need -= part * piece.load;
            if piece.level == first {
                own += part * piece.load;
            }
        }
        // The last piece may leave a rounding error.
        let short = need > 1e-12 * self.cover.needs.total().abs();
        (if short { f64::INFINITY } else { cost }, own)
    }

    fn dive(&mut self, levels: &[Level], depth: usize, needs: Needs, spent: f64) {
        let Some((level, deeper)) = levels.split_first() else {
            return;
        };
        self.nodes += 1;
        if self.nodes.is_multiple_of(256) && self.time_limit.is_over() {
            self.nodes = NODES_MAX + 1;
        }
        if self.nodes > NODES_MAX {
            return;
        }
        if deeper.is_empty() {
            self.last(level, needs, spent);
            return;
        }
        let bound = |search: &Search<'_>, n: u32| {
            let rest = needs.less(f64::from(n) * level.load, level.rank);
            spent + level.cost(n) + search.fraction(depth + 1, rest).0
        };
        let middle = if level.load > 0.0 {
            ((self.fraction(depth, needs).1 / level.load).floor() as u32).min(level.cap)
        } else if level.lo < 0.0 {
            level.have.min(level.cap)
        } else {
            0
        };
        let mut down = Some((middle, bound(self, middle)));
        let mut up = (middle < level.cap).then(|| (middle + 1, bound(self, middle + 1)));
        loop {
            let downwards = match (down, up) {
                (None, None) => break,
                (Some((_, low)), Some((_, high))) => low <= high,
                (down, _) => down.is_some(),
            };
            let next = if downwards { down } else { up };
            let Some((n, at)) = next else { break };
            if !self.can_improve(at) {
                // An infinite bound below may turn finite above, never the other way round.
                self.cut |= at.is_finite();
                if downwards {
                    down = None;
                } else {
                    up = (at.is_infinite() && n < level.cap).then(|| (n + 1, bound(self, n + 1)));
                }
                continue;
            }
            self.chosen.push(n);
            let rest = needs.less(f64::from(n) * level.load, level.rank);
            self.dive(deeper, depth + 1, rest, spent + level.cost(n));
            self.chosen.pop();
            if self.nodes > NODES_MAX {
                return;
            }
            if downwards {
                down = n.checked_sub(1).map(|n| (n, bound(self, n)));
            } else {
                up = (n < level.cap).then(|| (n + 1, bound(self, n + 1)));
            }
        }
    }

    /// The last variant carries the rest.
    fn last(&mut self, level: &Level, needs: Needs, spent: f64) {
        let Some(need) = needs.of_rank(level.rank) else {
            return;
        };
        let min = if need <= 0.0 {
            0.0
        } else {
            (need / level.load).ceil()
        };
        if min.is_nan() || min > f64::from(level.cap) {
            return;
        }
        let min = min as u32;
        let most = if level.idle_is_kept {
            min.max(level.have.min(level.cap))
        } else {
            min
        };
        let best = if level.lo < 0.0 { most } else { min };
        let range = if self.keep == Keep::One {
            best..=best
        } else {
            min..=most
        };
        for n in range {
            if !self.can_improve(spent + level.cost(n)) {
                self.cut = true;
                continue;
            }
            self.chosen.push(n);
            self.leaf();
            self.chosen.pop();
        }
    }

    fn leaf(&mut self) {
        let mut replicas = vec![0; self.cover.items.len()];
        for (n, variant) in self.chosen.iter().zip(&self.order) {
            if let Some(slot) = replicas.get_mut(*variant) {
                *slot = *n;
            }
        }
        let choice = self.cover.choice(replicas, self.prices);
        match self.keep {
            Keep::One if self.kept.is_empty() || choice.priced < self.limit => {
                self.limit = choice.priced;
                self.kept.clear();
                self.kept.push(choice);
            }
            Keep::All if self.cover.is_minimal(&choice.replicas) => self.kept.push(choice),
            Keep::One | Keep::All => {}
        }
    }

    fn can_improve(&self, bound: f64) -> bool {
        match self.keep {
            Keep::One => bound < self.limit,
            Keep::All => bound <= self.limit && bound.is_finite(),
        }
    }
}
