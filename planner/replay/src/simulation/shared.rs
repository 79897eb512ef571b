//! Simulation of several services that share a budget. They meet in nothing else, so each is a simulation of its own.
//! All advance to the next division; then the parts of the budget change.

use std::time::Duration;

use weir_planner::division::{CoreDemand, Division, MemberState, fixed_parts};

use super::{PlayError, Simulation};
use crate::control::{ControlPlane, PlannerDriver};
use crate::nanos;
use crate::request::{Parts, Play, Request, SharedPlay};
use crate::scenario::{DivisionRule, SharedContender, SharedScenario};

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
    for (service, requests) in shared.services.iter().zip(requests) {
        let (scenario, seed) = (&service.scenario, service.scenario.seed);
        simulations.push(Simulation::new(
            (),
            scenario,
            requests,
            contender.contender,
            seed,
        )?);
    }
    let mut divider = Divider::new(shared, contender.division, &mut simulations);
    let (period, length) = (divider.period, shared.length);
    let mut at = Duration::ZERO;
    loop {
        divider.divide(at, &mut simulations);
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
        parts: divider.parts,
        reserved_max: divider.reserved_max,
    })
}

/// Division of the budget of several simulations.
struct Divider {
    division: Division,
    /// Parts that follow no demand; `None` if the budget is shared.
    fixed: Option<Vec<u32>>,
    /// Time between two divisions: as often as demands may be new.
    period: Duration,
    parts: Vec<Parts>,
    reserved_max: u32,
}

impl Divider {
    fn new(
        shared: &SharedScenario,
        rule: DivisionRule,
        simulations: &mut [Simulation<'_, ()>],
    ) -> Divider {
        let members: Vec<_> = shared.services.iter().map(|one| one.member()).collect();
        let intervals = shared.services.iter();
        let intervals = intervals.map(|one| one.scenario.service.scrape_interval);
        let fixed = || fixed_parts(shared.budget, &members);
        let fixed = (rule == DivisionRule::Fixed).then(fixed);
        let states = states(Duration::ZERO, simulations);
        let reserved: Vec<u32> = states.iter().map(|state| state.reserved).collect();
        Divider {
            division: Division::new(shared.budget, members, &reserved),
            fixed,
            period: intervals.min().unwrap_or(Duration::from_secs(1)),
            parts: Vec::new(),
            reserved_max: 0,
        }
    }

    /// Changes the parts as far as the demands and the reserved cores allow it at `at`.
    fn divide(&mut self, at: Duration, simulations: &mut [Simulation<'_, ()>]) {
        let mut states = states(at, simulations);
        for (state, part) in states.iter_mut().zip(self.fixed.iter().flatten()) {
            state.demand = Some(CoreDemand {
                need: *part,
                preferred: *part,
            });
        }
        let reserved = states.iter().map(|state| state.reserved).sum();
        self.reserved_max = self.reserved_max.max(reserved);
        self.division.update(&states);
        let parts = self.division.parts();
        for (simulation, part) in simulations.iter_mut().zip(parts) {
            if let Some(driver) = driver(simulation) {
                driver.set_budget(*part);
            }
        }
        if self.parts.last().is_none_or(|last| last.steps != parts) {
            self.parts.push(Parts {
                at,
                steps: parts.to_vec(),
            });
        }
    }
}

/// State of each service; one without a planner keeps its part.
fn states(at: Duration, simulations: &mut [Simulation<'_, ()>]) -> Vec<MemberState> {
    let none = MemberState {
        demand: None,
        reserved: 0,
        is_idle: false,
    };
    let each = simulations.iter_mut();
    each.map(|one| driver(one).map_or(none, |driver| driver.member_state(at)))
        .collect()
}

fn driver<'a>(simulation: &'a mut Simulation<'_, ()>) -> Option<&'a mut PlannerDriver> {
    match &mut simulation.control {
        ControlPlane::Planner(driver) => Some(driver),
        _ => None,
    }
}
