//! By Sponge (EuroMLSys '24, Eq. 3): the cores and the batch of one variant's one instance.
//!
//! The time left to those who come is a low percentile of what the filters found, less the rest of the pipeline and
//! what they hold back for the answer's way; of those requests that the most cores could serve at all
//! ([`quickest_ms`]: no core helps the others). Where too few clients said when they sent, it is the SLO less the
//! rest of the pipeline.
//!
//! The cores are decided, the batch follows from those that are actuated ([`batch`]): a plan must hold for
//! what is there. Before the forecast settles, cores that serve are not taken away.

use std::time::Duration;

use weir_api::Cores;

use super::{DEMAND_MIN, Decision, Kind, keep, promised, whole};
use crate::capacity::{Goal, InForce};
use crate::clock::stopwatch;
use crate::forecast::Forecast;
use crate::service::{Service, SpongeRule, Variant};
use crate::solve::law::Latency;
use crate::solve::sponge::input::{Arriving, Steps};
use crate::solve::sponge::{Input, Plan, Problem, solve};
use crate::solve::{Outcome, Patience};

/// The least that is left for a batch to fill and execute, in ms: a network that takes all of the SLO
/// leaves nothing to solve for.
const LEFT_LEAST_MS: f64 = 1.0;

/// The cheapest cores that serve who comes, or what comes nearest.
pub(super) fn decide(
    service: &Service,
    rule: SpongeRule,
    in_force: &[InForce],
    forecast: Forecast,
) -> Decision {
    let Some(variant) = service.variants.first() else {
        return keep(in_force, Kind::Infeasible, "there is no variant".to_owned());
    };
    let all: Vec<u32> = (variant.least..=variant.greatest).collect();
    let elapsed = stopwatch();
    let patience = Patience::new(service.solver_limit, &elapsed);
    let outcome = match problem(service, rule, variant, all, forecast) {
        Ok(problem) => solve(&problem, &patience),
        Err(why) => return keep(in_force, Kind::Infeasible, why),
    };
    let (kind, best, note) = match outcome {
        Outcome::Optimal(best) => (Kind::Optimal, best, String::new()),
        Outcome::Good { best, gap } => (Kind::Good, best, format!(", at most {gap:.4} too many")),
        Outcome::Infeasible {
            why,
            best_effort: Some(best),
        } => (Kind::Infeasible, best, format!(": {why}")),
        Outcome::Infeasible {
            why,
            best_effort: None,
        } => return keep(in_force, Kind::Infeasible, why),
        Outcome::OutOfTime {
            why,
            best: Some(best),
        } => (Kind::OutOfTime, best, format!(" ({why})")),
        Outcome::OutOfTime { why, best: None } => {
            return keep(in_force, Kind::OutOfTime, format!("cores stay: {why}"));
        }
    };
    let current = whole(in_force).and_then(|cores| cores.first().copied());
    let kept = current.filter(|current| !forecast.settled && *current > best.cores);
    let left = forecast.left_ms.map_or_else(
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
        forecast.demand.0, best.cores, best.batch, best.latency_ms, best.throughput_rps,
    );
    Decision {
        goals: vec![Goal::one(Cores::whole(kept.unwrap_or(best.cores)))],
        kind,
        kept: kept.is_some(),
        why,
        objective: Some(-(best.objective + f64::from(kept.map_or(0, |kept| kept - best.cores)))),
        optimum: Some(-best.objective),
    }
}

/// The batch for the cores that are there: the best that serves who comes, or what comes nearest; 1
/// where nothing is known of the demand.
pub fn batch(
    service: &Service,
    rule: SpongeRule,
    variant: &Variant,
    cores: Cores,
    forecast: Option<Forecast>,
) -> u32 {
    let whole = (cores.millis() / 1000).max(1);
    let still = || Duration::ZERO;
    let solved = |forecast| {
        let problem = problem(service, rule, variant, vec![whole], forecast).ok()?;
        let outcome = solve(&problem, &Patience::new(service.solver_limit, &still));
        outcome.plan().map(|plan: &Plan| plan.batch)
    };
    forecast.and_then(solved).unwrap_or(1)
}

/// The least time in which a request is served: alone, on the most cores.
pub fn quickest_ms(service: &Service) -> f64 {
    let quickest = |variant: &Variant| promised(variant).service_ms(1, f64::from(variant.greatest));
    service.variants.first().map_or(0.0, quickest)
}

/// The objective less the rest of the pipeline, in ms.
pub fn slo_ms(service: &Service) -> f64 {
    (service.slo.as_secs_f64() * 1e3 - service.rest_ms).max(LEFT_LEAST_MS)
}

