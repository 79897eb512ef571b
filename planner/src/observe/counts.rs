//! Fold of Envoy's Prometheus output into the counts of services' stages, in one pass for all of them, as the text
//! arrives. Labels may be labels or parts of the names. Pure.

mod place;

use std::collections::BTreeMap;
use std::sync::Arc;

use memchr::memchr;
use weir_api::metrics::{Metric, PREFIX};

use super::buckets::Buckets;
use super::exposition::Sample;
use super::{Counts, ScrapeError, groups};
use place::{Part, Place, Reader};

/// Maximum length of a line, in bytes; Envoy's own have some hundreds.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Number of lines of other programs that must be series. More are not looked at.
const CHECKED: usize = 16;
/// Maximum length of a line in a message, in characters.
const SHOWN_MAX: usize = 120;

/// Names of the stages whose counts are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageNames {
    names: BTreeMap<String, usize>,
    /// The same as parts of longer names, with underscores for dashes.
    long_forms: BTreeMap<String, usize>,
}

impl StageNames {
    /// Creates the set of these names.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> StageNames {
        let mut stages = StageNames::default();
        for name in names {
            let next = stages.names.len();
            let index = *stages.names.entry(name.to_owned()).or_insert(next);
            stages.long_forms.insert(name.replace('-', "_"), index);
        }
        stages
    }

    /// Whether all these stages are among them.
    pub fn include(&self, stages: &[String]) -> bool {
        stages.iter().all(|stage| self.names.contains_key(stage))
    }

    fn by_name(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    fn by_long_form(&self, name: &str) -> Option<usize> {
        self.long_forms.get(name).copied()
    }
}

/// Counts of all stages at one proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct Folded {
    names: Arc<StageNames>,
    counts: Vec<Counts>,
    has_metrics: bool,
}

impl Folded {
    /// Whether all these stages were read.
    pub fn includes(&self, stages: &[String]) -> bool {
        self.names.include(stages)
    }

    /// Whether there was any metric of a filter.
    pub fn has_metrics(&self) -> bool {
        self.has_metrics
    }

    /// Returns the counts of a service with these stages; empty if the filter exports nothing yet. Arrivals, their
    /// accuracies and slack are those of the entry stage, the first. `None` if a stage is not among those that were read.
    pub fn of(&self, stages: &[String]) -> Option<Counts> {
        let one = |stage: &String| self.counts.get(self.names.by_name(stage)?);
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
            for (variant, full) in more.full {
                counts.full.entry(variant).or_default().add(full);
            }
            if !more.groups.is_empty() {
                groups::add_stage(Arc::make_mut(&mut counts.groups), &more.groups);
            }
            Arc::make_mut(&mut counts.outcomes).add_stage(&more.outcomes);
        }
        Some(counts)
    }
}

/// Fold of a text that comes in pieces.
#[derive(Debug)]
pub struct Fold {
    folded: Folded,
    reader: Reader,
    /// Begin of a line whose end has not come.
    begun: Vec<u8>,
    /// Number of other programs' lines that are still to be checked.
    unchecked: usize,
    histogram: Option<Histogram>,
}

/// Histogram whose buckets are being read, of which each line begins alike.
#[derive(Debug)]
struct Histogram {
    /// Line up to the value of the edge, its last label.
    begin: String,
    place: Place,
    buckets: Buckets,
}

/// Label of a bucket's edge after another label or as the only one, up to its value.
const EDGES: [&str; 2] = [",le=\"", "{le=\""];

impl Fold {
    /// Begins a text, of which the counts of these stages are read.
    pub fn new(names: Arc<StageNames>) -> Fold {
        let counts = vec![Counts::default(); names.names.len()];
        Fold {
            folded: Folded {
                names,
                counts,
                has_metrics: false,
            },
            reader: Reader::new(),
            begun: Vec::new(),
            unchecked: CHECKED,
            histogram: None,
        }
    }

