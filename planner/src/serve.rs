//! Standalone planner of one or more service files: runs their control loops and the endpoints until these end. A
//! service that is replaced over the endpoints ([`crate::catalog`]) has a control loop of its own from the end of the
//! running cycle on; one that is created has one from then on, and that of a deleted one ends.

mod files;
mod left;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::app::{client, http_backends, run_cycles, scraper};
use crate::backends::{HttpMemory, SwitchedBackends};
pub use crate::catalog::SERVED_MAX;
use crate::catalog::{Catalog, ServiceSource};
use crate::clock::Clock;
use crate::http::replay::ReplayRunner;
use crate::http::{App, Endpoint, ServerLimits};
use crate::observe::{Fetches, ScrapeTargets};
use crate::registry::{ServiceHandle, ServiceRegistry};
use crate::service::Service;
use crate::shared_budget::SharedBudgets;
use crate::specification::Specification;
use crate::state::StateFile;
use crate::telemetry::cycle_trace::TraceSink;
pub use files::{ServedFileError, ServedFiles};

/// Reason why the planner cannot run.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ServeError {
    #[error("HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("the cycle broke: {0:?}")]
    Cycle(Option<tokio::task::JoinError>),
}

/// Time in which a cycle may end, and what is known be written, when the planner ends or a service is replaced.
const SERVE_END_MAX: Duration = Duration::from_secs(2);

/// Services of a standalone planner, and what it plans them with.
#[derive(Debug)]
pub struct Served {
    /// Services, each with the specification that it was read of.
    pub services: Vec<(Service, Specification)>,
    /// Source of the services.
    pub source: ServiceSource,
    /// Budgets that services share. Those that do have been added.
    pub budgets: SharedBudgets,
    /// The replay for `POST /v1/replay`, if the program provides it.
    pub replay: Option<ReplayRunner>,
    /// Folder in which what is known of the loads is kept.
    pub state: Option<PathBuf>,
    /// Receiver of the cycles' traces.
    pub traces: Option<Arc<dyn TraceSink>>,
}

/// Plans for `served` and answers at `endpoint` until `stop` is set.
///
/// # Errors
/// Fails if something cannot be set up, or if a cycle panicked, which would be a bug. Nothing that proxies,
/// backends or clients do ends the planner.
pub async fn serve(
    served: Served,
    endpoint: Endpoint,
    stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let clock = Clock::start();
    let registry = Arc::new(ServiceRegistry::default());
    let http = client()?;
    let keeps = served.state.is_some();
    let budgets = Arc::new(served.budgets);
    let catalog = Catalog::new(
        Arc::clone(&registry),
        clock,
        served.source,
        Arc::clone(&budgets),
        served.state.clone(),
    );
    let catalog = Arc::new(catalog);
    let surroundings = Arc::new(Surroundings {
        registry: Arc::clone(&registry),
        catalog: Arc::clone(&catalog),
        budgets,
        fetches: Fetches::new(http.clone(), clock),
        memory: Arc::default(),
        http,
        clock,
        state: served.state,
        traces: served.traces,
    });
    for (service, specification) in served.services {
        let handle = ServiceHandle::new(service, clock)?.with_specification(specification);
        handle.mode.allow_changes();
        registry.insert(Arc::new(handle));
    }
    let app = App {
        replay_runner: served.replay,
        catalog,
        ..App::new(registry, Arc::clone(&endpoint.keys), clock, stop.clone())?
    };
    let (ends, ended) = watch::channel(false);
    let mut cycles = JoinSet::new();
    let mut answering = pin!(endpoint.answer(Arc::new(app), ServerLimits::default(), stop));
    let planning = surroundings.plan_all(&mut cycles, ended);
    let ended = tokio::select! {
        () = &mut answering => Ok(()),
        broken = planning => Err(broken),
    };
    ends.send_replace(true);
    // Without a state, cycles that are running when the endpoints close are not waited for.
    if keeps && ended.is_ok() {
        let all_ended = async { while cycles.join_next().await.is_some() {} };
        if timeout(SERVE_END_MAX, all_ended).await.is_err() {
            tracing::warn!(
                "a cycle was still running after {SERVE_END_MAX:?}; the history is that of the last write"
            );
        }
    }
    cycles.abort_all();
    ended
}

