//! Demand and the cores in force → the cores to have, with the reason. Values in, values out; it
//! changes nothing, and the time serves only the solver's limit.
//!
//! - no demand known, or nothing ever seen → the cores stay (a scrape that failed is no reason to act)
//! - optimal → the optimum, unless the cores in force carry the demand and are within the tolerance of
//!   it, or the forecast has not settled
//! - more demand than capacity → the greatest capacity there is
//! - what replicas hold exceeds a bound → decided again with fewer of them ([`bounded`])
//! - the solver found nothing in time → what carries the demand without it, or else the cores stay

mod bounded;
mod infaas;
mod infadapter;
mod ipa;
mod replica;
pub(crate) mod scale_down;
pub mod sponge;
mod themis;

use weir_api::Rps;

use crate::capacity::{Allocation, Goal, InForce};
use crate::forecast::Forecast;
use crate::service::{Policy, Service, Variant};
use crate::solve::law::Law;
pub use bounded::BRANCHES_MAX;
pub use infadapter::problem;

/// The least demand solved for once a request was seen: a service that idles is still one.
pub const DEMAND_MIN: Rps = Rps(0.01);

/// What to have.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// In the variants' order.
    pub goals: Vec<Goal>,
    /// How the solve went.
    pub kind: Kind,
    /// Whether the cores in force were preferred to an optimum within the tolerance.
    pub kept: bool,
    /// Why, in a sentence.
    pub why: String,
    /// What the cores to have are worth: by InfAdapter α·AA − (β·RC + γ·LC), by Sponge −(c + δ·b), by IPA
    /// α·PAS − β·Σ n·R − δ·Σ b, by INFaaS −Σ C·(δ + λ·T_load·max(δ, 0)), by Themis −Σ n·c.
    pub objective: Option<f64>,
    /// What the optimum is worth, or the best found.
    pub optimum: Option<f64>,
}

/// How a solve went; a closed list, for labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// There was nothing to solve for.
    NoDemand,
    /// Proven.
    Optimal,
    /// Time ran out; the gap is in the why.
    Good,
    /// Demand above all capacity.
    Infeasible,
    /// Time ran out with nothing in hand.
    OutOfTime,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [
        Kind::NoDemand,
        Kind::Optimal,
        Kind::Good,
        Kind::Infeasible,
        Kind::OutOfTime,
    ];

    /// The name in metrics and JSON.
    pub const fn label(self) -> &'static str {
        match self {
            Kind::NoDemand => "no-demand",
            Kind::Optimal => "optimal",
            Kind::Good => "good",
            Kind::Infeasible => "infeasible",
            Kind::OutOfTime => "out-of-time",
        }
    }
}

/// Decides for `forecast` with that `in_force`, as the service's policy says.
pub fn decide(service: &Service, in_force: &[InForce], forecast: Option<Forecast>) -> Decision {
    let Some(forecast) = forecast else {
        let why = "no demand is known yet: no request was seen, or none since its first count";
        return keep(in_force, Kind::NoDemand, why.to_owned());
    };
    let solve = |service: &Service, in_force: &[InForce]| match service.policy {
        Policy::Infadapter => infadapter::decide(service, in_force, forecast),
        Policy::Sponge(rule) => sponge::decide(service, rule, in_force, forecast),
        Policy::Ipa(rule) => ipa::decide(service, rule, in_force, forecast),
        Policy::Infaas(rule) => infaas::decide(service, rule, in_force, forecast),
        Policy::Themis(rule) => themis::decide(service, rule, in_force, forecast),
    };
    if service.bounds.is_empty() {
        return solve(service, in_force);
    }
    bounded::decide(service, in_force, forecast.settled, solve)
}

