//! Simulated server, one replica of a variant: its model, its actual cores, and the requests it executes.

use std::num::NonZeroU32;
use std::time::Duration;

use weir_api::Cores;
use weir_sim::server::{Noise, Parallelism, Run, ServerConfig, ServerModel};

use super::PlayError;
use crate::nanos;
use crate::scenario::Server;

/// Request at a server, with its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) request: u32,
    pub(crate) attempt: u16,
}

/// Phase of a server's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It loads, and gets no requests yet.
    Starts,
    /// It gets requests.
    Serves,
    /// It ends with the requests that it has.
    Drains,
    /// It has ended.
    Ended,
}

/// Simulated server.
pub(crate) struct SimulatedServer {
    /// Index of its variant.
    pub(crate) variant: u16,
    /// Phase of its life.
    pub(crate) phase: Phase,
    /// Requests in flight from each proxy, as Envoy counts them.
    pub(crate) active: Vec<u32>,
    model: ServerModel<Job>,
    parallelism: Parallelism,
    /// One-way latency between the proxy and the server, ns.
    pub(crate) hop: u64,
    /// Ended executions that are not yet reported.
    ended: Vec<(Job, Run)>,
    /// Time of its last entry in the event queue.
    wakes_at: u64,
    /// Whether it accepts requests.
    pub(crate) up: bool,
    /// Whether it answers every request with an error.
    pub(crate) failing: bool,
    /// Actual cores, whether or not they are usable yet.
    pub(crate) cores: Cores,
    core_seconds: f64,
    counted_until: Duration,
}

impl SimulatedServer {
    /// Creates a server that serves with those cores.
    pub(crate) fn new(
        server: &Server,
        (variant, proxies): (u16, usize),
        cores: Cores,
        seed: u64,
    ) -> Result<SimulatedServer, PlayError> {
        let refused = |why: String| PlayError::Server {
            name: server.name.clone(),
            why,
        };
        let noise = (server.noise_sigma > 0.0).then_some(Noise {
            sigma: server.noise_sigma,
            seed,
        });
        let config = ServerConfig {
            cores: cores.as_f64(),
            parallelism: server.parallelism,
            batch_max: NonZeroU32::new(server.batch_max)
                .ok_or_else(|| refused("batch_max: 0; it must be 1 or more".to_owned()))?,
            batch_delay: server.batch_delay,
            batch_window: server.batch_window,
            noise,
            ..ServerConfig::new(&server.name, server.latency.clone())
        };
        config.check().map_err(|error| refused(error.to_string()))?;
        Ok(SimulatedServer {
            variant,
            phase: Phase::Serves,
            active: vec![0; proxies],
            model: ServerModel::new(config).map_err(|error| refused(error.to_string()))?,
            parallelism: server.parallelism,
            hop: nanos(server.hop()),
            ended: Vec::new(),
            wakes_at: u64::MAX,
            up: true,
            failing: false,
            cores,
            core_seconds: 0.0,
            counted_until: Duration::ZERO,
        })
    }

    /// Accepts a request; returns `false` if it is full.
    pub(crate) fn take(&mut self, now: Duration, job: Job) -> bool {
        self.model.advance(now, &mut self.ended);
        let taken = self.model.arrive(now, job).is_ok();
        self.model.advance(now, &mut self.ended);
        taken
    }

    /// Advances to `now` and returns the executions that have ended since the last call.
    pub(crate) fn advance(&mut self, now: Duration, ended: &mut Vec<(Job, Run)>) {
        self.wakes_at = u64::MAX;
        self.model.advance(now, &mut self.ended);
        ended.append(&mut self.ended);
    }

    /// Time of its next event, if that is not yet in the event queue.
    pub(crate) fn wake(&mut self, now: u64) -> Option<u64> {
        let at = if self.ended.is_empty() {
            nanos(self.model.next_event()?)
        } else {
            now
        };
        let at = at.max(now);
        if at >= self.wakes_at {
            return None;
        }
        self.wakes_at = at;
        Some(at)
    }

    /// Sets the actual cores from `now` on; the server uses them if `usable`.
    pub(crate) fn resize(&mut self, now: Duration, cores: Cores, usable: bool) {
        self.core_seconds = self.core_seconds(now);
        self.counted_until = now;
        self.cores = cores;
        if usable {
            self.use_cores(now);
        }
    }

    /// Makes the actual cores usable.
    pub(crate) fn use_cores(&mut self, now: Duration) {
        self.model.advance(now, &mut self.ended);
        self.model
            .set_resources(now, self.cores.as_f64(), self.parallelism);
        self.model.advance(now, &mut self.ended);
    }

    /// Number of executions at once on the actual cores.
    pub(crate) fn at_once(&self) -> u32 {
        self.parallelism.at_once(self.cores.as_f64())
    }

    /// Whether it has no requests, and none is on its way to it from a proxy that waits for the answer.
    pub(crate) fn is_idle(&self) -> bool {
        self.model.load() == (0, 0)
            && self.ended.is_empty()
            && self.active.iter().all(|active| *active == 0)
    }

    /// Changes the maximum batch from `now` on.
    pub(crate) fn set_batch(&mut self, now: Duration, batch: u32) {
        if let Some(batch) = NonZeroU32::new(batch) {
            self.model.advance(now, &mut self.ended);
            self.model.set_batch(batch);
            self.model.advance(now, &mut self.ended);
        }
    }

    /// Actual cores × seconds so far.
    pub(crate) fn core_seconds(&self, now: Duration) -> f64 {
        let since = now.saturating_sub(self.counted_until).as_secs_f64();
        self.core_seconds + self.cores.as_f64() * since
    }

    /// Cores × seconds used by executions so far.
    pub(crate) fn busy_core_seconds(&self, now: Duration) -> f64 {
        self.model.busy_core_seconds(now)
    }

    /// Drops all waiting and running requests, and accepts none until it is up again.
    pub(crate) fn crash(&mut self, now: Duration) {
        self.model.advance(now, &mut self.ended);
        self.model.crash();
        self.up = false;
    }

    /// Makes executions that start from `now` on take `factor` times as long.
    pub(crate) fn slow_by(&mut self, now: Duration, factor: f64) {
        self.model.advance(now, &mut self.ended);
        self.model.slow_by(factor);
    }
}
