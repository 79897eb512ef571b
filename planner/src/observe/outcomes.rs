//! Requests between two cycles, over all proxies: arrivals, outcomes, waits, and the requests that wait now. Pure: the
//! time comes with the scrape.
//!
//! A request ends in exactly one of these: answered on time, answered late, answered in time with an error, refused,
//! client disconnected. One proxy of its path counts the end. A counter that fell belongs to a restarted proxy and counts
//! from 0. A new proxy begins with its first answer, and so does one that has been silent for
//! [`PROXY_DEPARTED_AFTER`]: its requests are of no known time. No answer is never zero requests.

mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_api::metrics::{Metric, REFUSAL_REASONS};

use super::buckets::{Buckets, add, since};
use super::counts::of;
use super::proxies::{PROXY_DEPARTED_AFTER, Proxies};
use super::{Counts, Executions, Scrape};
pub use waiting::Waiting;

/// Name of all reasons that this planner does not know, together.
const OTHER_REASON: &str = "other";

/// Refusals by reason, in the order of [`REFUSAL_REASONS`], and those of other reasons.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Refusals {
    known: [f64; REFUSAL_REASONS.len()],
    other: f64,
}

/// Ends of requests that a proxy has counted since it started, and the requests that wait at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcomes {
    /// Requests that no variant could serve.
    pub unservable: f64,
    /// Requests whose client disconnected before the answer.
    pub client_disconnects: f64,
    /// Refusals.
    pub refused: Refusals,
    /// Requests that the proxy holds now.
    pub held: f64,
    /// Histogram of the time queued before dispatch.
    pub wait_ms: Buckets,
    /// Histogram of the time left at dispatch.
    pub dispatch_slack_ms: Buckets,
    /// Histogram of the time to the end of the answer.
    pub latency_ms: Buckets,
    /// Variants by name.
    pub variants: BTreeMap<String, VariantOutcomes>,
}

/// Answers of one variant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VariantOutcomes {
    /// Answers.
    pub served: f64,
    /// Answers in time and without an error.
    pub on_time: f64,
    /// Answers after the deadline.
    pub late: f64,
    /// Requests that wait for the variant now.
    pub waiting: f64,
    /// Histogram of the service time.
    pub service_ms: Buckets,
}

/// Requests between two scrapes, of one or more proxies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestIncrease {
    /// Requests that some variant could have served.
    pub arrivals: f64,
    /// Requests that no variant could serve.
    pub unservable: f64,
    /// Requests whose client disconnected before the answer.
    pub client_disconnects: f64,
    /// Refusals.
    pub refused: Refusals,
    /// Histogram of the time queued before dispatch.
    pub wait_ms: Buckets,
    /// Histogram of the time left on arrival, of requests that state their send time.
    pub arrival_slack_ms: Buckets,
    /// Histogram of the time left at dispatch.
    pub dispatch_slack_ms: Buckets,
    /// Histogram of the time to the end of the answer.
    pub latency_ms: Buckets,
    /// Variants by name.
    pub variants: BTreeMap<String, VariantIncrease>,
}

/// Answers of one variant between two scrapes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VariantIncrease {
    /// Answers in time and without an error.
    pub on_time: f64,
    /// Answers after the deadline.
    pub late: f64,
    /// Answers in time that are errors.
    pub failed: f64,
    /// Executions.
    pub executions: Executions,
    /// Histogram of the service time.
    pub service_ms: Buckets,
}

/// Requests between two cycles.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestSample {
    /// Whether a proxy has answered.
    pub answered: bool,
    /// Requests of each proxy that has answered twice, by its name.
    pub proxies: BTreeMap<Arc<str>, Arc<RequestIncrease>>,
    /// Requests that wait now at each scraped proxy that has answered within [`PROXY_DEPARTED_AFTER`].
    pub waiting: BTreeMap<Arc<str>, Waiting>,
}

/// Last counts of each proxy.
#[derive(Debug, Clone, Default)]
pub struct OutcomeCounts {
    proxies: Proxies<Proxy>,
    /// Number of the latest scrape.
    scrape: u64,
}

#[derive(Debug, Clone)]
struct Proxy {
    answered_at: Duration,
    /// Number of the scrape that it answered last.
    scrape: u64,
    /// Counts that are differenced.
    counts: Counts,
    /// Requests since the answer before.
    increase: Option<Arc<RequestIncrease>>,
}

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals::NONE
    }
}

impl Default for Outcomes {
    fn default() -> Outcomes {
        Outcomes::NONE
    }
}

