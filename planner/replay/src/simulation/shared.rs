//! Simulation of several services that share a budget. They meet in nothing else, so each is a simulation of its own.
//! All advance to the next scrape, and the planners take and give their parts as those of `weir serve` do. Other
//! controls have a part that stays.

use std::borrow::Cow;
use std::time::Duration;

use weir_api::Cores;
use weir_planner::division::{Member, fixed_parts};
use weir_planner::policy::whole_steps;
use weir_planner::service::{Membership, Service};
use weir_planner::shared_budget::{SharedBudgetArgument, SharedBudgets};

use super::{PlayError, Simulation};
use crate::control::{ControlPlane, Kubelet, PlannerDriver};
use crate::nanos;
use crate::request::{Parts, Play, Request, SharedPlay};
use crate::scenario::{DivisionRule, Scenario, SharedContender, SharedScenario, SharingService};

/// Simulates the requests of each service (as [`super::play`] has them) with `contender`. Calls `tell` with the number
/// of elapsed seconds after each.
///
/// # Errors
/// A scenario or request that cannot be simulated.
pub fn play_shared(
    mut tell: impl FnMut(u64),
    shared: &SharedScenario,
    requests: &[Vec<Request>],
    contender: SharedContender,
) -> Result<SharedPlay, PlayError> {
    let mut simulations = Vec::with_capacity(shared.services.len());
    let scenarios = scenarios(shared, contender);
    for (scenario, requests) in scenarios.iter().zip(requests) {
        simulations.push(Simulation::new(
            (),
            scenario,
            requests,
            contender.contender,
            scenario.seed,
        )?);
    }
    join(shared, contender.division, &mut simulations);
    let (mut parts, mut reserved_max) = (Vec::new(), 0);
    let intervals = shared.services.iter();
    let intervals = intervals.map(|one| one.scenario.service.scrape_interval);
    let period = intervals.min().unwrap_or(Duration::from_secs(1));
    let length = shared.length;
    let mut at = Duration::ZERO;
    loop {
        let each = simulations.iter_mut().zip(&shared.services);
        reserved_max = reserved_max.max(each.map(reserved).sum());
        record(at, &mut simulations, &mut parts);
        let next = at + period;
        if next.as_secs() > at.as_secs() && next <= length {
            tell(next.as_secs());
        }
        at = next;
        // All of them advance, also when one is over.
        let over: Vec<bool> = simulations
            .iter_mut()
            .map(|simulation| simulation.advance(nanos(at)))
            .collect();
        if over.iter().all(|over| *over) {
            break;
        }
    }
    let finished = simulations.into_iter();
    let finished = finished.map(|one| one.finish(contender.contender).map(|(play, ())| play));
    Ok(SharedPlay {
        contender: contender.label(),
        plays: finished.collect::<Result<Vec<Play>, PlayError>>()?,
        parts,
        reserved_max,
    })
}

/// Scenario of each service. A control that takes no parts has its fixed one, which covers its cores at the start, for
/// its whole budget.
fn scenarios(shared: &SharedScenario, contender: SharedContender) -> Vec<Cow<'_, Scenario>> {
    let each = shared.services.iter();
    if contender.takes_parts() {
        return each.map(|one| Cow::Borrowed(&one.scenario)).collect();
    }
    let member = |one: &SharingService| Member {
        min: one.member().min.max(one.initial()),
        ..one.member()
    };
    let members: Vec<Member> = each.clone().map(member).collect();
    let parts = fixed_parts(shared.budget, &members);
    let within = |(one, part): (&SharingService, u32)| {
        let mut scenario = one.scenario.clone();
        scenario.service.budget = part;
        Cow::Owned(scenario)
    };
    each.zip(parts).map(within).collect()
}

/// Cores reserved by a service, in steps.
fn reserved((simulation, service): (&mut Simulation<'_, ()>, &SharingService)) -> u32 {
    let all = |kubelet: &mut Kubelet| kubelet.all().map(|one| one.reserved).sum::<Cores>();
    let cores = simulation.control.with_kubelet(all);
    let step = service.scenario.service.step;
    cores.map_or_else(|| service.initial(), |cores| whole_steps(cores, step))
}

/// Gives each planner a place in the budget.
fn join(shared: &SharedScenario, rule: DivisionRule, simulations: &mut [Simulation<'_, ()>]) {
    let size = SharedBudgetArgument {
        name: shared.name.clone(),
        cores: shared.step.times(shared.budget),
    };
    // One budget has no second of its name.
    let budgets = SharedBudgets::new(&[size]).unwrap_or_default();
    let members: Vec<_> = shared.services.iter().map(|one| one.member()).collect();
    let fixed = fixed_parts(shared.budget, &members);
    let member = |service: &Service, one: &SharingService| Service {
        name: one.name.clone(),
        shared: Some(Membership {
            budget: shared.name.clone(),
            weight: one.weight,
        }),
        ..service.clone()
    };
    let services: Vec<Option<Service>> = simulations
        .iter_mut()
        .zip(&shared.services)
        .map(|(simulation, one)| driver(simulation).map(|it| member(it.service(), one)))
        .collect();
    for service in services.iter().flatten() {
        budgets.insert(service);
    }
    for ((simulation, service), part) in simulations.iter_mut().zip(&services).zip(fixed) {
        let seat = service.as_ref();
        let seat = seat.and_then(|service| budgets.seat(service, Duration::ZERO));
        if let (Some(driver), Some(seat)) = (driver(simulation), seat) {
            let fixed = (rule == DivisionRule::Fixed).then_some(part);
            driver.join(seat, fixed);
        }
    }
}

/// Records the parts if they have changed; the part of a service without a planner is its budget.
fn record(at: Duration, simulations: &mut [Simulation<'_, ()>], parts: &mut Vec<Parts>) {
    let each = simulations.iter_mut();
    let steps = each.map(|one| {
        let budget = one.scenario.service.budget;
        driver(one).map_or(budget, |driver| driver.part())
    });
    let steps: Vec<u32> = steps.collect();
    if parts.last().is_none_or(|last| last.steps != steps) {
        parts.push(Parts { at, steps });
    }
}

fn driver<'a>(simulation: &'a mut Simulation<'_, ()>) -> Option<&'a mut PlannerDriver> {
    match &mut simulation.control {
        ControlPlane::Planner(driver) => Some(driver),
        _ => None,
    }
}
