//! Makes metrics and registers them, under the prefix of all the planner's.

use std::cell::RefCell;
use std::collections::HashMap;

use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    Opts, Registry,
};

/// Prefix of the planner's metrics, without the underscore.
const PREFIX: &str = "weir_planner";
/// Histogram buckets for durations below a cycle, in seconds.
const SECONDS: [f64; 13] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
];

/// Registry with the names of what it has.
pub(super) struct Make {
    pub(super) registry: Registry,
    is_of_service: bool,
    descriptions: RefCell<Vec<Description>>,
}

/// Name and labels of a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Full name.
    pub name: String,
    /// Names of its labels.
    pub labels: Vec<String>,
}

impl Make {
    pub(super) fn new(service: Option<&str>) -> prometheus::Result<Make> {
        let labels = service.map(|name| HashMap::from([("service".to_owned(), name.to_owned())]));
        Ok(Make {
            is_of_service: labels.is_some(),
            registry: Registry::new_custom(Some(PREFIX.to_owned()), labels)?,
            descriptions: RefCell::default(),
        })
    }

    /// Returns all metrics, also those that have no series yet.
    pub(super) fn descriptions(&self) -> Vec<Description> {
        let of = |it: &Description| Description {
            name: format!("{PREFIX}_{}", it.name),
            labels: it.labels.clone(),
        };
        self.descriptions.borrow().iter().map(of).collect()
    }

    fn labels_of(&self, own: &[String]) -> Vec<String> {
        let service = self.is_of_service.then(|| "service".to_owned());
        own.iter().cloned().chain(service).collect()
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.register(IntCounter::new(name, help)?)
    }

    pub(super) fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<IntCounterVec> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> prometheus::Result<Gauge> {
        self.register(Gauge::new(name, help)?)
    }

    pub(super) fn int_gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.register(IntGauge::new(name, help)?)
    }

    pub(super) fn gauges(&self, name: &str, help: &str) -> prometheus::Result<GaugeVec> {
        self.register(GaugeVec::new(Opts::new(name, help), &["variant"])?)
    }

    pub(super) fn by_resource(&self, name: &str, help: &str) -> prometheus::Result<GaugeVec> {
        self.register(GaugeVec::new(Opts::new(name, help), &["resource"])?)
    }

    pub(super) fn histogram(&self, name: &str, help: &str) -> prometheus::Result<Histogram> {
        self.register(Histogram::with_opts(
            HistogramOpts::new(name, help).buckets(SECONDS.to_vec()),
        )?)
    }

    pub(super) fn histograms(
        &self,
        name: &str,
        help: &str,
        label: &str,
    ) -> prometheus::Result<HistogramVec> {
        self.register(HistogramVec::new(
            HistogramOpts::new(name, help).buckets(SECONDS.to_vec()),
            &[label],
        )?)
    }

    pub(super) fn register<C>(&self, collector: C) -> prometheus::Result<C>
    where
        C: Collector + Clone + 'static,
    {
        let own = collector.desc().into_iter().map(|it| Description {
            name: it.fq_name.clone(),
            labels: self.labels_of(&it.variable_labels),
        });
        self.descriptions.borrow_mut().extend(own);
        self.registry.register(Box::new(collector.clone()))?;
        Ok(collector)
    }
}
