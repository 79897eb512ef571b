//! Policy sponge (EuroMLSys '24, Eq. 3): the cores and the batch of the one replica of one variant.
//!
//! The time left to requests is a low percentile of the filters' measurements, less the downstream time and their
//! allowance for the answer's network latency. It counts only requests that the most cores could serve at all,
//! because no core helps the others. If too few clients send their start time, it is the SLO less the downstream
//! time.
//!
//! The policy decides the cores. The batch follows from the actual cores ([`Policy::batches`]), because a plan must
//! hold for those. Before the window is full, serving cores are not removed.

use std::time::Duration;

use weir_api::Cores;

use super::replica::one_at_a_time;
use super::{DEMAND_MIN, Solved, keep, promised, steps};
use crate::capacity::{Actual, Allocation, Target};
use crate::clock::stopwatch;
use crate::service::rule::rule;
use crate::service::{
    ConfigError, Decision, Inputs, Needs, Policy, Replicas, Service, SolveStatus, TIME_LEFT_MIN_MS,
    TimeLeft, Variant, VariantShape,
};
use crate::solve::latency_model::{Latency, LatencyModel};
use crate::solve::sponge::input::{Arriving, Steps};
use crate::solve::sponge::{Input, Problem, solve};
use crate::solve::{InputError, TimeLimit};

pub use settings::{RawSponge, Sponge};

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
        let reason = if kept.is_some() {
            ", kept: the demand's window has not filled yet"
        } else {
            ""
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
    let best = |inputs| {
        let problem = problem(service, rule, variant, vec![whole], inputs).ok()?;
        solve(&problem, &time_limit).plan().map(|plan| plan.batch)
    };
    inputs.and_then(best).unwrap_or(1)
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
    let input = Input {
        latency: Latency::Sponge(latency),
        cores: Steps::Among(cores),
        batches: Steps::UpTo(variant.profile.batch),
        delta: rule.delta / step,
        rate_rps: inputs.forecast.demand.0.max(DEMAND_MIN.0),
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
