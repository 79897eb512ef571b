//! Exact solver: prices on the resource types, the choices that can be optimal at these prices, and a
//! beam search over the architectures that joins them.

use super::cover::{Choice, Cover, Item};
use super::dual::{Prices, evaluate, raise};
use super::effort::{carrying, exhausted_resource, infeasible, infeasible_architecture};
use super::join::{Beam, Layer, cheapest};
use super::units::{RESOURCES_MAX, Units};
use super::{Plan, Problem, REPLICAS_MAX, greedy};
use crate::{Outcome, TOLERANCE, TimeLimit};

/// Maximum weight of the count of moved replicas in the objective, as a part of [`TOLERANCE`].
const TIES: f64 = 0.25;
/// Part of it that the sums may use here, so that the check, which adds in another order, agrees.
const SUMS: f64 = 0.5;
/// Maximum number of choices of one architecture.
const CHOICES_MAX: usize = 1024;
/// Beam widths, tried one after the other until the proof is complete.
const WIDTHS: [usize; 4] = [32, 256, 2048, 16_384];
/// Width up to which ties are resolved once the objective is proven.
const TIES_WIDTH: usize = 2048;
/// Initial limit above the bound for choices, relative.
const REACH: f64 = 1e-3;
/// Maximum number of price vectors beside the best that bound partial plans.
const PRICES_MAX: usize = 16;

/// Reason if each resource type alone would suffice.
const TOGETHER: &str =
    "the resource types together are too little for load and slack, though none of them alone";

/// Solves the problem; see the module.
pub fn solve(problem: &Problem, time_limit: &TimeLimit<'_>) -> Outcome<Plan> {
    if let Some(why) = infeasible_architecture(problem) {
        return infeasible(problem, why).checked(problem);
    }
    Exact::new(problem, time_limit).solve().checked(problem)
}

struct Exact<'a> {
    problem: &'a Problem,
    time_limit: &'a TimeLimit<'a>,
    covers: Vec<Cover>,
    available: Units,
    /// Cost of one moved replica, to break ties.
    tie: f64,
    /// Lower bound of the cost of any plan, the best proven so far.
    floor: f64,
    best: Option<(f64, Vec<Vec<u32>>)>,
}

