//! A whole measurement: readiness, warm-up, then for each number of cores and each batch the concurrency that keeps
//! the server busy.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::ProfileError;
use crate::design::{self, Combination, Next};
use crate::endpoint::{Batching, Endpoint};
use crate::model::{Point, latency};
use crate::point::{Until, measure};
use crate::resize::Resize;
use crate::sweep::{self, Rate, Step};

/// Pause between attempts to reach a server that is not ready.
const RETRY_EVERY: Duration = Duration::from_millis(100);
/// Number of answers of the warm-up that are compared with as many before.
const WARM: usize = 5;
/// Difference of their medians at which a server counts as warm.
const WARM_WITHIN: f64 = 0.1;
/// Maximum number of requests of a warm-up.
const WARM_UP_MAX: usize = 200;
/// Minimum time left that begins another point.
const POINT_MIN: Duration = Duration::from_secs(2);
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
    /// Maximum number of batches in flight.
    pub concurrency_max: u32,
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
    /// Points of busy concurrency, one for each number of cores and batch.
    pub busy: Vec<Point>,
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
    let busy = points(extent, known, tell).await;
    Ok(Run {
        readiness,
        first_answer,
        busy: extent.resize.restored(busy).await?,
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
) -> Result<Vec<Point>, ProfileError> {
    let start = Instant::now();
    let (mut busy, mut all): (Vec<Point>, Vec<Point>) = (Vec::new(), Vec::new());
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
        let mut sweep = Sweep {
            extent,
            cores,
            batch,
            start,
            measured: Vec::new(),
        };
        // The concurrency that keeps a server busy hardly depends on the batch, so one sweep for each number of cores
        // is enough.
        let known_lanes = lanes.iter().find(|(of, _)| *of == cores);
        let is_over = match known_lanes {
            None => sweep.all(known, tell).await?,
            Some((_, lanes)) => sweep.one(*lanes, known, tell).await?,
        };
        let point = sweep.busy();
        all.extend_from_slice(&sweep.measured);
        if let Some(point) = point {
            if known_lanes.is_none() {
                lanes.push((cores, point.concurrency));
            }
            busy.push(point);
        }
        if is_over || point.is_none() {
            tell(Event::OutOfTime);
            break;
        }
    }
    busy.sort_by(|a, b| a.cores.total_cmp(&b.cores).then(a.batch.cmp(&b.batch)));
    Ok(busy)
}

/// Points of one number of cores and one batch.
struct Sweep<'a> {
    extent: &'a Extent,
    cores: f64,
    batch: u32,
    start: Instant,
    measured: Vec<Point>,
}

impl Sweep<'_> {
    /// Measures until the busy concurrency is known; returns whether the time is over.
    async fn all(
        &mut self,
        known: &[Point],
        tell: &mut (dyn FnMut(Event) + Send),
    ) -> Result<bool, ProfileError> {
        loop {
            match self.next() {
                Step::Measure(concurrency) => {
                    if self.one(concurrency, known, tell).await? {
                        return Ok(true);
                    }
                }
                Step::Busy(_) => return Ok(false),
                Step::Growing(concurrency) => {
                    tell(Event::Growing(concurrency));
                    return Ok(false);
                }
            }
        }
    }

    /// Measures one concurrency; returns whether the time is over.
    async fn one(
        &mut self,
        concurrency: u32,
        known: &[Point],
        tell: &mut (dyn FnMut(Event) + Send),
    ) -> Result<bool, ProfileError> {
        let (cores, batch) = (self.cores, self.batch);
        let is_it = |point: &&Point| {
            (point.cores, point.batch, point.concurrency) == (cores, batch, concurrency)
        };
        // A concurrency may be measured twice.
        let times = self.measured.iter().filter(is_it).count();
        if let Some(point) = known.iter().filter(is_it).nth(times) {
            self.measured.push(*point);
            return Ok(false);
        }
        let left = self.extent.time.saturating_sub(self.start.elapsed());
        if left < POINT_MIN {
            return Ok(true);
        }
        tell(Event::Begin(cores, batch, concurrency));
        let until = Until {
            time: self.extent.point.time.min(left),
            ..self.extent.point
        };
        // Single requests fill every batch if as many wait as are executed.
        let (in_flight, each) = match self.extent.batching {
            Batching::Requests if batch > 1 => (2 * concurrency * batch, f64::from(batch)),
            _ => (concurrency, 1.0),
        };
        let found = measure(&self.extent.endpoint, batch, in_flight, until).await?;
        let estimate = found.estimate;
        let point = Point {
            cores,
            batch,
            concurrency,
            batches_per_s: estimate.rps / each,
            half_width_percent: estimate.half_width_percent,
            mean_ms: estimate.mean_ms,
            p50_ms: estimate.p50_ms,
            p99_ms: estimate.p99_ms,
            answered: estimate.requests,
            failed: found.failed,
            settled: found.settled,
        };
        tell(Event::Point(point));
        if point.failed > 0 {
            tell(Event::Failing(point.failed, found.last_failure));
        }
        self.measured.push(point);
        Ok(false)
    }

    fn next(&self) -> Step {
        let rate = |point: &Point| Rate {
            concurrency: point.concurrency,
            per_s: point.batches_per_s,
            half_width_percent: point.half_width_percent,
        };
        let rates: Vec<Rate> = self.measured.iter().map(rate).collect();
        sweep::next(&rates, self.extent.concurrency_max)
    }

    /// Point of the busy concurrency, or the fastest one as long as that is not known.
    fn busy(&self) -> Option<Point> {
        let fastest = |of: Option<u32>| {
            let points = self.measured.iter();
            points
                .filter(|point| of.is_none_or(|of| point.concurrency == of))
                .max_by(|a, b| a.batches_per_s.total_cmp(&b.batches_per_s))
                .copied()
        };
        match self.next() {
            Step::Busy(busy) | Step::Growing(busy) => fastest(Some(busy)),
            Step::Measure(_) => fastest(None),
        }
    }
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
