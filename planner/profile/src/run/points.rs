//! Points of one number of cores and one batch: measured by a sweep, and joined to what a profile takes.

use std::time::Duration;

use tokio::time::Instant;

use super::{Event, Extent};
use crate::ProfileError;
use crate::endpoint::Batching;
use crate::execution::Execution;
use crate::model::Point;
use crate::point::{Until, measure};
use crate::sweep::{self, Limits, Rate, Step};

/// Minimum time left that begins another point.
const POINT_MIN: Duration = Duration::from_secs(2);

/// Points of one number of cores and one batch.
pub(super) struct Sweep<'a> {
    extent: &'a Extent,
    cores: f64,
    batch: u32,
    start: Instant,
    pub(super) measured: Vec<Point>,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(extent: &'a Extent, cores: f64, batch: u32, start: Instant) -> Sweep<'a> {
        Sweep {
            extent,
            cores,
            batch,
            start,
            measured: Vec::new(),
        }
    }

    /// Measures until the busy concurrency is known; returns whether the time is over.
    pub(super) async fn all(
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
    pub(super) async fn one(
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
            p95_ms: Some(estimate.p95_ms),
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
        sweep::next(&self.rates(), &self.limits())
    }

    fn rates(&self) -> Vec<Rate> {
        let rate = |point: &Point| Rate {
            concurrency: point.concurrency,
            per_s: point.batches_per_s,
            half_width_percent: point.half_width_percent,
            p95_ms: point.p95_ms.unwrap_or(point.p99_ms),
        };
        self.measured.iter().map(rate).collect()
    }

    fn limits(&self) -> Limits {
        let extent = self.extent;
        let slo_ms = extent.slo.map(|slo| slo.as_secs_f64() * 1e3);
        let is_sent =
            self.batch > 1 || extent.batches.len() > 1 && extent.batching == Batching::Requests;
        let point_s = extent.point.time.as_secs_f64();
        match is_sent {
            // The server executes together what it is sent together, or as many as it is told.
            true => Limits {
                least: 1,
                ..Limits::new(extent.concurrency_max, Some(1), slo_ms, point_s)
            },
            false => Limits::new(extent.concurrency_max, extent.batch_max, slo_ms, point_s),
        }
    }

    /// Lanes and batches of the server, if it is sent single requests.
    pub(super) fn execution(&self) -> Option<Execution> {
        Execution::of(&self.rates(), self.limits().batch)
    }

    /// Point of the greatest throughput within the objective.
    pub(super) fn best(&self) -> Option<Point> {
        let rates = self.rates();
        let best = sweep::best_within(&rates, &self.limits())?;
        let index = rates.iter().position(|one| *one == best)?;
        self.measured.get(index).copied()
    }

    /// Point of the busy concurrency, or the fastest one as long as that is not known.
    pub(super) fn busy(&self) -> Option<Point> {
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
