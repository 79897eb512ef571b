//! Observations of a cycle: arrivals, routes, failing servers and actual cores.

use std::collections::BTreeSet;

use super::Planner;
use crate::backends::{ActuateError, Blocker};
use crate::capacity::Actual;
use crate::clock::Now;
use crate::observe::{Observation, Scrape};

impl Planner {
    /// Samples the arrivals since the last sample.
    pub(super) fn sample(&mut self, now: Now, scrapes: &[Scrape]) {
        self.slack.observe(now.at, scrapes);
        let seen = self.samples.observe(now.at, scrapes);
        // Zero arrivals before the first request are no forecast.
        if let Some(rate) = seen.measured.filter(|_| seen.seen) {
            self.demand.observe(now.at, rate);
            let horizon = self.horizon.time(self.service.scrape_interval);
            self.demand.foresee(horizon);
        }
    }

    pub(super) fn see_arrivals(&mut self, now: Now, scrapes: &[Scrape]) -> Observation {
        let looked_at: BTreeSet<&str> = scrapes.iter().map(|scrape| &*scrape.from).collect();
        self.lost.retain(|proxy| looked_at.contains(proxy));
        for scrape in scrapes {
            match &scrape.counts {
                Ok(_) => self.lost.went_well(&scrape.from),
                Err(error) => self.lost.failed(&scrape.from, error, "its last rate holds"),
            }
        }
        for (routes, quotas) in self.routes.iter_mut().zip(&self.quotas) {
            routes.observe(now.at, scrapes, quotas);
        }
        self.failing.observe(now.at, scrapes);
        for (variant, since) in self.service.variants.iter().zip(self.failing.since()) {
            let who = format!("servers of {}", variant.name);
            match since {
                Some(_) => self.troubles.failed(
                    &who,
                    &"proxies cannot reach them, or they answer with errors",
                    "no share",
                ),
                None => self.troubles.went_well(&who),
            }
        }
        self.arrivals.observe(now.at, scrapes)
    }

    pub(super) fn see_cores(&mut self, answers: Vec<Option<Result<Actual, ActuateError>>>) {
        let blockers = self.blockers.iter_mut().zip(&mut self.full);
        let known = self.actual.iter_mut().zip(blockers);
        let lists = answers.into_iter().zip(&self.service.variants).zip(known);
        for ((answer, variant), (actual, (known, full))) in lists {
            full.take_if(|(until, _)| *until <= self.now);
            *known = full.as_ref().map(|(_, blocker)| blocker.clone());
            let who = format!("cores of {}", variant.name);
            match answer {
                Some(Ok(there)) => {
                    self.troubles.went_well(&who);
                    *actual = there;
                }
                Some(Err(error)) => {
                    self.troubles.failed(&who, &error, "those known last hold");
                    *known = Some(Blocker::of(&error));
                }
                None => {}
            }
        }
        self.under_way.see(&self.actual);
        self.readiness.see(&self.actual, self.now);
        self.horizon.see(&self.actual, self.now);
    }
}
