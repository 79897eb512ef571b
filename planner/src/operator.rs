//! The planner on Kubernetes: every `SloService` resource has a controller. One of several planners leads:
//! it plans, resizes, scales, allocates slots and writes statuses. The others forward proxies' polls to it. If it
//! does not respond, they refuse polls, and proxies keep their plans.
//!
//! [`lease`], [`ownership`], [`conditions`] and [`standby`] are pure; [`leader`] holds the Lease, and the
//! other modules watch, run cycles and write. Nothing here knows a policy.

mod backends;
pub mod conditions;
mod controller;
pub mod leader;
pub mod lease;
pub mod ownership;
mod profiles;
mod reconcile;
pub mod standby;
mod supervise;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::controller::{Config, Controller};
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::app::client;
use crate::backends::HttpMemory;
use crate::backends::kubernetes::actuate::NamespaceMemory;
use crate::backends::kubernetes::namespace::Namespace;
use crate::backends::kubernetes::rate_limit::PatchLimiter;
use crate::backends::kubernetes::watch::ApiOutage;
use crate::clock::Clock;
use crate::http::replay::ReplayRunner;
use crate::http::{App, Endpoint, LeaderClient, ServerLimits, run_probes};
use crate::observe::Fetches;
use crate::registry::ServiceRegistry;
use crate::shared_budget::SharedBudgets;
use crate::spec::resource::SloService;
use crate::telemetry::cycle_trace::TraceSink;
use crate::telemetry::metrics::Metrics;
use controller::ServiceController;
use leader::Candidate;
use ownership::Name;
pub use profiles::{PROFILE_TIMEOUT, PROFILES_AGAIN, PROFILES_BYTES_MAX};
use profiles::{ParsedServices, Profiles};
pub use reconcile::{FAILED_AGAIN, FAILED_AGAIN_MAX, REFUSED_AGAIN, RESYNC};
pub use supervise::{RESTART_AFTER, RESTART_AFTER_MAX, RESTARTS_MAX, RESTARTS_WINDOW};
pub use writer::{MANAGER, RENEW_EVERY, WRITE_EVERY};

/// Maximum number of resources reconciled at the same time.
const RECONCILED_AT_ONCE: u16 = 8;
/// Window within which several changes of one resource are reconciled once.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Time in which running cycles may finish on shutdown.
const END_MAX: Duration = Duration::from_secs(10);

/// Interval at which controllers end whose resources do not exist any more.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// Options of the operator.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of this planner among the planners: its pod's.
    pub name: String,
    /// Namespace of the planners' Lease: their own.
    pub namespace: String,
    /// Namespaces whose resources are planned for; empty for all.
    pub namespaces: Vec<String>,
    /// Address at which other planners reach this one's endpoints, such as `http://10.0.0.7:8080`; with a
    /// certificate, `https://…`.
    pub address: String,
    /// Folder in which what is known of the loads is kept, for the next start.
    pub state: Option<PathBuf>,
    /// Budgets that services may share.
    pub budgets: Arc<SharedBudgets>,
    /// The replay for `POST /v1/replay`, if the program provides it.
    pub replay: Option<ReplayRunner>,
    /// Receiver of the cycles' traces.
    pub traces: Option<Arc<dyn TraceSink>>,
}

/// Reason why the operator cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum OperateError {
    #[error("HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("{0}")]
    ControllerEnds(String),
}

/// State shared by reconciliations and controllers.
struct Shared {
    client: kube::Client,
    http: reqwest::Client,
    /// Fetches of the proxies' statistics, shared by all services.
    fetches: Fetches,
    clock: Clock,
    candidate: Arc<Candidate>,
    services: Arc<ServiceRegistry>,
    /// Budgets that services share.
    budgets: Arc<SharedBudgets>,
    metrics: Metrics,
    /// Shared by all services, because they use one API server.
    limiter: Arc<Mutex<PatchLimiter>>,
    recorder: Recorder,
    followed: Mutex<BTreeMap<String, Weak<Namespace>>>,
    /// Memory of what was written, by namespace; it outlives watches and controllers.
    memories: Mutex<BTreeMap<String, Arc<NamespaceMemory>>>,
    /// Memory of what was sent to HTTP backends; it outlives controllers.
    http_memory: Arc<HttpMemory>,
    /// Shared by all watches.
    outage: Arc<ApiOutage>,
    parsed: ParsedServices<reconcile::Parsed>,
    /// Reason why the process must end.
    fatal: watch::Sender<Option<String>>,
    /// Closed when [`operate`] has returned or was dropped; controllers then end at once.
    lifetime: watch::Receiver<()>,
    stores: Vec<Store<SloService>>,
    controllers: tokio::sync::Mutex<BTreeMap<Name, ServiceController>>,
    profiles: Profiles,
    /// Folder of what is known of the loads.
    state: Option<PathBuf>,
    traces: Option<Arc<dyn TraceSink>>,
    /// Consecutive failures of each resource's reconciliation.
    failures: Mutex<BTreeMap<Name, u32>>,
}

