//! Control loop of a service in a shared budget: takes its part before a tick, and states its reserved cores and its
//! demand after it. The demand is computed aside, so that no tick waits for it.

use std::sync::Arc;

use tokio::task::{JoinHandle, spawn_blocking};

use crate::clock::Now;
use crate::control_loop::{CoreDemandTimes, Planner};
use crate::division::CoreDemand;
use crate::policy::core_demand;
use crate::service::{Mode, Service};
use crate::shared_budget::Seat;
use crate::telemetry::status::CycleReport;

/// A service's place in its shared budget, and the computation of its demand.
#[derive(Debug)]
pub(super) struct BudgetMember {
    seat: Seat,
    /// The service with its whole budget.
    whole: Arc<Service>,
    times: CoreDemandTimes,
    computing: Option<JoinHandle<Option<CoreDemand>>>,
}

impl BudgetMember {
    pub(super) fn new(seat: Seat, whole: Arc<Service>) -> BudgetMember {
        BudgetMember {
            seat,
            whole,
            times: CoreDemandTimes::default(),
            computing: None,
        }
    }

    /// Sets the part and the mode of the tick that begins. Returns whether it may change cores: not while the part is
    /// unknown, or this planner does not know what is reserved.
    pub(super) fn begin(&self, planner: &mut Planner, mode: Mode) -> bool {
        let part = planner.reserved().and_then(|_| self.seat.begin());
        match part {
            Some(steps) => {
                planner.set_budget(&self.whole, steps);
                planner.set_mode(mode);
            }
            None => planner.set_mode(Mode::Advisory),
        }
        part.is_some()
    }

    /// Ends a tick, and begins to compute the demand if it is due.
    pub(super) fn end(&mut self, planner: &Planner, now: Now) {
        self.seat.end(planner.reserved());
        if self.computing.is_some() {
            return;
        }
        let Some((service, actual, inputs)) = planner.core_problem(&self.whole) else {
            return;
        };
        let (cycle, rate) = (self.whole.cycle, inputs.forecast.demand);
        if self.times.is_due(now.at, cycle, rate) {
            let computing = spawn_blocking(move || core_demand(&service, &actual, inputs));
            self.computing = Some(computing);
        }
    }

    /// Waits for the demand that is being computed, and states it; a solver that runs out of time leaves the last one.
    pub(super) async fn compute(&mut self) {
        let Some(computing) = &mut self.computing else {
            return std::future::pending().await;
        };
        let computed = computing.await;
        self.computing = None;
        if let Ok(Some(demand)) = computed {
            self.seat.demand(demand);
        }
    }

    /// Completes the report of a cycle.
    pub(super) fn complete(&self, report: &mut CycleReport) {
        report.shared_budget = self.seat.report();
        if let Some(shared) = &report.shared_budget {
            report.why += &shared.note();
        }
    }
}

/// Waits for the demand of a member; never ends without one.
pub(super) async fn compute(member: &mut Option<BudgetMember>) {
    match member {
        Some(member) => member.compute().await,
        None => std::future::pending().await,
    }
}
