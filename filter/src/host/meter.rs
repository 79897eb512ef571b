//! Samples → Envoy's metrics. A metric is defined when first used; there are never more than
//! [`SERIES_MAX`] of them, because Envoy frees none.

use std::collections::HashMap;
use std::rc::Rc;

use proxy_wasm::types::MetricType;
use weir_api::metrics::{Metric, encode};

use crate::stats::{Change, Label, Sample};

use super::call;

/// Most metrics of one service in one VM; what would be one more is not counted.
const SERIES_MAX: usize = 1024;

/// The metrics of one service.
#[derive(Default)]
pub(super) struct Meter {
    known: HashMap<(Metric, Rc<str>), Option<u32>>,
    nameless: Rc<str>,
}

impl Meter {
    /// Passes one sample on; `variant` is the name of the variant it is about, if it is about one.
    pub(super) fn take(&mut self, service: &str, sample: Sample, variant: Option<Rc<str>>) {
        let value = match sample.label {
            Label::None => self.nameless.clone(),
            Label::Variant(_) => variant.unwrap_or_else(|| self.nameless.clone()),
            Label::Reason(reason) => Rc::from(reason.label()),
            Label::Header(field) => Rc::from(field.name()),
        };
        let Some(id) = self.series(service, sample.metric, value) else {
            return;
        };
        match sample.change {
            Change::By(by) => call::increment(id, by),
            Change::To(value) | Change::Value(value) => call::record(id, value),
        }
    }

    fn series(&mut self, service: &str, metric: Metric, value: Rc<str>) -> Option<u32> {
        if let Some(id) = self.known.get(&(metric, value.clone())) {
            return *id;
        }
        if self.known.len() >= SERIES_MAX {
            return None;
        }
        let id = call::define(kind(metric), &encode(metric, service, &value));
        self.known.insert((metric, value), id);
        id
    }
}

fn kind(metric: Metric) -> MetricType {
    match metric {
        Metric::Arrivals
        | Metric::Dispatched
        | Metric::Served
        | Metric::Late
        | Metric::Refused
        | Metric::Gone
        | Metric::Disbelieved
        | Metric::SwapsLost
        | Metric::BoardResets
        | Metric::PlanAccepted
        | Metric::PlanRefused
        | Metric::PlanUnreachable => MetricType::Counter,
        Metric::Held | Metric::InFlight | Metric::PlanRevision => MetricType::Gauge,
        Metric::WaitMs
        | Metric::SlackMs
        | Metric::ServiceMs
        | Metric::HandoverUs
        | Metric::PlanVisibleMs => MetricType::Histogram,
    }
}
