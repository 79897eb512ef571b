//! Policy sponge (EuroMLSys '24, Eq. 3): the cores and the batch of the one replica of one variant.
//!
//! The time left to requests is a low percentile of the filters' measurements, less the downstream time and their
//! allowance for the answer's network latency. It counts only requests that the most cores could serve at all,
//! because no core helps the others. If too few clients send their start time, it is the SLO less the downstream
//! time.
//!
//! The demand is the highest of some short means. What exceeds the average for `demand.moving` may wait for the time that
//! its batch leaves, so cores carry the part of such a peak that cannot, and all of a rise.
//!
//! The policy decides the cores. The batch follows from the actual cores ([`Policy::batches`]), because a plan must
//! hold for those. Before the window is full, serving cores are not removed.

use std::time::Duration;

use weir_api::{Cores, Rps};

use super::replica::one_at_a_time;
use super::{DEMAND_MIN, Solved, keep, promised, steps};
use crate::capacity::{Actual, Allocation, Target};
use crate::clock::stopwatch;
use crate::forecast::Forecast;
use crate::service::rule::rule;
use crate::service::{
    ConfigError, Decision, Inputs, Needs, Policy, Replicas, Service, SolveStatus, TIME_LEFT_MIN_MS,
    TimeLeft, Variant, VariantShape,
};
use crate::solve::latency_model::{Latency, LatencyModel};
use crate::solve::sponge::input::{Arriving, Steps};
use crate::solve::sponge::{Input, Peak, Problem, solve};
use crate::solve::{InputError, Outcome, TimeLimit};

pub use settings::{RawSponge, Sponge};

/// Ratio of a batch's throughput to the demand: what waits after a peak must be answered beside what arrives.
const DRAINING: f64 = 1.25;
/// Part of the time left for a batch, where none has that throughput: the rest is for the wait. All of it where no batch
/// is that short.
const BATCH_PART: f64 = 0.5;

impl Policy for Sponge {
    fn name(&self) -> &'static str {
        "sponge"
    }

    fn variants_max(&self) -> (usize, &'static str) {
        (1, "of them, with policy sponge")
    }

    /// Checks for one permanent replica that executes one batch at a time on all its cores, as Sponge's
    /// h(b, c) = b / l(b, c) assumes.
    fn check(&self, at: &str, variant: &VariantShape<'_>) -> Result<(), ConfigError> {
        let VariantShape { min, replicas, .. } = *variant;
        one_at_a_time(at, variant.profile, "1, with policy sponge")?;
        let right = "1 or more, with policy sponge";
        rule(min > 0, format!("{at}.cores.min"), min, right)?;
        let right = "left out, with policy sponge: it knows one instance";
        let given = format!("{} to {}", replicas.min, replicas.max);
        let path = format!("{at}.replicas");
        rule(replicas == Replicas::ONE, path, given, right)
    }

    fn needs(&self, service: &Service) -> Needs {
        let left = TimeLeft {
            percentile: self.percentile,
            min_ms: quickest_ms(service),
        };
        Needs {
            left: Some(left),
            ..Needs::default()
        }
    }

    /// Returns the fewest cores that serve the requests, or those that come nearest.
    fn decide(&self, service: &Service, actual: &[Actual], inputs: Inputs) -> Decision {
        let Some(variant) = service.variants.first() else {
            return keep(
                actual,
                SolveStatus::Infeasible,
                "there is no variant".to_owned(),
            );
        };
        let all = (variant.min..=variant.max).collect();
        let elapsed = stopwatch();
        let time_limit = TimeLimit::new(service.solver_limit, &elapsed);
        let problem = match problem(service, *self, variant, all, inputs) {
            Ok(problem) => problem,
            Err(why) => return keep(actual, SolveStatus::Infeasible, why),
        };
        let solved = match Solved::read(solve(&problem, &time_limit)) {
            Ok(solved) => solved,
            Err((SolveStatus::OutOfTime, why)) => {
                return keep(actual, SolveStatus::OutOfTime, format!("cores stay: {why}"));
            }
            Err((status, why)) => return keep(actual, status, why),
        };
        let step = variant.step.as_f64();
        let note = solved.note(|gap| format!("{:.4} too many", gap * step));
        let Solved {
            plan: best, status, ..
        } = solved;
        let current = steps(actual, service.step).and_then(|cores| cores.first().copied());
        let kept = current.filter(|current| !inputs.forecast.window_full && *current > best.cores);
        let left = inputs.left_ms.map_or_else(
            || "the way from clients unknown".to_owned(),
            |ms| format!("{ms:.0} ms left"),
        );
        let is_short = best.throughput_rps < inputs.forecast.demand.0;
        let reason = match (kept, status) {
            (Some(_), _) => ", kept: the demand's window has not filled yet",
            (None, SolveStatus::Optimal) if is_short => ", more than that waits for a moment",
            _ => "",
        };
        let why = format!(
            "{:.1} requests/s, {left}: {} cores, a batch of {} takes {:.0} ms and {:.1} requests/s{note}{reason}",
            inputs.forecast.demand.0,
            variant.cores(best.cores),
            best.batch,
            best.latency_ms,
            best.throughput_rps,
        );
        let more = f64::from(kept.map_or(0, |kept| kept - best.cores));
        Decision {
            targets: vec![Target::one(variant.cores(kept.unwrap_or(best.cores)))],
            status,
            kept: kept.is_some(),
            why,
            objective: Some(-(best.objective + more) * step),
            optimum: Some(-best.objective * step),
        }
    }

    /// Rate of the best cores and batch, if the rest of the demand is a peak that waits.
    fn to_carry(&self, service: &Service, inputs: Inputs) -> Rps {
        let best = service.variants.first().and_then(|variant| {
            let all = (variant.min..=variant.max).collect();
            let problem = problem(service, *self, variant, all, inputs).ok()?;
            let still = || Duration::ZERO;
            match solve(&problem, &TimeLimit::new(service.solver_limit, &still)) {
                Outcome::Optimal(plan) => Some(Rps(plan.throughput_rps)),
                _ => None,
            }
        });
        let demand = inputs.forecast.demand;
        best.filter(|best| best.0 < demand.0).unwrap_or(demand)
    }

    fn chooses_batches(&self) -> bool {
        true
    }

    /// Best batch that serves the requests on the actual cores, or the nearest one; 1 if demand is unknown.
    fn batches(
        &self,
        service: &Service,
        allocations: &[Allocation],
        inputs: Option<Inputs>,
    ) -> Vec<u32> {
        let each = service.variants.iter().zip(allocations);
        each.map(|(variant, one)| batch(service, *self, variant, one.each(), inputs))
            .collect()
    }
}