/// Runs the controllers of all services and answers at `endpoint` until `stop` is set.
///
/// # Errors
/// Fails if something cannot be set up, or if a controller ends unexpectedly again and again. Nothing that the API
/// server, proxies or clients do later ends the planner.
pub async fn operate(
    client: kube::Client,
    options: Options,
    endpoint: Endpoint,
    stop: watch::Receiver<bool>,
) -> Result<(), OperateError> {
    let http = self::client()?;
    let clock = Clock::start();
    let services = Arc::new(ServiceRegistry::default());
    let candidate = Candidate::new(
        &client,
        &options.namespace,
        &options.name,
        &options.address,
        clock,
    );
    let app = App {
        leadership: candidate.leadership(),
        leader_client: LeaderClient::new(endpoint.tls.as_ref()),
        replay_runner: options.replay,
        ..App::new(
            Arc::clone(&services),
            Arc::clone(&endpoint.keys),
            clock,
            stop.clone(),
        )?
    };
    let app = Arc::new(app);
    let answering = endpoint.answer(Arc::clone(&app), ServerLimits::default(), stop.clone());
    let endpoints = async {
        tokio::select! {
            () = answering => {}
            () = run_probes(Arc::clone(&app)) => {}
        }
    };
    let (fatal, mut ends) = watch::channel(None);
    let adapters = (client, http, clock);
    let metrics = app.metrics.clone();
    let registered = (services, metrics);
    let controllers = run_controllers(adapters, &options, registered, candidate, fatal, stop);
    let all = async { tokio::join!(endpoints, controllers) };
    tokio::select! {
        _ = all => Ok(()),
        // The Lease is not released: what this process has sent may still be under way.
        Ok(why) = ends.wait_for(Option::is_some) => {
            Err(OperateError::ControllerEnds(why.clone().unwrap_or_default()))
        }
    }
}

/// Runs the controllers without the endpoints.
async fn run_controllers(
    (client, http, clock): (kube::Client, reqwest::Client, Clock),
    options: &Options,
    (services, metrics): (Arc<ServiceRegistry>, Metrics),
    candidate: Arc<Candidate>,
    fatal: watch::Sender<Option<String>>,
    mut stop: watch::Receiver<bool>,
) {
    let apis: Vec<Api<SloService>> = match options.namespaces.as_slice() {
        [] => vec![Api::all(client.clone())],
        some => some
            .iter()
            .map(|namespace| Api::namespaced(client.clone(), namespace))
            .collect(),
    };
    let config = Config::default()
        .concurrency(RECONCILED_AT_ONCE)
        .debounce(DEBOUNCE);
    let reconcilers: Vec<Controller<SloService>> = apis
        .into_iter()
        .map(|api| Controller::new(api, watcher::Config::default()).with_config(config.clone()))
        .collect();
    // Not before all resources have been listed.
    options.budgets.expect(None);
    let (_lives, lifetime) = watch::channel(());
    let reporter = Reporter {
        controller: MANAGER.to_owned(),
        instance: Some(options.name.clone()),
    };
    let shared = Arc::new(Shared {
        recorder: Recorder::new(client.clone(), reporter),
        client,
        fetches: Fetches::new(http.clone(), clock),
        http,
        clock,
        candidate: Arc::clone(&candidate),
        services,
        budgets: Arc::clone(&options.budgets),
        metrics,
        limiter: Arc::default(),
        followed: Mutex::default(),
        memories: Mutex::default(),
        http_memory: Arc::default(),
        outage: Arc::default(),
        parsed: ParsedServices::default(),
        fatal,
        lifetime,
        stores: reconcilers.iter().map(Controller::store).collect(),
        controllers: tokio::sync::Mutex::default(),
        profiles: Profiles::default(),
        state: options.state.clone(),
        traces: options.traces.clone(),
        failures: Mutex::default(),
    });
    let running = reconcilers.into_iter().map(|reconciler| {
        let elected = stream::unfold(candidate.leader(), |mut leader| async move {
            leader.changed().await.ok()?;
            Some(((), leader))
        });
        let results = reconciler.reconcile_all_on(elected).run(
            reconcile::reconcile,
            reconcile::on_error,
            Arc::clone(&shared),
        );
        // A failure has been logged and is retried.
        results.for_each(|_| std::future::ready(()))
    });
    let election = candidate.run(stop.clone());
    let sweep = shared.sweep(stop.clone());
    let controllers = async {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            _ = futures_util::future::join_all(running) => {}
        }
        // No new cycle starts, running ones finish, and only then may another planner lead.
        let ended = async {
            let controllers = std::mem::take(&mut *shared.controllers.lock().await);
            let ending = controllers.into_values().map(ServiceController::end);
            futures_util::future::join_all(ending).await;
        };
        if tokio::time::timeout(END_MAX, ended).await.is_err() {
            tracing::warn!("cycles were still running after {END_MAX:?}");
        }
    };
    tokio::join!(election, controllers, sweep);
    candidate.release().await;
}

