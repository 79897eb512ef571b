//! InfAdapter (EuroMLSys '23) and its baseline MS+ as their published program has them (`adapter/main.py`,
//! `adapter/reconfig.py`):
//!
//! - a decision each 30 s, the first after 2 minutes; none while the one before is carried out;
//! - λ: 1.1 × the forecast, rounded down. The forecast is the exponential mean (span 10) of the greatest rates of
//!   the last minutes; after 10 minutes the program asks its LSTM, here it is the last minute's greatest rate;
//! - a λ that is not above that of the decision before is passed over, up to four times in a row;
//! - capacity of n cores: ⌊0.8 · (slope · n + intercept)⌋, the intercept without its fraction and at most 0; a
//!   variant has no core or at least 2;
//! - InfAdapter: of all (n_m) with ΣN ≤ B that carry λ the one with the greatest α·AA − β·ΣN/B − γ·LC, where the
//!   most accurate serve first, and LC is the longest readiness of a variant whose cores change. Its model adds a
//!   constraint that the paper does not have: all but the least accurate variant carry λ at most;
//! - MS+: one variant, with the fewest cores that carry λ, by the same objective;
//! - where nothing carries λ the program breaks (InfAdapter) or gives the least accurate variant all cores (MS+);
//!   here both do the latter.
//!
//! Weights are the service's. Variants stand in ascending accuracy.

use std::time::Duration;

use super::per_second::PerSecond;
use weir_planner::service::{Objective, Service, Variant};

/// Time of the first decision.
const FIRST: Duration = Duration::from_mins(2);
/// Time between decisions.
const INTERVAL: Duration = Duration::from_secs(30);
/// Decisions passed over at most while λ does not rise.
pub(super) const PASSED_OVER_MAX: u32 = 4;
/// Factor on the forecast.
const MARGIN: f64 = 1.1;
/// Part of the capacity that is planned with.
const UTILISATION: f64 = 0.8;
/// Cores of a variant that has any.
const CORES_MIN: f64 = 2.0;
/// Minutes whose greatest rates are known, and span of their exponential mean.
const MINUTES: usize = 10;

/// Cores of each variant in steps, and its part of the load.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Configuration {
    pub(super) steps: Vec<u32>,
    pub(super) shares: Vec<f64>,
}

/// Problem of one decision, with the variants in ascending accuracy.
#[derive(Debug)]
pub(super) struct Problem {
    variants: Vec<Candidate>,
    objective: Objective,
    budget: u32,
    /// Fewest steps of a variant that has cores.
    fewest: u32,
}

#[derive(Debug)]
struct Candidate {
    /// Index in the service.
    index: usize,
    accuracy: f64,
    readiness_s: f64,
    /// Capacity by steps, from 0 to the budget.
    capacities: Vec<f64>,
}

impl Problem {
    pub(super) fn new(service: &Service) -> Problem {
        let each = service.variants.iter().enumerate();
        let mut variants: Vec<Candidate> = each
            .map(|(index, variant)| Candidate {
                index,
                accuracy: variant.accuracy / 100.0,
                readiness_s: variant.readiness.as_secs_f64(),
                capacities: (0..=service.budget)
                    .map(|steps| capacity(variant, steps))
                    .collect(),
            })
            .collect();
        variants.sort_by(|a, b| a.accuracy.total_cmp(&b.accuracy));
        Problem {
            variants,
            objective: service.objective,
            budget: service.budget,
            fewest: (CORES_MIN / service.step.as_f64()).ceil() as u32,
        }
    }

    /// Capacity of that configuration, in steps in the service's order.
    pub(super) fn capacity(&self, steps: &[u32]) -> f64 {
        let of = |one: &Candidate| {
            steps
                .get(one.index)
                .map_or(0.0, |steps| one.capacity(*steps))
        };
        self.variants.iter().map(of).sum()
    }

