//! Validation of replay. The same scenario, with the same requests at the same times, runs once in
//! virtual time and once in real time through a real Envoy with the filter and emulated servers. A pipeline has an Envoy
//! for each stage, and a variant with replicas an emulated server for each, all behind one cluster.
//!
//! The network latency between proxy and servers is measured in the real run and used by replay. It
//! is a property of the machine, of the order of a ms, and near capacity it affects the queues.
//!
//! It compares; [`Comparison::check`] defines the tolerances.

mod real;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_replay::input::requests;
use weir_replay::request::{self, Request};
use weir_replay::scenario::{self, Contender, Control, Overrides, Plane, Scenario};
use weir_replay::simulation;

/// Maximum difference of the on-time shares, in percentage points.
pub const SHARE_POINTS_MAX: f64 = 1.0;
/// Maximum difference of the percentiles, as a fraction of the real one.
pub const PERCENTILE_MAX: f64 = 0.10;
/// Maximum lag of the generator's 99th percentile; beyond it a run proves nothing.
pub const LAG_P99_MAX_MS: f64 = 20.0;

/// The compared loads, as multiples of the servers' capacity.
pub const LOADS: [f64; 3] = [0.5, 0.95, 1.5];

/// The results of a run, as the clients see them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Answered within the objective, percent of all sent.
    pub on_time_percent: f64,
    /// Median latency of the responses, ms.
    pub p50_ms: f64,
    /// 99th percentile of the latency, ms.
    pub p99_ms: f64,
}

/// The two runs of one load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The load, as a multiple of the servers' capacity.
    pub of_capacity: f64,
    /// Requests sent.
    pub sent: usize,
    /// Measured time from proxy to server and back, without the execution, ms.
    pub round_trip_ms: f64,
    /// The run in virtual time.
    pub replay: Figures,
    /// The run in real time.
    pub real: Figures,
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (replay, real) = (self.replay, self.real);
        write!(
            f,
            "{} × capacity, {} requests: on time {:.2} % in replay, {:.2} % in Envoy; \
             p50 {:.1} ms, {:.1} ms; p99 {:.1} ms, {:.1} ms; servers {:.2} ms away",
            self.of_capacity,
            self.sent,
            replay.on_time_percent,
            real.on_time_percent,
            replay.p50_ms,
            real.p50_ms,
            replay.p99_ms,
            real.p99_ms,
            self.round_trip_ms,
        )
    }
}

impl Comparison {
    /// Checks whether the two agree.
    ///
    /// # Errors
    ///
    /// A figure differs by more than its tolerance.
    pub fn check(&self) -> Result<()> {
        let (replay, real) = (self.replay, self.real);
        let points = (replay.on_time_percent - real.on_time_percent).abs();
        ensure!(
            points <= SHARE_POINTS_MAX,
            "on time: {points:.2} points apart: {self:?}"
        );
        for (name, replay_ms, real_ms) in [
            ("p50", replay.p50_ms, real.p50_ms),
            ("p99", replay.p99_ms, real.p99_ms),
        ] {
            let off = (replay_ms - real_ms).abs() / real_ms;
            ensure!(
                off <= PERCENTILE_MAX,
                "{name}: {:.1} % apart: {self:?}",
                off * 100.0
            );
        }
        Ok(())
    }
}

/// Runs the scenario with its filter and static cores at that load, in both ways.
///
/// # Errors
///
/// The scenario is invalid, a part does not start, or the generator lagged.
pub async fn compare(file: &Path, of_capacity: f64) -> Result<Comparison> {
    let overrides = Overrides {
        seed: None,
        of_capacity: Some(of_capacity),
        requests_max: None,
    };
    let (mut scenario, sending) = scenario::read(file, overrides)?;
    let requests = requests(scenario.seed, &sending);
    let (real, round_trip_ms) = real::run(&scenario, &sending, &requests).await?;
    for server in &mut scenario.variants {
        server.round_trip = Duration::from_secs_f64(round_trip_ms.max(0.0) / 1e3);
    }
    let replay = in_virtual_time(&scenario, &requests)?;
    Ok(Comparison {
        of_capacity,
        sent: requests.len(),
        round_trip_ms,
        replay,
        real,
    })
}

fn in_virtual_time(scenario: &Scenario, requests: &[Request]) -> Result<Figures> {
    let contender = Contender {
        plane: Plane::Weir,
        control: Control::Static,
        breaker: None,
    };
    let play = simulation::play(scenario, requests, contender, scenario.seed)?;
    let (mut on_time, mut latencies) = (0, Vec::new());
    for (request, outcome) in requests.iter().zip(&play.outcomes) {
        if matches!(outcome.fate, request::Fate::Answered(_)) {
            latencies.push(outcome.ended.saturating_sub(request.sent));
            on_time += usize::from(outcome.ended <= request.deadline());
        }
    }
    figures(requests.len(), on_time, latencies)
}

fn figures(sent: usize, on_time: usize, mut latencies: Vec<Duration>) -> Result<Figures> {
    latencies.sort_unstable();
    let at = |part: f64| {
        let index = (latencies.len() as f64 * part) as usize;
        let latency = latencies.get(index.min(latencies.len().saturating_sub(1)));
        latency
            .map(|latency| latency.as_secs_f64() * 1e3)
            .context("no answers")
    };
    Ok(Figures {
        on_time_percent: on_time as f64 * 100.0 / sent as f64,
        p50_ms: at(0.5)?,
        p99_ms: at(0.99)?,
    })
}
