//! The planner's own metrics: a registry for each service, with its name as a label, and one for the
//! endpoints; no globals. Labels are from closed lists or from the service. Only proxies' labels come from
//! polls, which carried the key, and exist while the proxy shares slots.

mod proxies;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use prometheus::proto::MetricFamily;
use prometheus::{
    Encoder as _, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter,
    IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

use crate::distribution::slot_allocation::{Counts, ProxyView};
use crate::telemetry::status::CycleReport;
use proxies::ProxyMetrics;

/// Histogram buckets for durations below a cycle, in ms.
const MS: [f64; 13] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0,
];

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
}

/// Metrics of one service.
#[derive(Debug)]
pub struct ServiceMetrics {
    registry: Registry,
    cycles: IntCounterVec,
    cycle_ms: Histogram,
    stage_ms: HistogramVec,
    measured_rps: Gauge,
    demand_rps: Gauge,
    scrapes_lost: IntCounter,
    resizes_confirmed: IntCounter,
    resizes_failed: IntCounter,
    plans_published: IntCounter,
    plans_unfit: IntCounter,
    plan_revision: IntGauge,
    polls_refused: IntCounter,
    proxies: ProxyMetrics,
    cores_asked: GaugeVec,
    cores_actuated: GaugeVec,
    cores_unmet: GaugeVec,
    held: GaugeVec,
    held_budget: GaugeVec,
    capacity_rps: GaugeVec,
    failing: GaugeVec,
    share: GaugeVec,
    routed_share: GaugeVec,
    routed_accuracy: Gauge,
    slots: GaugeVec,
}

/// Totals since the start, as the status shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Cycles.
    pub cycles: u64,
    /// Plans published.
    pub plans_published: u64,
    /// Rejected plans, which failed validation.
    pub plans_rejected: u64,
    /// Scrapes without a response.
    pub scrapes_failed: u64,
    /// Resizes confirmed.
    pub resizes_confirmed: u64,
    /// Resizes failed.
    pub resizes_failed: u64,
    /// Polls refused because the proxy gets no slot.
    pub polls_refused: u64,
}

/// Values that are collected at the time of a scrape.
#[derive(Debug)]
pub struct Shown<'a> {
    /// Proxies, by node id.
    pub proxies: &'a BTreeMap<String, ProxyView>,
    /// Counters of the slot allocation.
    pub counts: Counts,
    /// Revision of the published plan.
    pub revision: u64,
}

impl Metrics {
    /// Creates the metrics, all at zero.
    ///
    /// # Errors
    /// Fails if the registry refuses a name, which would be a bug in this file.
    pub fn new() -> prometheus::Result<Metrics> {
        let make = Make::new(None)?;
        let labels = ["service", "answer"];
        Ok(Metrics {
            polls: make.counters("polls_total", "Polls of proxies, by answer.", &labels)?,
            polls_waiting: make
                .int_gauge("polls_waiting", "Polls that wait for a newer plan now.")?,
            registry: make.0,
        })
    }

    /// Counts the result of a poll for a service; `None` for a service that is not planned for here.
    pub fn count_poll(&self, service: Option<&str>, answer: PollAnswer) {
        let labels = [service.unwrap_or_default(), answer.label()];
        self.polls.with_label_values(&labels).inc();
    }

