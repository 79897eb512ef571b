//! Actual cores and demand → target cores, with the reason. No side effects; the clock only limits the solver's time.
//!
//! - a variant has no profile → the cores stay: nothing is known of others
//! - demand is unknown, or no request has been seen → the cores stay (a failed scrape is no reason to act)
//! - optimal → the optimum, unless the actual allocation carries the demand and is within the tolerance of it, or the
//!   forecast has not settled
//! - demand exceeds the capacity → the largest possible capacity
//! - replicas exceed a resource limit → the policy decides again with fewer of them ([`bounded`])
//! - the solver found nothing in time → a solution that carries the demand without it, or else the cores stay

mod alternatives;
mod bounded;
mod core_demand;
#[cfg(test)]
mod fractions;
mod infaas;
mod infadapter;
mod ipa;
mod promise;
mod replica;
pub(crate) mod scale_down;
pub(crate) mod sponge;
mod themis;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_api::{Cores, Rps};

use crate::capacity::{Actual, Allocation, Target};
use crate::forecast::Forecast;
use crate::service::rule::rule;
use crate::service::{ConfigError, Decision, Inputs, Service, SharedPolicy, SolveStatus};
use crate::solve::Outcome;

pub use alternatives::{ALTERNATIVE_TIME_MAX, Alternative, DecisionBasis};
pub use bounded::BRANCHES_MAX;
pub use core_demand::{core_demand, min_steps, whole_steps};
pub use infaas::{Infaas, RawInfaas};
pub use infadapter::{Infadapter, problem};
pub use ipa::{Ipa, RawIpa};
use promise::{executed, promised, promised_by_profile, wait_ms, waits_ms};
pub use sponge::{RawSponge, Sponge};
pub use themis::{RawThemis, Themis};

/// Upper limit of a weight. Weights are relative to each other; more than a thousandfold is a typing error.
pub(crate) const WEIGHT_MAX: f64 = 1000.0;

/// Lowest demand that is solved for once a request has been seen: an idle service still needs capacity.
pub const DEMAND_MIN: Rps = Rps(0.01);

/// Name of a policy, as `policy` of a service file has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RawPolicy {
    /// Variants, cores of each, and shares of the traffic.
    #[default]
    Infadapter,
    /// Cores and batch size of one variant, for the demand and the network latencies of the clients.
    Sponge,
    /// A pipeline: one variant of each stage, its replicas and its batch size.
    Ipa,
    /// Replicas of each variant, at minimum cost for the demand and a minimum accuracy.
    Infaas,
    /// A pipeline with one variant a stage: cores follow a burst, replicas follow persistent load.
    Themis,
}

impl RawPolicy {
    /// All of them.
    const ALL: [RawPolicy; 5] = [
        RawPolicy::Infadapter,
        RawPolicy::Sponge,
        RawPolicy::Ipa,
        RawPolicy::Infaas,
        RawPolicy::Themis,
    ];
}

/// Settings of policies as written, each under the policy's name.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sections {
    pub(crate) sponge: Option<RawSponge>,
    pub(crate) ipa: Option<RawIpa>,
    pub(crate) infaas: Option<RawInfaas>,
    pub(crate) themis: Option<RawThemis>,
}

/// Checks the settings of the policy with that name; those of no other may be given.
///
/// # Errors
/// A value out of its range, or settings of another policy.
pub(crate) fn checked(name: RawPolicy, sections: Sections) -> Result<SharedPolicy, ConfigError> {
    let Sections {
        sponge,
        ipa,
        infaas,
        themis,
    } = sections;
    for (given, of, label) in [
        (sponge.is_some(), RawPolicy::Sponge, "sponge"),
        (ipa.is_some(), RawPolicy::Ipa, "ipa"),
        (infaas.is_some(), RawPolicy::Infaas, "infaas"),
        (themis.is_some(), RawPolicy::Themis, "themis"),
    ] {
        let right = format!("left out, unless policy is {label}");
        rule(!given || name == of, label, "given", &right)?;
    }
    Ok(match name {
        RawPolicy::Infadapter => SharedPolicy::new(Infadapter),
        RawPolicy::Sponge => SharedPolicy::new(sponge.unwrap_or_default().checked()?),
        RawPolicy::Ipa => SharedPolicy::new(ipa.unwrap_or_default().checked()?),
        RawPolicy::Infaas => SharedPolicy::new(infaas.unwrap_or_default().checked()?),
        RawPolicy::Themis => SharedPolicy::new(themis.unwrap_or_default().checked()?),
    })
}

/// Returns the names of the policies that plan pipelines.
pub(crate) fn pipeline_policies() -> Vec<&'static str> {
    let with_defaults = |name| checked(name, Sections::default()).ok();
    let all = RawPolicy::ALL.into_iter().filter_map(with_defaults);
    let pipelines = all.filter(|policy| policy.plans_pipelines());
    pipelines.map(|policy| policy.name()).collect()
}

