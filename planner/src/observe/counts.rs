//! Fold of Envoy's Prometheus output into the counts of services' stages, in one pass for all of them, as the text
//! arrives. Labels may be labels or parts of the names. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_api::metrics::{Kind, Metric, PREFIX, decode};

use super::exposition::{Sample, split_name};
use super::{Counts, ScrapeError};

/// Maximum length of a line, in bytes; Envoy's own have some hundreds.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Metrics that the planner reads.
const READ: [Metric; 9] = [
    Metric::Arrivals,
    Metric::AccuracyArrivals,
    Metric::Requests,
    Metric::DowngradedFrom,
    Metric::Failing,
    Metric::DemandSlackMs,
    Metric::ServiceMs,
    Metric::CutOffMs,
    Metric::BatchRequests,
];

/// Names of the stages whose counts are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageNames(BTreeMap<String, usize>);

impl StageNames {
    /// Creates the set of these names.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> StageNames {
        let mut stages = BTreeMap::new();
        for name in names {
            let next = stages.len();
            stages.entry(name.to_owned()).or_insert(next);
        }
        StageNames(stages)
    }

    /// Whether all these stages are among them.
    pub fn include(&self, stages: &[String]) -> bool {
        stages.iter().all(|stage| self.0.contains_key(stage))
    }
}

/// Counts of all stages at one proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct Folded {
    names: Arc<StageNames>,
    counts: Vec<Counts>,
}

impl Folded {
    /// Whether all these stages were read.
    pub fn includes(&self, stages: &[String]) -> bool {
        self.names.include(stages)
    }

    /// Returns the counts of a service with these stages; empty if the filter exports nothing yet. Arrivals, their
    /// accuracies and slack are those of the entry stage, the first. `None` if a stage is not among those that were read.
    pub fn of(&self, stages: &[String]) -> Option<Counts> {
        let one = |stage: &String| self.counts.get(*self.names.0.get(stage)?);
        let (entry, others) = stages.split_first()?;
        let mut counts = one(entry)?.clone();
        for stage in others {
            let more = one(stage)?.clone();
            for (variant, route) in more.routes {
                let sum = counts.routes.entry(variant).or_default();
                sum.routed += route.routed;
                sum.downgraded += route.downgraded;
            }
            counts.failing.extend(more.failing);
            for (variant, executions) in more.executions {
                counts
                    .executions
                    .entry(variant)
                    .or_default()
                    .add(executions);
            }
        }
        Some(counts)
    }
}

/// Fold of a text that comes in pieces.
#[derive(Debug)]
pub struct Fold {
    folded: Folded,
    /// Name of the latest series, which the next ones may share, and what it says.
    latest: (String, Name),
    /// Begin of names, up to their labels, of which nothing is read: the latest one.
    skipped: String,
    /// Begin of a line whose end has not come.
    begun: Vec<u8>,
}

/// Meaning of the name of a series.
#[derive(Debug, Default)]
enum Name {
    /// Nothing of it is read.
    #[default]
    Other,
    /// The labels say the rest.
    Labelled(Metric, Part),
    /// The name says all.
    Whole(Place),
}

/// Place of a series in the counts.
#[derive(Debug)]
struct Place {
    metric: Metric,
    part: Part,
    stage: usize,
    variant: String,
}

/// Part of its metric that a series is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
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
const LABEL: &str = "__";

/// Endings of a histogram's names.
const PARTS: [(&str, Part); 3] = [
    ("_bucket", Part::Bucket),
    ("_count", Part::Count),
    ("_sum", Part::Sum),
];

impl Fold {
    /// Begins a text, of which the counts of these stages are read.
    pub fn new(names: Arc<StageNames>) -> Fold {
        let counts = vec![Counts::default(); names.0.len()];
        Fold {
            folded: Folded { names, counts },
            latest: Default::default(),
            skipped: String::new(),
            begun: Vec::new(),
        }
    }

    /// Takes in the next piece.
    ///
    /// # Errors
    /// Fails if the text is not UTF-8, or has a line of more than [`LINE_BYTES_MAX`].
    pub fn push(&mut self, piece: &[u8]) -> Result<(), ScrapeError> {
        let mut rest = piece;
        if !self.begun.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let (line, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            self.begin(line)?;
            rest = after;
            if end.is_some() {
                let line = std::mem::take(&mut self.begun);
                self.lines(&line)?;
            }
        }
        let end = rest.iter().rposition(|byte| *byte == b'\n');
        let (lines, begun) = rest.split_at(end.map_or(0, |end| end + 1));
        self.lines(lines)?;
        self.begin(begun)
    }

