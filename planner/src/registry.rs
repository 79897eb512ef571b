//! Registry of the services that are planned for, shared by the endpoints and the control loops: often
//! read, and changed when a service comes, changes or goes. No decisions are made here.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use crate::alternatives::Alternatives;
use crate::clock::Clock;
use crate::distribution::Publishers;
use crate::distribution::slot_allocation::{Counts, LISTEN_TIME};
use crate::mode::ModeSwitch;
use crate::service::Service;
use crate::specification::Specification;
use crate::telemetry::heartbeat::Heartbeat;
use crate::telemetry::metrics::{ServiceMetrics, Shown};
use crate::telemetry::status::Status;
use weir_api::Revision;

/// Shared state of one service.
#[derive(Debug)]
pub struct ServiceHandle {
    /// The service.
    pub service: Arc<Service>,
    /// Publishers of its plans.
    pub publishers: Arc<Publishers>,
    /// Status of its latest cycles.
    pub status: Arc<Status>,
    /// Its metrics.
    pub metrics: Arc<ServiceMetrics>,
    /// Mode that its control loop follows.
    pub mode: ModeSwitch,
    /// Heartbeat of its control loop.
    pub heartbeat: Heartbeat,
    /// Alternatives to its latest decision.
    pub alternatives: Alternatives,
    /// Specification that the service was read of, if it is known.
    pub specification: Option<Arc<Specification>>,
    /// True once this handle has been replaced or removed.
    replaced: watch::Sender<bool>,
    /// Number of control loops that run for the service, one or none: with this handle, or with one before it.
    loops: Arc<watch::Sender<usize>>,
}

/// Control loop that runs for a service; it counts as ended when dropped.
#[derive(Debug)]
pub(crate) struct RunningLoop(Arc<watch::Sender<usize>>);

impl Drop for RunningLoop {
    fn drop(&mut self) {
        self.0.send_modify(|loops| *loops = loops.saturating_sub(1));
    }
}

/// Handles of all services, by name.
#[derive(Debug, Default)]
pub struct ServiceRegistry(RwLock<BTreeMap<String, Arc<ServiceHandle>>>);

impl ServiceHandle {
    /// Creates a handle for a service whose proxies may have plans of a previous planner.
    ///
    /// # Errors
    /// Fails if the metrics registry refuses a name, which would be a bug.
    pub fn new(service: Service, clock: Clock) -> prometheus::Result<ServiceHandle> {
        let until = clock.now().at + LISTEN_TIME;
        let publishers = Arc::new(Publishers::listening(&service, until));
        ServiceHandle::with_publishers(service, publishers)
    }

    /// Creates a handle with existing publishers.
    ///
    /// # Errors
    /// See [`ServiceHandle::new`].
    pub fn with_publishers(
        service: Service,
        publishers: Arc<Publishers>,
    ) -> prometheus::Result<ServiceHandle> {
        let metrics = ServiceMetrics::new(&service.name)?;
        metrics.show_target(&service);
        Ok(ServiceHandle {
            metrics: Arc::new(metrics),
            mode: ModeSwitch::fixed(service.mode),
            service: Arc::new(service),
            publishers,
            status: Arc::default(),
            heartbeat: Heartbeat::default(),
            alternatives: Alternatives::default(),
            specification: None,
            replaced: watch::Sender::new(false),
            loops: Arc::new(watch::Sender::new(0)),
        })
    }

    /// Creates the handle for a changed service. It keeps the publishers, so that proxies keep polling, if
    /// its plans are built as before.
    ///
    /// # Errors
    /// See [`ServiceHandle::new`].
    pub fn with_service(
        &self,
        service: Service,
        clock: Clock,
    ) -> prometheus::Result<ServiceHandle> {
        let names = |service: &Service| -> Vec<String> {
            let stages = service.stages.iter();
            stages.map(|stage| stage.name.clone()).collect()
        };
        let same = names(&self.service) == names(&service)
            && self.service.plan_max_age == service.plan_max_age;
        let before = same.then(|| Arc::clone(&self.publishers));
        let changed = match before {
            Some(publishers) => ServiceHandle::with_publishers(service, publishers)?,
            None => ServiceHandle::new(service, clock)?,
        };
        let changed = ServiceHandle {
            loops: Arc::clone(&self.loops),
            ..changed
        };
        let variants = |service: &Service| -> Vec<String> {
            let variants = service.variants.iter();
            variants.map(|variant| variant.name.clone()).collect()
        };
        // A variant that was removed must not be shown for ever.
        if variants(&self.service) != variants(&changed.service) {
            return Ok(changed);
        }
        Ok(changed.continue_from(self))
    }

    /// Takes over the status and the metrics of `before`.
    #[must_use]
    pub fn continue_from(self, before: &ServiceHandle) -> ServiceHandle {
        before.metrics.show_target(&self.service);
        ServiceHandle {
            status: Arc::clone(&before.status),
            metrics: Arc::clone(&before.metrics),
            specification: self.specification.or_else(|| before.specification.clone()),
            ..self
        }
    }

    /// Follows that mode.
    #[must_use]
    pub fn with_mode(self, mode: ModeSwitch) -> ServiceHandle {
        ServiceHandle { mode, ..self }
    }

