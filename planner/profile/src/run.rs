//! A whole measurement: readiness, warm-up, then for each number of cores and each batch the concurrency that keeps
//! the server busy, or the lanes and batches of a server that batches by itself.

mod batches;
mod points;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::ProfileError;
use crate::design::{self, Combination, Next};
use crate::endpoint::{Batching, Endpoint};
use crate::execution::Execution;
use crate::model::{Point, latency};
use crate::point::Until;
use crate::resize::Resize;
use batches::batches;
use points::Sweep;

/// Pause between attempts to reach a server that is not ready.
const RETRY_EVERY: Duration = Duration::from_millis(100);
/// Number of answers of the warm-up that are compared with as many before.
const WARM: usize = 5;
/// Difference of their medians at which a server counts as warm.
const WARM_WITHIN: f64 = 0.1;
/// Maximum number of requests of a warm-up.
const WARM_UP_MAX: usize = 200;
/// Time that a server has for its threads and caches after its cores have changed.
const PAUSE_AFTER_RESIZE: Duration = Duration::from_millis(500);

/// Extent of a measurement.
#[derive(Debug)]
pub struct Extent {
    /// Endpoint with a body for each batch.
    pub endpoint: Arc<Endpoint>,
    /// Cores of the server; several only if they can be changed.
    pub cores: Vec<f64>,
    /// Way in which the server gets its cores.
    pub resize: Resize,
    /// Batches, the smallest first.
    pub batches: Vec<u32>,
    /// Form of a batch.
    pub batching: Batching,
    /// Maximum batch that the server forms of single requests, if known.
    pub batch_max: Option<u32>,
    /// Maximum number of batches in flight.
    pub concurrency_max: u32,
    /// Latency objective: throughput counts as long as its 95th percentile meets it.
    pub slo: Option<Duration>,
    /// End of a point.
    pub point: Until,
    /// Maximum time for readiness.
    pub ready_max: Duration,
    /// Maximum time for all points.
    pub time: Duration,
    /// Mean error at left-out points at which no more combinations are measured, in percent; `None`: all are.
    pub fit_error_percent: Option<f64>,
}

/// Progress of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The server does not answer yet, for that reason.
    Waiting(String),
    /// The server has answered, that long after the first attempt.
    Ready(Duration),
    /// The server is warm after that many requests.
    Warm(usize),
    /// A point is measured next: cores, batch, concurrency.
    Begin(f64, u32, u32),
    /// A point was measured.
    Point(Point),
    /// That many requests of the point failed, the last for that reason.
    Failing(usize, String),
    /// Throughput still grew at the greatest concurrency.
    Growing(u32),
    /// Left-out points are predicted within so many percent, so the rest is not measured.
    Enough(f64),
    /// The time is over before all was measured.
    OutOfTime,
}

/// Result of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Time until the first answer, if the server did not answer at first.
    pub readiness: Option<Duration>,
    /// Time of the first answer.
    pub first_answer: Duration,
    /// Points of busy concurrency, one for each number of cores and batch. Of a server that batches by itself, a point is
    /// one of its batches, with the batches that it executes at once.
    pub busy: Vec<Point>,
    /// Points of the greatest throughput within the objective, one for each number of cores and batch.
    pub best: Vec<Point>,
    /// All points that were measured.
    pub measured: Vec<Point>,
    /// Lanes and batches of the server on the most cores; `None` if it is not sent single requests.
    pub execution: Option<Execution>,
}

/// Measures all; `known` are points of an earlier run, which are not measured again. The server gets its cores back, also
/// after an error; if the future is dropped, the caller restores them.
///
/// # Errors
/// The server does not get ready or fails, or its cores cannot be set. Points measured before have been reported.
pub async fn run(
    extent: &Extent,
    known: &[Point],
    tell: &mut (dyn FnMut(Event) + Send),
) -> Result<Run, ProfileError> {
    let (readiness, first_answer) = wait_ready(extent, tell).await?;
    warm_up(extent, tell).await?;
    let points = points(extent, known, tell).await;
    let points = extent.resize.restored(points).await?;
    Ok(Run {
        readiness,
        first_answer,
        ..points
    })
}

async fn wait_ready(
    extent: &Extent,
    tell: &mut (dyn FnMut(Event) + Send),
) -> Result<(Option<Duration>, Duration), ProfileError> {
    let start = Instant::now();
    let mut failures = 0_u32;
    loop {
        let sent = Instant::now();
        match extent.endpoint.send(smallest(extent)).await {
            Ok(_) => {
                let readiness = (failures > 0).then(|| start.elapsed());
                tell(Event::Ready(start.elapsed()));
                return Ok((readiness, sent.elapsed()));
            }
            Err(error) if error.may_pass() && start.elapsed() < extent.ready_max => {
                failures += 1;
                tell(Event::Waiting(error.to_string()));
                sleep(RETRY_EVERY).await;
            }
            Err(error) => {
                let url = &extent.endpoint.subject().url;
                return Err(ProfileError(format!("{url} does not answer: {error}")));
            }
        }
    }
}