    /// Returns all metrics in Prometheus' text format; `polls` are held at the moment.
    ///
    /// # Errors
    /// Fails if the encoder does.
    pub fn text(
        &self,
        waiting: usize,
        services: impl Iterator<Item = Vec<MetricFamily>>,
    ) -> prometheus::Result<Vec<u8>> {
        self.polls_waiting.set(whole(waiting as u64));
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

impl ServiceMetrics {
    /// Creates the metrics, all at zero.
    ///
    /// # Errors
    /// Fails if the registry refuses a name, which would be a bug in this file.
    pub fn new(service: &str) -> prometheus::Result<ServiceMetrics> {
        let make = Make::new(Some(service))?;
        Ok(ServiceMetrics {
            cycles: make.counters(
                "cycles_total",
                "Turns, by outcome of the solve.",
                &["outcome"],
            )?,
            cycle_ms: make.histogram("cycle_ms", "From observing to the first plan offered.")?,
            stage_ms: make.histograms("stage_ms", "The same, by stage.", "stage")?,
            measured_rps: make.gauge(
                "measured_rps",
                "Requests arriving at all proxies; NaN while unknown.",
            )?,
            demand_rps: make.gauge("demand_rps", "The demand planned for; NaN while unknown.")?,
            scrapes_lost: make.counter(
                "scrapes_lost_total",
                "Scrapes of proxies without an answer.",
            )?,
            resizes_confirmed: make.counter(
                "resizes_confirmed_total",
                "Changes of cores that were confirmed.",
            )?,
            resizes_failed: make
                .counter("resizes_failed_total", "Changes of cores that failed.")?,
            plans_published: make.counter("plans_published_total", "Plans published.")?,
            plans_unfit: make.counter(
                "plans_unfit_total",
                "Plans that did not pass their check and were not published.",
            )?,
            plan_revision: make.int_gauge("plan_revision", "The revision that is out.")?,
            polls_refused: make.counter(
                "polls_refused_total",
                "Polls of proxies for which there is no slot.",
            )?,
            proxies: ProxyMetrics::new(&make)?,
            cores_asked: make
                .gauges("cores_asked", "Cores the decision wants a variant to have.")?,
            cores_actuated: make
                .gauges("cores_actuated", "Cores a variant's backend has confirmed.")?,
            cores_unmet: make.register(GaugeVec::new(
                Opts::new(
                    "cores_unmet",
                    "Cores that a variant is to have and does not get, by what stands in the way.",
                ),
                &["variant", "reason"],
            )?)?,
            held: make.by_resource(
                "held",
                "What replicas hold besides cores, those that start and end included, in bytes or pieces.",
            )?,
            held_budget: make.by_resource("held_budget", "What the budget bears of it.")?,
            capacity_rps: make.gauges(
                "capacity_rps",
                "What a variant sustains with the cores in force.",
            )?,
            failing: make.gauges(
                "failing",
                "1 while a variant's servers fail, by the word of the proxies: it gets no share.",
            )?,
            share: make.gauges("share", "A variant's part of the traffic, 0 to 1.")?,
            routed_share: make.gauges(
                "routed_share",
                "A variant's part of the latest requests, 0 to 1; NaN while unknown.",
            )?,
            routed_accuracy: make.gauge(
                "routed_accuracy_percent",
                "Mean accuracy of what the latest requests were routed to; NaN while unknown.",
            )?,
            slots: make.gauges("slots", "Requests a variant may execute at once.")?,
            registry: make.0,
        })
    }

    /// Records the report of a cycle.
    pub fn record(&self, report: &CycleReport) {
        self.cycles
            .with_label_values(&[report.outcome.label()])
            .inc();
        self.cycle_ms.observe(report.cycle_ms);
        let stages = report.stages_ms;
        for (stage, took_ms) in [
            ("observe", stages.observe),
            ("forecast", stages.forecast),
            ("solve", stages.solve),
            ("actuate", stages.actuate),
            ("publish", stages.publish),
        ] {
            self.stage_ms.with_label_values(&[stage]).observe(took_ms);
        }
        self.measured_rps
            .set(report.measured_rps.map_or(f64::NAN, |rate| rate.0));
        self.demand_rps
            .set(report.demand_rps.map_or(f64::NAN, |rate| rate.0));
        self.routed_accuracy
            .set(report.routed_accuracy_percent.unwrap_or(f64::NAN));
        self.scrapes_lost.inc_by(report.scrapes_failed as u64);
        self.resizes_confirmed
            .inc_by(report.resizes_confirmed.into());
        self.resizes_failed.inc_by(report.resizes_failed.into());
        self.plans_published.inc_by(report.plans_published.into());
        self.plans_unfit.inc_by(report.plans_rejected.into());
        // Blockers that no longer exist must disappear.
        self.cores_unmet.reset();
        for (resource, of) in &report.resources {
            let show = |gauges: &GaugeVec, amount: u64| {
                gauges.with_label_values(&[resource]).set(amount as f64);
            };
            show(&self.held, of.used);
            show(&self.held_budget, of.budget);
        }
        for (name, variant) in &report.variants {
            if let Some(blocker) = &variant.blocker {
                let missing = variant.cores_target.saturating_sub(variant.cores_actual);
                self.cores_unmet
                    .with_label_values(&[name.as_str(), blocker.reason.label()])
                    .set(missing.as_f64());
            }
            let show = |gauges: &GaugeVec, value| gauges.with_label_values(&[name]).set(value);
            show(&self.cores_asked, variant.cores_target.as_f64());
            show(&self.cores_actuated, variant.cores_actual.as_f64());
            show(&self.capacity_rps, variant.capacity_rps.0);
            show(
                &self.failing,
                f64::from(u8::from(variant.failing_ms.is_some())),
            );
            show(&self.share, variant.share.0);
            show(&self.slots, variant.slots.into());
            let routed = variant.routed.map_or(f64::NAN, |of| of.share.0);
            show(&self.routed_share, routed);
        }
    }

    /// Counts a poll of a proxy that gets no slot.
    pub fn count_refusal(&self) {
        self.polls_refused.inc();
    }

    /// Returns the totals since the start.
    pub fn counters(&self) -> Counters {
        Counters {
            cycles: self.cycle_ms.get_sample_count(),
            plans_published: self.plans_published.get(),
            plans_rejected: self.plans_unfit.get(),
            scrapes_failed: self.scrapes_lost.get(),
            resizes_confirmed: self.resizes_confirmed.get(),
            resizes_failed: self.resizes_failed.get(),
            polls_refused: self.polls_refused.get(),
        }
    }

    /// Returns all metrics, with the values collected at the time of the scrape.
    pub fn gather(&self, shown: &Shown<'_>) -> Vec<MetricFamily> {
        self.plan_revision.set(whole(shown.revision));
        // Proxies that are gone must not appear, nor those just removed by a concurrent scrape.
        let _shown = self.proxies.show(shown);
        self.registry.gather()
    }
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

struct Make(Registry);

impl Make {
    fn new(service: Option<&str>) -> prometheus::Result<Make> {
        let labels = service.map(|name| HashMap::from([("service".to_owned(), name.to_owned())]));
        Registry::new_custom(Some("weir_planner".to_owned()), labels).map(Make)
    }

    fn counter(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.register(IntCounter::new(name, help)?)
    }

    fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<IntCounterVec> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> prometheus::Result<Gauge> {
        self.register(Gauge::new(name, help)?)
    }

    fn int_gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.register(IntGauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str) -> prometheus::Result<GaugeVec> {
        self.register(GaugeVec::new(Opts::new(name, help), &["variant"])?)
    }

    fn by_resource(&self, name: &str, help: &str) -> prometheus::Result<GaugeVec> {
        self.register(GaugeVec::new(Opts::new(name, help), &["resource"])?)
    }

    fn histogram(&self, name: &str, help: &str) -> prometheus::Result<Histogram> {
        self.register(Histogram::with_opts(
            HistogramOpts::new(name, help).buckets(MS.to_vec()),
        )?)
    }

    fn histograms(&self, name: &str, help: &str, label: &str) -> prometheus::Result<HistogramVec> {
        self.register(HistogramVec::new(
            HistogramOpts::new(name, help).buckets(MS.to_vec()),
            &[label],
        )?)
    }

    fn register<C>(&self, collector: C) -> prometheus::Result<C>
    where
        C: prometheus::core::Collector + Clone + 'static,
    {
        self.0.register(Box::new(collector.clone()))?;
        Ok(collector)
    }
}