/// Decides by the service's policy, within the limits of its resources.
pub fn decide(service: &Service, actual: &[Actual], inputs: Option<Inputs>) -> Decision {
    let Some(inputs) = inputs else {
        let why = "no demand is known yet: no request was seen, or none since its first count";
        return keep(actual, SolveStatus::NoDemand, why.to_owned());
    };
    if let Some(why) = no_profile(service) {
        return keep(actual, SolveStatus::NoProfile, why);
    }
    let solve =
        |service: &Service, actual: &[Actual]| service.policy.decide(service, actual, inputs);
    if service.limits.is_empty() {
        return solve(service, actual);
    }
    bounded::decide(service, actual, inputs.forecast.window_full, solve)
}

/// Reason why cores are not planned: variants without a profile.
fn no_profile(service: &Service) -> Option<String> {
    let each = service.variants.iter();
    let without = each.filter(|variant| !variant.has_profile());
    let names: Vec<&str> = without.map(|variant| variant.name.as_str()).collect();
    let names = names.join(", ");
    (!names.is_empty()).then(|| {
        format!("cores stay, and shares go by measured rates: without a profile ({names}) no cores are planned")
    })
}

/// Batch of each variant, by the allocations and the present demand, with which batches fill.
pub fn batches(service: &Service, allocations: &[Allocation], inputs: Option<Inputs>) -> Vec<u32> {
    let present = inputs.map(|inputs| Inputs {
        forecast: Forecast {
            demand: inputs.forecast.present,
            mean: Rps(inputs.forecast.mean.0.min(inputs.forecast.present.0)),
            ..inputs.forecast
        },
        ..inputs
    });
    service.policy.batches(service, allocations, present)
}

/// Plan from a solve, and its quality.
struct Solved<P> {
    plan: P,
    status: SolveStatus,
    detail: Detail,
}

/// Limits of the plan's quality.
enum Detail {
    /// No limit: the plan is the optimum.
    Proven,
    /// Maximum distance to the optimum.
    Gap(f64),
    /// Reason why there is no optimum.
    Why(String),
}

impl<P> Solved<P> {
    /// Reads the outcome of a solve; an error holds the status and the reason for having no plan.
    fn read(outcome: Outcome<P>) -> Result<Solved<P>, (SolveStatus, String)> {
        let (plan, status, detail) = match outcome {
            Outcome::Optimal(plan) => (plan, SolveStatus::Optimal, Detail::Proven),
            Outcome::Good { best, gap } => (best, SolveStatus::Good, Detail::Gap(gap)),
            Outcome::Infeasible {
                why,
                best_effort: Some(plan),
            } => (plan, SolveStatus::Infeasible, Detail::Why(why)),
            Outcome::OutOfTime {
                why,
                best: Some(plan),
            } => (plan, SolveStatus::OutOfTime, Detail::Why(why)),
            Outcome::Infeasible {
                why,
                best_effort: None,
            } => return Err((SolveStatus::Infeasible, why)),
            Outcome::OutOfTime { why, best: None } => return Err((SolveStatus::OutOfTime, why)),
        };
        Ok(Solved {
            plan,
            status,
            detail,
        })
    }

    /// Text for the *why* of a decision; `gap` formats a gap with its unit.
    fn note(&self, gap: impl Fn(f64) -> String) -> String {
        match (&self.detail, self.status) {
            (Detail::Proven, _) => String::new(),
            (Detail::Gap(most), _) => format!(", at most {}", gap(*most)),
            (Detail::Why(why), SolveStatus::Infeasible) => format!(": {why}"),
            (Detail::Why(why), _) => format!(" ({why})"),
        }
    }
}

fn keep(actual: &[Actual], status: SolveStatus, why: String) -> Decision {
    Decision {
        targets: stay(actual),
        status,
        kept: true,
        why,
        objective: None,
        optimum: None,
    }
}

/// Decision to keep the cores after a panic of the solver.
pub fn broken(actual: &[Actual], error: &dyn std::fmt::Display) -> Decision {
    let why = format!("cores stay: the solver broke: {error}");
    keep(actual, SolveStatus::OutOfTime, why)
}

/// Targets equal to the actual state.
fn stay(actual: &[Actual]) -> Vec<Target> {
    actual.iter().map(|one| one.target()).collect()
}

/// Ready allocations.
fn ready(actual: &[Actual]) -> Vec<Allocation> {
    actual.iter().map(|one| one.ready).collect()
}

