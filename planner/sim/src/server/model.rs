//! State machine of the simulated server: a FIFO queue, batching, and parallel executions, on a clock
//! that the caller provides.
//!
//! Pure: time is a `Duration` since the server's start. An execution that ends between two calls is
//! followed by the next one at the instant it *ended*, not at the call, so that late timers cost no
//! capacity. Nothing is ever cancelled: every request that has arrived is executed. The caller attaches
//! a value to each request (`rider`). Once the buffers have grown, nothing is allocated.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use self::closed::{ClosedBatches, Limits};
use super::Parallelism;
use super::{BatchWindow, ServerConfig};
use crate::chance::Factor;

/// Maximum number of waiting requests; above it the server answers 503.
pub const QUEUE_MAX: usize = 100_000;
/// Maximum duration of an execution, whatever the latency model gives.
pub const SERVICE_MAX: Duration = Duration::from_secs(3600);

/// Closed batches that wait for each lane, as in Triton.
const CLOSED_PER_LANE: usize = 2;

/// One request's execution. Times count from the server's start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Position in the order of starts, from 1; requests of one batch in queue order.
    pub order: u64,
    /// Arrival of its last byte.
    pub arrived: Duration,
    /// Start of its execution.
    pub started: Duration,
    /// End of its execution.
    pub ended: Duration,
    /// Requests executed together with it, itself included.
    pub batch: u32,
    /// Cores of its execution: `c` of the latency model.
    pub cores: f64,
}

/// Observer of every execution start.
pub trait Witness<T> {
    /// Called when the execution of `rider`'s request has started.
    fn started(&mut self, rider: &T, run: &Run);
}

impl<T> Witness<T> for () {
    fn started(&mut self, _: &T, _: &Run) {}
}

/// Waiting request.
struct Job<T> {
    arrived: Duration,
    rider: T,
}

/// Running request; the last of a batch frees its lane.
struct Running<T> {
    run: Run,
    frees_lane: bool,
    rider: T,
}

/// Queue, executions and resources of a server. `T` is attached to each request, and `W` observes each
/// start.
pub struct ServerModel<T, W = ()> {
    config: ServerConfig,
    slow_by: f64,
    noise: Option<(Factor, ChaCha8Rng)>,
    queue: VecDeque<Job<T>>,
    /// Those at the queue's head whose batch is decided.
    closed: ClosedBatches,
    /// Order by end, then by start.
    running: BinaryHeap<Reverse<Running<T>>>,
    lanes: u32,
    /// Lanes of its present resources.
    lanes_max: u32,
    /// Time since which a lane is free; if none is, the begin of the last such time.
    idle_since: Duration,
    started: u64,
    /// Core-seconds of all executions started, to their ends.
    committed: f64,
    witness: W,
    core_seconds: f64,
    counted_until: Duration,
    /// Time reached by `advance`; nothing starts before it.
    clock: Duration,
}

impl<T, W: Witness<T> + Default> ServerModel<T, W> {
    /// Creates a server that is idle since time zero.
    ///
    /// # Errors
    /// The noise is not a valid distribution.
    pub fn new(config: ServerConfig) -> anyhow::Result<ServerModel<T, W>> {
        let noise = match config.noise {
            Some(noise) => Some((
                Factor::new(noise.sigma)?,
                ChaCha8Rng::seed_from_u64(noise.seed),
            )),
            None => None,
        };
        Ok(ServerModel {
            lanes_max: config.parallelism.at_once(config.cores),
            config,
            slow_by: 1.0,
            noise,
            queue: VecDeque::new(),
            closed: ClosedBatches::default(),
            running: BinaryHeap::new(),
            lanes: 0,
            idle_since: Duration::ZERO,
            started: 0,
            committed: 0.0,
            witness: W::default(),
            core_seconds: 0.0,
            counted_until: Duration::ZERO,
            clock: Duration::ZERO,
        })
    }

