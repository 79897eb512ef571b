//! Lower bound on the cost of requests where the replicas of a variant are limited.
//!
//! The work on variant v until the end of the load is at most C_v, the most cores of its replicas times the length. Raise
//! the price of its core-seconds by any μ_v ≥ 0. Every schedule of N requests then costs at least the N cheapest
//! requests, each on its cheapest variant, and at most Σ μ_v · C_v more than it does. So their difference is a lower
//! bound (weak duality), whatever μ is. The prices tried are those at which a typical request is as cheap on a variant
//! that has more work than it can do as on another one.

/// Maximum number of prices that are tried.
const PRICES_MAX: usize = 64;
/// Passes over the variants.
const PASSES: usize = 3;

/// Requests and the limits of their variants.
pub(super) struct Limited<'a> {
    /// Core-seconds of each request by variant; infinite where it cannot be on time.
    pub(super) works: &'a [Vec<f64>],
    /// Price of a core-second by variant.
    pub(super) prices: &'a [f64],
    /// Core-seconds that each variant can give; may be infinite.
    pub(super) limits: &'a [f64],
    /// Requests that must be on time; no more than can be.
    pub(super) on_time: usize,
}

impl Limited<'_> {
    /// Returns the greatest of the bounds that were tried.
    pub(super) fn min(&self) -> f64 {
        let mut prices = self.prices.to_vec();
        let (mut best, mut used) = self.at(&prices);
        let Some(typical) = self.works.get(self.works.len() / 2) else {
            return best;
        };
        let variants: Vec<usize> = (0..prices.len()).collect();
        let pairs = variants
            .iter()
            .flat_map(|v| variants.iter().map(move |u| (*v, *u)));
        let pairs: Vec<(usize, usize)> = pairs.filter(|(v, u)| v != u).collect();
        let mut tried = 0;
        for (v, u) in pairs.iter().cycle().take(PASSES * pairs.len()) {
            let of = |all: &[f64], index: &usize| all.get(*index).copied().unwrap_or(f64::INFINITY);
            let is_over = of(&used, v) > of(self.limits, v);
            let raised = of(&prices, v) > of(self.prices, v);
            let price = of(&prices, u) * of(typical, u) / of(typical, v);
            if !(is_over || raised) || !price.is_finite() || tried == PRICES_MAX {
                continue;
            }
            tried += 1;
            let mut next = prices.clone();
            if let Some(next) = next.get_mut(*v) {
                *next = price.max(of(self.prices, v));
            }
            let (bound, used_next) = self.at(&next);
            if bound > best {
                (best, used, prices) = (bound, used_next, next);
            }
        }
        best
    }

    /// Bound at these prices, and the work of each variant.
    fn at(&self, prices: &[f64]) -> (f64, Vec<f64>) {
        let cheapest = |works: &Vec<f64>| {
            let each = works.iter().zip(prices).enumerate();
            let each = each.map(|(variant, (work, price))| (work * price, *work, variant));
            each.min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let mut all: Vec<(f64, f64, usize)> = self.works.iter().filter_map(cheapest).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut used = vec![0.0; prices.len()];
        let mut sum = 0.0;
        for (cost, work, variant) in all.into_iter().take(self.on_time) {
            sum += cost;
            if let Some(used) = used.get_mut(variant) {
                *used += work;
            }
        }
        let raises = prices.iter().zip(self.prices).zip(self.limits);
        let raised = raises.filter(|((price, own), _)| price > own);
        let paid_back: f64 = raised
            .map(|((price, own), limit)| (price - own) * limit)
            .sum();
        (sum - paid_back, used)
    }
}