/// Ready cores of each variant in steps, if all are whole numbers of them.
fn steps(actual: &[Actual], step: Cores) -> Option<Vec<u32>> {
    let cores = actual.iter().map(|one| one.ready.cores());
    cores
        .map(|cores| cores.is_multiple(step).then_some(cores.count(step)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::service;

    fn lasting(demand_rps: f64) -> Option<Inputs> {
        Some(Inputs::steady(Rps(demand_rps)))
    }

    fn cores(cores: &[u32]) -> Vec<Actual> {
        let one = |cores: &u32| Actual::certain(Allocation::one(Cores::whole(*cores)));
        cores.iter().map(one).collect()
    }

    fn targets(desired: &[u32]) -> Vec<Target> {
        cores(desired).iter().map(|one| one.target()).collect()
    }

    #[test]
    fn unknown_demand_keeps_the_cores() {
        let decision = decide(&service(8), &cores(&[3, 2]), None);
        assert_eq!(
            (decision.status, decision.targets),
            (SolveStatus::NoDemand, targets(&[3, 2]))
        );
        assert!(
            decision.why.contains("no demand is known yet"),
            "{}",
            decision.why
        );
    }

    #[test]
    fn sufficient_cores_stay_until_the_window_is_full() {
        let service = service(8);
        let decide = |demand_rps, window_full| {
            let forecast = {
                let mut inputs = Inputs::steady(Rps(demand_rps));
                inputs.forecast.window_full = window_full;
                inputs
            };
            decide(&service, &cores(&[4, 2]), Some(forecast))
        };
        let early = decide(6.0, false);
        assert_eq!((early.kept, early.targets), (true, targets(&[4, 2])));
        assert!(
            early
                .why
                .ends_with("kept: the demand's window has not filled yet"),
            "{}",
            early.why
        );
        assert_eq!(decide(6.0, true).targets, targets(&[1, 1]));
        // Demand that they do not carry is acted on at once.
        assert_eq!(decide(100.0, false).targets, decide(100.0, true).targets);
    }

    /// Actual cores and demand → target cores, status, kept.
    fn check(actual: &[u32], demand_rps: f64, expected: &[u32], status: SolveStatus, kept: bool) {
        let decision = decide(&service(8), &cores(actual), lasting(demand_rps));
        let got = (decision.targets, decision.status, decision.kept);
        assert_eq!(
            got,
            (targets(expected), status, kept),
            "{demand_rps}: {}",
            decision.why
        );
    }

    #[test]
    fn cores_follow_demand() {
        // a: 0.8·(20·n − 2), 70 %, 1 to 8 cores; b: 0.8·(10·n − 2), 80 %, 0 to 4 cores; budget 8.
        check(&[2, 2], 6.0, &[1, 1], SolveStatus::Optimal, false);
        check(&[2, 2], 28.0, &[1, 4], SolveStatus::Optimal, false);
        check(&[1, 4], 100.0, &[5, 3], SolveStatus::Optimal, false);
        // Requests were seen once, but none arrive now: the smallest capacity that could serve one.
        check(&[6, 2], 0.0, &[1, 1], SolveStatus::Optimal, false);
        // Demand above the budget: the largest capacity.
        check(&[6, 2], 500.0, &[8, 0], SolveStatus::Infeasible, false);
        check(&[8, 0], 500.0, &[8, 0], SolveStatus::Infeasible, false);
    }

    #[test]
    fn near_optimal_cores_are_kept_with_a_reason() {
        let mut service = service(8);
        let demand = lasting(6.0);
        let optimum = decide(&service, &cores(&[1, 1]), demand);
        assert!(!optimum.kept && optimum.objective == optimum.optimum);
        // One core of eight too many costs 0.05 / 8.
        for (tolerance, kept) in [(0.006, false), (0.007, true)] {
            service.objective.tolerance = tolerance;
            let decision = decide(&service, &cores(&[2, 1]), demand);
            assert_eq!(decision.kept, kept);
            assert_eq!(
                decision.targets,
                targets(if kept { &[2, 1] } else { &[1, 1] })
            );
            assert_eq!(
                decision.optimum, optimum.optimum,
                "the exact optimum stays reported"
            );
            assert_eq!(decision.why.contains("kept"), kept, "{}", decision.why);
        }
        // An allocation that does not carry the demand is never kept, whatever the tolerance.
        service.objective.tolerance = 1000.0;
        assert!(!decide(&service, &cores(&[1, 0]), lasting(60.0)).kept);
        // A fraction of a core, set by hand, is not kept.
        let by_hand = [1500, 1000].map(Cores::from_millis);
        let by_hand = by_hand.map(|cores| Actual::certain(Allocation::one(cores)));
        assert!(!decide(&service, &by_hand, demand).kept);
    }

    #[test]
    fn impossible_slo_keeps_the_cores() {
        let mut service = service(8);
        service.latency_max_ms = 1.0;
        let decision = decide(&service, &cores(&[3, 2]), lasting(10.0));
        assert_eq!(
            (decision.status, decision.targets),
            (SolveStatus::Infeasible, targets(&[3, 2]))
        );
        assert!(
            decision.why.contains("no variant can answer in time"),
            "{}",
            decision.why
        );
    }
}
