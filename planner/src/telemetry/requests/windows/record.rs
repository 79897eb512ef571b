//! Record of the requests of all windows, as a file keeps it over a restart of the planner. The edges of histograms are in
//! it once, whole numbers are short, and what is zero is left out.
//!
//! A record is read wholly or not at all, and only for a service that has all of its variants: the share on time would be
//! wrong without the answers of one.

mod count;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::count::{Count, Edge};
use super::{Block, RequestWindows, Ring, WINDOWS, blocks, number};
use crate::observe::buckets::{Buckets, total};
use crate::observe::{Executions, RequestIncrease, VariantIncrease};
use crate::service::Service;

/// Reason why a record is not taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum RecordError {
    #[error("{0} windows, not {len}", len = WINDOWS.len())]
    Windows(usize),
    #[error("a window of {0} blocks, of at most {1}")]
    Blocks(usize, usize),
    #[error("a block {0} blocks ago that is out of order or older than its window")]
    Order(u64),
    #[error("edges of a histogram that are not numbers or do not rise: {0}")]
    Edges(String),
    #[error("number {0} of a list of {1}")]
    Number(usize, usize),
    #[error("answers of variant {1} in stage {0}, which the service does not have")]
    Variant(String, String),
}

/// Record of the requests of all windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowRecord {
    /// Time of the record by the windows' clock, in ns.
    time_ns: u64,
    /// Edges of the histograms.
    edges: Vec<Vec<Edge>>,
    /// Stage and name of each variant.
    variants: Vec<(String, String)>,
    /// Blocks of each window, oldest first.
    windows: Vec<Vec<BlockRecord>>,
}

/// Number of the edges, and the counts up to each of them; the last one is also that of all further edges.
type Histogram = (usize, Vec<Count>);

/// Requests of one block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockRecord {
    /// Number of blocks since it.
    ago: u64,
    covered_ns: u64,
    #[serde(default, skip_serializing_if = "Count::is_zero")]
    arrivals: Count,
    #[serde(default, skip_serializing_if = "Count::is_zero")]
    unservable: Count,
    #[serde(default, skip_serializing_if = "Count::is_zero")]
    client_disconnects: Count,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    refused: BTreeMap<String, Count>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wait_ms: Option<Histogram>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arrival_slack_ms: Option<Histogram>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dispatch_slack_ms: Option<Histogram>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency_ms: Option<Histogram>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    variants: Vec<VariantRecord>,
}

/// Number of the variant; its answers on time, late and failed; its executions, in the order of their fields; its service
/// times.
type VariantRecord = (usize, [Count; 3], [Count; 6], Option<Histogram>);

impl RequestWindows {
    /// Returns the record as of `at`, of the variants that the service has; `None` if no requests are known.
    pub fn record(&self, at: Duration, service: &Service) -> Option<WindowRecord> {
        let time = self.time(at);
        let mut writer = Writer::new(service);
        let windows = self.rings.iter().zip(WINDOWS);
        let windows: Vec<Vec<BlockRecord>> = windows
            .map(|(ring, (window, block))| {
                let (latest, blocks) = (number(time, block), blocks(window, block));
                let each = ring.0.iter();
                let each = each.filter(|block| block.number + blocks as u128 > latest);
                each.map(|block| writer.block(block, latest)).collect()
            })
            .collect();
        let is_empty = windows.iter().all(Vec::is_empty);
        (!is_empty).then(|| WindowRecord {
            time_ns: ns(time),
            edges: writer.edges,
            variants: writer.variants,
            windows,
        })
    }

    /// Returns windows that go on from a record that was made `age` before `at`.
    ///
    /// # Errors
    /// Fails if the record contradicts itself, or has answers of a variant that the service does not have.
    pub fn restored(
        record: &WindowRecord,
        (at, age): (Duration, Duration),
        service: &Service,
    ) -> Result<RequestWindows, RecordError> {
        let reader = Reader::new(record, service)?;
        let then = Duration::from_nanos(record.time_ns);
        if record.windows.len() != WINDOWS.len() {
            return Err(RecordError::Windows(record.windows.len()));
        }
        let mut windows = RequestWindows {
            origin: (at, then.saturating_add(age)),
            ..RequestWindows::default()
        };
        let rings = windows.rings.iter_mut().zip(&record.windows).zip(WINDOWS);
        for ((ring, each), (window, block)) in rings {
            *ring = reader.ring(each, number(then, block), blocks(window, block))?;
        }
        Ok(windows)
    }
}

