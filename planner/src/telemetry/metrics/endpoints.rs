//! Metrics of the endpoints, over all services: polls, leadership, the version, resources that are refused.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use prometheus::proto::MetricFamily;
use prometheus::{
    Encoder as _, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

use super::make::Make;
use super::whole;

/// Version of the planner.
const VERSION: &str = env!("CARGO_PKG_VERSION");

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

    const ALL: [PollAnswer; 7] = [
        PollAnswer::Plan,
        PollAnswer::None,
        PollAnswer::Refused,
        PollAnswer::Unauthorised,
        PollAnswer::Full,
        PollAnswer::NoLeader,
        PollAnswer::Bad,
    ];
}

/// State of the endpoints at the time of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointState {
    /// Polls that are held.
    pub waiting: usize,
    /// Whether this planner leads.
    pub leads: bool,
    /// Whether it leads, or reaches the planner that leads.
    pub leader_reached: bool,
}

/// Metrics of the endpoints, over all services.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    polls: IntCounterVec,
    polls_waiting: IntGauge,
    leader_reached: IntGauge,
    probes_failed: IntCounter,
    leads: IntGauge,
    reconcile_errors: IntCounterVec,
}

impl Metrics {
    /// Creates the metrics, all at zero.
    ///
    /// # Errors
    /// Fails if the registry refuses a name, which would be a bug in this file.
    pub fn new() -> prometheus::Result<Metrics> {
        Metrics::register(&Make::new(None)?)
    }

    pub(super) fn register(make: &Make) -> prometheus::Result<Metrics> {
        let labels = ["service", "answer"];
        let build = make.register(IntGaugeVec::new(
            Opts::new("build_info", "1, with the version of this planner."),
            &["version"],
        )?)?;
        build.with_label_values(&[VERSION]).set(1);
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
            leads: make.int_gauge("leader", "1 while this planner leads, else 0.")?,
            reconcile_errors: make.counters(
                "reconcile_errors_total",
                "SloServices that were refused or could not be reconciled, each time it was tried, by reason.",
                &["reason"],
            )?,
            registry: make.registry.clone(),
        })
    }

    /// Counts the result of a poll for a service; `None` for a service that is not planned for here.
    pub fn count_poll(&self, service: Option<&str>, answer: PollAnswer) {
        let labels = [service.unwrap_or_default(), answer.label()];
        self.polls.with_label_values(&labels).inc();
    }

    /// Removes what was counted of a service that is deleted.
    pub fn forget_polls(&self, service: &str) {
        for answer in PollAnswer::ALL {
            // Absent until it was counted.
            let _ = self.polls.remove_label_values(&[service, answer.label()]);
        }
    }

    /// Counts a probe that the leader did not answer.
    pub fn count_failed_probe(&self) {
        self.probes_failed.inc();
    }

    /// Counts a resource that was refused or could not be reconciled; `reason` is of a closed list.
    pub fn count_reconcile_error(&self, reason: &'static str) {
        self.reconcile_errors.with_label_values(&[reason]).inc();
    }

    /// Returns all metrics in Prometheus' text format.
    ///
    /// # Errors
    /// Fails if the encoder does.
    pub fn text(
        &self,
        state: EndpointState,
        services: impl Iterator<Item = Vec<MetricFamily>>,
    ) -> prometheus::Result<Vec<u8>> {
        self.polls_waiting.set(whole(state.waiting as u64));
        self.leader_reached.set(state.leader_reached.into());
        self.leads.set(state.leads.into());
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