impl Shared {
    /// Returns all resources as last observed.
    fn resources(&self) -> Vec<Arc<SloService>> {
        let all = self.stores.iter();
        all.flat_map(|store| store.state()).collect()
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<Name, u32>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resource(&self, name: &Name) -> Option<Arc<SloService>> {
        let reference = ObjectRef::new(&name.name).within(&name.namespace);
        self.stores.iter().find_map(|store| store.get(&reference))
    }

    /// Returns the watch of a namespace, started once and kept as long as a service there is planned for.
    fn namespace(&self, name: &str) -> Arc<Namespace> {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.retain(|_, namespace| namespace.strong_count() > 0);
        if let Some(namespace) = followed.get(name).and_then(Weak::upgrade) {
            return namespace;
        }
        let memory = self.memory(name);
        let namespace = Namespace::follow(&self.client, name, memory, &self.outage);
        followed.insert(name.to_owned(), Arc::downgrade(&namespace));
        namespace
    }

    /// Returns the memory of a namespace. That of namespaces without services is dropped once nothing written there may
    /// still take effect.
    fn memory(&self, name: &str) -> Arc<NamespaceMemory> {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.retain(|_, memory| Arc::strong_count(memory) > 1 || !memory.is_idle());
        Arc::clone(memories.entry(name.to_owned()).or_default())
    }

    /// Returns the current time as statuses have it.
    fn timestamp(&self) -> Timestamp {
        let now = i64::try_from(self.clock.now().unix_ms).unwrap_or(0);
        Timestamp::from_millisecond(now).unwrap_or_default()
    }

    /// Ends the controllers whose resources do not exist any more, and forgets what is remembered of these,
    /// until `stop` is set.
    async fn sweep(&self, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                () = sleep(SWEEP_INTERVAL) => {}
            }
            self.expect_members();
            let names: Vec<Name> = self.controllers.lock().await.keys().cloned().collect();
            for name in names {
                // A store keeps its content while a watch lists anew.
                if self.resource(&name).is_none() {
                    self.stop_controller(&name).await;
                }
            }
            let exists = |name: &Name| self.resource(name).is_some();
            self.parsed.retain(exists);
            self.failures().retain(|name, _| exists(name));
            self.profiles.retain(&self.resources());
            self.http_memory.prune();
        }
    }

    /// Lets the shared budgets know all services that name them, refused ones too, once all resources have been listed.
    fn expect_members(&self) {
        let is_ready = |store: &Store<SloService>| store.wait_until_ready().now_or_never();
        if !self.stores.iter().all(|store| is_ready(store).is_some()) {
            return;
        }
        let mut expected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for resource in self.resources() {
            // One that is being deleted is planned for no more.
            let staying = resource.metadata.deletion_timestamp.is_none();
            let budget = resource.spec.sizes().shared.filter(|_| staying);
            if let Some(budget) = budget {
                let members = expected.entry(budget).or_default();
                members.insert(resource.name_any());
            }
        }
        self.budgets.expect(Some(&expected));
    }

    /// Stops the controller of a service.
    async fn stop_controller(&self, name: &Name) {
        // Its names and workloads stay owned until its last cycle has finished.
        let mut controllers = self.controllers.lock().await;
        if let Some(kept) = controllers.remove(name) {
            let service = kept.service.name.clone();
            kept.end().await;
            self.services.remove(&service);
            self.budgets.remove(&service);
        }
    }
}