fn problem(
    service: &Service,
    rule: SpongeRule,
    variant: &Variant,
    cores: Vec<u32>,
    forecast: Forecast,
) -> Result<Problem, String> {
    let slo_ms = slo_ms(service);
    let left_ms = forecast
        .left_ms
        .unwrap_or(slo_ms)
        .clamp(LEFT_LEAST_MS, slo_ms);
    let input = Input {
        latency: Latency::Sponge(promised(variant)),
        cores: Steps::Among(cores),
        batches: Steps::UpTo(variant.profile.batch),
        delta: rule.delta,
        rate_rps: forecast.demand.0.max(DEMAND_MIN.0),
        waiting: Vec::new(),
        arriving: Some(Arriving {
            slo_ms,
            communication_ms: vec![slo_ms - left_ms],
            percentile: 100.0,
        }),
    };
    input
        .try_into()
        .map_err(|refused: crate::solve::Refused| refused.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use weir_api::Rps;

    use super::super::decide;
    use super::*;
    use crate::capacity::Allocation;
    use crate::service::Policy;
    use crate::service::tests::service;
    use crate::solve::law::Law;

    const RULE: SpongeRule = SpongeRule {
        delta: 0.001,
        percentile: 99.0,
    };

    /// 40·b/c + 10 ms, one batch at a time on 1 to 8 cores, batches to 8, 1000 ms promised.
    pub(crate) fn sponge() -> Service {
        let mut service = service(8);
        service.policy = Policy::Sponge(RULE);
        service.variants.truncate(1);
        service.stages[0].variants = 0..1;
        let variant = &mut service.variants[0];
        (variant.least, variant.greatest) = (1, 8);
        variant.profile.parallelism =
            crate::solve::law::Parallelism::Fixed(std::num::NonZeroU32::MIN);
        variant.profile.batch = 8;
        variant.profile.fit = None;
        variant.profile.latency.tail = 1.0;
        variant.profile.latency.law = Law {
            gamma_ms: 40.0,
            epsilon_ms: 0.0,
            delta_ms: 0.0,
            eta_ms: 10.0,
        };
        service
    }

    fn three() -> [InForce; 1] {
        [InForce::certain(Allocation::one(Cores::whole(3)))]
    }

    fn forecast(rps: f64, left_ms: Option<f64>) -> Forecast {
        Forecast {
            demand: Rps(rps),
            present: Rps(rps),
            arriving: Rps(rps),
            rises: false,
            settled: true,
            lasted: None,
            left_ms,
        }
    }

    #[test]
    fn a_slow_network_takes_cores_and_a_quick_one_takes_batches() {
        let service = sponge();
        // demand, time left → cores, batch. One core carries 1000·b/(40·b + 10): 20 at b = 1, 24 at b = 6.
        for (rps, left_ms, cores, batch) in [
            (10.0, None, 1, 1),
            (20.0, None, 1, 1),
            (23.0, None, 1, 3),
            (60.0, None, 3, 3),
            // Within what is left a batch must fill and execute.
            (60.0, Some(100.0), 3, 3),
            (60.0, Some(60.0), 4, 2),
            (60.0, Some(39.0), 6, 1),
            (60.0, Some(15.0), 8, 1),
        ] {
            let forecast = forecast(rps, left_ms);
            let decision = decide(&service, &three(), Some(forecast));
            assert_eq!(
                decision.goals,
                [Goal::one(Cores::whole(cores))],
                "{rps} {left_ms:?}: {}",
                decision.why
            );
            assert_eq!(decision.kind, Kind::Optimal, "{}", decision.why);
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
        takes.variants[0].profile.latency.law.eta_ms += 5.0;
        for (rps, left_ms) in [(60.0, Some(60.0)), (23.0, None), (60.0, Some(39.0))] {
            let decided = |service| decide(service, &three(), Some(forecast(rps, left_ms))).why;
            assert_eq!(decided(&waits), decided(&takes));
            assert_ne!(decided(&waits), decided(&sponge()));
        }
    }

    #[test]
    fn what_cannot_be_served_gets_what_comes_nearest() {
        let service = sponge();
        for (rps, left_ms, cores, said) in [
            (500.0, None, 8, "a rate of 500.0 requests/s exceeds"),
            (10.0, Some(0.0), 1, "no batch that carries the rate"),
        ] {
            let decision = decide(&service, &three(), Some(forecast(rps, left_ms)));
            assert_eq!(
                (decision.kind, &decision.goals),
                (Kind::Infeasible, &vec![Goal::one(Cores::whole(cores))]),
                "{}",
                decision.why
            );
            assert!(decision.why.contains(said), "{}", decision.why);
        }
    }

    #[test]
    fn before_the_forecast_settles_no_core_is_taken_away() {
        let service = sponge();
        let early = Forecast {
            settled: false,
            ..forecast(10.0, None)
        };
        let decision = decide(&service, &three(), Some(early));
        assert_eq!(
            (decision.kept, decision.goals),
            (true, vec![Goal::one(Cores::whole(3))])
        );
        assert!(
            decision
                .why
                .ends_with("kept: the demand's window has not filled yet"),
            "{}",
            decision.why
        );
        let more = Forecast {
            settled: false,
            ..forecast(100.0, None)
        };
        assert!(!decide(&service, &three(), Some(more)).kept);
    }

    #[test]
    fn without_a_demand_a_batch_is_one_request() {
        let service = sponge();
        assert_eq!(
            batch(&service, RULE, &service.variants[0], Cores::whole(2), None),
            1
        );
    }
}
