//! Reconciliation: from a resource to its running controller, or to the reason why it is refused. Every
//! planner runs controllers for all services; only the leader writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::Api;
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{self, finalizer};
use kube::{Resource, ResourceExt};

use super::conditions::NO_PROFILE;
use super::controller::ServiceController;
use super::ownership::{Claim, Name, conflicts};
use super::profiles::{PROFILES_AGAIN, Profiles};
use super::writer::Writer;
use super::{Shared, conditions};
use crate::service::{ConfigError, Service};
use crate::spec::resource::SloService;

/// Finalizer that holds a resource until its last cycle has finished.
pub const FINALIZER: &str = "weir.dev/planner";
/// Interval after which every resource is reconciled again, whatever the watches report.
pub const RESYNC: Duration = Duration::from_secs(300);
/// Interval after which a refused resource is reconciled again: what it claims may have become free.
pub const REFUSED_AGAIN: Duration = Duration::from_secs(10);
/// Interval after which a failed reconciliation is retried; doubled with each further failure.
pub const FAILED_AGAIN: Duration = Duration::from_secs(2);
/// Maximum of these intervals.
pub const FAILED_AGAIN_MAX: Duration = Duration::from_secs(128);

/// Reason why a reconciliation failed; it is retried.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReconcileError {
    #[error("{0}")]
    Metrics(#[from] prometheus::Error),
    #[error("{0}")]
    Finalizer(#[from] Box<finalizer::Error<ReconcileError>>),
}

/// Reason why a resource is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    reason: &'static str,
    why: String,
}

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
    if !shared.candidate.leads() {
        // Without a finalizer of this planner: the leader manages it.
        if resource.meta().deletion_timestamp.is_some() {
            shared.stop_controller(&name).await;
            return Ok(Action::await_change());
        }
        return ensure_controller(&resource, shared, &name).await;
    }
    let api: Api<SloService> = Api::namespaced(shared.client.clone(), &name.namespace);
    let (context, of) = (Arc::clone(shared), name);
    let done = finalizer(&api, FINALIZER, resource, |event| async move {
        match event {
            finalizer::Event::Apply(resource) => ensure_controller(&resource, &context, &of).await,
            finalizer::Event::Cleanup(_) => {
                context.stop_controller(&of).await;
                Ok(Action::await_change())
            }
        }
    });
    done.await
        .map_err(|error| ReconcileError::Finalizer(Box::new(error)))
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
    let service = match accept(resource, &shared.resources(), profiles, &controllers, name) {
        Ok(service) => service,
        Err(refusal) => {
            drop(controllers);
            if shared.candidate.leads() {
                refuse(resource, shared, name, &refusal).await;
            }
            return Ok(Action::requeue(REFUSED_AGAIN));
        }
    };
    let generation = resource.metadata.generation.unwrap_or(0);
    let running = controllers.get(name);
    if running.is_some_and(|running| running.generation == generation && running.service == service)
    {
        return Ok(Action::requeue(interval));
    }
    if let Some(before) = controllers.remove(name) {
        before.end().await;
    }
    controllers.insert(
        name.clone(),
        ServiceController::start(shared, name, resource, service)?,
    );
    Ok(Action::requeue(interval))
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
    all: &[Arc<SloService>],
    profiles: &Profiles,
    controllers: &BTreeMap<Name, ServiceController>,
    own: &Name,
) -> Result<Service, Refusal> {
    let service = parse_service(resource, profiles)?;
    let created = |one: &SloService| {
        let time = one.creation_timestamp();
        time.map_or(0, |time| time.0.as_second())
    };
    let claimed = all.iter().filter_map(|one| {
        let service = parse_service(one, profiles).ok()?;
        Some(Claim::new(false, created(one), name(one), &service))
    });
    let running = controllers
        .iter()
        .map(|(name, controller)| Claim::new(true, 0, name.clone(), &controller.service));
    match conflicts(claimed.chain(running).collect()).remove(own) {
        None => Ok(service),
        Some(conflict) => Err(Refusal {
            reason: "Taken",
            why: conflict.to_string(),
        }),
    }
}

/// Returns the service that a resource describes.
fn parse_service(resource: &SloService, profiles: &Profiles) -> Result<Service, Refusal> {
    let refusal = |reason| {
        move |error: ConfigError| Refusal {
            reason,
            why: error.to_string(),
        }
    };
    let namespace = resource.namespace().unwrap_or_default();
    let spec = profiles.resolve(&namespace, &resource.spec);
    let spec = spec.map_err(refusal(NO_PROFILE))?;
    Service::from_resource(&resource.name_any(), spec).map_err(refusal("Invalid"))
}

async fn refuse(resource: &SloService, shared: &Shared, name: &Name, refusal: &Refusal) {
    let before = resource.status.clone().unwrap_or_default();
    let generation = resource.metadata.generation.unwrap_or(0);
    let now = i64::try_from(shared.clock.now().unix_ms).unwrap_or(0);
    let now = Timestamp::from_millisecond(now).unwrap_or_default();
    let status = conditions::refused_status(refusal.reason, &refusal.why, generation, &before, now);
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
