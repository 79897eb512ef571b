//! Place of a series in the counts of stages, by its name and labels.

use weir_api::metrics::{GROUP, Kind, Metric};

use super::StageNames;
use crate::observe::exposition::{Sample, split_name};

/// Metrics that the planner reads.
const READ: [Metric; 25] = [
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
    Metric::FullUs,
    Metric::FullExecutions,
    Metric::GroupExecutions,
    Metric::GroupRatioPermille,
    Metric::GroupRatioSquares,
];

/// Reader of series, of which the latest one is kept: series that follow each other share metric and service.
#[derive(Debug)]
pub(super) struct Reader {
    /// Name of the latest series without labels and part, and its metric if anything of it is read.
    metric: (String, Option<Metric>),
    /// Latest service, as names contain it, and its stage.
    service: (String, Option<usize>),
    place: Place,
}

/// Place of a series in the counts.
#[derive(Debug, Clone)]
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

/// Place of a series' labels.
enum Form {
    /// In the name.
    InName,
    /// After it.
    Labels(Part),
}

/// Mark of a label in a name.
const LABEL: &str = "__";
/// Label that every series has, in a name after the first mark.
const SERVICE: &str = "service__";

/// Endings of a histogram's names.
const PARTS: [(&str, Part); 3] = [
    ("_bucket", Part::Bucket),
    ("_count", Part::Count),
    ("_sum", Part::Sum),
];

impl Reader {
    /// Creates a reader of a text's first series.
    pub(super) fn new() -> Reader {
        Reader {
            metric: Default::default(),
            service: Default::default(),
            place: Place {
                metric: Metric::Arrivals,
                part: Part::Value,
                stage: 0,
                value: String::new(),
                group: String::new(),
            },
        }
    }

    /// Returns the place of a line and its sample, unless that is unreadable; `None` if it is of no stage or is not read.
    pub(super) fn read<'a>(
        &mut self,
        line: &'a str,
        names: &StageNames,
    ) -> Option<(&Place, Option<Sample<'a>>)> {
        let known = Some(self.metric.0.as_str()).filter(|name| !name.is_empty());
        let known = known.and_then(|name| form_of(line.strip_prefix(name)?));
        let (form, rest) = match known {
            Some(known) => known,
            None => {
                let name = unlabelled(line)?;
                name.clone_into(&mut self.metric.0);
                self.metric.1 = READ.into_iter().find(|metric| metric.name() == name);
                form_of(line.strip_prefix(name)?)?
            }
        };
        let metric = self.metric.1?;
        self.place.metric = metric;
        let sample = match form {
            Form::InName => {
                let (labels, rest) = split_name(rest)?;
                self.by_name(metric, labels.strip_prefix(SERVICE)?, names)?;
                Sample::of(labels, rest)
            }
            Form::Labels(part) => {
                is_read(metric, part).then_some(())?;
                let Some(sample) = Sample::of(metric.name(), rest) else {
                    // Of any service: its labels may be what is unreadable.
                    return Some((&self.place, None));
                };
                self.place.part = part;
                self.place.by_labels(&sample, names)?;
                Some(sample)
            }
        };
        Some((&self.place, sample))
    }

    /// Reads the labels in a name from the service on, as [`weir_api::metrics::decode`] would.
    fn by_name(&mut self, metric: Metric, labels: &str, names: &StageNames) -> Option<()> {
        // A variant's name may end like a histogram's part, too.
        let (part, labels) = match metric.kind() {
            Kind::Histogram => PARTS
                .iter()
                .find_map(|(ending, part)| Some((*part, labels.strip_suffix(ending)?)))?,
            Kind::Counter | Kind::Gauge => (Part::Value, labels),
        };
        is_read(metric, part).then_some(())?;
        let (service, value) = match metric.label() {
            Some(label) => {
                let (service, rest) = split_label(labels)?;
                (service, Some(value_of(label, rest)?))
            }
            None => (labels, None),
        };
        let (value, group) = match value {
            Some(value) if metric.has_group() => {
                let (value, rest) = split_label(value)?;
                (Some(value), Some(value_of(GROUP, rest)?))
            }
            value => (value, None),
        };
        let last = group.or(value).unwrap_or(service);
        split_label(last).is_none().then_some(())?;
        if self.service.0 != service {
            service.clone_into(&mut self.service.0);
            self.service.1 = names.by_long_form(service);
        }
        self.place.part = part;
        self.place.stage = self.service.1?;
        set(&mut self.place.value, value);
        set(&mut self.place.group, group);
        Some(())
    }
}

impl Place {
    fn by_labels(&mut self, sample: &Sample, names: &StageNames) -> Option<()> {
        let own = self.metric.label();
        let (mut service, mut value, mut group) = (None, None, None);
        for (name, text) in sample.labels() {
            let label = match name {
                "service" => &mut service,
                GROUP => &mut group,
                _ if Some(name) == own => &mut value,
                _ => continue,
            };
            label.get_or_insert(text);
        }
        self.stage = names.by_name(service?)?;
        let value = value.or(own.is_none().then_some(""))?;
        let group = group.filter(|_| self.metric.has_group());
        let group = group.or((!self.metric.has_group()).then_some(""))?;
        value.clone_into(&mut self.value);
        group.clone_into(&mut self.group);
        Some(())
    }
}

/// Returns the name of a line's metric, without labels and part.
fn unlabelled(line: &str) -> Option<&str> {
    let (name, _) = split_name(line)?;
    let name = split_label(name).map_or(name, |(name, _)| name);
    let part = PARTS.iter().find_map(|(part, _)| name.strip_suffix(part));
    Some(part.unwrap_or(name))
}

/// Returns the place of the labels after a metric's name, and the rest; `None` if the name goes on, or has no labels.
fn form_of(rest: &str) -> Option<(Form, &str)> {
    if let Some(labels) = rest.strip_prefix(LABEL) {
        return Some((Form::InName, labels));
    }
    let of_histogram = |(name, part): &(&str, Part)| Some((*part, rest.strip_prefix(name)?));
    let (part, rest) = PARTS
        .iter()
        .find_map(of_histogram)
        .unwrap_or((Part::Value, rest));
    rest.starts_with('{').then_some((Form::Labels(part), rest))
}

/// Splits a text at the first mark of a label.
fn split_label(text: &str) -> Option<(&str, &str)> {
    let mut pairs = text.as_bytes().windows(LABEL.len());
    let at = pairs.position(|pair| pair == LABEL.as_bytes())?;
    Some((text.get(..at)?, text.get(at + LABEL.len()..)?))
}

/// Returns what follows a label in a series' name: its value, and all after it.
fn value_of<'a>(label: &str, rest: &'a str) -> Option<&'a str> {
    rest.strip_prefix(label)?.strip_prefix(LABEL)
}

/// Sets the value of a label that a name contains, with dashes for underscores.
fn set(value: &mut String, text: Option<&str>) {
    value.clear();
    for (index, part) in text.unwrap_or_default().split('_').enumerate() {
        value.push_str(if index > 0 { "-" } else { "" });
        value.push_str(part);
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