fn batch(
    service: &Service,
    rule: Sponge,
    variant: &Variant,
    cores: Cores,
    inputs: Option<Inputs>,
) -> u32 {
    let whole = cores.count(variant.step).max(1);
    let still = || Duration::ZERO;
    let time_limit = TimeLimit::new(service.solver_limit, &still);
    let best = |mut inputs: Inputs| {
        let forecast = &mut inputs.forecast;
        forecast.demand.0 *= DRAINING;
        forecast.average = forecast.demand;
        let problem = problem(service, rule, variant, vec![whole], inputs).ok()?;
        match solve(&problem, &time_limit) {
            Outcome::Infeasible { best_effort, .. } => {
                let mut parts = [BATCH_PART, 1.0].into_iter();
                let in_time =
                    parts.find_map(|part| most_in_time(service, variant, cores, inputs, part));
                in_time.or(best_effort.map(|plan| plan.batch))
            }
            outcome => outcome.plan().map(|plan| plan.batch),
        }
    };
    inputs.and_then(best).unwrap_or(1)
}

/// Batch with the highest rate of those that fill and execute within that part of the time left, and the latency
/// budget.
fn most_in_time(
    service: &Service,
    variant: &Variant,
    cores: Cores,
    inputs: Inputs,
    part: f64,
) -> Option<u32> {
    let model = promised(variant);
    let takes_ms = |batch: u32| model.service_ms(batch, cores.as_f64());
    let left_ms = inputs.left_ms.unwrap_or(service.own_slo_ms());
    let rate_rps = inputs.forecast.demand.0.max(DEMAND_MIN.0);
    let in_time = |batch: &u32| {
        let ms = takes_ms(*batch);
        let all_ms = f64::from(*batch - 1) * 1e3 / rate_rps + ms;
        ms <= service.latency_max_ms && all_ms <= left_ms * part
    };
    let rate = |batch: u32| f64::from(batch) / takes_ms(batch);
    let all = (1..=variant.profile.batch).filter(in_time);
    all.max_by(|a, b| rate(*a).total_cmp(&rate(*b)))
}

/// Shortest time of a request: alone, on the most cores.
fn quickest_ms(service: &Service) -> f64 {
    let quickest =
        |variant: &Variant| promised(variant).service_ms(1, variant.cores(variant.max).as_f64());
    service.variants.first().map_or(0.0, quickest)
}

fn problem(
    service: &Service,
    rule: Sponge,
    variant: &Variant,
    cores: Vec<u32>,
    inputs: Inputs,
) -> Result<Problem, String> {
    let slo_ms = service.own_slo_ms();
    let left_ms = inputs
        .left_ms
        .unwrap_or(slo_ms)
        .clamp(TIME_LEFT_MIN_MS, slo_ms);
    // The problem counts cores in steps: a step does the part of a core's work that it is of a core.
    let step = variant.step.as_f64();
    let latency = promised(variant);
    let latency = LatencyModel {
        gamma_ms: latency.gamma_ms / step,
        epsilon_ms: latency.epsilon_ms / step,
        ..latency
    };
    // What is highest by chance for a moment waits. A rise stays.
    let Forecast {
        demand,
        average,
        rises,
        ..
    } = inputs.forecast;
    let lasting_rps = if rises {
        demand.0
    } else {
        average.0.min(demand.0)
    };
    let input = Input {
        latency: Latency::Sponge(latency),
        cores: Steps::Among(cores),
        batches: Steps::UpTo(variant.profile.batch),
        delta: rule.delta / step,
        rate_rps: lasting_rps.max(DEMAND_MIN.0),
        peak: Some(Peak {
            rate_rps: demand.0,
            seconds: service.demand.moving.as_secs_f64(),
        }),
        waiting: Vec::new(),
        arriving: Some(Arriving {
            slo_ms,
            network_ms: vec![slo_ms - left_ms],
            percentile: 100.0,
        }),
    };
    let problem: Result<Problem, InputError> = input.try_into();
    let problem = problem.map_err(|refused| refused.to_string())?;
    Ok(problem.in_steps(step))
}

mod settings;
#[cfg(test)]
pub(crate) mod tests;