impl Refusals {
    /// No refusal.
    pub const NONE: Refusals = Refusals {
        known: [0.0; REFUSAL_REASONS.len()],
        other: 0.0,
    };

    /// Refusals of that reason.
    pub fn of(&mut self, reason: &str) -> &mut f64 {
        let mut each = REFUSAL_REASONS.iter().zip(&mut self.known);
        let known = each.find(|(name, _)| **name == reason);
        known.map_or(&mut self.other, |(_, known)| known)
    }

    /// Returns the refusals of each reason, and last those of other reasons.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        let known = REFUSAL_REASONS.into_iter().zip(self.known);
        known.chain([(OTHER_REASON, self.other)])
    }

    /// Returns the sum over all reasons.
    pub fn sum(&self) -> f64 {
        self.known.iter().sum::<f64>() + self.other
    }

    /// Adds others, of another stage or proxy.
    pub(super) fn add_all(&mut self, more: &Refusals) {
        for (sum, more) in self.known.iter_mut().zip(more.known) {
            *sum += more;
        }
        self.other += more.other;
    }

    fn since(&self, before: &Refusals) -> Refusals {
        let mut increase = *self;
        for (now, before) in increase.known.iter_mut().zip(before.known) {
            *now = grown(*now, before);
        }
        increase.other = grown(self.other, before.other);
        increase
    }
}

impl Outcomes {
    /// No request.
    pub const NONE: Outcomes = Outcomes {
        unservable: 0.0,
        client_disconnects: 0.0,
        refused: Refusals::NONE,
        held: 0.0,
        wait_ms: Buckets::new(),
        dispatch_slack_ms: Buckets::new(),
        latency_ms: Buckets::new(),
        variants: BTreeMap::new(),
    };

    /// Counts the value of a series other than a bucket; `None` if it is not read.
    pub fn count(&mut self, metric: Metric, name: &str, value: f64) -> Option<()> {
        *match metric {
            Metric::Unservable => &mut self.unservable,
            Metric::ClientDisconnects => &mut self.client_disconnects,
            Metric::HeldRequests => &mut self.held,
            Metric::Refused => self.refused.of(name),
            Metric::Served => &mut of(&mut self.variants, name)?.served,
            Metric::OnTime => &mut of(&mut self.variants, name)?.on_time,
            Metric::Late => &mut of(&mut self.variants, name)?.late,
            Metric::WaitingRequests => &mut of(&mut self.variants, name)?.waiting,
            _ => return None,
        } += value;
        Some(())
    }

    /// Buckets of a histogram; `None` if they are not read.
    pub(super) fn buckets(&mut self, metric: Metric, name: &str) -> Option<&mut Buckets> {
        match metric {
            Metric::WaitMs => Some(&mut self.wait_ms),
            Metric::DispatchSlackMs => Some(&mut self.dispatch_slack_ms),
            Metric::LatencyMs => Some(&mut self.latency_ms),
            Metric::ServiceMs => Some(&mut of(&mut self.variants, name)?.service_ms),
            _ => None,
        }
    }

    /// Adds the outcomes of the next stage, whose requests have been counted on arrival at the first. Their latencies are
    /// those of the last.
    pub(super) fn add_stage(&mut self, more: &Outcomes) {
        self.client_disconnects += more.client_disconnects;
        self.refused.add_all(&more.refused);
        self.held += more.held;
        add(&mut self.wait_ms, &more.wait_ms);
        add(&mut self.dispatch_slack_ms, &more.dispatch_slack_ms);
        self.latency_ms.clone_from(&more.latency_ms);
        let each = more.variants.iter();
        (self.variants).extend(each.map(|(name, variant)| (name.clone(), variant.clone())));
    }

    /// Sorts the histograms by edge.
    pub(super) fn sort(&mut self) {
        let each = self.variants.values_mut().map(|it| &mut it.service_ms);
        let own = [
            &mut self.wait_ms,
            &mut self.dispatch_slack_ms,
            &mut self.latency_ms,
        ];
        for buckets in each.chain(own) {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
    }
}

impl RequestIncrease {
    /// Returns the increase of a proxy's counts.
    fn between(before: &Counts, now: &Counts) -> RequestIncrease {
        let (old, new) = (&before.outcomes, &now.outcomes);
        let names = new.variants.keys().chain(now.executions.keys());
        let variants = names.map(|name| {
            let increase = VariantIncrease::between(name, before, now);
            (name.clone(), increase)
        });
        RequestIncrease {
            arrivals: grown(now.arrivals, before.arrivals),
            unservable: grown(new.unservable, old.unservable),
            client_disconnects: grown(new.client_disconnects, old.client_disconnects),
            refused: new.refused.since(&old.refused),
            wait_ms: since(&old.wait_ms, &new.wait_ms),
            arrival_slack_ms: since(&before.slack, &now.slack),
            dispatch_slack_ms: since(&old.dispatch_slack_ms, &new.dispatch_slack_ms),
            latency_ms: since(&old.latency_ms, &new.latency_ms),
            variants: variants.collect(),
        }
    }

