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

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_api::Cores;

use super::replica::one_at_a_time;
use super::{DEMAND_MIN, Solved, WEIGHT_MAX, keep, promised, steps};
use crate::capacity::{Actual, Allocation, Target};
use crate::clock::stopwatch;
use crate::service::rule::{rule, within};
use crate::service::{
    ConfigError, Decision, Inputs, Needs, Policy, Replicas, Service, SolveStatus, TIME_LEFT_MIN_MS,
    TimeLeft, Variant, VariantShape,
};
use crate::solve::latency_model::{Latency, LatencyModel};
use crate::solve::sponge::input::{Arriving, Steps};
use crate::solve::sponge::{Input, Plan, Problem, solve};
use crate::solve::{InputError, TimeLimit};

/// Parameters of policy sponge.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RawSponge {
    /// Cost of one more request in a batch, in cores.
    pub delta: f64,
    /// Percentile of the latest requests' network latencies that is planned for.
    pub percentile: f64,
}

/// Settings of policy sponge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sponge {
    /// δ of its Eq. 3: cost of one more request in a batch, in cores.
    pub delta: f64,
    /// Percentage of requests that arrive with at least the time left that is planned for.
    pub percentile: f64,
}

impl Default for RawSponge {
    fn default() -> Self {
        // A batch never costs a core. One request in a hundred may have more network latency than planned
        // for.
        RawSponge {
            delta: 0.001,
            percentile: 99.0,
        }
    }
}