impl<'a> Exact<'a> {
    fn new(problem: &'a Problem, time_limit: &'a TimeLimit<'a>) -> Exact<'a> {
        let available = problem.available();
        let available = available.plus(&available, SUMS * TOLERANCE);
        let tie = tie(problem);
        let covers = covers(problem, &available, tie);
        Exact {
            problem,
            time_limit,
            covers,
            available,
            tie,
            floor: f64::NEG_INFINITY,
            best: None,
        }
    }

    fn solve(mut self) -> Outcome<Plan> {
        let (covers, available) = (&self.covers, &self.available);
        let Some(free) = evaluate(covers, available, Units::default(), None, self.time_limit)
        else {
            if self.time_limit.is_over() {
                return self.without_search();
            }
            return infeasible(
                self.problem,
                self.exhausted_resource().unwrap_or(TOGETHER.to_owned()),
            );
        };
        self.floor = free.bound;
        if free.usage().within(available) {
            self.take(
                free.cost(),
                free.choices.into_iter().map(|c| c.replicas).collect(),
            );
            return self.finish();
        }
        if let Some(why) = self.exhausted_resource() {
            return infeasible(self.problem, why);
        }
        self.take_first();
        let Some((prices, seen)) = self.prices(free) else {
            return infeasible(self.problem, TOGETHER.to_owned());
        };
        self.floor = self.floor.max(prices.bound);
        self.close_gap(&prices, &seen)
    }

    /// Outcome if time is over before anything else is known: the first plan, and a bound without resources.
    fn without_search(mut self) -> Outcome<Plan> {
        self.floor = self.covers.iter().map(Cover::cost_min).sum();
        self.take_first();
        self.finish()
    }

    /// Takes the plan of a greedy rule, if one of them carries everything.
    fn take_first(&mut self) {
        let first = greedy::without_delay(self.problem);
        if let Some(replicas) = first.or_else(|| carrying(self.problem)) {
            self.take(self.cost(&replicas), replicas);
        }
    }

    fn exhausted_resource(&self) -> Option<String> {
        let endless = Units([f64::INFINITY; RESOURCES_MAX]);
        let covers = covers(self.problem, &endless, 0.0);
        exhausted_resource(self.problem, &covers, &self.available, self.time_limit)
    }

    /// Returns the best prices; `None` if the rows cannot be kept, not even by fractions of plans.
    fn prices(&self, free: Prices) -> Option<(Prices, Vec<Units>)> {
        let cost_max: f64 = self.covers.iter().map(Cover::cost_max).sum();
        let mut most = self.steepest();
        let mut first = free;
        for _ in 0..12 {
            let (best, seen) = raise(&self.covers, &self.available, first, &most, self.time_limit);
            if best.bound > cost_max * (1.0 + 1e-6) + self.tie {
                return None;
            }
            let at_most = best.prices.0.iter().zip(&most.0);
            let free_of_limits = at_most.clone().all(|(p, m)| *p < 0.999 * m || *m == 0.0);
            if free_of_limits || self.time_limit.is_over() {
                return Some((best, seen));
            }
            most = most.plus(&most, 9.0);
            first = best;
        }
        Some((first, Vec::new()))
    }

    /// Prices above which a replica's own cost hardly matters.
    fn steepest(&self) -> Units {
        let mut most = Units::default();
        for item in self.covers.iter().flat_map(|cover| &cover.items) {
            for (most, takes) in most.0.iter_mut().zip(&item.needs.0) {
                if *takes > 0.0 {
                    *most = most.max(10.0 * item.hi / takes);
                }
            }
        }
        most
    }

    /// Closes the gap between the bound and the incumbent.
    fn close_gap(&mut self, at: &Prices, seen: &[Units]) -> Outcome<Plan> {
        if self.is_done(0) {
            return self.finish();
        }
        let prices = self.bounding(at, seen);
        let mut reach = REACH * at.bound.abs() + self.tie;
        let mut reached = f64::NEG_INFINITY;
        loop {
            let open = self.best.as_ref().map_or(f64::INFINITY, |best| best.0) - at.bound;
            reach = reach.min(open + self.tie);
            let Some((layers, beyond)) = self.layers(at, &prices, reach) else {
                return self.finish();
            };
            if beyond <= reached {
                return self.finish();
            }
            reached = beyond;
            let mut followed = f64::NEG_INFINITY;
            for width in WIDTHS {
                let upper = self.upper();
                let beam = Beam {
                    available: &self.available,
                    prices: &prices,
                    upper,
                    width,
                    time_limit: self.time_limit,
                };
                let Some(joined) = beam.join(&layers) else {
                    return self.finish();
                };
                if let Some((cost, chosen)) = joined.best {
                    self.take(cost, replicas(&layers, &chosen));
                }
                followed = joined.floor;
                self.floor = self.floor.max(beyond.min(followed).min(self.upper()));
                if self.is_done(width) {
                    return self.finish();
                }
                if followed >= beyond.min(upper) {
                    break;
                }
            }
            if followed < beyond.min(self.upper()) {
                return self.finish();
            }
            if beyond.is_infinite() && self.best.is_none() {
                return infeasible(self.problem, TOGETHER.to_owned());
            }
            reach *= 8.0;
        }
    }

    /// Returns the choices of each architecture within reach of the best prices, and the bound of all
    /// plans that use another.
    fn layers(&self, at: &Prices, prices: &[Units], reach: f64) -> Option<(Vec<Layer>, f64)> {
        let mut beyond = f64::INFINITY;
        let mut layers = Vec::with_capacity(self.covers.len());
        for (place, (cover, best)) in self.covers.iter().zip(&at.choices).enumerate() {
            let most = best.priced + reach;
            let found = cover.within(&at.prices, most, CHOICES_MAX, self.time_limit);
            if self.time_limit.is_over() {
                return None;
            }
            beyond = beyond.min(at.bound + (found.floor - best.priced));
            let mut choices = found.choices;
            if choices.is_empty() {
                choices.push(best.clone());
            }
            layers.push(Layer { place, choices });
        }
        self.prune(&mut layers, prices);
        layers.sort_by_key(|layer| layer.choices.len());
        Some((layers, beyond))
    }

    /// Drops choices that cost too much at some of the prices.
    fn prune(&self, layers: &mut [Layer], prices: &[Units]) {
        let upper = self.upper();
        for price in prices {
            let min: Vec<f64> = layers
                .iter()
                .map(|layer| cheapest(&layer.choices, price))
                .collect();
            let bound: f64 = min.iter().sum::<f64>() - price.dot(&self.available);
            for (layer, min) in layers.iter_mut().zip(&min) {
                let slack = upper - bound + min;
                layer
                    .choices
                    .retain(|c| c.cost + price.dot(&c.usage) < slack);
            }
        }
    }

    /// Returns the best prices, those met near them, and some to either side.
    fn bounding(&self, at: &Prices, seen: &[Units]) -> Vec<Units> {
        let mut prices = vec![at.prices];
        for (index, price) in at.prices.0.iter().enumerate() {
            if *price > 0.0 {
                for by in [-0.3, 0.3, -0.05, 0.05] {
                    prices.push(at.prices.plus(&Units::only(index, by * price), 1.0));
                }
            }
        }
        prices.extend(seen.iter().take(PRICES_MAX));
        prices
    }

    /// Cost that a plan must stay below to be of interest.
    fn upper(&self) -> f64 {
        let best = self.best.as_ref().map_or(f64::INFINITY, |best| best.0);
        best - self.tie / 4.0
    }

    fn take(&mut self, cost: f64, replicas: Vec<Vec<u32>>) {
        if self.best.as_ref().is_none_or(|best| cost < best.0) {
            self.best = Some((cost, replicas));
        }
    }

    /// Whether the proof is complete, including ties, or within the requested gap.
    fn is_done(&self, width: usize) -> bool {
        let Some((cost, _)) = &self.best else {
            return false;
        };
        let gap = cost - self.floor;
        gap <= self.tie / 2.0
            || (gap <= TOLERANCE * cost.abs() && width >= TIES_WIDTH)
            || gap <= self.problem.input.gap * cost.abs()
    }

    fn finish(&self) -> Outcome<Plan> {
        let Some((cost, replicas)) = &self.best else {
            return Outcome::OutOfTime {
                why: "no plan within the resources was found in time".to_owned(),
                best: None,
            };
        };
        let best = self.problem.plan(replicas);
        let gap = (cost - self.floor).max(0.0);
        if gap <= TOLERANCE * cost.abs() + self.tie {
            Outcome::Optimal(best)
        } else {
            Outcome::Good { best, gap }
        }
    }

    fn cost(&self, replicas: &[Vec<u32>]) -> f64 {
        let both = self.covers.iter().zip(replicas);
        both.map(|(cover, counts)| cover.choice(counts.clone(), &Units::default()).cost)
            .sum()
    }
}

/// Replicas in the order of the problem.
fn replicas(layers: &[Layer], chosen: &[usize]) -> Vec<Vec<u32>> {
    let mut placed: Vec<(usize, Vec<u32>)> = layers
        .iter()
        .zip(chosen)
        .filter_map(|(layer, index)| {
            let choice: &Choice = layer.choices.get(*index)?;
            Some((layer.place, choice.replicas.clone()))
        })
        .collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, replicas)| replicas).collect()
}