/// Sends one request after the other until their times no longer change.
async fn warm_up(
    extent: &Extent,
    tell: &mut (dyn FnMut(Event) + Send),
) -> Result<(), ProfileError> {
    let mut times: Vec<f64> = Vec::new();
    let start = Instant::now();
    while times.len() < WARM_UP_MAX && start.elapsed() < extent.point.time {
        let sent = Instant::now();
        let answer = extent.endpoint.send(smallest(extent)).await;
        answer
            .map_err(|error| ProfileError(format!("a request of the warm-up failed: {error}")))?;
        times.push(sent.elapsed().as_secs_f64());
        if is_warm(&times) {
            break;
        }
    }
    tell(Event::Warm(times.len()));
    Ok(())
}

fn is_warm(times: &[f64]) -> bool {
    let Some(from) = times.len().checked_sub(2 * WARM) else {
        return false;
    };
    let (before, now) = times.get(from..).unwrap_or_default().split_at(WARM);
    let (before, now) = (median(before), median(now));
    (now - before).abs() <= WARM_WITHIN * before
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn smallest(extent: &Extent) -> u32 {
    extent.batches.first().copied().unwrap_or(1)
}

async fn points(
    extent: &Extent,
    known: &[Point],
    tell: &mut (dyn FnMut(Event) + Send),
) -> Result<Run, ProfileError> {
    let start = Instant::now();
    let (mut busy, mut best, mut all): (Vec<Point>, Vec<Point>, Vec<Point>) = Default::default();
    let mut execution: Option<(f64, Execution)> = None;
    let mut lanes: Vec<(f64, u32)> = Vec::new();
    loop {
        let measured: Vec<Combination> = busy.iter().map(|one| (one.cores, one.batch)).collect();
        let so_far = (!busy.is_empty())
            .then(|| latency(&busy, &all))
            .transpose()?;
        let fit = so_far
            .as_ref()
            .map(|(fit, parallelism)| (fit, *parallelism));
        let extents = (extent.cores.as_slice(), extent.batches.as_slice());
        let (cores, batch) = match design::next(extents, &measured, fit, extent.fit_error_percent) {
            Next::Measure(cores, batch) => (cores, batch),
            Next::All => break,
            Next::Enough(error) => {
                tell(Event::Enough(error));
                break;
            }
        };
        extent.resize.set(cores, batch).await?;
        if !matches!(extent.resize, Resize::None) {
            sleep(PAUSE_AFTER_RESIZE).await;
        }
        let mut sweep = Sweep::new(extent, cores, batch, start);
        // The concurrency that keeps a server busy hardly depends on the batch, so one sweep for each number of cores
        // is enough.
        let known_lanes = lanes.iter().find(|(of, _)| *of == cores);
        let is_over = match known_lanes {
            None => sweep.all(known, tell).await?,
            Some((_, lanes)) => sweep.one(*lanes, known, tell).await?,
        };
        all.extend_from_slice(&sweep.measured);
        let is_other = |one: &Point| (one.cores, one.batch) != (cores, batch);
        best.retain(is_other);
        best.extend(sweep.best());
        let found = sweep.execution().filter(|_| batch == 1);
        let points = match &found {
            Some(found) if found.is_sure() => batches(found, &sweep.measured),
            _ => sweep.busy().into_iter().collect(),
        };
        if let (None, Some(point)) = (known_lanes, points.first()) {
            lanes.push((cores, point.concurrency));
        }
        if let Some(found) = found.filter(|_| execution.is_none_or(|(of, _)| of <= cores)) {
            execution = Some((cores, found));
        }
        let is_empty = points.is_empty();
        // A batch that was measured before stays as it was.
        let is_new = |point: &Point| !measured.contains(&(point.cores, point.batch));
        busy.extend(points.into_iter().filter(is_new));
        if is_over || is_empty {
            tell(Event::OutOfTime);
            break;
        }
    }
    busy.sort_by(|a, b| a.cores.total_cmp(&b.cores).then(a.batch.cmp(&b.batch)));
    Ok(Run {
        readiness: None,
        first_answer: Duration::ZERO,
        busy,
        best,
        measured: all,
        execution: execution.map(|(_, execution)| execution),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_warm_when_its_times_no_longer_change() {
        let falling: Vec<f64> = (0..12).map(|n| 1.0 / f64::from(n + 1)).collect();
        assert!(!is_warm(&falling));
        let mut times = vec![5.0, 3.0];
        times.extend([0.1; 9]);
        assert!(!is_warm(&times[..9]));
        assert!(is_warm(&times));
    }
}
