//! The planner's own metrics: a registry for each service, with its name as a label, and one for the
//! endpoints; no globals. Labels are from closed lists or from the service. Only proxies' labels come from
//! polls, which carried the key, and exist while the proxy shares slots.

mod endpoints;
mod make;
mod proxies;
mod replicas;
mod service_times;
mod shared_budget;

use std::collections::BTreeMap;

use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

use crate::distribution::slot_allocation::{Counts, ProxyView};
use crate::service::Service;
use crate::telemetry::status::CycleReport;
pub use endpoints::{EndpointState, Metrics, PollAnswer};
pub use make::Description;
use make::Make;
use proxies::ProxyMetrics;
use replicas::ReplicaMetrics;
use service_times::ServiceTimeMetrics;
use shared_budget::SharedBudgetMetrics;

/// Metrics of one service.
#[derive(Debug)]
pub struct ServiceMetrics {
    registry: Registry,
    cycles: IntCounterVec,
    cycle_duration: Histogram,
    stage_duration: HistogramVec,
    on_time_target: GaugeVec,
    measured_rps: Gauge,
    demand_rps: Gauge,
    scrapes_failed: IntCounter,
    without_weir: IntGauge,
    resizes_confirmed: IntCounter,
    resizes_failed: IntCounter,
    plans_published: IntCounter,
    plans_rejected: IntCounter,
    plan_revision: IntGauge,
    polls_refused: IntCounter,
    controller_restarts: IntCounter,
    proxies: ProxyMetrics,
    service_times: ServiceTimeMetrics,
    replicas: ReplicaMetrics,
    shared_budget: SharedBudgetMetrics,
    cores_target: GaugeVec,
    cores_actual: GaugeVec,
    cores_shortfall: GaugeVec,
    resource_used: GaugeVec,
    resource_budget: GaugeVec,
    capacity_rps: GaugeVec,
    failing: GaugeVec,
    share: GaugeVec,
    routed_share: GaugeVec,
    routed_accuracy: Gauge,
    slots: GaugeVec,
}

/// Totals since the start, as the status shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
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

/// Returns the names of all metrics of the planner.
///
/// # Errors
/// Fails if the registry refuses a name, which would be a bug in this file.
pub fn names() -> prometheus::Result<Vec<String>> {
    let all = descriptions()?.into_iter();
    Ok(all.map(|it| it.name).collect())
}

/// Returns all metrics of the planner, with their labels.
///
/// # Errors
/// Fails if the registry refuses a name, which would be a bug in this file.
pub fn descriptions() -> prometheus::Result<Vec<Description>> {
    let (all, service) = (Make::new(None)?, Make::new(Some("any"))?);
    Metrics::register(&all)?;
    ServiceMetrics::register(&service)?;
    Ok([all.descriptions(), service.descriptions()].concat())
}

impl ServiceMetrics {
    /// Creates the metrics, all at zero.
    ///
    /// # Errors
    /// Fails if the registry refuses a name, which would be a bug in this file.
    pub fn new(service: &str) -> prometheus::Result<ServiceMetrics> {
        ServiceMetrics::register(&Make::new(Some(service))?)
    }

