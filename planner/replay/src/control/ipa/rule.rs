//! IPA's decision (JSys '24, Eq. 10), by trial of all variants, batches and numbers of replicas of all stages: the
//! greatest α·PAS − β·Σ n·R − δ·Σ b, of equal ones the fewest cores, then the smallest batches, then the first.
//!
//! - *paper*: Σ (l + (b − 1)/λ) ≤ SLO with the batches 1 to the profile's, l the profile's high percentile, and
//!   n·b/l ≥ λ.
//! - *code*: as `optimizer.py` has it. Batches are powers of two. The capacity is that of the mean latency (the
//!   profile's maximum throughput), l is the high percentile. The wait for a batch is counted for every variant and
//!   batch by whether it is chosen, so it is −1/λ for each that is not: the SLO is longer by Σ |V|·(|B| − 1)/λ over
//!   the stages. λ is a whole number. (The solver of the program ends within 10⁻⁴ of the optimum, where δ has no
//!   effect; here it does not.)
//! - *rim*: as *code*, with the replicas that each stage starts with.
//!
//! PAS is the product of the accuracies, in percent. With ranks of the accuracies of each stage (0 to 1), their sum
//! (PAS′, appendix C) or product is spread over the range that the product of the accuracies has, so that α stays the
//! weight of a percent: α of the paper is α times that range.

use std::collections::BTreeSet;

use weir_planner::policy::Ipa;
use weir_planner::profile::Profile;
use weir_planner::service::{Service, Variant};
use weir_solve::ipa::Weights;

use super::each;
use crate::scenario::{IpaAccuracy, IpaRule};

/// `scaling_cap`.
const REPLICAS_MAX: u32 = 100;
/// Difference of objectives that is rounding.
const ROUNDING: f64 = 1e-9;

/// Variant of a stage, with its replicas and batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Index of the variant.
    pub(crate) variant: usize,
    pub(crate) replicas: u32,
    pub(crate) batch: u32,
}

/// Number of replicas of a choice.
#[derive(Debug, Clone, Copy)]
pub(super) enum Replicas<'a> {
    /// The fewest that carry the load.
    Fewest,
    /// Those of each stage, whether or not fewer carry it.
    Fixed(&'a [u32]),
}

/// Choice with its terms.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    choice: Choice,
    /// Accuracy as a fraction, or its rank.
    accuracy: f64,
    cores: f64,
    /// Latency, with the wait for the batch.
    ms: f64,
}

/// Problem of one decision.
#[derive(Debug)]
pub(super) struct Problem {
    weights: Weights,
    accuracy: IpaAccuracy,
    /// Least and greatest product of accuracies, percent.
    range: (f64, f64),
    limit_ms: f64,
    stages: Vec<Vec<Candidate>>,
}

impl Problem {
    pub(super) fn new(
        (rule, accuracy): (IpaRule, IpaAccuracy),
        service: &Service,
        load_rps: f64,
        replicas: Replicas<'_>,
    ) -> Problem {
        let as_programmed = matches!(rule, IpaRule::Code | IpaRule::Rim);
        let load_rps = match as_programmed {
            true => load_rps.round_ties_even(),
            false => load_rps,
        };
        let all: BTreeSet<u32> = service
            .variants
            .iter()
            .flat_map(|variant| batches(rule, variant))
            .collect();
        let per_load_ms = if load_rps > 0.0 { 1e3 / load_rps } else { 0.0 };
        // Batches of all variants that are not chosen.
        let others = all.len().saturating_sub(1) * service.variants.len();
        let longer_ms = match as_programmed {
            true => others as f64 * per_load_ms,
            false => 0.0,
        };
        let mut stages = Vec::with_capacity(service.stages.len());
        for (index, stage) in service.stages.iter().enumerate() {
            let variants = service.variants.get(stage.variants.clone());
            let variants = variants.unwrap_or_default();
            let mut candidates = Vec::new();
            for (place, variant) in stage.variants.clone().zip(variants) {
                let factor = match accuracy {
                    IpaAccuracy::Product => variant.accuracy / 100.0,
                    IpaAccuracy::RankSum | IpaAccuracy::RankProduct => rank(variant, variants),
                };
                for batch in batches(rule, variant) {
                    let one = Run::new(variant, batch);
                    let rps = if as_programmed {
                        one.mean_rps
                    } else {
                        one.p99_rps
                    };
                    let fewest = (load_rps / rps - ROUNDING).ceil().max(1.0);
                    let count = match replicas {
                        Replicas::Fewest => fewest,
                        Replicas::Fixed(each) => f64::from(each.get(index).copied().unwrap_or(1)),
                    };
                    let most = f64::from(variant.replicas.max.min(REPLICAS_MAX));
                    if count < fewest || count > most {
                        continue;
                    }
                    let waits_ms = match as_programmed {
                        true => 0.0,
                        false => f64::from(batch - 1) * per_load_ms,
                    };
                    candidates.push(Candidate {
                        choice: Choice {
                            variant: place,
                            replicas: count as u32,
                            batch,
                        },
                        accuracy: factor,
                        cores: count * each(variant).as_f64(),
                        ms: one.p99_ms + waits_ms,
                    });
                }
            }
            stages.push(candidates);
        }
        Problem {
            weights: weights(service),
            accuracy,
            range: range(service),
            limit_ms: service.slo.as_secs_f64() * 1e3 + longer_ms,
            stages,
        }
    }

