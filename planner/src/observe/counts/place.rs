//! Place of a series in the counts of stages, by its name and labels.

use weir_api::metrics::{GROUP, Kind, Metric};

use super::StageNames;
use crate::observe::exposition::Sample;

/// Metrics that the planner reads.
const READ: [Metric; 23] = [
    Metric::Arrivals,
    Metric::AccuracyArrivals,
    Metric::Unservable,
    Metric::Requests,
    Metric::DowngradedFrom,
    Metric::Served,
    Metric::OnTime,
    Metric::Late,
    Metric::Failing,
    Metric::Refused,
    Metric::ClientDisconnects,
    Metric::HeldRequests,
    Metric::WaitingRequests,
    Metric::WaitMs,
    Metric::DispatchSlackMs,
    Metric::DemandSlackMs,
    Metric::LatencyMs,
    Metric::ServiceMs,
    Metric::CutOffMs,
    Metric::BatchRequests,
    Metric::GroupExecutions,
    Metric::GroupRatioPermille,
    Metric::GroupRatioSquares,
];

/// Meaning of the name of a series.
#[derive(Debug, Default)]
pub(super) enum Name {
    /// Nothing of it is read.
    #[default]
    Other,
    /// The labels say the rest.
    Labelled(Metric, Part),
    /// The name says all.
    Whole(Place),
}

/// Place of a series in the counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) metric: Metric,
    pub(super) part: Part,
    pub(super) stage: usize,
    /// Value of the second label; empty for a metric without one.
    pub(super) value: String,
    /// Value of the label of a group; empty for a metric without it.
    pub(super) group: String,
}

/// Part of its metric that a series is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of a counter or gauge.
    Value,
    /// Histogram: one bucket.
    Bucket,
    /// Histogram: number of values.
    Count,
    /// Histogram: their sum.
    Sum,
}

/// Mark of a label in a name.
pub(super) const LABEL: &str = "__";
/// Label that every series has, in a name.
const SERVICE: &str = "__service__";

/// Endings of a histogram's names.
const PARTS: [(&str, Part); 3] = [
    ("_bucket", Part::Bucket),
    ("_count", Part::Count),
    ("_sum", Part::Sum),
];

/// Whether the planner may read a series of that name.
pub(super) fn may_be_read(name: &str) -> bool {
    READ.iter().any(|metric| name.starts_with(metric.name()))
}

impl Name {
    pub(super) fn read(name: &str, names: &StageNames) -> Name {
        if name.contains(LABEL) {
            return Place::by_name(name, names).map_or(Name::Other, Name::Whole);
        }
        let metric = |name: &str| READ.into_iter().find(|metric| metric.name() == name);
        let value = || Some((metric(name)?, Part::Value));
        let of_histogram =
            |(ending, part): &(&str, Part)| Some((metric(name.strip_suffix(ending)?)?, *part));
        let found = PARTS.iter().find_map(of_histogram).or_else(value);
        let found = found.filter(|(metric, part)| is_read(*metric, *part));
        found.map_or(Name::Other, |(metric, part)| Name::Labelled(metric, part))
    }
}

impl Place {
    /// Returns the place of a series whose name says all, as [`weir_api::metrics::decode`] would; `None` if it is of no
    /// stage or is not read.
    fn by_name(name: &str, names: &StageNames) -> Option<Place> {
        let (base, rest) = name.split_once(SERVICE)?;
        let metric = READ.into_iter().find(|metric| metric.name() == base)?;
        // A variant's name may end like a histogram's part, too.
        let (part, rest) = match metric.kind() {
            Kind::Histogram => PARTS
                .iter()
                .find_map(|(ending, part)| Some((*part, rest.strip_suffix(ending)?)))?,
            Kind::Counter | Kind::Gauge => (Part::Value, rest),
        };
        is_read(metric, part).then_some(())?;
        let (service, value) = match metric.label() {
            Some(label) => {
                let (service, rest) = rest.split_once(LABEL)?;
                (service, rest.strip_prefix(label)?.strip_prefix(LABEL)?)
            }
            None => (rest, ""),
        };
        let (value, group) = match metric.has_group() {
            true => {
                let (value, rest) = value.split_once(LABEL)?;
                (value, rest.strip_prefix(GROUP)?.strip_prefix(LABEL)?)
            }
            false => (value, ""),
        };
        let complete = ![service, value, group].iter().any(|it| it.contains(LABEL));
        complete.then_some(Place {
            metric,
            part,
            stage: names.by_long_form(service)?,
            value: value.replace('_', "-"),
            group: group.replace('_', "-"),
        })
    }

    /// Returns the place of a series whose labels say the rest.
    pub(super) fn by_labels(
        metric: Metric,
        part: Part,
        sample: &Sample,
        names: &StageNames,
    ) -> Option<Place> {
        let stage = names.by_name(sample.label("service")?)?;
        let value = match metric.label() {
            Some(label) => sample.label(label)?.to_owned(),
            None => String::new(),
        };
        let group = match metric.has_group() {
            true => sample.label(GROUP)?.to_owned(),
            false => String::new(),
        };
        Some(Place {
            metric,
            part,
            stage,
            value,
            group,
        })
    }
}

/// Whether the planner reads this part of a metric.
fn is_read(metric: Metric, part: Part) -> bool {
    match metric {
        Metric::DemandSlackMs | Metric::WaitMs | Metric::DispatchSlackMs | Metric::LatencyMs => {
            part == Part::Bucket
        }
        Metric::ServiceMs => part != Part::Value,
        Metric::CutOffMs | Metric::BatchRequests => matches!(part, Part::Count | Part::Sum),
        _ => part == Part::Value,
    }
}