    /// Names the specification that the service was read of.
    #[must_use]
    pub fn with_specification(self, specification: Specification) -> ServiceHandle {
        ServiceHandle {
            specification: Some(Arc::new(specification)),
            ..self
        }
    }

    /// Waits until this handle has been replaced or removed.
    pub async fn wait_replaced(&self) {
        let mut replaced = self.replaced.subscribe();
        // The sender is part of `self`, so this cannot fail.
        let _ = replaced.wait_for(|replaced| *replaced).await;
    }

    /// Counts a control loop as running for this service.
    pub(crate) fn run_loop(&self) -> RunningLoop {
        self.loops.send_modify(|loops| *loops += 1);
        RunningLoop(Arc::clone(&self.loops))
    }

    /// Waits until no control loop runs for this service, with this handle or one before it.
    pub async fn wait_idle(&self) {
        let mut loops = self.loops.subscribe();
        // The sender is part of `self`, so this cannot fail.
        let _ = loops.wait_for(|loops| *loops == 0).await;
    }

    /// Collects the current metrics.
    pub fn gather(&self, clock: Clock) -> Vec<prometheus::proto::MetricFamily> {
        let (mut proxies, mut counts, mut revision) =
            (BTreeMap::new(), Counts::default(), Revision(0));
        for stage in self.publishers.all() {
            let allocation = stage.allocation();
            // A proxy may carry the filters of several stages.
            let named = |name: String| match self.service.stages.len() {
                1 => name,
                _ => format!("{}/{name}", stage.stage()),
            };
            let view = allocation.view(clock.now()).into_iter();
            proxies.extend(view.map(|(name, proxy)| (named(name), proxy)));
            counts += allocation.counts();
            let newest = stage
                .newest()
                .map_or(Revision(0), |newest| newest.plan.revision);
            revision = revision.max(newest);
        }
        self.metrics.gather(&Shown {
            proxies: &proxies,
            counts,
            revision: revision.0,
        })
    }
}

impl ServiceRegistry {
    /// Creates a registry of one service.
    pub fn single(handle: Arc<ServiceHandle>) -> ServiceRegistry {
        let services = ServiceRegistry::default();
        services.insert(handle);
        services
    }

    /// Returns the service of that name.
    pub fn get(&self, name: &str) -> Option<Arc<ServiceHandle>> {
        self.read().get(name).cloned()
    }

    /// Returns the service that has a stage of that name.
    pub fn get_by_stage(&self, stage: &str) -> Option<Arc<ServiceHandle>> {
        let services = self.read();
        // Most services have only one stage, which carries their name.
        let named = services.get(stage);
        let mut others = named.into_iter().chain(services.values());
        others
            .find(|handle| handle.publishers.of(stage).is_some())
            .cloned()
    }

    /// Returns all services, by name.
    pub fn all(&self) -> Vec<Arc<ServiceHandle>> {
        self.read().values().cloned().collect()
    }

    /// Adds a service, replacing one of the same name.
    pub fn insert(&self, handle: Arc<ServiceHandle>) {
        let mut services = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = services.insert(handle.service.name.clone(), handle);
        drop(services);
        if let Some(before) = before {
            before.replaced.send_replace(true);
        }
    }

    /// Removes a service.
    pub fn remove(&self, name: &str) {
        let mut services = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = services.remove(name);
        drop(services);
        if let Some(before) = before {
            before.replaced.send_replace(true);
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<String, Arc<ServiceHandle>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Targets in the metrics, by stage.
    fn targets(handle: &ServiceHandle, clock: Clock) -> Vec<(String, f64)> {
        let families = handle.gather(clock);
        let name = "weir_planner_on_time_target_ratio";
        let family = families.iter().find(|it| it.name() == name).unwrap();
        let of = |it: &prometheus::proto::Metric| {
            let label = |name: &str| it.get_label().iter().find(|it| it.name() == name);
            assert_eq!(label("service").unwrap().value(), "demo");
            let stage = label("stage").unwrap().value().to_owned();
            (stage, it.get_gauge().get_value())
        };
        family.get_metric().iter().map(of).collect()
    }

    #[tokio::test]
    async fn metrics_have_the_target_of_the_service_as_it_is_now() {
        let clock = Clock::start();
        let mut service = crate::spec::tests::service(8);
        let first = ServiceHandle::new(service.clone(), clock).unwrap();
        assert_eq!(targets(&first, clock), [("demo".to_owned(), 0.99)]);
        // The variants are the same, so the metrics are continued.
        service.on_time_target = 0.999;
        let mut stage = service.stages[0].clone();
        (service.stages[0].name, stage.name) = ("detect".to_owned(), "classify".to_owned());
        service.stages[0].variants = 0..1;
        stage.variants = 1..2;
        service.stages.push(stage);
        let second = first.with_service(service, clock).unwrap();
        assert!(Arc::ptr_eq(&first.metrics, &second.metrics));
        let expected = ["classify", "detect"].map(|stage| (stage.to_owned(), 0.999));
        assert_eq!(targets(&second, clock), expected);
    }
}