/// Surroundings of all control loops.
struct Surroundings {
    registry: Arc<ServiceRegistry>,
    catalog: Arc<Catalog>,
    budgets: Arc<SharedBudgets>,
    fetches: Fetches,
    /// Memory of what was sent to backends. It outlives a service that is replaced.
    memory: Arc<HttpMemory>,
    http: reqwest::Client,
    clock: Clock,
    state: Option<PathBuf>,
    traces: Option<Arc<dyn TraceSink>>,
}

/// Reason why a control loop ended.
enum LoopEnd {
    /// The service of that name was deleted.
    Deleted(String),
    /// The planner ends, or the loop broke.
    Other,
}

impl Surroundings {
    /// Plans for all services, those that are created later too, and observes servers that are left without one. Returns
    /// only if a control loop breaks: without it the plans would silently become stale.
    async fn plan_all(
        self: &Arc<Self>,
        cycles: &mut JoinSet<LoopEnd>,
        ended: watch::Receiver<bool>,
    ) -> ServeError {
        let mut running = BTreeSet::new();
        let mut left = JoinSet::new();
        loop {
            for handle in self.registry.all() {
                let name = &handle.service.name;
                if running.insert(name.clone()) {
                    cycles.spawn(Arc::clone(self).plan(name.clone(), ended.clone()));
                }
            }
            for servers in self.catalog.take_left() {
                let (registry, memory) = (Arc::clone(&self.registry), Arc::clone(&self.memory));
                left.spawn(left::observe(servers, registry, self.http.clone(), memory));
            }
            tokio::select! {
                () = self.catalog.wait_changed() => self.memory.prune(),
                // A service of that name may have been created meanwhile.
                Some(ended) = cycles.join_next() => match ended {
                    Ok(LoopEnd::Deleted(name)) => drop(running.remove(&name)),
                    Ok(LoopEnd::Other) => return ServeError::Cycle(None),
                    Err(broken) => return ServeError::Cycle(Some(broken)),
                },
                Some(observed) = left.join_next() => if let Err(broken) = observed {
                    tracing::error!("the observation of servers without a service broke: {broken}");
                },
            }
        }
    }

    /// Plans for the service of that name, and for those that replace it, until it is deleted or `stop` is set.
    async fn plan(self: Arc<Self>, name: String, mut stop: watch::Receiver<bool>) -> LoopEnd {
        let mut next = self.registry.get(&name);
        let _running = next.as_ref().map(|first| first.run_loop());
        while let Some(handle) = next {
            let service = Arc::clone(&handle.service);
            let targets = ScrapeTargets::of(&service, self.clock);
            let scraper = scraper(&service, &self.fetches, targets);
            let backends = http_backends(&service, &self.http, &self.memory);
            let backends = SwitchedBackends::new(backends, &handle.mode);
            let state = self.state.as_deref();
            let state = state.map(|folder| StateFile::new(folder, &service.name));
            // One planner, one term.
            let seat = self.budgets.seat(&service, Duration::ZERO);
            let (ends, ended) = watch::channel(false);
            let ports = (&scraper, &backends);
            let keeps = (state, seat, self.traces.clone());
            let cycles = run_cycles(&handle, self.clock, ports, keeps, ended, |_| {});
            let mut cycles = pin!(cycles);
            let is_replaced = tokio::select! {
                biased;
                () = handle.wait_replaced() => true,
                _ = stop.wait_for(|stop| *stop) => false,
                () = &mut cycles => return LoopEnd::Other,
                () = handle.publishers.run_ticks(self.clock) => return LoopEnd::Other,
            };
            ends.send_replace(true);
            if !is_replaced {
                cycles.await;
                return LoopEnd::Other;
            }
            if timeout(SERVE_END_MAX, cycles).await.is_err() {
                tracing::warn!(
                    "{name}: a cycle of the service before was still running after {SERVE_END_MAX:?}"
                );
            }
            next = self.registry.get(&name);
            if let Some(next) = &next {
                self.catalog.leave_out(&handle, &next.service);
            }
        }
        LoopEnd::Deleted(name)
    }
}
