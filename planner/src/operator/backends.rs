//! Backends of a service's variants: pods through their workload, addresses over HTTP, and fixed ones; and
//! the proxies that are scraped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
use crate::telemetry::status::CycleReport;

/// Backends of a service's variants.
pub(super) struct Backends {
    mode: Mode,
    candidate: Arc<Candidate>,
    /// False once nothing may be changed any more, even within a cycle.
    may_write: Arc<AtomicBool>,
    local: HttpBackends,
    pods: KubeBackends,
    /// Index of each variant among those with pods.
    places: Vec<Option<usize>>,
}

/// Proxies of a service.
pub(super) struct Proxies {
    scraper: Scraper,
    watch: Option<ProxyWatch>,
}

impl Shared {
    pub(super) fn backends(
        &self,
        name: &Name,
        service: &Service,
        may_write: Arc<AtomicBool>,
    ) -> Backends {
        let mut workloads = Vec::new();
        let mut place = |variant: &Variant| {
            let workload = variant.workload.as_ref()?;
            workloads.push(workload.clone());
            Some(workloads.len() - 1)
        };
        let places = service.variants.iter().map(&mut place).collect();
        let candidate = Arc::clone(&self.candidate);
        let active = service.mode == Mode::Active;
        let permitted = Arc::clone(&may_write);
        Backends {
            mode: service.mode,
            candidate: Arc::clone(&candidate),
            may_write,
            local: http_backends(service, &self.http, &self.http_memory),
            pods: KubeBackends::new(
                self.namespace(&name.namespace),
                workloads,
                Arc::clone(&self.limiter),
                Arc::new(move || active && permitted.load(Ordering::Relaxed) && candidate.leads()),
                &self.http,
                service.resize_timeout,
            ),
            places,
        }
    }

    pub(super) fn proxies(&self, name: &Name, service: &Service) -> Proxies {
        let watch = service.proxy_pods.as_ref().map(|pods| {
            let namespace = pods.namespace.as_ref().unwrap_or(&name.namespace);
            ProxyWatch::new(&self.client, namespace, pods, &self.outage)
        });
        let targets = match &watch {
            Some(watch) => ScrapeTargets::Moving(watch.targets()),
            None => ScrapeTargets::of(service, self.clock),
        };
        Proxies {
            scraper: scraper(service, &self.fetches, targets),
            watch,
        }
    }
}

impl Proxies {
    /// Returns why the proxies are not known, if their pods have never been listed, or their name never resolved.
    pub(super) fn failure(&self) -> Option<String> {
        let of_pods = self.watch.as_ref().and_then(ProxyWatch::failure);
        of_pods.or_else(|| self.scraper.names()?.failure())
    }

    /// Returns why the proxies may be outdated, if their watch or their name's resolution has failed for long.
    pub(super) fn stale(&self) -> Option<String> {
        let of_pods = self.watch.as_ref().and_then(ProxyWatch::stale);
        of_pods.or_else(|| self.scraper.names()?.stale())
    }
}

impl Observe for Proxies {
    async fn scrape(&self) -> Vec<Scrape> {
        self.scraper.scrape().await
    }

    fn trouble(&self) -> Option<String> {
        self.scraper.trouble()
    }
}

impl Backends {
    /// Checks that all pods have been listed once, and that the other lists have been tried.
    ///
    /// # Errors
    /// Fails with the reason why they are not known.
    pub(super) async fn are_known(&self) -> Result<(), String> {
        for answer in self.pods.actual().await.into_iter().flatten() {
            if let Err(error @ ActuateError::NotObserved(_)) = answer {
                return Err(error.to_string());
            }
        }
        match self.pods.has_tried() {
            true => Ok(()),
            false => Err("autoscalers and disruption budgets are not known yet".to_owned()),
        }
    }

    /// Returns why the pods or workloads may be outdated, if a watch has failed for long.
    pub(super) fn stale(&self) -> Option<String> {
        self.pods.stale()
    }

    /// Returns the report with the reasons why workloads are left alone, also where nothing is to be changed now.
    pub(super) fn with_writer_blockers(
        &self,
        service: &Service,
        report: &CycleReport,
    ) -> CycleReport {
        let mut report = report.clone();
        if self.mode == Mode::Advisory {
            return report;
        }
        let found = self.pods.writer_blockers();
        for (variant, place) in service.variants.iter().zip(&self.places) {
            let blocker = place.and_then(|place| found.get(place).cloned().flatten());
            let reported = report.variants.get_mut(&variant.name);
            if let (Some(blocker), Some(reported)) = (blocker, reported) {
                reported.blocker = Some(blocker);
            }
        }
        report
    }

    fn acts(&self) -> bool {
        self.mode == Mode::Active && self.may_write.load(Ordering::Relaxed)
    }

    fn place(&self, variant: usize) -> Option<usize> {
        self.places.get(variant).copied().flatten()
    }

    /// Returns the answers of all variants: those with pods have the answer of their pods.
    fn with_pods<T>(&self, mut all: Vec<Option<T>>, mut pods: Vec<Option<T>>) -> Vec<Option<T>> {
        for (answer, place) in all.iter_mut().zip(&self.places) {
            if let Some(of_pods) = place.and_then(|place| pods.get_mut(place)) {
                *answer = of_pods.take();
            }
        }
        all
    }
}

impl Actuate for Backends {
    async fn actual(&self) -> Vec<Option<Result<Actual, ActuateError>>> {
        let (local, pods) = tokio::join!(self.local.actual(), self.pods.actual());
        self.with_pods(local, pods)
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Actual, ActuateError>> {
        if !self.acts() {
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
        if !self.acts() || !self.candidate.leads() {
            return Vec::new();
        }
        let of_pods: Vec<Option<u32>> = batches
            .iter()
            .zip(&self.places)
            .filter(|(_, place)| place.is_some())
            .map(|(batch, _)| *batch)
            .collect();
        let (local, pods) = tokio::join!(self.local.tell(batches), self.pods.tell(&of_pods));
        self.with_pods(local, pods)
    }

    fn retire(&self, variant: usize, spare: Cores) -> Option<Result<Actual, NotReplaced>> {
        let acts = self.acts() && self.candidate.leads();
        let pods = self.place(variant).filter(|_| acts)?;
        self.pods.retire(pods, spare)
    }

    async fn replace(&self, variant: usize) -> Result<Actual, ActuateError> {
        match self.place(variant) {
            Some(_) if !self.acts() => Err(ActuateError::Advisory),
            Some(pods) => self.pods.replace(pods).await,
            None => Err(ActuateError::NoAddress),
        }
    }
}
