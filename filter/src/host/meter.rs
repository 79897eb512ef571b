//! Samples → Envoy's metrics. A metric is defined on first use, at most [`SERIES_MAX`] in total, because
//! Envoy frees none. Counters are summed here and flushed on each tick, at least every 50 ms: a hostcall
//! for each would cost a request more than all of its decisions.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use proxy_wasm::types::MetricType;
use weir_api::metrics::{Kind, Metric, encode, encode_group};

use crate::engine::Engine;
use crate::stats::{Change, Label, Sample};

use super::call;

/// Maximum number of metrics of one service in one VM; further ones are not counted.
const SERIES_MAX: usize = 1024;
/// The same of those by group, so that they take no others' places.
const GROUP_SERIES_MAX: usize = 512;

/// Metrics of one service.
#[derive(Default)]
pub(super) struct Meter {
    known: HashMap<(Metric, Label), Series, BuildHasherDefault<fnv::FnvHasher>>,
    defined: usize,
    defined_of_groups: usize,
}

struct Series {
    id: Option<u32>,
    /// Value of its label, because a variant's id may come to mean another variant.
    value: Rc<str>,
    /// Sum not flushed yet.
    pending: i64,
}

impl Meter {
    /// Adds one sample.
    pub(super) fn take(&mut self, engine: &Engine, sample: Sample) {
        let Some(series) = self.series(engine, sample.metric, sample.label) else {
            return;
        };
        match (sample.change, series.id) {
            (Change::By(by), _) => series.pending += by,
            (Change::To(value) | Change::Value(value), Some(id)) => call::record(id, value),
            (Change::To(_) | Change::Value(_), None) => {}
        }
    }

    /// Flushes the sums.
    pub(super) fn flush(&mut self) {
        for series in self.known.values_mut() {
            series.flush();
        }
    }

    fn series(&mut self, engine: &Engine, metric: Metric, label: Label) -> Option<&mut Series> {
        let key = (metric, label);
        let stale = match (label, self.known.get(&key)) {
            (_, None) => true,
            (Label::Variant(id) | Label::Group(id, _), Some(series)) => {
                let name = engine.variant_name(id);
                name.is_some_and(|name| !Rc::ptr_eq(name, &series.value) && **name != *series.value)
            }
            (_, Some(_)) => false,
        };
        if stale {
            let (defined, max) = match label {
                Label::Group(..) => (&mut self.defined_of_groups, GROUP_SERIES_MAX),
                _ => (&mut self.defined, SERIES_MAX),
            };
            if *defined >= max {
                return None;
            }
            *defined += 1;
            let series = Series::define(engine, metric, label);
            if let Some(mut before) = self.known.insert(key, series) {
                before.flush();
            }
        }
        self.known.get_mut(&key)
    }
}

impl Series {
    fn define(engine: &Engine, metric: Metric, label: Label) -> Series {
        let value: Rc<str> = match label {
            Label::None => Rc::from(""),
            Label::Variant(id) | Label::Group(id, _) => {
                engine.variant_name(id).cloned().unwrap_or_default()
            }
            Label::Reason(reason) => Rc::from(reason.label()),
            // A metric name cannot contain the colon of a pseudo-header.
            Label::Header(field) => Rc::from(field.name().trim_start_matches(':')),
            Label::BudgetHeader(index) => {
                let names = &engine.config().budget_headers;
                let name = names.get(usize::from(index));
                name.map_or_else(|| Rc::from(""), |name| Rc::from(name.as_str()))
            }
            Label::Class(class) => {
                Rc::from(engine.config().classes.name(class).unwrap_or_default())
            }
        };
        let kind = match metric.kind() {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        let config = engine.config();
        let name = match label {
            Label::Group(_, group) => {
                let group = group.name(&config.classes).unwrap_or_default();
                encode_group(metric, &config.service, &value, &group)
            }
            _ => encode(metric, &config.service, &value),
        };
        Series {
            id: call::define(kind, &name),
            value,
            pending: 0,
        }
    }

    fn flush(&mut self) {
        if let Some(id) = self.id.filter(|_| self.pending != 0) {
            call::increment(id, self.pending);
        }
        self.pending = 0;
    }
}