    /// Takes in the next piece.
    ///
    /// # Errors
    /// Fails if the text is not UTF-8, has a line of more than [`LINE_BYTES_MAX`] or a count that is none, or if one of
    /// the first 16 lines of other programs is no series.
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
    /// Fails if the last line has no end.
    pub fn finish(mut self) -> Result<Folded, ScrapeError> {
        if !self.begun.is_empty() {
            return Err(ScrapeError::CutShort);
        }
        self.end_histogram();
        for counts in &mut self.folded.counts {
            counts.slack.sort_by(|a, b| a.0.total_cmp(&b.0));
            Arc::make_mut(&mut counts.outcomes).sort();
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
        let mut rest = lines;
        while !rest.is_empty() {
            let end = memchr(b'\n', rest.as_bytes()).map_or(rest.len(), |end| end + 1);
            let (line, after) = rest.split_at(end);
            self.line(line)?;
            rest = after;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<(), ScrapeError> {
        if !line.starts_with(PREFIX) {
            return self.other_line(line);
        }
        self.folded.has_metrics = true;
        let no_count = || ScrapeError::Value(shown(line));
        if let Some(histogram) = &mut self.histogram
            && let Some((edge, value)) = histogram.bucket(line)
        {
            let value = count(value).ok_or_else(no_count)?;
            histogram.buckets.extend(edge.map(|edge| (edge, value)));
            return Ok(());
        }
        let Some((place, sample)) = self.reader.read(line, &self.folded.names) else {
            return Ok(());
        };
        let sample = sample.ok_or_else(no_count)?;
        let value = count(sample.value).ok_or_else(no_count)?;
        if place.part == Part::Bucket {
            if let Some(edge) = sample.label("le").and_then(edge) {
                let place = place.clone();
                self.end_histogram();
                self.histogram = Histogram::begin(line, place, (edge, value));
            }
        } else if let Some(counts) = self.folded.counts.get_mut(place.stage) {
            counts.add(place, value);
        }
        Ok(())
    }

    /// Checks a line of another program: the first ones tell a page or a message from statistics.
    fn other_line(&mut self, line: &str) -> Result<(), ScrapeError> {
        if self.unchecked == 0 || line.starts_with('#') || line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.unchecked -= 1;
        match Sample::parse(line) {
            Some(_) => Ok(()),
            None => Err(ScrapeError::NotSeries(shown(line))),
        }
    }

    /// Adds the buckets that have been read to their counts.
    fn end_histogram(&mut self) {
        let Some(Histogram { place, buckets, .. }) = self.histogram.take() else {
            return;
        };
        let counts = self.folded.counts.get_mut(place.stage);
        if let Some(known) = counts.and_then(|counts| counts.buckets(&place)) {
            known.extend(buckets);
        }
    }
}

impl Histogram {
    /// Begins with the bucket of this line. If the edge is not the last label, no other line begins alike.
    fn begin(line: &str, place: Place, bucket: (f64, f64)) -> Option<Histogram> {
        let end = |edge: &&str| Some(line.rfind(*edge)? + edge.len());
        let end = EDGES.iter().find_map(end);
        let begin = end.and_then(|end| line.get(..end)).unwrap_or_default();
        Some(Histogram {
            begin: begin.to_owned(),
            place,
            buckets: vec![bucket],
        })
    }

    /// Returns the edge and value of a line of this histogram; `None` for any other line.
    fn bucket(&self, line: &str) -> Option<(Option<f64>, f64)> {
        (!self.begin.is_empty()).then_some(())?;
        let rest = line.strip_prefix(self.begin.as_str())?;
        let (written, rest) = rest.split_once('"')?;
        let rest = rest.strip_prefix('}')?;
        let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
        Some((edge(written), value))
    }
}

/// Returns the edge of a bucket that counts something real.
fn edge(edge: &str) -> Option<f64> {
    edge.parse().ok().filter(|edge: &f64| *edge > 0.0)
}

/// Begin of a line, for a message.
fn shown(line: &str) -> String {
    line.trim_ascii().chars().take(SHOWN_MAX).collect()
}

/// Returns a value that counts something real.
fn count(value: f64) -> Option<f64> {
    (value.is_finite() && value >= 0.0).then_some(value)
}

impl Counts {
    /// Adds the value of a series other than a bucket.
    fn add(&mut self, place: &Place, value: f64) -> Option<()> {
        let name = &place.value;
        match place.metric {
            Metric::Arrivals => self.arrivals += value,
            Metric::AccuracyArrivals => *of(&mut self.accuracies, name)? += value,
            Metric::Requests => of(&mut self.routes, name)?.routed += value,
            Metric::DowngradedFrom => of(&mut self.routes, name)?.downgraded += value,
            Metric::Failing => *of(&mut self.failing, name)? = value > 0.0,
            metric if metric.has_group() => {
                groups::add(
                    Arc::make_mut(&mut self.groups),
                    metric,
                    name,
                    &place.group,
                    value,
                );
            }
            Metric::ServiceMs | Metric::CutOffMs | Metric::BatchRequests => {
                let executions = of(&mut self.executions, name)?;
                *match (place.metric, place.part) {
                    (Metric::ServiceMs, Part::Count) => &mut executions.answered,
                    (Metric::ServiceMs, _) => &mut executions.total_ms,
                    (Metric::CutOffMs, Part::Count) => &mut executions.cut_off,
                    (Metric::CutOffMs, _) => &mut executions.cut_off_ms,
                    (_, Part::Count) => &mut executions.batches,
                    _ => &mut executions.batched,
                } += value;
            }
            Metric::FullUs => of(&mut self.full, name)?.us += value,
            Metric::FullExecutions => of(&mut self.full, name)?.executions += value,
            metric => Arc::make_mut(&mut self.outcomes).count(metric, name, value)?,
        }
        Some(())
    }

    /// Buckets of a histogram; `None` for other metrics.
    fn buckets(&mut self, place: &Place) -> Option<&mut Buckets> {
        match place.metric {
            Metric::DemandSlackMs => Some(&mut self.slack),
            metric => Arc::make_mut(&mut self.outcomes).buckets(metric, &place.value),
        }
    }
}

/// Returns the entry of that name, which is made if it is missing; always `Some`.
pub(super) fn of<'a, T: Default>(
    map: &'a mut BTreeMap<String, T>,
    name: &str,
) -> Option<&'a mut T> {
    if !map.contains_key(name) {
        map.insert(name.to_owned(), T::default());
    }
    map.get_mut(name)
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