    /// Adds others.
    pub fn add(&mut self, more: &RequestIncrease) {
        self.arrivals += more.arrivals;
        self.unservable += more.unservable;
        self.client_disconnects += more.client_disconnects;
        self.refused.add_all(&more.refused);
        add(&mut self.wait_ms, &more.wait_ms);
        add(&mut self.arrival_slack_ms, &more.arrival_slack_ms);
        add(&mut self.dispatch_slack_ms, &more.dispatch_slack_ms);
        add(&mut self.latency_ms, &more.latency_ms);
        for (name, more) in &more.variants {
            match self.variants.get_mut(name) {
                Some(variant) => variant.add(more),
                None => {
                    self.variants.insert(name.clone(), more.clone());
                }
            }
        }
    }
}

impl VariantIncrease {
    fn between(name: &str, before: &Counts, now: &Counts) -> VariantIncrease {
        let none = VariantOutcomes::default();
        let of = |counts: &Counts| counts.executions.get(name).copied().unwrap_or_default();
        let old = before.outcomes.variants.get(name).unwrap_or(&none);
        let new = now.outcomes.variants.get(name).unwrap_or(&none);
        // If one has fallen, all have begun anew: failed answers are the difference of the others.
        let fell = new.served < old.served || new.on_time < old.on_time || new.late < old.late;
        let old = if fell { &none } else { old };
        let on_time = new.on_time - old.on_time;
        let late = new.late - old.late;
        let served = new.served - old.served;
        VariantIncrease {
            on_time,
            late,
            failed: (served - on_time - late).max(0.0),
            executions: of(now).since(of(before)),
            service_ms: since(&old.service_ms, &new.service_ms),
        }
    }

    fn add(&mut self, more: &VariantIncrease) {
        self.on_time += more.on_time;
        self.late += more.late;
        self.failed += more.failed;
        self.executions.add(more.executions);
        add(&mut self.service_ms, &more.service_ms);
    }
}

impl RequestSample {
    /// Returns the requests of all proxies; `None` if no proxy has answered twice.
    pub fn sum(&self) -> Option<RequestIncrease> {
        let mut each = self.proxies.values();
        let mut sum = RequestIncrease::clone(each.next()?);
        each.for_each(|more| sum.add(more));
        Some(sum)
    }
}

impl OutcomeCounts {
    /// Returns the requests since the last call.
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape]) -> RequestSample {
        self.scrape += 1;
        let scrape = self.scrape;
        self.proxies.observe(at, scrapes, |last, at, counts| {
            let is_known =
                |last: &&Proxy| at.saturating_sub(last.answered_at) <= PROXY_DEPARTED_AFTER;
            let last = last.filter(is_known);
            Proxy {
                answered_at: at,
                scrape,
                counts: Counts {
                    arrivals: counts.arrivals,
                    slack: counts.slack.clone(),
                    executions: counts.executions.clone(),
                    outcomes: Arc::clone(&counts.outcomes),
                    ..Counts::default()
                },
                increase: last.map(|last| RequestIncrease::between(&last.counts, counts).into()),
            }
        });
        let mut sample = RequestSample {
            answered: scrapes.iter().any(|scrape| scrape.counts.is_ok()),
            ..RequestSample::default()
        };
        for (name, proxy) in self.proxies.named(scrapes) {
            let increase = proxy.increase.as_ref().filter(|_| proxy.scrape == scrape);
            let increase = increase.map(|increase| (Arc::clone(name), Arc::clone(increase)));
            sample.proxies.extend(increase);
            if at.saturating_sub(proxy.answered_at) <= PROXY_DEPARTED_AFTER {
                let waiting = Waiting::at(&proxy.counts);
                sample.waiting.insert(Arc::clone(name), waiting);
            }
        }
        sample
    }
}

/// Returns the growth of a counter; a counter that fell belongs to a restarted proxy.
fn grown(now: f64, last: f64) -> f64 {
    if now < last { now } else { now - last }
}

#[cfg(test)]
mod tests;
