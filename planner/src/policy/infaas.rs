//! By INFaaS (ATC '21, §4.2.1): replicas of each variant to start and to stop, as cheap as the load and
//! the least accuracy allow. A replica executes one batch at a time ([`replica`]) and costs its cores.
//!
//! INFaaS knows no bound of a variant's replicas but its resources: where it would start more than there may be, they
//! are a resource, as many as there may be.
//!
//! What users of INFaaS say of each request, they say here of the service: the SLO (a variant that takes
//! longer than `latency_budget` allows carries nothing) and the least accuracy. Before the forecast
//! settles, replicas are started, never stopped.

use std::collections::BTreeMap;

use weir_api::Cores;

use super::{DEMAND_MIN, Decision, Kind, keep, replica, stay};
use crate::capacity::{Bound, Goal, InForce};
use crate::clock::stopwatch;
use crate::forecast::Forecast;
use crate::service::{InfaasRule, Service, Variant};
use crate::solve::infaas::{
    self, Architecture, ArchitecturePlan, Input, LATENCY_MS_MAX, Plan, Problem, RESOURCES_MAX,
    Resource, solve,
};
use crate::solve::{Outcome, Patience, Refused};

/// The resource type that every replica takes, beside what it holds.
const CORES: &str = "cores";

/// The cheapest replicas that carry the load, or what comes nearest.
pub(super) fn decide(
    service: &Service,
    rule: InfaasRule,
    in_force: &[InForce],
    forecast: Forecast,
) -> Decision {
    let each = service.variants.iter().zip(in_force);
    let running: Vec<u32> = each
        .map(|(variant, there)| replica::count(variant, there.ready).0)
        .collect();
    let elapsed = stopwatch();
    let patience = Patience::new(service.solver_limit, &elapsed);
    let outcome = match solved(service, input(service, rule, &running, forecast), &patience) {
        Ok(outcome) => outcome,
        Err(refused) => return keep(in_force, Kind::Infeasible, refused.to_string()),
    };
    let (kind, plan, note) = match outcome {
        Outcome::Optimal(plan) => (Kind::Optimal, plan, String::new()),
        Outcome::Good { best, gap } => (Kind::Good, best, format!(", at most {gap:.4} too dear")),
        // Stopping everything is no effort.
        Outcome::Infeasible {
            why,
            best_effort: Some(plan),
        } if plan.architectures.iter().any(|one| one.carried_qps > 0.0) => {
            (Kind::Infeasible, plan, format!(": {why}"))
        }
        Outcome::OutOfTime {
            why,
            best: Some(plan),
        } => (Kind::OutOfTime, plan, format!(" ({why})")),
        Outcome::Infeasible { why, .. } => {
            return keep(in_force, Kind::Infeasible, format!("cores stay: {why}"));
        }
        Outcome::OutOfTime { why, best: None } => {
            return keep(in_force, Kind::OutOfTime, format!("cores stay: {why}"));
        }
    };
    let wanted = replicas(service, &plan);
    let cores = |replicas: &[u32]| -> u32 {
        let each = service.variants.iter().zip(replicas);
        each.map(|(variant, n)| n * replica::cores_each(variant))
            .sum()
    };
    let goal = |(variant, count): (&Variant, &u32)| replica::goal(variant, *count);
    let goals: Vec<Goal> = service.variants.iter().zip(&wanted).map(goal).collect();
    let stops = wanted
        .iter()
        .zip(&running)
        .any(|(wanted, now)| wanted < now);
    let kept = stops && !forecast.settled && carries(service, rule, &running, forecast);
    let reason = if kept {
        ", kept: the demand's window has not filled yet"
    } else {
        ""
    };
    let why = format!(
        "{:.1} requests/s: {} of {} cores at {} % or more{note}{reason}",
        forecast.demand.0,
        cores(&wanted),
        service.budget,
        rule.accuracy_least,
    );
    Decision {
        goals: if kept { stay(in_force) } else { goals },
        kind,
        kept,
        why,
        objective: (!kept).then_some(-plan.objective),
        optimum: Some(-plan.objective),
    }
}

