//! Fold of Envoy's Prometheus output into the counts of services' stages, in one pass for all of them, as the text
//! arrives. Labels may be labels or parts of the names. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_api::metrics::{Kind, Metric, decode};

use super::exposition::Sample;
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
    /// Name of the latest series, and its place.
    latest: (String, Option<Place>),
    /// Begin of a line whose end has not come.
    begun: Vec<u8>,
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
            if READ.iter().any(|metric| line.starts_with(metric.name())) {
                self.line(line);
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let sample = Sample::parse(line)?;
        let value = Some(sample.value).filter(|value| value.is_finite() && *value >= 0.0)?;
        // The buckets of a histogram follow one another; a name with its labels as labels stands for many series.
        let is_same = self.latest.0 == sample.name && sample.name.contains("__");
        if !is_same {
            sample.name.clone_into(&mut self.latest.0);
            self.latest.1 = place(&sample, &self.folded.names);
        }
        let place = self.latest.1.as_ref()?;
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

/// Returns the place of a sample; `None` if it is of no stage or is not read.
fn place(sample: &Sample, names: &StageNames) -> Option<Place> {
    let label = |name: &str| sample.label(name);
    let of_histogram = |(ending, part): &(&str, Part)| {
        let series = decode(sample.name.strip_suffix(ending)?, label)?;
        // A variant's name may end like this too.
        (series.metric.kind() == Kind::Histogram).then_some((*part, series))
    };
    let found = PARTS.iter().find_map(of_histogram);
    let (part, series) = found.or_else(|| Some((Part::Value, decode(sample.name, label)?)))?;
    let is_read = match series.metric {
        Metric::DemandSlackMs => part == Part::Bucket,
        Metric::ServiceMs | Metric::CutOffMs | Metric::BatchRequests => {
            matches!(part, Part::Count | Part::Sum)
        }
        metric => part == Part::Value && READ.contains(&metric),
    };
    is_read.then_some(())?;
    Some(Place {
        metric: series.metric,
        part,
        stage: *names.0.get(&series.service)?,
        variant: series.value,
    })
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
