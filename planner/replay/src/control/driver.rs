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
use weir_api::{Cores, Rps};
use weir_planner::clock::Now;
use weir_planner::control_loop::{Planner, Ports, RISE};
use weir_planner::division::{CoreDemand, MemberState};
use weir_planner::forecast::KnownLoad;
use weir_planner::policy::{core_demand, whole_steps};
use weir_planner::service::Service;
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
    demand: Option<LatestDemand>,
}

/// Demand for cores that was computed last.
#[derive(Debug, Clone, Copy)]
struct LatestDemand {
    at: Duration,
    /// Rate that it carries.
    rate: Rps,
    cores: CoreDemand,
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
            demand: None,
        }
    }

    /// State at a division of the shared budget. The demand for cores is computed once a cycle, and when the rate has
    /// risen.
    pub(crate) fn member_state(&mut self, at: Duration) -> MemberState {
        self.compute_demand(at);
        let ports = self.ports.state();
        let reserved: Cores = ports.kubelet.all().map(|one| one.reserved).sum();
        MemberState {
            demand: self.demand.map(|demand| demand.cores),
            reserved: whole_steps(reserved, self.whole.step),
            is_idle: self.planner.is_some(),
        }
    }

    /// Sets the part of the shared budget, in steps, unless a cycle is running.
    pub(crate) fn set_budget(&mut self, steps: u32) {
        if let Some(planner) = &mut self.planner {
            planner.set_budget(&self.whole, steps);
        }
    }

    fn compute_demand(&mut self, at: Duration) {
        let Some(planner) = &self.planner else {
            return;
        };
        let Some((service, actual, inputs)) = planner.core_problem(&self.whole) else {
            return;
        };
        let rate = inputs.forecast.demand;
        let is_new = self.demand.is_none_or(|latest| {
            at >= latest.at + self.whole.cycle || rate.0 > latest.rate.0 * RISE
        });
        if is_new && let Some(cores) = core_demand(&service, &actual, inputs) {
            self.demand = Some(LatestDemand { at, rate, cores });
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
        self.cycle = Some(Box::pin(async move {
            let report = {
                let stopwatch = || simulated.state().now;
                let ports = Ports {
                    observe: simulated.as_ref(),
                    actuate: simulated.as_ref(),
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
                self.planner = Some(planner);
                self.report = report.or(self.report.take());
                self.cycle = None;
                None
            }
            Poll::Pending => self.ports.state().wake_at,
        }
    }
}