/// The optimum within the most replicas that each may have.
fn solved(
    service: &Service,
    mut input: Input,
    patience: &Patience<'_>,
) -> Result<Outcome<Plan>, Refused> {
    loop {
        let problem: Problem = input.clone().try_into()?;
        let outcome = solve(&problem, patience);
        let plan = outcome.plan();
        let too_many: Vec<&Variant> = service
            .variants
            .iter()
            .filter(|variant| planned(plan, variant) > replica::most(variant))
            .collect();
        if too_many.is_empty() || input.resources.len() + too_many.len() > RESOURCES_MAX {
            return Ok(outcome);
        }
        for variant in too_many {
            let name = format!("replicas of {}", variant.name);
            input.resources.push(Resource {
                name: name.clone(),
                available: f64::from(replica::most(variant)),
            });
            let mut all = input
                .architectures
                .iter_mut()
                .flat_map(|one| &mut one.variants);
            let takes = all.find(|one| one.name == variant.name);
            if let Some(takes) = takes.and_then(|one| one.takes.as_mut()) {
                takes.insert(name, 1.0);
            }
        }
    }
}

fn planned(plan: Option<&Plan>, variant: &Variant) -> u32 {
    let mut actions = plan.into_iter().flat_map(|plan| &plan.architectures);
    let of = |one: &ArchitecturePlan| {
        let action = one
            .variants
            .iter()
            .find(|action| action.name == variant.name);
        action.map(|action| action.replicas)
    };
    actions.find_map(of).unwrap_or(0)
}

fn input(service: &Service, rule: InfaasRule, running: &[u32], forecast: Forecast) -> Input {
    let each = service.variants.iter().zip(running);
    let takes = |index: usize, variant: &Variant| {
        // Of cores that are replicas, none holds what their pod does.
        let bounds = service
            .bounds
            .0
            .iter()
            .filter(|_| !replica::is_core(variant));
        let holds = bounds.map(|bound| {
            let each = bound.each.get(index).copied().unwrap_or(0);
            (bound.name.clone(), part(each, bound))
        });
        let cores = (CORES.to_owned(), cores_of(variant));
        holds.chain([cores]).collect::<BTreeMap<_, _>>()
    };
    let variant = |(index, (variant, replicas)): (usize, (&Variant, &u32))| infaas::Variant {
        name: variant.name.clone(),
        resource: CORES.to_owned(),
        takes: Some(takes(index, variant)),
        cost: cores_of(variant),
        // What carries nothing is too slow for the problem, whose replicas all sustain something.
        sustains_qps: sustains(service, rule, variant).max(f64::MIN_POSITIVE),
        latency_ms: if sustains(service, rule, variant) > 0.0 {
            variant.profile.service_ms(one(variant))
        } else {
            LATENCY_MS_MAX
        },
        accuracy_percent: Some(variant.accuracy),
        loading_s: variant.readiness.as_secs_f64(),
        replicas: *replicas,
    };
    Input {
        resources: resources(service),
        architectures: vec![Architecture {
            name: service.name.clone(),
            load_qps: forecast.demand.0.max(DEMAND_MIN.0),
            slack_qps: rule.slack_rps,
            slo_ms: Some(service.latency_max_ms),
            variants: each.enumerate().map(variant).collect(),
        }],
        loading_weight_per_s: rule.loading_weight_per_s,
        gap: 0.0,
    }
}

fn resources(service: &Service) -> Vec<Resource> {
    let resource = |name: &str, available: f64| Resource {
        name: name.to_owned(),
        available,
    };
    let cores = resource(CORES, f64::from(service.budget));
    let bounds = service.bounds.0.iter();
    let held = bounds.map(|bound| resource(&bound.name, part(bound.most, bound)));
    [cores].into_iter().chain(held).collect()
}

/// Of all that there may be of it: bytes are too many for the problem.
fn part(amount: u64, bound: &Bound) -> f64 {
    amount as f64 / bound.most.max(1) as f64
}

/// L: requests/s of one replica; none of a variant that is not accurate enough.
fn sustains(service: &Service, rule: InfaasRule, variant: &Variant) -> f64 {
    if variant.accuracy < rule.accuracy_least {
        return 0.0;
    }
    variant.capacity(one(variant), service.latency_max_ms)
}

fn cores_of(variant: &Variant) -> f64 {
    f64::from(replica::cores_each(variant))
}

fn one(variant: &Variant) -> Cores {
    Cores::whole(replica::cores_each(variant))
}

fn carries(service: &Service, rule: InfaasRule, running: &[u32], forecast: Forecast) -> bool {
    let each = service.variants.iter().zip(running);
    let carried: f64 = each
        .map(|(variant, replicas)| sustains(service, rule, variant) * f64::from(*replicas))
        .sum();
    let each = service.variants.iter().zip(running);
    let cores: u32 = each
        .map(|(variant, n)| n * replica::cores_each(variant))
        .sum();
    carried >= forecast.demand.0 + rule.slack_rps && cores <= service.budget
}