/// The batch in which each variant is to execute: it follows from what is there, because a plan must hold
/// for that, whatever was decided; and from the demand as it is now, by which batches fill.
pub fn batches(service: &Service, there: &[Allocation], forecast: Option<Forecast>) -> Vec<u32> {
    let forecast = forecast.map(|forecast| Forecast {
        demand: forecast.present,
        ..forecast
    });
    let each = service.variants.iter().zip(there);
    match service.policy {
        Policy::Infadapter | Policy::Infaas(_) => each.map(|(v, _)| v.profile.batch).collect(),
        Policy::Sponge(rule) => each
            .map(|(variant, one)| sponge::batch(service, rule, variant, one.each(), forecast))
            .collect(),
        Policy::Ipa(_) | Policy::Themis(_) => ipa::batches(service, there, forecast),
    }
}

fn keep(in_force: &[InForce], kind: Kind, why: String) -> Decision {
    Decision {
        goals: stay(in_force),
        kind,
        kept: true,
        why,
        objective: None,
        optimum: None,
    }
}

/// The solver did not even come back.
pub(crate) fn broken(in_force: &[InForce], error: &dyn std::fmt::Display) -> Decision {
    let why = format!("cores stay: the solver broke: {error}");
    keep(in_force, Kind::OutOfTime, why)
}

/// The law of a variant's promise: a high percentile, where the profile's is the mean's. A server with one lane leaves
/// it idle while it waits for a batch to fill.
fn promised(variant: &Variant) -> Law {
    let (law, tail) = (variant.profile.latency.law, variant.profile.latency.tail);
    let idle_ms = match variant.makes_batches() {
        true => 0.0,
        false => variant.batch_delay.as_secs_f64() * 1e3,
    };
    Law {
        gamma_ms: law.gamma_ms * tail,
        epsilon_ms: law.epsilon_ms * tail,
        delta_ms: law.delta_ms * tail,
        eta_ms: law.eta_ms * tail + idle_ms,
    }
}

/// Time that a request waits for its batch whatever the batch, where the server makes it; else that of its filling.
fn wait_ms(variant: &Variant) -> Option<f64> {
    let ms = variant.batch_delay.as_secs_f64() * 1e3;
    variant.makes_batches().then_some(ms)
}

/// Time that a request waits for that batch.
fn waits_ms(variant: &Variant, batch: u32, demand_rps: f64) -> f64 {
    wait_ms(variant).unwrap_or_else(|| f64::from(batch - 1) * 1e3 / demand_rps)
}

/// What is, goes on.
fn stay(in_force: &[InForce]) -> Vec<Goal> {
    in_force.iter().map(|one| one.goal()).collect()
}

/// What serves.
fn ready(in_force: &[InForce]) -> Vec<Allocation> {
    in_force.iter().map(|one| one.ready).collect()
}

/// All cores of each as whole numbers, if they are.
fn whole(in_force: &[InForce]) -> Option<Vec<u32>> {
    let cores = in_force.iter().map(|one| one.ready.cores().millis());
    cores
        .map(|millis| (millis % 1000 == 0).then_some(millis / 1000))
        .collect()
}

#[cfg(test)]
mod tests {
    use weir_api::Cores;

    use super::*;
    use crate::service::tests::service;

    fn settled(demand_rps: f64) -> Option<Forecast> {
        Some(Forecast {
            demand: Rps(demand_rps),
            present: Rps(demand_rps),
            arriving: Rps(demand_rps),
            rises: false,
            settled: true,
            lasted: None,
            left_ms: None,
        })
    }

    fn cores(cores: &[u32]) -> Vec<InForce> {
        let one = |cores: &u32| InForce::certain(Allocation::one(Cores::whole(*cores)));
        cores.iter().map(one).collect()
    }

    fn goals(wanted: &[u32]) -> Vec<Goal> {
        cores(wanted).iter().map(|one| one.goal()).collect()
    }

    #[test]
    fn without_a_known_demand_the_cores_stay() {
        let decision = decide(&service(8), &cores(&[3, 2]), None);
        assert_eq!(
            (decision.kind, decision.goals),
            (Kind::NoDemand, goals(&[3, 2]))
        );
        assert!(
            decision.why.contains("no demand is known yet"),
            "{}",
            decision.why
        );
    }