    /// Ends the text.
    ///
    /// # Errors
    /// See [`Fold::push`].
    pub fn finish(mut self) -> Result<Folded, ScrapeError> {
        let line = std::mem::take(&mut self.begun);
        self.lines(&line)?;
        for counts in &mut self.folded.counts {
            counts.slack.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        Ok(self.folded)
    }

    fn begin(&mut self, line: &[u8]) -> Result<(), ScrapeError> {
        if self.begun.len() + line.len() > LINE_BYTES_MAX {
            return Err(ScrapeError::LongLine);
        }
        self.begun.extend_from_slice(line);
        Ok(())
    }

    fn lines(&mut self, lines: &[u8]) -> Result<(), ScrapeError> {
        let lines = std::str::from_utf8(lines).map_err(|_| ScrapeError::NotText)?;
        for line in lines.lines() {
            self.line(line);
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let is_skipped = !self.skipped.is_empty() && line.starts_with(&self.skipped);
        if is_skipped || !line.starts_with(PREFIX) {
            return None;
        }
        let (name, _) = split_name(line)?;
        if self.latest.0 != name {
            name.clone_into(&mut self.latest.0);
            self.latest.1 = if READ.iter().any(|metric| name.starts_with(metric.name())) {
                Name::read(name, &self.folded.names)
            } else {
                let end = name.find(LABEL).map(|at| at + LABEL.len());
                let begin = end.and_then(|end| name.get(..end));
                begin.unwrap_or_default().clone_into(&mut self.skipped);
                Name::Other
            };
        }
        let labelled;
        let (place, sample) = match &self.latest.1 {
            Name::Other => return None,
            Name::Whole(place) => (place, Sample::parse(line)?),
            Name::Labelled(metric, part) => {
                let sample = Sample::parse(line)?;
                labelled = Place::by_labels(*metric, *part, &sample, &self.folded.names)?;
                (&labelled, sample)
            }
        };
        let value = Some(sample.value).filter(|value| value.is_finite() && *value >= 0.0)?;
        let counts = self.folded.counts.get_mut(place.stage)?;
        let variant = || place.variant.clone();
        match place.metric {
            Metric::Arrivals => counts.arrivals += value,
            Metric::AccuracyArrivals => *counts.accuracies.entry(variant()).or_default() += value,
            Metric::Requests => counts.routes.entry(variant()).or_default().routed += value,
            Metric::DowngradedFrom => {
                counts.routes.entry(variant()).or_default().downgraded += value;
            }
            Metric::Failing => {
                counts.failing.insert(variant(), value > 0.0);
            }
            Metric::ServiceMs | Metric::CutOffMs | Metric::BatchRequests => {
                let executions = counts.executions.entry(variant()).or_default();
                *match (place.metric, place.part) {
                    (Metric::ServiceMs, Part::Count) => &mut executions.answered,
                    (Metric::ServiceMs, _) => &mut executions.total_ms,
                    (Metric::CutOffMs, Part::Count) => &mut executions.cut_off,
                    (Metric::CutOffMs, _) => &mut executions.cut_off_ms,
                    (_, Part::Count) => &mut executions.batches,
                    _ => &mut executions.batched,
                } += value;
            }
            Metric::DemandSlackMs => {
                let edge = sample.label("le")?.parse();
                let edge = edge.ok().filter(|edge: &f64| *edge > 0.0)?;
                counts.slack.push((edge, value));
            }
            _ => {}
        }
        Some(())
    }
}

impl Name {
    fn read(name: &str, names: &StageNames) -> Name {
        let whole = || Place::by_name(name, names).map(Name::Whole);
        let labelled = || {
            let (part, metric) = parted(name, Metric::from_name, |metric| *metric)?;
            is_read(metric, part).then_some(Name::Labelled(metric, part))
        };
        whole().or_else(labelled).unwrap_or_default()
    }
}

impl Place {
    /// Returns the place of a series whose name says all; `None` if it is of no stage or is not read.
    fn by_name(name: &str, names: &StageNames) -> Option<Place> {
        let decoded = |name: &str| decode(name, |_| None);
        let (part, series) = parted(name, decoded, |series| series.metric)?;
        is_read(series.metric, part).then_some(())?;
        Some(Place {
            metric: series.metric,
            part,
            stage: *names.0.get(&series.service)?,
            variant: series.value,
        })
    }

    /// Returns the place of a series whose labels say the rest.
    fn by_labels(metric: Metric, part: Part, sample: &Sample, names: &StageNames) -> Option<Place> {
        let stage = *names.0.get(sample.label("service")?)?;
        let variant = match metric.label() {
            Some(label) => sample.label(label)?.to_owned(),
            None => String::new(),
        };
        Some(Place {
            metric,
            part,
            stage,
            variant,
        })
    }
}

/// Splits the ending of a histogram's part off and reads the rest. A variant's name may end like this too.
fn parted<T>(
    name: &str,
    read: impl Fn(&str) -> Option<T>,
    metric: impl Fn(&T) -> Metric,
) -> Option<(Part, T)> {
    let of_histogram = |(ending, part): &(&str, Part)| {
        let found = read(name.strip_suffix(ending)?)?;
        (metric(&found).kind() == Kind::Histogram).then_some((*part, found))
    };
    let found = PARTS.iter().find_map(of_histogram);
    found.or_else(|| Some((Part::Value, read(name)?)))
}

/// Whether the planner reads this part of a metric.
fn is_read(metric: Metric, part: Part) -> bool {
    match metric {
        Metric::DemandSlackMs => part == Part::Bucket,
        Metric::ServiceMs | Metric::CutOffMs | Metric::BatchRequests => {
            matches!(part, Part::Count | Part::Sum)
        }
        metric => part == Part::Value && READ.contains(&metric),
    }
}

/// Counts of one service in a whole text.
#[cfg(test)]
pub(super) fn counts(text: &str, stages: &[&str]) -> Counts {
    let mut fold = Fold::new(Arc::new(StageNames::new(stages.iter().copied())));
    fold.push(text.as_bytes()).unwrap();
    let stages: Vec<String> = stages.iter().map(|stage| (*stage).to_owned()).collect();
    fold.finish().unwrap().of(&stages).unwrap()
}

#[cfg(test)]
mod tests;
