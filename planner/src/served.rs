//! The services that are planned for, as the doors and whoever plans share them: a table that is read often,
//! and changed where a service comes, changes or goes. Nothing here decides.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use crate::clock::Clock;
use crate::distribution::Publishers;
use crate::distribution::slot_allocation::{Counts, SETTLE};
use crate::service::Service;
use crate::telemetry::metrics::{ServiceMetrics, Shown};
use crate::telemetry::status::Status;
use weir_api::Revision;

/// One service that is planned for.
#[derive(Debug)]
pub struct Served {
    /// What it is.
    pub service: Arc<Service>,
    /// Its plans.
    pub publishers: Arc<Publishers>,
    /// Its turns.
    pub status: Arc<Status>,
    /// Its counts.
    pub metrics: Arc<ServiceMetrics>,
    /// True once it is not served like this any more.
    over: watch::Sender<bool>,
}

/// The services, by name.
#[derive(Debug, Default)]
pub struct Services(RwLock<BTreeMap<String, Arc<Served>>>);

impl Served {
    /// Of a service that proxies may have had plans for from a planner before this one.
    ///
    /// # Errors
    /// A name that the registry of metrics does not take: a mistake of ours.
    pub fn new(service: Service, clock: Clock) -> prometheus::Result<Served> {
        let until = clock.now().at + SETTLE;
        let publishers = Arc::new(Publishers::listening(&service, until));
        Served::with(service, publishers)
    }

    /// The same, whose plans are those.
    ///
    /// # Errors
    /// As [`Served::new`].
    pub fn with(service: Service, publishers: Arc<Publishers>) -> prometheus::Result<Served> {
        Ok(Served {
            metrics: Arc::new(ServiceMetrics::new(&service.name)?),
            service: Arc::new(service),
            publishers,
            status: Arc::default(),
            over: watch::Sender::new(false),
        })
    }

    /// What it becomes where the service changes: who polls it goes on, if their plans are made as before.
    ///
    /// # Errors
    /// As [`Served::new`].
    pub fn changed(&self, service: Service, clock: Clock) -> prometheus::Result<Served> {
        let names = |service: &Service| -> Vec<String> {
            let stages = service.stages.iter();
            stages.map(|stage| stage.name.clone()).collect()
        };
        let same = names(&self.service) == names(&service)
            && self.service.plan_max_age == service.plan_max_age;
        let before = same.then(|| Arc::clone(&self.publishers));
        let changed = match before {
            Some(publishers) => Served::with(service, publishers)?,
            None => Served::new(service, clock)?,
        };
        let variants = |service: &Service| -> Vec<String> {
            let variants = service.variants.iter();
            variants.map(|variant| variant.name.clone()).collect()
        };
        // A variant that has gone must not be shown for ever.
        if variants(&self.service) != variants(&changed.service) {
            return Ok(changed);
        }
        Ok(changed.continuing(self))
    }

    /// With the turns and the counts of before.
    #[must_use]
    pub fn continuing(self, before: &Served) -> Served {
        Served {
            status: Arc::clone(&before.status),
            metrics: Arc::clone(&before.metrics),
            ..self
        }
    }

    /// Returns once it is not served like this any more.
    pub async fn over(&self) {
        let mut over = self.over.subscribe();
        // The sender is here.
        let _ = over.wait_for(|over| *over).await;
    }

    /// Its metrics as they are now.
    pub fn gather(&self, clock: Clock) -> Vec<prometheus::proto::MetricFamily> {
        let (mut proxies, mut counts, mut revision) =
            (BTreeMap::new(), Counts::default(), Revision(0));
        for stage in self.publishers.all() {
            let sharing = stage.sharing();
            // A proxy may carry the filters of several stages.
            let named = |name: String| match self.service.stages.len() {
                1 => name,
                _ => format!("{}/{name}", stage.stage()),
            };
            let view = sharing.view(clock.now()).into_iter();
            proxies.extend(view.map(|(name, proxy)| (named(name), proxy)));
            counts += sharing.counts();
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

impl Services {
    /// That one alone.
    pub fn one(served: Arc<Served>) -> Services {
        let services = Services::default();
        services.put(served);
        services
    }

    /// The service of that name.
    pub fn get(&self, name: &str) -> Option<Arc<Served>> {
        self.read().get(name).cloned()
    }

    /// The service that has a stage of that name.
    pub fn of_stage(&self, stage: &str) -> Option<Arc<Served>> {
        let services = self.read();
        // Most services are their only stage.
        let named = services.get(stage);
        let mut others = named.into_iter().chain(services.values());
        others
            .find(|served| served.publishers.of(stage).is_some())
            .cloned()
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Arc<Served>> {
        self.read().values().cloned().collect()
    }

    /// Serves it, in the place of one of that name.
    pub fn put(&self, served: Arc<Served>) {
        let mut services = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = services.insert(served.service.name.clone(), served);
        drop(services);
        if let Some(before) = before {
            before.over.send_replace(true);
        }
    }

    /// Serves it no more.
    pub fn remove(&self, name: &str) {
        let mut services = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = services.remove(name);
        drop(services);
        if let Some(before) = before {
            before.over.send_replace(true);
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<String, Arc<Served>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
