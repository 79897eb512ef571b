//! Reconciliation: from a resource to its running controller, or to the reason why it is refused. Every
//! planner runs controllers for all services; only the leader writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};

use super::Shared;
use super::conditions::{self, NO_PROFILE, Refusal};
use super::controller::ServiceController;
use super::ownership::{Claim, Name, conflicts};
use super::profiles::{PROFILES_AGAIN, Profiles};
use super::writer::Writer;
use crate::service::{ConfigError, Service};
use crate::spec::resource::SloService;

/// Interval after which every resource is reconciled again, whatever the watches report.
pub const RESYNC: Duration = Duration::from_secs(300);
/// Interval after which a refused resource is reconciled again: what it claims may have become free.
pub const REFUSED_AGAIN: Duration = Duration::from_secs(10);
/// Interval after which a failed reconciliation is retried; doubled with each further failure.
pub const FAILED_AGAIN: Duration = Duration::from_secs(2);
/// Maximum of these intervals.
pub const FAILED_AGAIN_MAX: Duration = Duration::from_secs(128);

/// Reason, in metrics, of a reconciliation that failed.
const FAILED: &str = "Failed";

/// Reason why a reconciliation failed; it is retried.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReconcileError {
    #[error("{0}")]
    Metrics(#[from] prometheus::Error),
}

