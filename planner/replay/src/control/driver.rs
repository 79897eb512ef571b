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
use weir_planner::clock::Now;
use weir_planner::control_loop::{Planner, Ports};
use weir_planner::forecast::KnownLoad;
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
        let mut planner = Planner::new(Arc::new(service));
        if let Some(known) = known {
            planner.know(known);
        }
        PlannerDriver {
            ports: simulated,
            planner: Some(planner),
            cycle: None,
            report: None,
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
