//! Backends of a service's variants: pods through their workload, addresses over HTTP, and fixed ones; and
//! the proxies that are scraped.

use std::sync::Arc;

use weir_api::Cores;

use super::Shared;
use super::leader::Candidate;
use super::ownership::Name;
use crate::app::{http_backends, scraper};
use crate::backends::kubernetes::actuate::KubeBackends;
use crate::backends::{Actuate, ActuateError, HttpBackends, NotReplaced};
use crate::capacity::{Actual, Resize};
use crate::observe::pods::ProxyWatch;
use crate::observe::{Observe, Scrape, ScrapeTargets, Scraper};
use crate::service::{Mode, Service, Variant};

/// Backends of a service's variants.
pub(super) struct Backends {
    mode: Mode,
    candidate: Arc<Candidate>,
    local: HttpBackends,
    pods: KubeBackends,
    /// Index of each variant among those with pods.
    places: Vec<Option<usize>>,
}

/// Proxies of a service.
pub(super) struct Proxies {
    scraper: Scraper,
    _watch: Option<ProxyWatch>,
}

impl Shared {
    pub(super) fn backends(&self, name: &Name, service: &Service) -> Backends {
        let mut workloads = Vec::new();
        let mut place = |variant: &Variant| {
            let workload = variant.workload.as_ref()?;
            workloads.push(workload.clone());
            Some(workloads.len() - 1)
        };
        let places = service.variants.iter().map(&mut place).collect();
        let candidate = Arc::clone(&self.candidate);
        let active = service.mode == Mode::Active;
        Backends {
            mode: service.mode,
            candidate: Arc::clone(&candidate),
            local: http_backends(service, &self.http),
            pods: KubeBackends::new(
                self.namespace(&name.namespace),
                workloads,
                Arc::clone(&self.limiter),
                Arc::new(move || active && candidate.leads()),
                &self.http,
                service.resize_timeout,
            ),
            places,
        }
    }

    pub(super) fn proxies(&self, name: &Name, service: &Service) -> Proxies {
        let watch = service.proxy_pods.as_ref().map(|pods| {
            let namespace = pods.namespace.as_ref().unwrap_or(&name.namespace);
            ProxyWatch::new(&self.client, namespace, pods)
        });
        let targets = match &watch {
            Some(watch) => ScrapeTargets::Moving(watch.targets()),
            None => ScrapeTargets::Fixed(service.stats.clone()),
        };
        Proxies {
            scraper: scraper(service, &self.http, self.clock, targets),
            _watch: watch,
        }
    }
}

impl Observe for Proxies {
    async fn scrape(&self) -> Vec<Scrape> {
        self.scraper.scrape().await
    }
}

impl Backends {
    /// Whether all pods have been listed once.
    pub(super) async fn are_known(&self) -> bool {
        let unseen = |answer: &Option<Result<Actual, ActuateError>>| {
            matches!(answer, Some(Err(ActuateError::NotObserved(_))))
        };
        !self.pods.actual().await.iter().any(unseen)
    }

    fn place(&self, variant: usize) -> Option<usize> {
        self.places.get(variant).copied().flatten()
    }
}

impl Actuate for Backends {
    async fn actual(&self) -> Vec<Option<Result<Actual, ActuateError>>> {
        let (mut local, mut pods) = tokio::join!(self.local.actual(), self.pods.actual());
        for (answer, place) in local.iter_mut().zip(&self.places) {
            let of_pods = place.and_then(|place| pods.get_mut(place));
            if let Some(of_pods) = of_pods {
                *answer = of_pods.take();
            }
        }
        local
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Actual, ActuateError>> {
        if self.mode == Mode::Advisory {
            return changes
                .iter()
                .map(|_| Err(ActuateError::Advisory))
                .collect();
        }
        if !self.candidate.leads() {
            return changes
                .iter()
                .map(|_| Err(ActuateError::NotLeading))
                .collect();
        }
        let (mut of_pods, mut others) = (Vec::new(), Vec::new());
        for change in changes {
            match self.place(change.variant) {
                Some(variant) => of_pods.push(Resize { variant, ..*change }),
                None => others.push(*change),
            }
        }
        let (pods, local) = tokio::join!(self.pods.resize(&of_pods), self.local.resize(&others));
        let (mut pods, mut local) = (pods.into_iter(), local.into_iter());
        let next = |change: &Resize| {
            let answer = match self.place(change.variant) {
                Some(_) => pods.next(),
                None => local.next(),
            };
            answer.unwrap_or(Err(ActuateError::NoAddress))
        };
        changes.iter().map(next).collect()
    }

    async fn tell(&self, batches: &[Option<u32>]) -> Vec<Option<Result<u32, ActuateError>>> {
        if self.mode == Mode::Advisory || !self.candidate.leads() {
            return Vec::new();
        }
        let of_pods: Vec<Option<u32>> = batches
            .iter()
            .zip(&self.places)
            .filter(|(_, place)| place.is_some())
            .map(|(batch, _)| *batch)
            .collect();
        let (mut local, mut pods) =
            tokio::join!(self.local.tell(batches), self.pods.tell(&of_pods));
        for (answer, place) in local.iter_mut().zip(&self.places) {
            let of_pods = place.and_then(|place| pods.get_mut(place));
            if let Some(of_pods) = of_pods {
                *answer = of_pods.take();
            }
        }
        local
    }

    fn retire(&self, variant: usize, spare: Cores) -> Option<Result<Actual, NotReplaced>> {
        let acts = self.mode == Mode::Active && self.candidate.leads();
        let pods = self.place(variant).filter(|_| acts)?;
        self.pods.retire(pods, spare)
    }

    async fn replace(&self, variant: usize) -> Result<Actual, ActuateError> {
        match self.place(variant) {
            Some(pods) => self.pods.replace(pods).await,
            None => Err(ActuateError::NoAddress),
        }
    }
}
