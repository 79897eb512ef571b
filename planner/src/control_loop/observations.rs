//! Observations of the proxies: arrivals, time left, routes and failing servers. Pure: the scrapes and the time are
//! arguments.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use weir_api::{Rps, Share};

use crate::clock::Now;
use crate::error_log::ErrorLog;
use crate::forecast::{Demand, History, KnownLoad, Learnt, LearntError, Past};
use crate::observe::{
    Accuracies, Arrivals, Failing, Observation, OutcomeCounts, RequestSample, RoutedShare, Routes,
    Scrape, ScrapeError, Slack, Span,
};
use crate::service::{Inputs, Service, Stage};

/// Maximum number of proxies that a reason names.
const NAMED_MAX: usize = 3;

/// Knowledge from the proxies' statistics, kept from sample to sample.
#[derive(Debug)]
pub(super) struct Observations {
    arrivals: Arrivals,
    accuracies: Accuracies,
    /// Routed requests by stage.
    routes: Vec<Routes>,
    slack: Slack,
    outcomes: OutcomeCounts,
    failing: Failing,
    /// Shares of the published plan by stage, by which the requests of the next sample were routed; empty before the
    /// first plan.
    pub(super) quotas: Vec<Vec<Share>>,
    /// Requests since the cycle before.
    pub(super) requests: RequestSample,
    pub(super) demand: Demand,
    /// Load that is known in advance; it replaces the forecast.
    pub(super) known: Option<KnownLoad>,
    /// Time of the latest sample.
    sampled_at: Duration,
    /// Time of the demand at which [`Now::at`] is zero: a restored demand has an earlier past.
    base: Duration,
    gap: Gap,
    /// Proxies whose scrapes fail, by name.
    pub(super) lost: ErrorLog,
    /// Proxies of the latest cycle that are without Weir.
    without_weir: BTreeSet<Arc<str>>,
}

/// Time before the first rate that is measured after a restored history, or after all proxies were without Weir.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gap {
    /// There is none, or it has ended.
    Ended,
    /// No proxy has been scraped yet.
    Begun,
    /// Proxies were scraped, and no rate is known yet.
    Scraped,
    /// Weir was removed from all proxies, and no rate is known since.
    WithoutWeir,
}

impl Observations {
    /// Creates observations of proxies that have not been scraped yet.
    pub(super) fn new(service: &Service) -> Observations {
        Observations {
            arrivals: Arrivals::new(),
            accuracies: accuracies(service),
            routes: routes(service),
            slack: Slack::new(),
            outcomes: OutcomeCounts::default(),
            failing: Failing::new(service.variants.iter().map(|v| v.name.clone())),
            quotas: vec![Vec::new(); service.stages.len()],
            requests: RequestSample::default(),
            demand: Demand::new(service.demand.clone()),
            known: None,
            sampled_at: Duration::ZERO,
            base: Duration::ZERO,
            gap: Gap::Ended,
            lost: ErrorLog::default(),
            without_weir: BTreeSet::new(),
        }
    }

    /// Samples the arrivals since the last sample. A rise is extrapolated over `horizon`, and for replicas that start
    /// over `lead`.
    pub(super) fn sample(
        &mut self,
        now: Now,
        scrapes: &[Scrape],
        (horizon, lead): (Duration, Duration),
    ) {
        self.sampled_at = now.at;
        self.slack.observe(now.at, scrapes);
        let seen = self.arrivals.observe(now.at, scrapes, Span::Sample);
        // Zero arrivals before the first request are no forecast.
        let rate = seen.measured.filter(|_| seen.seen);
        let at = now.at + self.base;
        if seen.without_weir > 0 && seen.without_weir == scrapes.len() {
            self.gap = Gap::WithoutWeir;
        }
        match (rate, self.gap) {
            (None, Gap::WithoutWeir) => self.demand.skip(at),
            // A rate needs two scrapes.
            (_, Gap::Begun) | (None, Gap::Scraped) => {
                self.demand.skip(at);
                self.gap = Gap::Scraped;
            }
            (Some(rate), Gap::Ended | Gap::Scraped | Gap::WithoutWeir) => {
                self.demand.observe(at, rate);
                self.demand.foresee(horizon);
                self.demand.foresee_starts(lead);
                self.gap = Gap::Ended;
            }
            (None, Gap::Ended) => {}
        }
    }

    /// Continues from what an earlier planner knew.
    ///
    /// # Errors
    /// Fails if what was learned does not fit the service; then only the history is taken over.
    pub(super) fn restore(
        &mut self,
        now: Now,
        past: &Past,
        horizon: Duration,
    ) -> Result<(), LearntError> {
        let history = past.history.as_ref();
        let history = history.filter(|(history, _)| !history.is_empty());
        let begin = history.map(|(history, age)| (history, history.replay_begin(now.at), *age));
        let end = begin.map(|(history, begin, age)| begin + history.length() + age);
        let learnt = past.learnt.as_ref();
        let begins = learnt.map_or(Ok(()), |(learnt, age)| {
            self.demand.begin_with(learnt, end.unwrap_or(now.at), *age)
        });
        if let Some((history, begin, _)) = begin {
            self.demand.replay(history, begin, horizon);
            self.base = end.unwrap_or_default().saturating_sub(now.at);
            self.gap = Gap::Begun;
        }
        begins?;
        learnt.map_or(Ok(()), |(learnt, _)| self.demand.relearn(learnt))
    }

