//! Samples of metrics: the engine records them, the shell turns them into Envoy's metrics.

use weir_api::metrics::Metric;

use crate::reason::Reason;
use crate::request::wire::Field;
use crate::routing::group_report::GroupId;
use crate::time::Span;
use crate::variant::VariantId;
use crate::waiting::class::ClassId;

/// Value of a metric's second label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// No second label.
    None,
    /// A variant; the engine knows its name.
    Variant(VariantId),
    /// A reason.
    Reason(Reason),
    /// A header.
    Header(Field),
    /// A header with a budget that the configuration names, by its index there.
    BudgetHeader(u8),
    /// A class; the configuration knows its name.
    Class(ClassId),
    /// A variant, and a group of its requests.
    Group(VariantId, GroupId),
}

/// One change of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Metric.
    pub metric: Metric,
    /// Its second label.
    pub label: Label,
    /// Its change.
    pub change: Change,
}

/// Change of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Adds to a counter or gauge.
    By(i64),
    /// Sets a gauge.
    To(u64),
    /// Adds a value to a histogram.
    Value(u64),
}

/// Samples since they were last taken. The buffer is reused, so that counting does not allocate.
#[derive(Debug, Default)]
pub struct Stats {
    samples: Vec<Sample>,
}

impl Stats {
    /// Adds one.
    pub fn count(&mut self, metric: Metric, label: Label) {
        self.by(metric, label, 1);
    }

    /// Adds `by`.
    pub fn by(&mut self, metric: Metric, label: Label, by: i64) {
        self.samples.push(Sample {
            metric,
            label,
            change: Change::By(by),
        });
    }

    /// Sets a gauge.
    pub fn set(&mut self, metric: Metric, label: Label, to: u64) {
        self.samples.push(Sample {
            metric,
            label,
            change: Change::To(to),
        });
    }

    /// Records a time in ms, rounded up so that a positive time is not 0.
    pub fn time(&mut self, metric: Metric, label: Label, time: Span) {
        self.value(metric, label, time.as_millis_up());
    }

    /// Records a time in µs.
    pub fn micros(&mut self, metric: Metric, label: Label, time: Span) {
        self.value(metric, label, time.as_micros());
    }

    /// Records a value.
    pub fn value(&mut self, metric: Metric, label: Label, value: u64) {
        self.samples.push(Sample {
            metric,
            label,
            change: Change::Value(value),
        });
    }

    /// Swaps the samples for an empty buffer, so that neither side allocates a new one.
    pub fn swap(&mut self, buffer: &mut Vec<Sample>) {
        buffer.clear();
        std::mem::swap(&mut self.samples, buffer);
    }
}