    /// Queues a request; gives `rider` back if the queue is full.
    pub fn arrive(&mut self, now: Duration, rider: T) -> Result<(), T> {
        if self.queue.len() >= QUEUE_MAX {
            return Err(rider);
        }
        self.queue.push_back(Job {
            arrived: now,
            rider,
        });
        self.close_batches(now, false);
        Ok(())
    }

    /// Advances to `now`: ends and starts all due executions, each at its own instant, and adds the
    /// ended ones to `ended`.
    pub fn advance(&mut self, now: Duration, ended: &mut Vec<(T, Run)>) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.clock = at;
            let was_full = !self.has_free_lane();
            while self.next_end().is_some_and(|end| end <= at) {
                let Some(Reverse(done)) = self.running.pop() else {
                    break;
                };
                self.lanes -= u32::from(done.frees_lane);
                ended.push((done.rider, done.run));
            }
            if was_full && self.has_free_lane() {
                self.idle_since = at;
            }
            self.start_due(at);
        }
        self.clock = self.clock.max(now);
    }

    /// Time of the next event if nothing arrives until then.
    pub fn next_event(&self) -> Option<Duration> {
        let end = self.next_end();
        let start = if self.has_free_lane() {
            self.due()
        } else if self.closes_early() && self.closed.takes_more(self.limits()) {
            self.due_from(self.closed.requests())
        } else {
            None
        };
        let at = match (end, start) {
            (Some(end), Some(start)) => end.min(start),
            (end, start) => end.or(start)?,
        };
        Some(at.max(self.clock))
    }

    /// Current cores and parallelism.
    pub fn resources(&self) -> (f64, Parallelism) {
        (self.config.cores, self.config.parallelism)
    }

    /// Changes the resources from `now` on; running executions keep theirs. Call
    /// [`ServerModel::advance`] with the same `now` first.
    pub fn set_resources(&mut self, now: Duration, cores: f64, parallelism: Parallelism) {
        self.core_seconds = self.core_seconds(now);
        self.counted_until = now;
        self.config.cores = cores;
        self.config.parallelism = parallelism;
        self.lanes_max = parallelism.at_once(cores);
    }

    /// Maximum number of requests executed together.
    pub fn batch(&self) -> NonZeroU32 {
        self.config.batch_max
    }

    /// Changes the maximum batch size from now on.
    pub fn set_batch(&mut self, batch: NonZeroU32) {
        self.config.batch_max = batch;
    }

    /// Makes executions that start from now on take `factor` times as long.
    pub fn slow_by(&mut self, factor: f64) {
        self.slow_by = factor;
    }

    /// Core-seconds provided since the start or the last [`ServerModel::reset`].
    pub fn core_seconds(&self, now: Duration) -> f64 {
        let since = now.saturating_sub(self.counted_until).as_secs_f64();
        self.core_seconds + self.config.cores * since
    }

    /// Core-seconds used by executions until `now`.
    pub fn busy_core_seconds(&self, now: Duration) -> f64 {
        let to_come = |running: &Reverse<Running<T>>| {
            let run = &running.0.run;
            run.ended.saturating_sub(now).as_secs_f64() * run.cores / f64::from(run.batch)
        };
        self.committed - self.running.iter().map(to_come).sum::<f64>()
    }

    /// Resets the core-seconds; waiting and running requests go on.
    pub fn reset(&mut self, now: Duration) {
        self.core_seconds = 0.0;
        self.counted_until = now;
    }

    /// Observer of the starts.
    pub fn witness(&self) -> &W {
        &self.witness
    }

    /// Mutable observer of the starts.
    pub fn witness_mut(&mut self) -> &mut W {
        &mut self.witness
    }

    /// Numbers of waiting and of executing requests.
    pub fn load(&self) -> (usize, usize) {
        (self.queue.len(), self.running.len())
    }

    /// Drops all waiting and running requests, as a crash would.
    pub fn crash(&mut self) {
        self.committed = self.busy_core_seconds(self.clock);
        self.queue.clear();
        self.closed = ClosedBatches::default();
        self.running.clear();
        self.lanes = 0;
    }

    fn next_end(&self) -> Option<Duration> {
        self.running.peek().map(|Reverse(first)| first.run.ended)
    }

    fn has_free_lane(&self) -> bool {
        self.lanes < self.lanes_max
    }

    /// Whether a batch is closed at the end of its window though no lane is free.
    fn closes_early(&self) -> bool {
        let is_closed = self.config.batch_window == BatchWindow::Closed;
        is_closed && !self.config.batch_delay.is_zero()
    }

    fn limits(&self) -> Limits {
        Limits {
            full: self.config.batch_max.get() as usize,
            batches: CLOSED_PER_LANE * self.lanes_max as usize,
        }
    }

    /// Earliest start of the queue's head: at once with a closed or full batch, else at the end of the
    /// batch window.
    fn due(&self) -> Option<Duration> {
        if self.closed.requests() > 0 {
            return Some(self.clock);
        }
        self.due_from(0)
    }

    /// The same of the batch that begins at that place in the queue.
    fn due_from(&self, place: usize) -> Option<Duration> {
        let full = self.config.batch_max.get() as usize;
        match self.queue.get(place + full - 1) {
            Some(last) => Some(last.arrived),
            None => {
                let arrived = self.queue.get(place)?.arrived;
                let begin = match self.config.batch_window {
                    BatchWindow::Arrival | BatchWindow::Closed => arrived,
                    BatchWindow::Idle => arrived.max(self.idle_since),
                };
                Some(begin.saturating_add(self.config.batch_delay))
            }
        }
    }

    fn start_due(&mut self, at: Duration) {
        let mut begins = false;
        while self.has_free_lane() && self.due().is_some_and(|due| due <= at) {
            let full = self.config.batch_max.get() as usize;
            let batch = self.closed.take(full);
            let batch = batch.unwrap_or_else(|| self.queue.len().min(full));
            self.start(at, batch);
            begins = true;
        }
        self.close_batches(at, begins);
    }

    fn close_batches(&mut self, at: Duration, begins: bool) {
        if self.has_free_lane() || !self.closes_early() {
            return;
        }
        let mut closed = std::mem::take(&mut self.closed);
        let is_due = |place| self.due_from(place).is_some_and(|due| due <= at);
        closed.close(self.queue.len(), self.limits(), begins, is_due);
        self.closed = closed;
    }

    fn start(&mut self, at: Duration, batch: usize) {
        let size = batch as u32;
        let cores = self.config.parallelism.cores_each(self.config.cores);
        let noise = self
            .noise
            .as_mut()
            .map_or(1.0, |(factor, rng)| factor.sample(rng));
        let service = service_time(self.config.latency.ms(size, cores) * noise * self.slow_by);
        self.lanes += 1;
        self.committed += service.as_secs_f64() * cores;
        for left in (0..batch).rev() {
            let Some(job) = self.queue.pop_front() else {
                return;
            };
            self.started += 1;
            let run = Run {
                order: self.started,
                arrived: job.arrived,
                started: at,
                ended: at + service,
                batch: size,
                cores,
            };
            self.witness.started(&job.rider, &run);
            self.running.push(Reverse(Running {
                run,
                frees_lane: left == 0,
                rider: job.rider,
            }));
        }
    }
}

/// Duration of an execution for which the latency model gives `ms`: at most [`SERVICE_MAX`], which it is where
/// the model is undefined.
#[must_use]
pub fn service_time(ms: f64) -> Duration {
    let limit_s = SERVICE_MAX.as_secs_f64();
    Duration::from_secs_f64((ms / 1e3).min(limit_s).max(0.0))
}

impl<T> Running<T> {
    fn key(&self) -> (Duration, u64) {
        (self.run.ended, self.run.order)
    }
}

impl<T> PartialEq for Running<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Running<T> {}

impl<T> PartialOrd for Running<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Running<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

mod closed;
#[cfg(test)]
mod measured;
#[cfg(test)]
mod tests;