    /// Returns InfAdapter's configuration for that load.
    pub(super) fn infadapter(&self, load: f64, current: &[u32]) -> Configuration {
        let mut search = Search {
            problem: self,
            load,
            current,
            best: None,
        };
        let mut steps = vec![0; self.variants.len()];
        search.from(self.variants.len(), self.budget, 0.0, &mut steps);
        let best = search.best.map(|(_, steps)| steps);
        self.configuration(best, load)
    }

    /// Returns the configuration of MS+ for that load.
    pub(super) fn model_switching(&self, load: f64, current: &[u32]) -> Configuration {
        let carrying = |candidate: &Candidate, most: u32| {
            (self.fewest..=most).find(|steps| candidate.capacity(*steps) >= load)
        };
        // More cores than the most accurate variant needs are no option.
        let accurate = self.variants.last();
        let most = accurate.and_then(|one| carrying(one, self.budget));
        let most = most.unwrap_or(self.budget);
        let mut best: Option<(f64, Vec<u32>)> = None;
        for (place, candidate) in self.variants.iter().enumerate() {
            let Some(needed) = carrying(candidate, most) else {
                continue;
            };
            let mut steps = vec![0; self.variants.len()];
            if let Some(one) = steps.get_mut(place) {
                *one = needed;
            }
            let value = self.value(&steps, load, current);
            if best.as_ref().is_none_or(|(most, _)| value > *most) {
                best = Some((value, steps));
            }
        }
        self.configuration(best.map(|(_, steps)| steps), load)
    }

    /// Configuration in the service's order; the least accurate variant has all cores if there is none.
    fn configuration(&self, best: Option<Vec<u32>>, load: f64) -> Configuration {
        let steps = best.unwrap_or_else(|| {
            let mut steps = vec![0; self.variants.len()];
            if let Some(first) = steps.first_mut() {
                *first = self.budget;
            }
            steps
        });
        let carried = self.carried(&steps, load);
        let all: f64 = carried.iter().sum();
        let mut configuration = Configuration {
            steps: vec![0; steps.len()],
            shares: vec![0.0; steps.len()],
        };
        for ((candidate, steps), carried) in self.variants.iter().zip(steps).zip(carried) {
            if let (Some(to), Some(share)) = (
                configuration.steps.get_mut(candidate.index),
                configuration.shares.get_mut(candidate.index),
            ) {
                *to = steps;
                *share = match all > 0.0 {
                    true => carried / all,
                    false => f64::from(u8::from(steps > 0)),
                };
            }
        }
        configuration
    }

    /// Load of each variant: the most accurate serve first, up to their capacity.
    fn carried(&self, steps: &[u32], load: f64) -> Vec<f64> {
        let mut left = load;
        let mut carried: Vec<f64> = self
            .variants
            .iter()
            .zip(steps)
            .rev()
            .map(|(one, steps)| {
                let part = one.capacity(*steps).min(left);
                left -= part;
                part
            })
            .collect();
        carried.reverse();
        carried
    }

    /// α·AA − β·RC − γ·LC.
    fn value(&self, steps: &[u32], load: f64, current: &[u32]) -> f64 {
        let carried = self.carried(steps, load);
        let served = self.variants.iter().zip(carried);
        let accuracy: f64 = served.map(|(one, part)| one.accuracy * part / load).sum();
        let cores = f64::from(steps.iter().sum::<u32>()) / f64::from(self.budget.max(1));
        let changed = self
            .variants
            .iter()
            .zip(steps)
            .filter(|(one, steps)| **steps > 0 && current.get(one.index) != Some(steps));
        let longest = changed.map(|(one, _)| one.readiness_s).fold(0.0, f64::max);
        let most = self
            .variants
            .iter()
            .map(|one| one.readiness_s)
            .fold(0.0, f64::max);
        let loading = if most > 0.0 { longest / most } else { 0.0 };
        let Objective {
            alpha, beta, gamma, ..
        } = self.objective;
        alpha * accuracy - beta * cores - gamma * loading
    }
}