    /// Returns what the forecasters have learned, and the time since; `None` if there is nothing.
    pub(super) fn learnt(&self, now: Now) -> Option<(Learnt, Duration)> {
        let (_, age) = self.history(now)?;
        Some((self.demand.learnt()?, age))
    }

    /// Returns the history, and the time since its end; `None` if nothing has been measured.
    pub(super) fn history(&self, now: Now) -> Option<(&History, Duration)> {
        let history = Some(self.demand.history()).filter(|history| !history.is_empty())?;
        let age = (now.at + self.base).saturating_sub(history.end());
        Some((history, age))
    }

    /// Takes in the scrapes of a cycle; returns the arrivals since the last cycle.
    pub(super) fn observe(&mut self, now: Now, scrapes: &[Scrape]) -> Observation {
        let scraped: BTreeSet<&str> = scrapes.iter().map(|scrape| &*scrape.from).collect();
        self.lost.retain(|proxy| scraped.contains(proxy));
        for scrape in scrapes {
            match &scrape.counts {
                Ok(_) => self.lost.went_well(&scrape.from),
                Err(error @ ScrapeError::WithoutWeir) => {
                    self.lost
                        .failed(&scrape.from, error, "its rate no longer counts");
                }
                Err(error @ ScrapeError::NoneYet) => {
                    self.lost.failed(&scrape.from, error, "its rate is unknown");
                }
                Err(error) => self.lost.failed(&scrape.from, error, "its last rate holds"),
            }
        }
        let without_weir =
            |scrape: &&Scrape| matches!(scrape.counts, Err(ScrapeError::WithoutWeir));
        let without_weir = scrapes.iter().filter(without_weir);
        self.without_weir = without_weir
            .map(|scrape| Arc::clone(&scrape.from))
            .collect();
        for (routes, quotas) in self.routes.iter_mut().zip(&self.quotas) {
            routes.observe(now.at, scrapes, quotas);
        }
        self.requests = self.outcomes.observe(now.at, scrapes);
        self.failing.observe(now.at, scrapes);
        self.accuracies.observe(now.at, scrapes);
        self.arrivals.observe(now.at, scrapes, Span::Cycle)
    }

    /// Inputs of the next decision. Inputs that the policy does not need are left out, so that decisions repeat.
    pub(super) fn inputs(&self, service: &Service) -> Option<Inputs> {
        let needs = service.policy.needs(service);
        let mut forecast = match &self.known {
            Some(known) => known.forecast(self.sampled_at),
            None if self.gap == Gap::WithoutWeir => return None,
            None => self.demand.forecast()?,
        };
        forecast.lasted = forecast.lasted.filter(|_| needs.lasted);
        if !needs.growth {
            (forecast.growth, forecast.extrapolated) = (Rps(0.0), Rps(0.0));
        }
        let left = |percent: f64, min_ms: f64| self.slack.percentile(percent, min_ms);
        let accuracies = self.accuracies.mix().filter(|_| needs.accuracies);
        Some(Inputs {
            forecast,
            left_ms: needs.left.and_then(|one| left(one.percentile, one.min_ms)),
            accuracies,
        })
    }

    /// Names the proxies without Weir, and says if the demand is unknown for it.
    pub(super) fn without_weir_note(&self) -> String {
        let all = &self.without_weir;
        let first: Vec<&str> = all.iter().take(NAMED_MAX).map(|name| &**name).collect();
        let more = match all.len().saturating_sub(NAMED_MAX) {
            _ if all.is_empty() => return String::new(),
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let unknown = match self.gap {
            Gap::WithoutWeir => ": the demand is unknown",
            Gap::Ended | Gap::Begun | Gap::Scraped => "",
        };
        format!("; without Weir: {}{more}{unknown}", first.join(", "))
    }

    /// Time since which each variant's servers have been failing.
    pub(super) fn failing_since(&self) -> &[Option<Duration>] {
        self.failing.since()
    }

    /// Routed traffic of each variant; `None` until every stage has enough samples.
    pub(super) fn routed(&self) -> Option<Vec<RoutedShare>> {
        let stages = self.routes.iter().map(Routes::routed);
        let stages: Vec<Vec<RoutedShare>> = stages.collect::<Option<_>>()?;
        Some(stages.concat())
    }
}

/// Creates the record of the entry stage's accuracies.
fn accuracies(service: &Service) -> Accuracies {
    let stage = service.stages.first().map(|stage| stage.variants.clone());
    let variants = stage.and_then(|variants| service.variants.get(variants));
    let each = variants.into_iter().flatten();
    Accuracies::new(each.map(|variant| (variant.name.clone(), variant.accuracy)))
}

/// Creates one [`Routes`] for each stage, for its variants.
fn routes(service: &Service) -> Vec<Routes> {
    let names = |stage: &Stage| {
        let variants = service.variants.get(stage.variants.clone());
        let names: Vec<String> = variants
            .into_iter()
            .flatten()
            .map(|v| v.name.clone())
            .collect();
        Routes::new(names.into_iter())
    };
    service.stages.iter().map(names).collect()
}
