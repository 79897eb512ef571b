//! The real planner, turn by turn: a turn under way is a future that the world polls whenever time
//! has gone on. The next begins with the first look after its end, as in the service.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::desk::Desk;
use super::kubelet::Kubelet;
use crate::EPOCH_MS;
use weir_planner::clock::Now;
use weir_planner::control_loop::{Planner, Ports};
use weir_planner::service::Service;
use weir_planner::telemetry::status::CycleReport;

/// The solver's limit: far above what a solve takes, so that no machine's speed shows in a result.
const SOLVER_LIMIT: Duration = Duration::from_secs(600);

type Turn = Pin<Box<dyn Future<Output = (Planner, Option<CycleReport>)>>>;

/// The planner and its turn.
pub(crate) struct Steering {
    /// Its ports.
    pub(crate) desk: Arc<Desk>,
    /// Not there while a turn is under way.
    planner: Option<Planner>,
    turn: Option<Turn>,
    /// The last turn's.
    pub(crate) report: Option<CycleReport>,
}

impl Steering {
    pub(crate) fn new(service: &Service, kubelet: Kubelet, proxies: usize) -> Steering {
        let mut service = service.clone();
        service.solver_limit = SOLVER_LIMIT;
        let desk = Arc::new(Desk::new(&service, kubelet, proxies));
        Steering {
            desk,
            planner: Some(Planner::new(Arc::new(service))),
            turn: None,
            report: None,
        }
    }

    /// Begins a look, and a turn if it comes to that, unless one is under way.
    pub(crate) fn begin(&mut self, at: Duration) {
        let Some(mut planner) = self.planner.take() else {
            return;
        };
        let ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        let now = Now {
            at,
            unix_ms: EPOCH_MS.saturating_add(ms),
        };
        let desk = Arc::clone(&self.desk);
        self.turn = Some(Box::pin(async move {
            let report = {
                let stopwatch = || desk.board().now;
                let ports = Ports {
                    observe: desk.as_ref(),
                    actuate: desk.as_ref(),
                    publish: desk.as_ref(),
                    solver: desk.as_ref(),
                    stopwatch: &stopwatch,
                };
                planner.tick(&ports, now).await
            };
            (planner, report)
        }));
    }

    /// Goes on with the turn under way; when to ask again, if it waits.
    pub(crate) fn go_on(&mut self, at: Duration) -> Option<Duration> {
        let turn = self.turn.as_mut()?;
        {
            let mut board = self.desk.board();
            board.now = at;
            board.wake_at = None;
        }
        match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready((planner, report)) => {
                self.planner = Some(planner);
                self.report = report.or(self.report.take());
                self.turn = None;
                None
            }
            Poll::Pending => self.desk.board().wake_at,
        }
    }
}