/// Service that a resource describes, or the reason in one word and in a sentence why it is refused.
pub(super) type Parsed = Result<Arc<Service>, (&'static str, String)>;

pub(super) async fn reconcile(
    resource: Arc<SloService>,
    shared: Arc<Shared>,
) -> Result<Action, ReconcileError> {
    let name = name(&resource);
    let done = apply(resource, &shared, name.clone()).await;
    if done.is_ok() {
        shared.failures().remove(&name);
    }
    done
}

async fn apply(
    resource: Arc<SloService>,
    shared: &Arc<Shared>,
    name: Name,
) -> Result<Action, ReconcileError> {
    // Another program's finalizer may hold a resource that is to go; nothing is planned for it any more.
    if resource.meta().deletion_timestamp.is_some() {
        shared.stop_controller(&name).await;
        return Ok(Action::await_change());
    }
    ensure_controller(&resource, shared, &name).await
}

pub(super) fn on_error(
    resource: Arc<SloService>,
    error: &ReconcileError,
    shared: Arc<Shared>,
) -> Action {
    let name = name(&resource);
    let mut failures = shared.failures();
    let before = failures.entry(name.clone()).or_default();
    let wait = backoff(*before);
    *before = before.saturating_add(1);
    shared.metrics.count_reconcile_error(FAILED);
    tracing::warn!("{name}: {error}; tried again in {wait:?}");
    Action::requeue(wait)
}

/// Returns the wait after `failures` earlier failures in a row and one more.
fn backoff(failures: u32) -> Duration {
    let times = 2_u32.saturating_pow(failures);
    FAILED_AGAIN.saturating_mul(times).min(FAILED_AGAIN_MAX)
}

async fn ensure_controller(
    resource: &SloService,
    shared: &Arc<Shared>,
    name: &Name,
) -> Result<Action, ReconcileError> {
    let client = &shared.client;
    let (profiles, interval) = (&shared.profiles, requeue_interval(resource));
    profiles.read(client, &name.namespace, &resource.spec).await;
    // Ownership is decided for one resource at a time.
    let mut controllers = shared.controllers.lock().await;
    let uid = resource.uid().unwrap_or_default();
    // Another resource of the same name.
    if controllers.get(name).is_some_and(|one| one.uid != uid)
        && let Some(before) = controllers.remove(name)
    {
        shared.budgets.remove(&before.service.name);
        before.end().await;
    }
    let generation = resource.metadata.generation.unwrap_or(0);
    let service = match accept(resource, shared, &controllers, name) {
        Ok(service) => service,
        Err((reason, why)) => {
            shared.metrics.count_reconcile_error(reason);
            let refusal = Refusal {
                generation,
                reason,
                why,
            };
            let acts = keep_acting(resource, shared, &mut controllers, name, &refusal).await?;
            drop(controllers);
            if !acts && shared.candidate.leads() {
                refuse(resource, shared, name, &refusal).await;
            }
            return Ok(Action::requeue(REFUSED_AGAIN));
        }
    };
    let running = controllers.get(name);
    if let Some(running) = running.filter(|one| one.acts_for(generation, &service)) {
        running.set_refusal(None);
        return Ok(Action::requeue(interval));
    }
    if let Some(before) = controllers.remove(name) {
        before.end().await;
    }
    let service = Service::clone(&service);
    let started = ServiceController::start(shared, name, resource, service, generation, None)?;
    controllers.insert(name.clone(), started);
    Ok(Action::requeue(interval))
}

/// Lets the running controller act on, by the generation that was accepted last, but in the mode that the refused one
/// says. Returns whether there is one.
async fn keep_acting(
    resource: &SloService,
    shared: &Arc<Shared>,
    controllers: &mut BTreeMap<Name, ServiceController>,
    name: &Name,
    refusal: &Refusal,
) -> Result<bool, ReconcileError> {
    let Some(running) = controllers.get(name) else {
        return Ok(false);
    };
    if running.set_refusal(Some(refusal)) {
        tracing::warn!(
            "{name}: generation {} is refused: {}; generation {} acts",
            refusal.generation,
            refusal.why,
            running.generation
        );
    }
    let mode = resource.spec.mode;
    if running.service.mode == mode {
        return Ok(true);
    }
    running.forbid_writes();
    let Some(before) = controllers.remove(name) else {
        return Ok(false);
    };
    let service = Service {
        mode,
        ..before.service.clone()
    };
    let generation = before.generation;
    before.end().await;
    let refusal = Some(refusal.clone());
    let started = ServiceController::start(shared, name, resource, service, generation, refusal)?;
    controllers.insert(name.clone(), started);
    Ok(true)
}

/// Returns the interval until the next reconciliation without an event.
fn requeue_interval(resource: &SloService) -> Duration {
    match resource.spec.references().is_empty() {
        true => RESYNC,
        false => PROFILES_AGAIN,
    }
}

fn accept(
    resource: &SloService,
    shared: &Shared,
    controllers: &BTreeMap<Name, ServiceController>,
    own: &Name,
) -> Parsed {
    let parse = |one: &SloService| {
        let profiles = &shared.profiles;
        let parsed = &shared.parsed;
        parsed.get(&name(one), one, profiles, || parse_service(one, profiles))
    };
    let service = parse(resource)?;
    let created = |one: &SloService| {
        let time = one.creation_timestamp();
        time.map_or(0, |time| time.0.as_second())
    };
    let all = shared.resources();
    // One that is being deleted claims nothing; while its controller runs, that one's claim counts.
    let staying = all
        .iter()
        .filter(|one| one.meta().deletion_timestamp.is_none());
    let claimed = staying.filter_map(|one| {
        // The one to be reconciled may be newer than the one in the store.
        let service = match name(one) == *own {
            true => Arc::clone(&service),
            false => parse(one).ok()?,
        };
        Some(Claim::new(false, created(one), name(one), &service))
    });
    let running = controllers
        .iter()
        .map(|(name, controller)| Claim::new(true, 0, name.clone(), &controller.service));
    match conflicts(claimed.chain(running).collect()).remove(own) {
        None => match shared.budgets.check(&service) {
            Ok(()) => Ok(service),
            Err(error) => Err(("Invalid", error.to_string())),
        },
        Some(conflict) => Err(("Taken", conflict.to_string())),
    }
}

/// Returns the service that a resource describes.
fn parse_service(resource: &SloService, profiles: &Profiles) -> Parsed {
    let refusal = |reason| move |error: ConfigError| (reason, error.to_string());
    let namespace = resource.namespace().unwrap_or_default();
    let spec = profiles.resolve(&namespace, &resource.spec);
    let spec = spec.map_err(refusal(NO_PROFILE))?;
    let service = Service::from_resource(&resource.name_any(), spec);
    service.map(Arc::new).map_err(refusal("Invalid"))
}

/// Writes the status of a refused resource of which no generation acts.
async fn refuse(resource: &SloService, shared: &Shared, name: &Name, refusal: &Refusal) {
    let before = resource.status.clone().unwrap_or_default();
    let status = conditions::refused_status(refusal, &before, shared.timestamp());
    if status == before {
        return;
    }
    tracing::warn!("{name}: {}: {}", refusal.reason, refusal.why);
    let recorder = shared.recorder.clone();
    let writer = Writer::new(&shared.client, name, resource.object_ref(&()), recorder);
    writer.write(&before, &status).await;
}

pub(super) fn name(resource: &SloService) -> Name {
    Name {
        namespace: resource.namespace().unwrap_or_default(),
        name: resource.name_any(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_failure_doubles_wait_up_to_maximum() {
        let waits = [0, 1, 2, 5, 6, 7, u32::MAX].map(|failures| backoff(failures).as_secs());
        assert_eq!(waits, [2, 4, 8, 64, 128, 128, 128]);
    }
}
