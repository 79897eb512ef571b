//! Upper bound of the value that undecided variants can add: the Lagrangian dual of Eq. 1, with the
//! budget and the demand as prices instead of constraints. Any prices give a valid bound; the best prices
//! give the bound of the linear relaxation.

use super::hull::{Corner, best, upper};
use super::item::Item;

/// Bisection steps of the search for a price of cores.
const CORE_STEPS: u32 = 24;
/// Golden-section steps of the search for a price of load.
const LOAD_STEPS: u32 = 32;
/// Maximum price of the whole demand, as a multiple of the values at stake: a core of the most accurate
/// variant may carry that many times less of it than a core of the fastest one.
const LOAD_PRICE_MAX: f64 = 1e3;
/// (√5 − 1) / 2.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Prices of a core and of the whole demand.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Prices {
    core: f64,
    load: f64,
}

/// Upper limits of the resources that labels leave; choices beyond them are ignored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Remaining {
    /// Cores.
    pub(super) cores: u32,
    /// Part of the demand, 1 = all.
    pub(super) load: f64,
}

/// Undecided variant, with the choices that fit the resources left.
#[derive(Debug, Clone)]
struct Undecided {
    value: f64,
    hull: Vec<Corner>,
}

/// A bound for each number of decided variants, from some number on.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    prices: Prices,
    core_cost: f64,
    /// Number of decided variants from which on it holds.
    from: usize,
    /// Value of the undecided variants at these prices, by the number of variants decided since then.
    rest: Vec<f64>,
}

impl Bound {
    /// Creates a bound for labels in which the first `decided` variants have left at most `most`; it is
    /// tightest for labels that have left `at`.
    pub(super) fn tightest(
        items: &[Item],
        core_cost: f64,
        decided: usize,
        most: Remaining,
        at: Remaining,
    ) -> Bound {
        let items = items.get(decided..).unwrap_or_default();
        let open: Vec<Undecided> = items
            .iter()
            .map(|item| Undecided::new(item, most))
            .collect();
        let prices = prices(&open, core_cost, f64::from(at.cores), at.load);
        let mut rest = vec![0.0; open.len() + 1];
        let mut sum = 0.0;
        for (slot, open) in rest.iter_mut().rev().skip(1).zip(open.iter().rev()) {
            sum += open.at(core_cost, prices).0;
            *slot = sum;
        }
        Bound {
            prices,
            core_cost,
            from: decided,
            rest,
        }
    }

    /// Upper bound of the value that the variants after the first `decided` can add.
    pub(super) fn at(&self, decided: usize, cores: f64, load: f64) -> f64 {
        let since = decided.checked_sub(self.from);
        let rest = since.and_then(|since| self.rest.get(since)).copied();
        rest.unwrap_or_default() + self.prices.load * load + self.prices.core * cores
    }

    /// Lower bound of the decrease of the bound by each choice of `item`, the next after `decided`; by
    /// rising loss.
    pub(super) fn losses(&self, decided: usize, item: &Item) -> Vec<(f64, usize)> {
        let value = (item.value - self.prices.load).max(0.0);
        let cost = self.core_cost + self.prices.core;
        let best = self.at(decided, 0.0, 0.0) - self.at(decided + 1, 0.0, 0.0);
        let each = item.options.iter().enumerate();
        let mut losses: Vec<(f64, usize)> = each
            .map(|(index, (cores, load))| (best - (value * load - cost * f64::from(*cores)), index))
            .collect();
        losses.sort_by(|a, b| a.0.total_cmp(&b.0));
        losses
    }
}

impl Undecided {
    fn new(item: &Item, most: Remaining) -> Undecided {
        let within = item
            .options
            .iter()
            .take_while(|(cores, _)| *cores <= most.cores);
        let corners = within.map(|(cores, load)| Corner {
            cores: f64::from(*cores),
            load: load.min(most.load),
        });
        Undecided {
            value: item.value,
            hull: upper(corners),
        }
    }

    fn at(&self, core_cost: f64, prices: Prices) -> (f64, Corner) {
        let value = (self.value - prices.load).max(0.0);
        let none = Corner {
            cores: 0.0,
            load: 0.0,
        };
        best(&self.hull, value, core_cost + prices.core).unwrap_or((0.0, none))
    }

    /// Greatest load that one more core can add.
    fn steepest(&self) -> f64 {
        match self.hull.as_slice() {
            [first, second, ..] => (second.load - first.load) / (second.cores - first.cores),
            _ => 0.0,
        }
    }
}

/// Returns the best prices. The bound is convex in the price of load, so that is found by golden section,
/// with the best price of cores for each by bisection.
fn prices(open: &[Undecided], core_cost: f64, cores: f64, load: f64) -> Prices {
    let value_max = open.iter().map(|open| open.value).fold(0.0, f64::max);
    // Maximum value of a little more load: the whole value at stake, for the smallest step of load.
    let stake = value_max + core_cost * cores.max(1.0);
    let (mut low, mut high) = (-LOAD_PRICE_MAX * stake, value_max);
    let value = |load_price: f64| {
        let core = core_price(open, core_cost, load_price, cores);
        let prices = Prices {
            core,
            load: load_price,
        };
        let rest: f64 = open.iter().map(|open| open.at(core_cost, prices).0).sum();
        (rest + load_price * load + core * cores, prices)
    };
    let mut left = value(high - GOLDEN * (high - low));
    let mut right = value(low + GOLDEN * (high - low));
    for _ in 0..LOAD_STEPS {
        if left.0 <= right.0 {
            high = right.1.load;
            right = left;
            left = value(high - GOLDEN * (high - low));
        } else {
            low = left.1.load;
            left = right;
            right = value(low + GOLDEN * (high - low));
        }
    }
    let best = if left.0 <= right.0 { left } else { right };
    let edge = value(value_max);
    if edge.0 < best.0 { edge.1 } else { best.1 }
}

/// Smallest price at which the variants together demand at most the available cores.
fn core_price(open: &[Undecided], core_cost: f64, load_price: f64, cores: f64) -> f64 {
    let demanded = |core: f64| -> f64 {
        let prices = Prices {
            core,
            load: load_price,
        };
        open.iter()
            .map(|open| open.at(core_cost, prices).1.cores)
            .sum()
    };
    if demanded(0.0) <= cores {
        return 0.0;
    }
    let steepest = open.iter().map(Undecided::steepest).fold(0.0, f64::max);
    let value_max = open.iter().map(|open| open.value).fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, (value_max - load_price).max(0.0) * steepest);
    for _ in 0..CORE_STEPS {
        let middle = 0.5 * (low + high);
        if demanded(middle) <= cores {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}