impl Candidate {
    fn capacity(&self, steps: u32) -> f64 {
        self.capacities
            .get(steps as usize)
            .copied()
            .unwrap_or_default()
    }
}

/// Trial of all combinations (a scenario bounds their number), from the most accurate variant to the least accurate one.
struct Search<'a> {
    problem: &'a Problem,
    load: f64,
    current: &'a [u32],
    best: Option<(f64, Vec<u32>)>,
}

impl Search<'_> {
    /// Tries all steps of the first `variants` variants with that budget; those after them carry `carried`.
    fn from(&mut self, variants: usize, budget: u32, carried: f64, steps: &mut Vec<u32>) {
        let Some(place) = variants.checked_sub(1) else {
            if carried >= self.load {
                let value = self.problem.value(steps, self.load, self.current);
                if self.best.as_ref().is_none_or(|(most, _)| value > *most) {
                    self.best = Some((value, steps.clone()));
                }
            }
            return;
        };
        let Some(candidate) = self.problem.variants.get(place) else {
            return;
        };
        let fewest = self.problem.fewest;
        for chosen in std::iter::once(0).chain(fewest..=budget) {
            let carried = carried + candidate.capacity(chosen);
            // The published model's own constraint.
            if place > 0 && carried > self.load {
                break;
            }
            if let Some(one) = steps.get_mut(place) {
                *one = chosen;
            }
            self.from(place, budget - chosen.min(budget), carried, steps);
        }
        if let Some(one) = steps.get_mut(place) {
            *one = 0;
        }
    }
}

/// ⌊0.8 · (slope · n + intercept)⌋; 0.8 of the profile's rate where no line is fitted.
fn capacity(variant: &Variant, steps: u32) -> f64 {
    if steps == 0 {
        return 0.0;
    }
    let cores = variant.cores(steps);
    let Some(fit) = variant.profile.fit else {
        return (UTILISATION * variant.profile.sustained(cores).0).floor();
    };
    let intercept = fit.intercept_rps.min(0.99).trunc();
    let rate = UTILISATION * (fit.slope_rps * cores.as_f64() + intercept);
    rate.floor().max(0.0)
}

/// Forecast and time of the decisions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decisions {
    seconds: PerSecond,
    /// λ of the last decision.
    load: Option<f64>,
    passed_over: u32,
}

impl Decisions {
    /// Takes in the requests that have arrived so far.
    pub(super) fn observe(&mut self, arrivals: u64) {
        self.seconds.observe(arrivals);
    }

    /// λ of the decision that is due now. `current` is the load that is planned for before the first.
    pub(super) fn due(&mut self, now: Duration, current: f64) -> Option<f64> {
        if !is_due(now) {
            return None;
        }
        let load = (MARGIN * self.forecast()?).floor();
        if load <= self.load.unwrap_or(current) && self.passed_over < PASSED_OVER_MAX {
            self.passed_over += 1;
            return None;
        }
        self.passed_over = 0;
        self.load = Some(load);
        // A load of 0 has no shares.
        Some(load.max(1.0))
    }

    fn forecast(&self) -> Option<f64> {
        let maxima = self.seconds.maxima(60, MINUTES);
        match maxima.len() {
            MINUTES.. => maxima.last().copied(),
            _ => exponential_mean(&maxima),
        }
    }
}

/// Whether the program decides at that time.
pub(super) fn is_due(now: Duration) -> bool {
    now >= FIRST && (now - FIRST).as_secs().is_multiple_of(INTERVAL.as_secs())
}

/// Mean with weights that fall by 1 − 2/(span + 1) from the last value back, as pandas' `ewm(span)`.
fn exponential_mean(values: &[f64]) -> Option<f64> {
    let fall = 1.0 - 2.0 / (MINUTES as f64 + 1.0);
    let (mut sum, mut weights) = (0.0, 0.0);
    for value in values {
        (sum, weights) = (sum * fall + value, weights * fall + 1.0);
    }
    (weights > 0.0).then_some(sum / weights)
}

#[cfg(test)]
mod tests;