impl WindowRecord {
    /// Leaves out the histograms, which are most of a record.
    #[must_use]
    pub fn without_histograms(mut self) -> WindowRecord {
        for block in self.windows.iter_mut().flatten() {
            block.wait_ms = None;
            block.arrival_slack_ms = None;
            block.dispatch_slack_ms = None;
            block.latency_ms = None;
            for (.., service_ms) in &mut block.variants {
                *service_ms = None;
            }
        }
        self.edges.clear();
        self
    }
}

/// Makes the blocks of a record, and numbers the edges of their histograms.
struct Writer {
    known: Vec<(String, String)>,
    edges: Vec<Vec<Edge>>,
    variants: Vec<(String, String)>,
}

impl Writer {
    fn new(service: &Service) -> Writer {
        Writer {
            known: variants(service),
            edges: Vec::new(),
            variants: Vec::new(),
        }
    }

    fn block(&mut self, block: &Block, latest: u128) -> BlockRecord {
        let RequestIncrease {
            arrivals,
            unservable,
            client_disconnects,
            refused,
            wait_ms,
            arrival_slack_ms,
            dispatch_slack_ms,
            latency_ms,
            variants,
        } = &block.increase;
        let refused = refused.each().filter(|(_, count)| *count > 0.0);
        let refused = refused.map(|(reason, count)| (reason.to_owned(), Count(count)));
        let variants = variants
            .iter()
            .filter_map(|(name, increase)| self.variant(name, increase));
        BlockRecord {
            variants: variants.collect(),
            ago: u64::try_from(latest.saturating_sub(block.number)).unwrap_or(u64::MAX),
            covered_ns: ns(block.covered),
            arrivals: Count(*arrivals),
            unservable: Count(*unservable),
            client_disconnects: Count(*client_disconnects),
            refused: refused.collect(),
            wait_ms: self.histogram(wait_ms),
            arrival_slack_ms: self.histogram(arrival_slack_ms),
            dispatch_slack_ms: self.histogram(dispatch_slack_ms),
            latency_ms: self.histogram(latency_ms),
        }
    }

    /// Record of a variant; `None` if it has no requests, or the service does not have it.
    fn variant(&mut self, name: &str, increase: &VariantIncrease) -> Option<VariantRecord> {
        let VariantIncrease {
            on_time,
            late,
            failed,
            executions,
            service_ms,
        } = increase;
        let variant = self.known.iter().find(|(_, known)| known == name)?.clone();
        let answers = [*on_time, *late, *failed].map(Count);
        let executions = [
            executions.answered,
            executions.total_ms,
            executions.cut_off,
            executions.cut_off_ms,
            executions.batches,
            executions.batched,
        ]
        .map(Count);
        let service_ms = self.histogram(service_ms);
        let is_empty = answers.iter().chain(&executions).all(Count::is_zero);
        (!is_empty || service_ms.is_some()).then_some(())?;
        let number = position(
            &mut self.variants,
            |one| *one == variant,
            || variant.clone(),
        );
        Some((number, answers, executions, service_ms))
    }

    /// Record of a histogram; `None` without values.
    fn histogram(&mut self, buckets: &Buckets) -> Option<Histogram> {
        (total(buckets) > 0.0).then_some(())?;
        let edges = || buckets.iter().map(|(edge, _)| Edge(*edge));
        let is_of = |known: &Vec<Edge>| known.iter().copied().eq(edges());
        let number = position(&mut self.edges, is_of, || edges().collect());
        let mut counts: Vec<Count> = buckets.iter().map(|(_, count)| Count(*count)).collect();
        while let [.., before, last] = counts[..]
            && before == last
        {
            counts.pop();
        }
        Some((number, counts))
    }
}

/// Makes blocks of those in a record.
struct Reader<'a> {
    edges: Vec<Vec<f64>>,
    variants: &'a [(String, String)],
}

