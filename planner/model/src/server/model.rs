//! The emulated server's inside: a FIFO queue, batching, and so many executions at once, on a clock
//! that the caller brings.
//!
//! Pure: time is a `Duration` since the server's start. An execution that ends between two calls is
//! followed by the next one at the instant it *ended*, not when somebody looked, so that late timers
//! cost no capacity. Nothing here is ever cancelled: what has arrived is executed, wanted or not.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal};
use serde::Serialize;

use super::ServerConfig;
use super::law::Parallelism;

/// Requests that may wait; above that the server answers 503.
pub const QUEUE_MAX: usize = 100_000;
/// Executions remembered; above that the oldest are forgotten, and counted as such.
pub const EXECUTIONS_MAX: usize = 500_000;
/// Longest execution, whatever the law says.
pub const SERVICE_MAX: Duration = Duration::from_secs(3600);

/// One request as the server executed it. Times are ms since the server's start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Execution {
    /// Its `x-request-id`, empty where it had none.
    pub request_id: String,
    /// The `x-slo-*` headers and `grpc-timeout`, as received.
    pub headers: BTreeMap<String, String>,
    /// 1 for the first request whose execution started; requests of one batch in queue order.
    pub order: u64,
    /// When it had arrived in full.
    pub arrived_ms: f64,
    /// When its execution started.
    pub started_ms: f64,
    /// When its execution ends.
    pub ended_ms: f64,
    /// Requests executed together with it, itself included.
    pub batch: u32,
    /// Cores of its execution: `c` of the law.
    pub cores: f64,
}

/// A request that waits; `reply` is whatever the shell needs to answer it.
struct Job<T> {
    arrived: Duration,
    request_id: String,
    headers: BTreeMap<String, String>,
    reply: T,
}

/// The queue, the executions, and the resources they run on.
pub struct ServerModel<T> {
    config: ServerConfig,
    slow_by: f64,
    noise: Option<(LogNormal<f64>, ChaCha8Rng)>,
    queue: VecDeque<Job<T>>,
    /// By end, then start order; each reply with its record.
    running: BTreeMap<(Duration, u64), Vec<(T, Execution)>>,
    started: u64,
    executions: VecDeque<Execution>,
    forgotten: u64,
    core_seconds: f64,
    counted_until: Duration,
    /// How far it has been moved on; nothing starts before that.
    clock: Duration,
}

impl<T> ServerModel<T> {
    /// A server that idles since time zero.
    ///
    /// # Errors
    /// A noise that is no distribution.
    pub fn new(config: ServerConfig) -> anyhow::Result<ServerModel<T>> {
        let noise = match config.noise {
            // The mean of the factor is 1.
            Some(noise) => Some((
                LogNormal::new(-noise.sigma * noise.sigma / 2.0, noise.sigma)?,
                ChaCha8Rng::seed_from_u64(noise.seed),
            )),
            None => None,
        };
        Ok(ServerModel {
            config,
            slow_by: 1.0,
            noise,
            queue: VecDeque::new(),
            running: BTreeMap::new(),
            started: 0,
            executions: VecDeque::new(),
            forgotten: 0,
            core_seconds: 0.0,
            counted_until: Duration::ZERO,
            clock: Duration::ZERO,
        })
    }

    /// Takes a request in; gives `reply` back where the queue is full.
    pub fn arrive(
        &mut self,
        now: Duration,
        request_id: String,
        headers: BTreeMap<String, String>,
        reply: T,
    ) -> Result<(), T> {
        if self.queue.len() >= QUEUE_MAX {
            return Err(reply);
        }
        self.queue.push_back(Job {
            arrived: now,
            request_id,
            headers,
            reply,
        });
        Ok(())
    }