impl RawSponge {
    /// Checks the settings.
    pub(super) fn checked(self) -> Result<Sponge, ConfigError> {
        let RawSponge { delta, percentile } = self;
        Ok(Sponge {
            delta: within("sponge.delta", delta, 0.0..=WEIGHT_MAX, "cores")?,
            percentile: within("sponge.percentile", percentile, 1.0..=100.0, "percent")?,
        })
    }
}

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
        let all: Vec<u32> = (variant.min..=variant.max).collect();
        let elapsed = stopwatch();
        let time_limit = TimeLimit::new(service.solver_limit, &elapsed);
        let outcome = match problem(service, *self, variant, all, inputs) {
            Ok(problem) => solve(&problem, &time_limit),
            Err(why) => return keep(actual, SolveStatus::Infeasible, why),
        };
        let solved = match Solved::read(outcome) {
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
    let solved = |inputs| {
        let problem = problem(service, rule, variant, vec![whole], inputs).ok()?;
        let outcome = solve(&problem, &TimeLimit::new(service.solver_limit, &still));
        outcome.plan().map(|plan: &Plan| plan.batch)
    };
    inputs.and_then(solved).unwrap_or(1)
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

#[cfg(test)]
pub(crate) mod tests {
    use weir_api::Rps;

    use super::super::decide;
    use super::*;
    use crate::capacity::Allocation;
    use crate::service::SharedPolicy;
    use crate::solve::latency_model::LatencyModel;
    use crate::spec::tests::service;

    const RULE: Sponge = Sponge {
        delta: 0.001,
        percentile: 99.0,
    };

    /// 40·b/c + 10 ms, one batch at a time on 1 to 8 cores, batches to 8, 1000 ms promised.
    pub(crate) fn sponge() -> Service {
        let mut service = service(8);
        service.policy = SharedPolicy::new(RULE);
        service.variants.truncate(1);
        service.stages[0].variants = 0..1;
        let variant = &mut service.variants[0];
        (variant.min, variant.max) = (1, 8);
        variant.profile.parallelism =
            crate::solve::latency_model::Parallelism::Fixed(std::num::NonZeroU32::MIN);
        variant.profile.batch = 8;
        variant.profile.fit = None;
        variant.profile.latency.tail = 1.0;
        variant.profile.latency.model = LatencyModel {
            gamma_ms: 40.0,
            epsilon_ms: 0.0,
            delta_ms: 0.0,
            eta_ms: 10.0,
        };
        service
    }

    fn three() -> [Actual; 1] {
        [Actual::certain(Allocation::one(Cores::whole(3)))]
    }

    fn forecast(rps: f64, left_ms: Option<f64>) -> Inputs {
        {
            let mut inputs = Inputs::steady(Rps(rps));
            inputs.left_ms = left_ms;
            inputs
        }
    }

    #[test]
    fn slow_network_gets_cores_and_fast_one_gets_batches() {
        let service = sponge();
        // demand, time left → cores, batch. One core carries 1000·b/(40·b + 10): 20 at b = 1, 24 at b = 6.
        for (rps, left_ms, cores, batch) in [
            (10.0, None, 1, 1),
            (20.0, None, 1, 1),
            (23.0, None, 1, 3),
            (60.0, None, 3, 3),
            // A batch must fill and execute within the time left.
            (60.0, Some(100.0), 3, 3),
            (60.0, Some(60.0), 4, 2),
            (60.0, Some(39.0), 6, 1),
            (60.0, Some(15.0), 8, 1),
        ] {
            let forecast = forecast(rps, left_ms);
            let decision = decide(&service, &three(), Some(forecast));
            assert_eq!(
                decision.targets,
                [Target::one(Cores::whole(cores))],
                "{rps} {left_ms:?}: {}",
                decision.why
            );
            assert_eq!(decision.status, SolveStatus::Optimal, "{}", decision.why);
            let got = super::batch(
                &service,
                RULE,
                &service.variants[0],
                Cores::whole(cores),
                Some(forecast),
            );
            assert_eq!(got, batch, "{rps} {left_ms:?}: {}", decision.why);
        }
    }

    #[test]
    fn single_lane_idles_while_its_server_waits_for_a_batch_to_fill() {
        let (mut waits, mut takes) = (sponge(), sponge());
        waits.variants[0].batch_delay = Duration::from_millis(5);
        takes.variants[0].profile.latency.model.eta_ms += 5.0;
        for (rps, left_ms) in [(60.0, Some(60.0)), (23.0, None), (60.0, Some(39.0))] {
            let decided = |service| decide(service, &three(), Some(forecast(rps, left_ms))).why;
            assert_eq!(decided(&waits), decided(&takes));
            assert_ne!(decided(&waits), decided(&sponge()));
        }
    }

    #[test]
    fn infeasible_demand_gets_nearest_cores() {
        let service = sponge();
        for (rps, left_ms, cores, expected) in [
            (500.0, None, 8, "a rate of 500.0 requests/s exceeds"),
            (10.0, Some(0.0), 1, "no batch that carries the rate"),
        ] {
            let decision = decide(&service, &three(), Some(forecast(rps, left_ms)));
            assert_eq!(
                (decision.status, &decision.targets),
                (
                    SolveStatus::Infeasible,
                    &vec![Target::one(Cores::whole(cores))]
                ),
                "{}",
                decision.why
            );
            assert!(decision.why.contains(expected), "{}", decision.why);
        }
    }

    #[test]
    fn cores_are_not_removed_before_window_is_full() {
        let service = sponge();
        let mut early = forecast(10.0, None);
        early.forecast.window_full = false;
        let decision = decide(&service, &three(), Some(early));
        assert_eq!(
            (decision.kept, decision.targets),
            (true, vec![Target::one(Cores::whole(3))])
        );
        assert!(
            decision
                .why
                .ends_with("kept: the demand's window has not filled yet"),
            "{}",
            decision.why
        );
        let mut more = forecast(100.0, None);
        more.forecast.window_full = false;
        assert!(!decide(&service, &three(), Some(more)).kept);
    }

    #[test]
    fn unknown_demand_gives_batch_of_one() {
        let service = sponge();
        assert_eq!(
            batch(&service, RULE, &service.variants[0], Cores::whole(2), None),
            1
        );
    }
}