    #[test]
    fn before_the_forecast_settles_cores_that_carry_it_stay() {
        let service = service(8);
        let decide = |demand_rps, settled| {
            let forecast = Forecast {
                demand: Rps(demand_rps),
                present: Rps(demand_rps),
                arriving: Rps(demand_rps),
                rises: false,
                settled,
                lasted: None,
                left_ms: None,
            };
            decide(&service, &cores(&[4, 2]), Some(forecast))
        };
        let early = decide(6.0, false);
        assert_eq!((early.kept, early.goals), (true, goals(&[4, 2])));
        assert!(
            early
                .why
                .ends_with("kept: the demand's window has not filled yet"),
            "{}",
            early.why
        );
        assert_eq!(decide(6.0, true).goals, goals(&[1, 1]));
        // What they do not carry is acted on at once.
        assert_eq!(decide(100.0, false).goals, decide(100.0, true).goals);
    }

    /// Cores in force and demand → cores to have, how, kept.
    fn check(in_force: &[u32], demand_rps: f64, expected: &[u32], kind: Kind, kept: bool) {
        let decision = decide(&service(8), &cores(in_force), settled(demand_rps));
        let got = (decision.goals, decision.kind, decision.kept);
        assert_eq!(
            got,
            (goals(expected), kind, kept),
            "{demand_rps}: {}",
            decision.why
        );
    }

    #[test]
    fn demand_moves_cores_where_it_is_worth_it() {
        // a: 0.8·(20·n − 2), 70 %, 1 to 8 cores; b: 0.8·(10·n − 2), 80 %, 0 to 4 cores; budget 8.
        check(&[2, 2], 6.0, &[1, 1], Kind::Optimal, false);
        check(&[2, 2], 28.0, &[1, 4], Kind::Optimal, false);
        check(&[1, 4], 100.0, &[5, 3], Kind::Optimal, false);
        // Requests were seen once, none come now: the least that could serve one.
        check(&[6, 2], 0.0, &[1, 1], Kind::Optimal, false);
        // More than there is: the greatest capacity.
        check(&[6, 2], 500.0, &[8, 0], Kind::Infeasible, false);
        check(&[8, 0], 500.0, &[8, 0], Kind::Infeasible, false);
    }

    #[test]
    fn what_is_near_the_optimum_is_kept_and_said_so() {
        let mut service = service(8);
        let demand = settled(6.0);
        let optimum = decide(&service, &cores(&[1, 1]), demand);
        assert!(!optimum.kept && optimum.objective == optimum.optimum);
        // One core of eight too many costs 0.05 / 8.
        for (tolerance, kept) in [(0.006, false), (0.007, true)] {
            service.objective.tolerance = tolerance;
            let decision = decide(&service, &cores(&[2, 1]), demand);
            assert_eq!(decision.kept, kept);
            assert_eq!(decision.goals, goals(if kept { &[2, 1] } else { &[1, 1] }));
            assert_eq!(
                decision.optimum, optimum.optimum,
                "the exact optimum stays reported"
            );
            assert_eq!(decision.why.contains("kept"), kept, "{}", decision.why);
        }
        // What does not carry the demand is never kept, whatever the tolerance.
        service.objective.tolerance = 1000.0;
        assert!(!decide(&service, &cores(&[1, 0]), settled(60.0)).kept);
        // A fraction of a core, set by hand, is no allocation to keep.
        let by_hand = [1500, 1000].map(Cores::from_millis);
        let by_hand = by_hand.map(|cores| InForce::certain(Allocation::one(cores)));
        assert!(!decide(&service, &by_hand, demand).kept);
    }

    #[test]
    fn a_promise_nobody_can_keep_is_no_crash() {
        let mut service = service(8);
        service.latency_max_ms = 1.0;
        let decision = decide(&service, &cores(&[3, 2]), settled(10.0));
        assert_eq!(
            (decision.kind, decision.goals),
            (Kind::Infeasible, goals(&[3, 2]))
        );
        assert!(
            decision.why.contains("no variant can answer in time"),
            "{}",
            decision.why
        );
    }
}