/// N + δ, in the variants' order and within their bounds.
fn replicas(service: &Service, plan: &Plan) -> Vec<u32> {
    let of = |variant: &Variant| planned(Some(plan), variant).min(replica::most(variant));
    service.variants.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use weir_api::Rps;

    use super::super::decide;
    use super::*;
    use crate::capacity::Allocation;
    use crate::service::Policy;
    use crate::service::tests::service;
    use crate::solve::law::Parallelism;

    /// a: 40 ms and 70 %; b: 80 ms and 80 %; c: 400 ms and 90 %, of which 300 ms may be taken; 8 cores.
    fn infaas(accuracy_least: f64, slack_rps: f64) -> Service {
        let mut service = service(8);
        service.latency_max_ms = 300.0;
        service.policy = Policy::Infaas(InfaasRule {
            accuracy_least,
            slack_rps,
            loading_weight_per_s: 0.01,
        });
        let mut third = service.variants[1].clone();
        third.name = "c".to_owned();
        service.variants.push(third);
        service.stages[0].variants = 0..3;
        for (variant, (ms, accuracy)) in
            service
                .variants
                .iter_mut()
                .zip([(40.0, 70.0), (80.0, 80.0), (400.0, 90.0)])
        {
            variant.accuracy = accuracy;
            (variant.least, variant.greatest) = (0, 8);
            variant.profile.parallelism = Parallelism::PerCore;
            variant.profile.fit = None;
            variant.profile.latency.law = crate::solve::law::Law::constant(ms);
        }
        service
    }

    fn in_force(cores: [u32; 3]) -> [InForce; 3] {
        cores.map(|cores| InForce::certain(Allocation::one(Cores::whole(cores))))
    }

    fn check(
        service: &Service,
        running: [u32; 3],
        rps: f64,
        settled: bool,
        wanted: [u32; 3],
        kind: Kind,
    ) -> Decision {
        let forecast = Forecast {
            demand: Rps(rps),
            present: Rps(rps),
            arriving: Rps(rps),
            rises: false,
            settled,
            lasted: None,
            left_ms: None,
        };
        let decision = decide(service, &in_force(running), Some(forecast));
        let wanted = stay(&in_force(wanted));
        assert_eq!(
            (&decision.goals, decision.kind),
            (&wanted, kind),
            "{rps}: {}",
            decision.why
        );
        decision
    }

    #[test]
    fn the_cheapest_replicas_that_are_accurate_and_quick_enough_run() {
        // A replica of a carries 25 requests/s, one of b 12.5.
        check(
            &infaas(0.0, 0.0),
            [1, 0, 0],
            60.0,
            true,
            [3, 0, 0],
            Kind::Optimal,
        );
        check(
            &infaas(0.0, 20.0),
            [1, 0, 0],
            60.0,
            true,
            [4, 0, 0],
            Kind::Optimal,
        );
        check(
            &infaas(75.0, 0.0),
            [1, 0, 0],
            60.0,
            true,
            [0, 5, 0],
            Kind::Optimal,
        );
        // Only c is accurate enough, and it is too slow.
        let decision = decide_for(&infaas(85.0, 0.0));
        assert_eq!((decision.kind, decision.kept), (Kind::Infeasible, true));
    }

    fn decide_for(service: &Service) -> Decision {
        let forecast = Forecast {
            demand: Rps(60.0),
            present: Rps(60.0),
            arriving: Rps(60.0),
            rises: false,
            settled: true,
            lasted: None,
            left_ms: None,
        };
        decide(service, &in_force([3, 0, 0]), Some(forecast))
    }

    #[test]
    fn the_budget_holds_and_nothing_stops_before_the_forecast_settles() {
        let service = infaas(0.0, 0.0);
        check(
            &service,
            [1, 0, 0],
            900.0,
            true,
            [8, 0, 0],
            Kind::Infeasible,
        );
        let early = check(&service, [4, 1, 0], 60.0, false, [4, 1, 0], Kind::Optimal);
        assert!(
            early.kept
                && early
                    .why
                    .ends_with("kept: the demand's window has not filled yet"),
            "{}",
            early.why
        );
        check(&service, [1, 0, 0], 60.0, false, [3, 0, 0], Kind::Optimal);
    }
}
