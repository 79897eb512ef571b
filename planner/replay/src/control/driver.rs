//! The real planner, cycle by cycle. A running cycle is a future that the simulation polls as time
//! advances. The next cycle begins with the first tick after its end, as in the service.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::kubelet::Kubelet;
use super::ports::SimulatedPorts;
use crate::EPOCH_MS;
use weir_planner::backends::Gate;
use weir_planner::clock::Now;
use weir_planner::control_loop::{CoreDemandTimes, Planner, Ports};
use weir_planner::division::CoreDemand;
use weir_planner::forecast::KnownLoad;
use weir_planner::policy::{core_demand, whole_steps};
use weir_planner::service::{Mode, Service};
use weir_planner::shared_budget::Seat;
use weir_planner::telemetry::status::CycleReport;

/// Time limit of the solver, far above what a solve takes, so that results do not depend on the machine.
const SOLVER_LIMIT: Duration = Duration::from_secs(600);

type Cycle = Pin<Box<dyn Future<Output = (Planner, Option<CycleReport>)>>>;

/// Planner and its running cycle.
pub(crate) struct PlannerDriver {
    /// Simulated ports of the planner.
    pub(crate) ports: Arc<SimulatedPorts>,
    /// `None` while a cycle is running.
    planner: Option<Planner>,
    cycle: Option<Cycle>,
    /// Report of the last cycle.
    pub(crate) report: Option<CycleReport>,
    /// The service with its whole budget.
    whole: Arc<Service>,
    member: Option<BudgetMember>,
}

/// Place in a shared budget, as a control loop of `weir serve` has it.
struct BudgetMember {
    seat: Seat,
    times: CoreDemandTimes,
    /// Demand that follows no load.
    fixed: Option<u32>,
}

impl PlannerDriver {
    /// Starts a planner, which knows the load in advance if it is given.
    pub(crate) fn new(
        service: &Service,
        kubelet: Kubelet,
        proxies: usize,
        known: Option<KnownLoad>,
    ) -> PlannerDriver {
        let mut service = service.clone();
        service.solver_limit = SOLVER_LIMIT;
        let simulated = Arc::new(SimulatedPorts::new(&service, kubelet, proxies));
        let whole = Arc::new(service);
        let mut planner = Planner::new(Arc::clone(&whole));
        if let Some(known) = known {
            planner.know(known);
        }
        PlannerDriver {
            ports: simulated,
            planner: Some(planner),
            cycle: None,
            report: None,
            whole,
            member: None,
        }
    }

    /// Takes a place in a shared budget; its part follows the load, unless it is `fixed`.
    pub(crate) fn join(&mut self, seat: Seat, fixed: Option<u32>) {
        self.member = Some(BudgetMember {
            seat,
            times: CoreDemandTimes::default(),
            fixed,
        });
    }

    /// The service with its whole budget.
    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.whole
    }

    /// Cores reserved, in steps.
    fn reserved(&self) -> u32 {
        let ports = self.ports.state();
        let reserved = ports.kubelet.all().map(|one| one.reserved).sum();
        whole_steps(reserved, self.whole.step)
    }

    /// Part of the shared budget, in steps; what is reserved until it is known.
    pub(crate) fn part(&self) -> u32 {
        let member = self.member.as_ref();
        if let Some(fixed) = member.and_then(|member| member.fixed) {
            return fixed;
        }
        let report = member.and_then(|member| member.seat.report());
        let part = report.and_then(|report| report.part);
        part.map_or_else(
            || self.reserved(),
            |part| whole_steps(part, self.whole.step),
        )
    }

    /// Takes the part for the tick that begins; returns whether cores may be changed in it.
    fn begin_part(&self, planner: &mut Planner) -> bool {
        let Some(member) = &self.member else {
            return true;
        };
        let part = planner.reserved().and_then(|_| member.seat.begin());
        match part {
            Some(steps) => {
                planner.set_budget(&self.whole, steps);
                planner.set_mode(self.whole.mode);
            }
            None => planner.set_mode(Mode::Advisory),
        }
        part.is_some()
    }

    /// Ends a tick: states what is reserved, and the demand if it is due.
    fn end_part(&mut self, planner: &Planner, at: Duration) {
        let Some(member) = &mut self.member else {
            return;
        };
        member.seat.end(planner.reserved());
        if let Some(part) = member.fixed {
            let (need, preferred) = (part, part);
            member.seat.demand(CoreDemand { need, preferred });
            return;
        }
        let Some((service, actual, inputs)) = planner.core_problem(&self.whole) else {
            return;
        };
        let is_due = member
            .times
            .is_due(at, self.whole.cycle, inputs.forecast.demand);
        if is_due && let Some(demand) = core_demand(&service, &actual, inputs) {
            member.seat.demand(demand);
        }
    }

    /// Starts a tick, and a cycle if one is due, unless one is running.
    pub(crate) fn begin(&mut self, at: Duration) {
        let Some(mut planner) = self.planner.take() else {
            return;
        };
        let ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        let now = Now {
            at,
            unix_ms: EPOCH_MS.saturating_add(ms),
        };
        let simulated = Arc::clone(&self.ports);
        let may_change = self.begin_part(&mut planner);
        self.cycle = Some(Box::pin(async move {
            let report = {
                let stopwatch = || simulated.state().now;
                let gate = Gate::new(simulated.as_ref());
                gate.set_open(may_change);
                let ports = Ports {
                    observe: simulated.as_ref(),
                    actuate: &gate,
                    publish: simulated.as_ref(),
                    solver: simulated.as_ref(),
                    stopwatch: &stopwatch,
                };
                planner.tick(&ports, now).await
            };
            (planner, report)
        }));
    }

    /// Polls the running cycle; returns the time of the next poll if it waits.
    pub(crate) fn resume(&mut self, at: Duration) -> Option<Duration> {
        let cycle = self.cycle.as_mut()?;
        {
            let mut state = self.ports.state();
            state.now = at;
            state.wake_at = None;
        }
        match cycle.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready((planner, report)) => {
                self.end_part(&planner, at);
                self.planner = Some(planner);
                self.report = report.or(self.report.take());
                self.cycle = None;
                None
            }
            Poll::Pending => self.ports.state().wake_at,
        }
    }
}
