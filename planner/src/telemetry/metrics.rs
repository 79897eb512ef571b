//! The planner's own metrics: a registry for each service, with its name as a label, and one for the
//! endpoints; no globals. Labels are from closed lists or from the service. Only proxies' labels come from
//! polls, which carried the key, and exist while the proxy shares slots.

mod make;
mod proxies;
mod service;
mod service_times;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use prometheus::proto::MetricFamily;
use prometheus::{Encoder as _, IntCounter, IntCounterVec, IntGauge, Registry, TextEncoder};

use make::Make;
pub use service::{Counters, ServiceMetrics, Shown};

/// Result of a poll; a closed list, for labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollAnswer {
    /// A plan.
    Plan,
    /// Nothing newer.
    None,
    /// No slot for the proxy.
    Refused,
    /// Wrong or no key.
    Unauthorised,
    /// Too many waiting polls.
    Full,
    /// No planner that leads is reached.
    NoLeader,
    /// Invalid query.
    Bad,
}

impl PollAnswer {
    /// Returns the label's value.
    pub const fn label(self) -> &'static str {
        match self {
            PollAnswer::Plan => "plan",
            PollAnswer::None => "none",
            PollAnswer::Refused => "refused",
            PollAnswer::Unauthorised => "unauthorised",
            PollAnswer::Full => "full",
            PollAnswer::NoLeader => "no-leader",
            PollAnswer::Bad => "bad",
        }
    }
}

/// Metrics of the endpoints, over all services.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    polls: IntCounterVec,
    polls_waiting: IntGauge,
    leader_reached: IntGauge,
    probes_failed: IntCounter,
}

/// Returns the names of all metrics of the planner.
///
/// # Errors
/// Fails if the registry refuses a name, which would be a bug in this file.
pub fn names() -> prometheus::Result<Vec<String>> {
    let (all, service) = (Make::new(None)?, Make::new(Some("any"))?);
    Metrics::register(&all)?;
    ServiceMetrics::register(&service)?;
    Ok([all.names(), service.names()].concat())
}

impl Metrics {
    /// Creates the metrics, all at zero.
    ///
    /// # Errors
    /// Fails if the registry refuses a name, which would be a bug in this file.
    pub fn new() -> prometheus::Result<Metrics> {
        Metrics::register(&Make::new(None)?)
    }

    fn register(make: &Make) -> prometheus::Result<Metrics> {
        let labels = ["service", "answer"];
        Ok(Metrics {
            polls: make.counters("polls_total", "Polls of proxies, by answer.", &labels)?,
            polls_waiting: make
                .int_gauge("polls_waiting", "Polls that wait for a newer plan now.")?,
            leader_reached: make.int_gauge(
                "leader_reached",
                "1 while this planner leads, or reaches the planner that leads; otherwise it refuses polls.",
            )?,
            probes_failed: make.counter(
                "leader_probes_failed_total",
                "Probes that the planner that leads did not answer.",
            )?,
            registry: make.registry.clone(),
        })
    }

    /// Counts the result of a poll for a service; `None` for a service that is not planned for here.
    pub fn count_poll(&self, service: Option<&str>, answer: PollAnswer) {
        let labels = [service.unwrap_or_default(), answer.label()];
        self.polls.with_label_values(&labels).inc();
    }

    /// Counts a probe that the leader did not answer.
    pub fn count_failed_probe(&self) {
        self.probes_failed.inc();
    }

    /// Returns all metrics in Prometheus' text format; `waiting` polls are held at the moment.
    ///
    /// # Errors
    /// Fails if the encoder does.
    pub fn text(
        &self,
        waiting: usize,
        leader_reached: bool,
        services: impl Iterator<Item = Vec<MetricFamily>>,
    ) -> prometheus::Result<Vec<u8>> {
        self.polls_waiting.set(whole(waiting as u64));
        self.leader_reached.set(leader_reached.into());
        let mut all: BTreeMap<String, MetricFamily> = BTreeMap::new();
        for mut family in services.flatten().chain(self.registry.gather()) {
            let same = all.entry(family.name().to_owned());
            match same {
                Entry::Vacant(new) => drop(new.insert(family)),
                Entry::Occupied(mut same) => {
                    let metrics = family.take_metric();
                    same.get_mut().mut_metric().extend(metrics);
                }
            }
        }
        let mut text = Vec::new();
        TextEncoder::new().encode(&all.into_values().collect::<Vec<_>>(), &mut text)?;
        Ok(text)
    }
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