    /// Returns the best choice of each stage; `None` if nothing meets the constraints.
    pub(super) fn best(&self) -> Option<Vec<Choice>> {
        let mut search = Search {
            problem: self,
            chosen: Vec::with_capacity(self.stages.len()),
            best: None,
        };
        search.from(0, 0.0);
        let best = search.best?.1;
        Some(best.iter().map(|candidate| candidate.choice).collect())
    }

    /// α·PAS − β·Σ n·R − δ·Σ b.
    fn worth(&self, chosen: &[Candidate]) -> Worth {
        let Weights { alpha, beta, delta } = self.weights;
        let accuracies = chosen.iter().map(|one| one.accuracy);
        let (lowest, highest) = self.range;
        let spread = |rank: f64| lowest + (highest - lowest) * rank;
        let accuracy = match self.accuracy {
            IpaAccuracy::Product => 100.0 * accuracies.product::<f64>(),
            IpaAccuracy::RankProduct => spread(accuracies.product()),
            IpaAccuracy::RankSum => spread(accuracies.sum::<f64>() / chosen.len().max(1) as f64),
        };
        let cores = chosen.iter().map(|one| one.cores).sum();
        let batches: u32 = chosen.iter().map(|one| one.choice.batch).sum();
        Worth {
            objective: alpha * accuracy - beta * cores - delta * f64::from(batches),
            cores,
            batches,
        }
    }
}

/// Objective of a plan, and what decides among equal ones.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Worth {
    objective: f64,
    cores: f64,
    batches: u32,
}

impl Worth {
    fn is_above(&self, other: &Worth) -> bool {
        let differs = (self.objective - other.objective).abs() > ROUNDING;
        let fewer = (self.cores - other.cores).abs() > ROUNDING;
        match (differs, fewer) {
            (true, _) => self.objective > other.objective,
            (false, true) => self.cores < other.cores,
            (false, false) => self.batches < other.batches,
        }
    }
}

/// Trial of all combinations of the stages' candidates; a scenario bounds their number.
struct Search<'a> {
    problem: &'a Problem,
    chosen: Vec<Candidate>,
    best: Option<(Worth, Vec<Candidate>)>,
}

impl Search<'_> {
    fn from(&mut self, stage: usize, ms: f64) {
        let problem = self.problem;
        let Some(candidates) = problem.stages.get(stage) else {
            let worth = problem.worth(&self.chosen);
            let known = self.best.as_ref();
            if known.is_none_or(|(best, _)| worth.is_above(best)) {
                self.best = Some((worth, self.chosen.clone()));
            }
            return;
        };
        for candidate in candidates {
            let ms = ms + candidate.ms;
            if ms > problem.limit_ms + ROUNDING {
                continue;
            }
            self.chosen.push(*candidate);
            self.from(stage + 1, ms);
            self.chosen.pop();
        }
    }
}

/// A replica that executes batches of a size.
struct Run {
    p99_ms: f64,
    p99_rps: f64,
    mean_rps: f64,
}

impl Run {
    fn new(variant: &Variant, batch: u32) -> Run {
        let profile = Profile {
            batch,
            ..variant.profile
        };
        let (p99_ms, mean_ms) = (
            profile.service_ms(each(variant)),
            profile.mean_ms(each(variant)),
        );
        let rps = |ms: f64| f64::from(batch) * 1e3 / ms;
        Run {
            p99_ms,
            p99_rps: rps(p99_ms),
            mean_rps: rps(mean_ms),
        }
    }
}

/// Batches that a variant may run.
fn batches(rule: IpaRule, variant: &Variant) -> impl Iterator<Item = u32> {
    let powers = matches!(rule, IpaRule::Code | IpaRule::Rim);
    let all = 1..=variant.profile.batch;
    all.filter(move |batch| !powers || batch.is_power_of_two())
}

/// Rank of a variant's accuracy among the distinct ones of its stage, from 0 to 1; 1 if there is one.
fn rank(variant: &Variant, all: &[Variant]) -> f64 {
    let mut distinct: Vec<f64> = all.iter().map(|one| one.accuracy).collect();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    let place = distinct.partition_point(|accuracy| *accuracy < variant.accuracy);
    match distinct.len() {
        0 | 1 => 1.0,
        count => place as f64 / (count - 1) as f64,
    }
}

/// Least and greatest product of the stages' accuracies, percent.
fn range(service: &Service) -> (f64, f64) {
    let stages = service.stages.iter().map(|stage| stage.variants.clone());
    let (mut lowest, mut highest) = (100.0, 100.0);
    for variants in stages {
        let variants = service.variants.get(variants).unwrap_or_default();
        let each = || variants.iter().map(|variant| variant.accuracy / 100.0);
        lowest *= each().fold(1.0, f64::min);
        highest *= each().fold(0.0, f64::max);
    }
    (lowest, highest)
}

/// Weights of the service's policy ipa, else IPA's own.
fn weights(service: &Service) -> Weights {
    let policy = service.policy.downcast::<Ipa>();
    policy.map_or_else(Weights::default, |ipa| Weights {
        alpha: ipa.alpha,
        beta: ipa.beta,
        delta: ipa.delta,
    })
}

#[cfg(test)]
mod tests;