impl Reader<'_> {
    fn new<'a>(record: &'a WindowRecord, service: &Service) -> Result<Reader<'a>, RecordError> {
        let edges = record.edges.iter().map(|edges| {
            let edges: Vec<f64> = edges.iter().map(|edge| edge.0).collect();
            let rise = edges.iter().is_sorted_by(|one, next| one < next);
            match rise && !edges.iter().any(|edge| edge.is_nan()) {
                true => Ok(edges),
                false => Err(RecordError::Edges(format!("{edges:?}"))),
            }
        });
        let known = variants(service);
        let unknown = record.variants.iter().find(|one| !known.contains(one));
        if let Some((stage, name)) = unknown {
            return Err(RecordError::Variant(stage.clone(), name.clone()));
        }
        Ok(Reader {
            edges: edges.collect::<Result<_, _>>()?,
            variants: &record.variants,
        })
    }

    fn ring(&self, each: &[BlockRecord], latest: u128, blocks: usize) -> Result<Ring, RecordError> {
        if each.len() > blocks {
            return Err(RecordError::Blocks(each.len(), blocks));
        }
        let mut ring = Ring::default();
        for block in each {
            let ago = u128::from(block.ago);
            let number = latest.checked_sub(ago).filter(|number| {
                let newest = ring.0.back().map(|before| before.number);
                ago < blocks as u128 && newest.is_none_or(|newest| newest < *number)
            });
            ring.0.push_back(Block {
                number: number.ok_or(RecordError::Order(block.ago))?,
                covered: Duration::from_nanos(block.covered_ns),
                increase: self.increase(block)?,
            });
        }
        Ok(ring)
    }

    fn increase(&self, block: &BlockRecord) -> Result<RequestIncrease, RecordError> {
        let mut increase = RequestIncrease {
            arrivals: block.arrivals.0,
            unservable: block.unservable.0,
            client_disconnects: block.client_disconnects.0,
            wait_ms: self.buckets(block.wait_ms.as_ref())?,
            arrival_slack_ms: self.buckets(block.arrival_slack_ms.as_ref())?,
            dispatch_slack_ms: self.buckets(block.dispatch_slack_ms.as_ref())?,
            latency_ms: self.buckets(block.latency_ms.as_ref())?,
            ..RequestIncrease::default()
        };
        for (reason, count) in &block.refused {
            *increase.refused.of(reason) += count.0;
        }
        for (number, answers, executions, service_ms) in &block.variants {
            let (_, name) = listed(self.variants, *number)?;
            let [on_time, late, failed] = answers.map(|count| count.0);
            let [answered, total_ms, cut_off, cut_off_ms, batches, batched] =
                executions.map(|count| count.0);
            let variant = VariantIncrease {
                on_time,
                late,
                failed,
                executions: Executions {
                    answered,
                    total_ms,
                    cut_off,
                    cut_off_ms,
                    batches,
                    batched,
                },
                service_ms: self.buckets(service_ms.as_ref())?,
            };
            increase.variants.insert(name.clone(), variant);
        }
        Ok(increase)
    }

    fn buckets(&self, histogram: Option<&Histogram>) -> Result<Buckets, RecordError> {
        let Some((number, counts)) = histogram else {
            return Ok(Buckets::new());
        };
        let edges = listed(&self.edges, *number)?;
        if counts.len() > edges.len() {
            return Err(RecordError::Number(counts.len(), edges.len()));
        }
        let last = counts.last().copied().unwrap_or_default();
        let counts = counts.iter().copied().chain(std::iter::repeat(last));
        Ok((edges.iter().copied())
            .zip(counts.map(|count| count.0))
            .collect())
    }
}

/// Stage and name of each variant of a service.
fn variants(service: &Service) -> Vec<(String, String)> {
    let stages = service.stages.iter();
    let each = stages.flat_map(|stage| {
        let variants = service.variants.get(stage.variants.clone());
        let variants = variants.into_iter().flatten();
        variants.map(|variant| (stage.name.clone(), variant.name.clone()))
    });
    each.collect()
}

/// Number of the first that fits; without one, of a new one at the end.
fn position<T>(list: &mut Vec<T>, fits: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> usize {
    let known = list.iter().position(fits);
    known.unwrap_or_else(|| {
        list.push(make());
        list.len() - 1
    })
}

fn listed<T>(list: &[T], number: usize) -> Result<&T, RecordError> {
    list.get(number)
        .ok_or(RecordError::Number(number, list.len()))
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