    /// Moves on to `now`: ends and starts what is due, each at its own instant, and returns what ended.
    pub fn advance(&mut self, now: Duration) -> Vec<(T, Execution)> {
        let mut ended = Vec::new();
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.clock = at;
            while let Some(first) = self
                .running
                .first_entry()
                .filter(|first| first.key().0 <= at)
            {
                ended.extend(first.remove());
            }
            self.start_due(at);
        }
        self.clock = self.clock.max(now);
        ended
    }

    /// When something happens next if nothing arrives until then.
    pub fn next_event(&self) -> Option<Duration> {
        let end = self.running.first_key_value().map(|((end, _), _)| *end);
        let start = if self.has_free_lane() {
            self.due()
        } else {
            None
        };
        end.into_iter()
            .chain(start)
            .min()
            .map(|at| at.max(self.clock))
    }

    /// Cores and parallelism now.
    pub fn resources(&self) -> (f64, Parallelism) {
        (self.config.cores, self.config.parallelism)
    }

    /// Other resources from `now` on; what already runs keeps what it has. Call [`ServerModel::advance`]
    /// with the same `now` first.
    pub fn set_resources(&mut self, now: Duration, cores: f64, parallelism: Parallelism) {
        self.core_seconds = self.core_seconds(now);
        self.counted_until = now;
        self.config.cores = cores;
        self.config.parallelism = parallelism;
    }

    /// Executions that start from now on take `factor` times as long.
    pub fn slow_by(&mut self, factor: f64) {
        self.slow_by = factor;
    }

    /// Cores × seconds since the start or the last [`ServerModel::reset`].
    pub fn core_seconds(&self, now: Duration) -> f64 {
        let since = now.saturating_sub(self.counted_until).as_secs_f64();
        self.core_seconds + self.config.cores * since
    }

    /// Forgets executions and core-seconds; what waits and runs goes on.
    pub fn reset(&mut self, now: Duration) {
        self.executions.clear();
        self.forgotten = 0;
        self.core_seconds = 0.0;
        self.counted_until = now;
    }

    /// What was started, in that order, and how many earlier ones were forgotten.
    pub fn executions(&self) -> (&VecDeque<Execution>, u64) {
        (&self.executions, self.forgotten)
    }

    /// Requests waiting and executing.
    pub fn load(&self) -> (usize, usize) {
        (self.queue.len(), self.running.values().map(Vec::len).sum())
    }

    /// Drops all that waits or runs, as a crash would.
    pub fn crash(&mut self) {
        self.queue.clear();
        self.running.clear();
    }

    fn has_free_lane(&self) -> bool {
        let at_once = self.config.parallelism.at_once(self.config.cores);
        self.running.len() < at_once as usize
    }

    /// When the queue's head may start: at once with a full batch, else when it has waited enough.
    fn due(&self) -> Option<Duration> {
        let full = self.config.batch_max.get() as usize;
        match self.queue.get(full - 1) {
            Some(last) => Some(last.arrived),
            None => Some(
                self.queue
                    .front()?
                    .arrived
                    .saturating_add(self.config.batch_delay),
            ),
        }
    }

    fn start_due(&mut self, at: Duration) {
        while self.has_free_lane() && self.due().is_some_and(|due| due <= at) {
            let batch = self.queue.len().min(self.config.batch_max.get() as usize);
            let jobs: Vec<Job<T>> = self.queue.drain(..batch).collect();
            self.start(at, jobs);
        }
    }

    fn start(&mut self, at: Duration, jobs: Vec<Job<T>>) {
        let batch = jobs.len() as u32;
        let cores = self.config.parallelism.cores_each(self.config.cores);
        let noise = self
            .noise
            .as_mut()
            .map_or(1.0, |(factor, rng)| factor.sample(rng));
        let service_ms = self.config.law.service_ms(batch, cores) * noise * self.slow_by;
        let end = at + Duration::from_secs_f64((service_ms / 1e3).min(SERVICE_MAX.as_secs_f64()));
        let first = self.started + 1;
        let mut members = Vec::with_capacity(jobs.len());
        for job in jobs {
            self.started += 1;
            let execution = Execution {
                request_id: job.request_id,
                headers: job.headers,
                order: self.started,
                arrived_ms: job.arrived.as_secs_f64() * 1e3,
                started_ms: at.as_secs_f64() * 1e3,
                ended_ms: end.as_secs_f64() * 1e3,
                batch,
                cores,
            };
            if self.executions.len() >= EXECUTIONS_MAX {
                self.executions.pop_front();
                self.forgotten += 1;
            }
            self.executions.push_back(execution.clone());
            members.push((job.reply, execution));
        }
        self.running.insert((end, first), members);
    }
}

#[cfg(test)]
mod tests;
