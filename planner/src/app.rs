//! Wiring of one service's planner, the same for `weir serve` and `weir operate`: the HTTP client, the adapters made with
//! it, and the cycles that run over them.

mod aside;
mod member;
mod recorded;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::backends::cgroup::{self, CgroupServer};
use crate::backends::{Actuate, Backend, Gate, HttpBackends, HttpMemory};
use crate::clock::Clock;
use crate::control_loop::{Planner, Ports};
use crate::http::CONNECT_MAX;
use crate::memory::Memory;
use crate::observe::{Fetches, Observe, ScrapeTargets, Scraper};
use crate::registry::ServiceHandle;
use crate::service::{Replicas, Service, Variant};
use crate::shared_budget::Seat;
use crate::state::StateFile;
use crate::telemetry::cycle_trace::{CycleTrace, TraceSink};
use crate::telemetry::status::CycleReport;

pub use aside::Aside;
use member::BudgetMember;
use recorded::{CallRecorder, Recorded};

/// Creates the client for proxies and backends; it ignores proxy settings of the environment.
///
/// # Errors
/// Fails if TLS cannot be set up.
pub fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_MAX)
        .build()
}

/// Returns the backends that are reached over HTTP or on this host, with the `memory` of what was sent to them.
pub(crate) fn http_backends(
    service: &Service,
    http: &reqwest::Client,
    memory: &Arc<HttpMemory>,
) -> HttpBackends {
    let backend = |variant: &Variant| Backend {
        address: variant.resize.clone(),
        cgroup: variant.cgroup.clone().map(|name| CgroupServer {
            root: cgroup::ROOT.into(),
            name,
            max: variant.cores(variant.max),
        }),
        replicated: variant.replicas != Replicas::ONE,
        tell_batch: variant.tell_batch,
    };
    let backends = service.variants.iter().map(backend).collect();
    HttpBackends::new(
        http.clone(),
        backends,
        service.resize_timeout,
        Arc::clone(memory),
    )
}

/// Returns the scraper of the proxies, by the `fetches` that all services share.
pub(crate) fn scraper(service: &Service, fetches: &Fetches, targets: ScrapeTargets) -> Scraper {
    let stages = service.stages.iter().map(|stage| stage.name.as_str());
    let stages: Vec<&str> = stages.collect();
    let (interval, timeout) = (service.scrape_interval, service.scrape_timeout);
    Scraper::sharing(fetches, &stages, targets, interval, timeout)
}

/// Runs cycles until `stop` is set, checked between two cycles; calls `on_report` with each report. With a `state` it
/// begins with the rates and requests in its files, and keeps them there. With a `seat`, the budget is a part of a shared
/// one. With `traces`, each cycle is traced.
pub(crate) async fn run_cycles(
    handle: &ServiceHandle,
    clock: Clock,
    (observe, actuate): (&(impl Observe + Sync), &(impl Actuate + Sync)),
    (state, seat, traces): (Option<StateFile>, Option<Seat>, Option<Arc<dyn TraceSink>>),
    mut stop: watch::Receiver<bool>,
    mut on_report: impl FnMut(&CycleReport),
) {
    let running = handle.heartbeat.start(clock.now().at);
    let mut planner = Planner::new(Arc::clone(&handle.service));
    let mut state = state.map(|file| Memory::restore(file, &mut planner, handle, clock.now()));
    let mut member = seat.map(|seat| BudgetMember::new(seat, Arc::clone(&handle.service)));
    let mut ticks = interval(handle.service.scrape_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let gate = Gate::new(actuate);
    let traces = traces.map(|traces| (traces, CallRecorder::new(&handle.service, clock)));
    let recorder = traces.as_ref().map(|(_, recorder)| recorder);
    let ports = Ports {
        observe: &Recorded::new(observe, recorder),
        actuate: &Recorded::new(&gate, recorder),
        publish: &Recorded::new(&*handle.publishers, recorder),
        solver: &Recorded::new(&Aside, recorder),
        stopwatch: &|| clock.now().at,
    };
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            () = member::compute(&mut member) => continue,
            _ = ticks.tick() => {}
        }
        running.beat(clock.now().at);
        let Some(mode) = handle.mode.current().mode.of_cycles() else {
            handle.publishers.renew(clock.now());
            continue;
        };
        match &member {
            Some(member) => gate.set_open(member.begin(&mut planner, mode)),
            None => planner.set_mode(mode),
        }
        let begin = clock.now();
        if let Some(recorder) = recorder {
            recorder.begin(begin.at);
        }
        let report = planner.tick(&ports, begin).await;
        let end = clock.now();
        if let Some(member) = &mut member {
            member.end(&planner, clock.now());
        }
        running.beat(clock.now().at);
        if let Some(state) = &mut state {
            state.keep(&planner, clock.now());
        }
        let Some(mut report) = report else {
            continue;
        };
        if let Some(member) = &member {
            member.complete(&mut report);
        }
        let requests = planner.take_requests();
        handle.status.add_requests(clock.now().at, requests);
        if let Some(basis) = planner.basis() {
            handle.alternatives.decided(Arc::clone(basis));
        }
        handle.metrics.record(&report);
        if let Some((traces, recorder)) = &traces {
            let (of, took) = ((handle.service.name.as_str(), mode), end.at - begin.at);
            traces.record(CycleTrace::new(of, &report, took, recorder.take()));
        }
        on_report(&report);
        handle.status.push(report);
    }
    if let Some(state) = state {
        state.end(&planner, clock.now()).await;
    }
}

#[cfg(test)]
mod tests;