    fn register(make: &Make) -> prometheus::Result<ServiceMetrics> {
        Ok(ServiceMetrics {
            cycles: make.counters(
                "cycles_total",
                "Cycles, by outcome of the solve.",
                &["outcome"],
            )?,
            cycle_duration: make.histogram(
                "cycle_duration_seconds",
                "From observing to the first plan offered.",
            )?,
            stage_duration: make.histograms(
                "stage_duration_seconds",
                "The same, by stage.",
                "stage",
            )?,
            on_time_target: make.register(GaugeVec::new(
                Opts::new(
                    "on_time_target_ratio",
                    "Part of the demand that must be answered on time, for each stage's filters.",
                ),
                &["stage"],
            )?)?,
            measured_rps: make.gauge(
                "measured_rps",
                "Requests arriving at all proxies; NaN while unknown.",
            )?,
            demand_rps: make.gauge(
                "demand_rps",
                "The forecast of the demand with headroom; NaN while unknown.",
            )?,
            scrapes_failed: make.counter(
                "scrapes_failed_total",
                "Scrapes of proxies without an answer that has statistics of Weir.",
            )?,
            without_weir: make.int_gauge(
                "proxies_without_weir",
                "Proxies that answer scrapes without any metric of Weir.",
            )?,
            resizes_confirmed: make.counter(
                "resizes_confirmed_total",
                "Changes of cores that were confirmed.",
            )?,
            resizes_failed: make
                .counter("resizes_failed_total", "Changes of cores that failed.")?,
            plans_published: make.counter("plans_published_total", "Plans published.")?,
            plans_rejected: make.counter(
                "plans_rejected_total",
                "Plans that did not pass their check and were not published.",
            )?,
            plan_revision: make.int_gauge("plan_revision", "The revision that is out.")?,
            polls_refused: make.counter(
                "polls_refused_total",
                "Polls of proxies for which there is no slot.",
            )?,
            controller_restarts: make.counter(
                "controller_restarts_total",
                "Unexpected ends of the controller, which then started anew.",
            )?,
            proxies: ProxyMetrics::new(make)?,
            service_times: ServiceTimeMetrics::new(make)?,
            replicas: ReplicaMetrics::new(make)?,
            shared_budget: SharedBudgetMetrics::new(make)?,
            cores_target: make
                .gauges("cores_target", "Cores the decision wants a variant to have.")?,
            cores_actual: make
                .gauges("cores_actual", "Cores a variant's backend has confirmed.")?,
            cores_shortfall: make.register(GaugeVec::new(
                Opts::new(
                    "cores_shortfall",
                    "Cores by which a variant's actual cores are below its target, by blocker.",
                ),
                &["variant", "reason"],
            )?)?,
            resource_used: make.by_resource(
                "resource_used",
                "Resources of the replicas besides cores, those that start and end included, in bytes or pieces.",
            )?,
            resource_budget: make.by_resource("resource_budget", "The budget of a resource.")?,
            capacity_rps: make.gauges(
                "capacity_rps",
                "The rate that a variant's actual cores are planned with: what they sustain, less their reserve.",
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
            registry: make.registry.clone(),
        })
    }

    /// Shows the objective of the service, for each stage of it.
    pub fn show_target(&self, service: &Service) {
        // A stage that was renamed must disappear.
        self.on_time_target.reset();
        for stage in &service.stages {
            let gauge = self.on_time_target.with_label_values(&[&stage.name]);
            gauge.set(service.on_time_target);
        }
    }

    /// Records the report of a cycle.
    pub fn record(&self, report: &CycleReport) {
        self.cycles
            .with_label_values(&[report.outcome.label()])
            .inc();
        self.cycle_duration.observe(report.cycle_ms / 1000.0);
        let stages = report.stages_ms;
        for (stage, took_ms) in [
            ("observe", stages.observe),
            ("forecast", stages.forecast),
            ("solve", stages.solve),
            ("actuate", stages.actuate),
            ("publish", stages.publish),
        ] {
            let duration = self.stage_duration.with_label_values(&[stage]);
            duration.observe(took_ms / 1000.0);
        }
        self.measured_rps
            .set(report.measured_rps.map_or(f64::NAN, |rate| rate.0));
        self.demand_rps
            .set(report.demand_rps.map_or(f64::NAN, |rate| rate.0));
        self.routed_accuracy
            .set(report.routed_accuracy_percent.unwrap_or(f64::NAN));
        self.scrapes_failed.inc_by(report.scrapes_failed as u64);
        self.without_weir
            .set(whole(report.proxies_without_weir as u64));
        self.resizes_confirmed
            .inc_by(report.resizes_confirmed.into());
        self.resizes_failed.inc_by(report.resizes_failed.into());
        self.plans_published.inc_by(report.plans_published.into());
        self.plans_rejected.inc_by(report.plans_rejected.into());
        self.shared_budget.show(report.shared_budget.as_ref());
        // Blockers that no longer exist must disappear.
        self.cores_shortfall.reset();
        for (resource, of) in &report.resources {
            let show = |gauges: &GaugeVec, amount: u64| {
                gauges.with_label_values(&[resource]).set(amount as f64);
            };
            show(&self.resource_used, of.used);
            show(&self.resource_budget, of.budget);
        }
        for (name, variant) in &report.variants {
            if let Some(blocker) = &variant.blocker {
                let missing = variant.cores_target.saturating_sub(variant.cores_actual);
                self.cores_shortfall
                    .with_label_values(&[name.as_str(), blocker.reason.label()])
                    .set(missing.as_f64());
            }
            let show = |gauges: &GaugeVec, value| gauges.with_label_values(&[name]).set(value);
            show(&self.cores_target, variant.cores_target.as_f64());
            show(&self.cores_actual, variant.cores_actual.as_f64());
            show(&self.capacity_rps, variant.capacity_rps.0);
            show(
                &self.failing,
                f64::from(u8::from(variant.failing_ms.is_some())),
            );
            show(&self.share, variant.share.0);
            show(&self.slots, variant.slots.into());
            self.service_times.show(name, &variant.service_time);
            self.replicas.show(name, variant);
            let routed = variant.routed.map_or(f64::NAN, |of| of.share.0);
            show(&self.routed_share, routed);
        }
    }

    /// Counts a poll of a proxy that gets no slot.
    pub fn count_refusal(&self) {
        self.polls_refused.inc();
    }

    /// Counts an unexpected end of the controller.
    pub fn record_controller_restart(&self) {
        self.controller_restarts.inc();
    }

    /// Returns the totals since the start.
    pub fn counters(&self) -> Counters {
        Counters {
            cycles: self.cycle_duration.get_sample_count(),
            plans_published: self.plans_published.get(),
            plans_rejected: self.plans_rejected.get(),
            scrapes_failed: self.scrapes_failed.get(),
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