/// A cost so small that all replicas that could usefully be moved weigh less than the tolerance.
fn tie(problem: &Problem) -> f64 {
    let (mut spent, mut moved) = (0.0, 1.0);
    for architecture in &problem.input.architectures {
        let need = architecture.needed_qps();
        let (mut min, mut most) = (f64::INFINITY, 0.0_f64);
        for variant in &architecture.variants {
            moved += f64::from(variant.replicas);
            if architecture.may_serve(variant) {
                min = min.min(variant.cost * need / variant.sustains_qps);
                most = most.max((need / variant.sustains_qps).ceil());
            }
        }
        moved += most.min(f64::from(REPLICAS_MAX));
        spent += if min.is_finite() { min } else { 0.0 };
    }
    if spent > 0.0 {
        TIES * TOLERANCE * spent / moved
    } else {
        TOLERANCE
    }
}

fn covers(problem: &Problem, available: &Units, tie: f64) -> Vec<Cover> {
    let input = &problem.input;
    let parts = input.architectures.iter().zip(&problem.takes);
    parts
        .map(|(architecture, takes)| {
            let needs = architecture.needs().times(1.0 - SUMS * TOLERANCE);
            let need = needs.total();
            let item = |(variant, takes): (&super::Variant, &Units)| {
                let serves = architecture.may_serve(variant);
                let load = if serves { variant.sustains_qps } else { 0.0 };
                let alone = if serves { (need / load).ceil() } else { 0.0 };
                let alone = alone.min(f64::from(REPLICAS_MAX)) as u32;
                let fit = super::effort::fitting(takes, available);
                let loading = input.loading_weight_per_s * variant.loading_s;
                Item {
                    load,
                    lo: variant.cost - tie,
                    hi: variant.cost * (1.0 + loading) + tie,
                    have: variant.replicas,
                    cap: alone.max(variant.replicas).min(fit),
                    rank: needs.rank(variant),
                    needs: *takes,
                }
            };
            Cover {
                items: architecture.variants.iter().zip(takes).map(item).collect(),
                needs,
            }
        })
        .collect()
}
