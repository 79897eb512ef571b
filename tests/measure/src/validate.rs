//! Validation of replay. The same scenario, with the same requests at the same times, runs once in
//! virtual time and once in real time through a real Envoy with the filter and emulated servers.
//!
//! The network latency between proxy and servers is measured in the real run and used by replay. It
//! is a property of the machine, of the order of a ms, and near capacity it affects the queues.
//!
//! It compares; [`Comparison::check`] defines the tolerances.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_replay::input::{Arrival, Sending, requests};
use weir_replay::request::{self, Request};
use weir_replay::scenario::{self, Contender, Control, Overrides, Plane, Scenario};
use weir_replay::simulation;

use weir_bed::emulator::{Emulator, Execution, Noise, ServerConfig};
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::fate::{Fate, Outcome};
use weir_bed::load::{Planned, Protocol, Schedule, Sender, Target, start};

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
    };
    let (mut scenario, sending) = scenario::read(file, overrides)?;
    let requests = requests(scenario.seed, &sending);
    let (real, round_trip_ms) = in_real_time(&scenario, &sending, &requests).await?;
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

async fn in_real_time(
    scenario: &Scenario,
    sending: &Sending,
    requests: &[Request],
) -> Result<(Figures, f64)> {
    let mut servers = Vec::new();
    let mut bootstrap = Bootstrap::shipped()?.plugin(&scenario.proxies.plugin);
    for (index, (server, variant)) in scenario
        .variants
        .iter()
        .zip(&scenario.service.variants)
        .enumerate()
    {
        let mut config = ServerConfig::new(&server.name, server.latency.clone());
        config.aliases.push("classifier".to_owned());
        config.cores = server.cores;
        config.parallelism = server.parallelism;
        config.noise = (server.noise_sigma > 0.0).then_some(Noise {
            sigma: server.noise_sigma,
            // The same factors in the same order as in replay: near capacity the order matters.
            seed: simulation::noise_seed(scenario.seed, index as u64),
        });
        let emulator = Emulator::start(config).await?;
        bootstrap = bootstrap.backend(&variant.cluster, emulator.addr());
        servers.push(emulator);
    }
    let envoy = Envoy::start(&bootstrap, scenario.proxies.workers).await?;
    let first = requests.first().context("the scenario has no requests")?;
    let planned = |(request, arrival): (&Request, &Arrival)| Planned {
        id: format!("{:x}-{}", scenario.seed, request.id),
        send_at: request.sent,
        payload_bytes: arrival.bytes.unwrap_or(sending.payload_bytes),
        upload: request.arrives.saturating_sub(request.sent),
    };
    let schedule = Schedule {
        requests: requests
            .iter()
            .zip(&sending.arrivals)
            .map(planned)
            .collect(),
    };
    let sender = Sender {
        slo: first.budget,
        timeout: first.timeout,
        body: "{}".into(),
        answer_bytes: sending.answer_bytes,
        read_bytes_per_s: None,
        protocol: Protocol::Http1,
    };
    let target = Target {
        name: "weir".to_owned(),
        url: format!(
            "http://{}/v2/models/classifier/infer",
            envoy.listener("weir")?
        ),
        then: Vec::new(),
        headers: Vec::new(),
    };
    let network = Arc::new(sending.network.clone());
    let record = start(Arc::new(schedule), network, sender, vec![target])?
        .finish()
        .await?;
    ensure!(
        record.lag.p99_ms <= LAG_P99_MAX_MS,
        "the generator was late ({:?}): invalid run",
        record.lag
    );
    let outcomes = record.outcomes.first().context("no outcomes")?;
    let answered = outcomes.iter().filter(|outcome| outcome.answered());
    let latencies = answered.map(Outcome::latency).collect();
    let on_time = outcomes
        .iter()
        .filter(|outcome| outcome.on_time(first.budget))
        .count();
    let round_trip_ms = round_trip_ms(scenario, &servers, outcomes)?;
    Ok((figures(requests.len(), on_time, latencies)?, round_trip_ms))
}

/// Mean time between dispatch and response as seen by the proxy, without the time at the server,
/// ms; over all requests answered in time.
fn round_trip_ms(scenario: &Scenario, servers: &[Emulator], outcomes: &[Outcome]) -> Result<f64> {
    let reserve = scenario.proxies.plugin.pointer("/deadline/reserve_ms");
    let reserve_ms = reserve.and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    let executions: Vec<Execution> = servers.iter().flat_map(Emulator::executions).collect();
    let executions: HashMap<&str, &Execution> = executions
        .iter()
        .map(|run| (run.request_id.as_str(), run))
        .collect();
    let trip = |outcome: &Outcome| {
        let Fate::Answered { remaining_ms, .. } = outcome.fate else {
            return None;
        };
        let answered_ms = remaining_ms.filter(|left| *left > 0)? as f64;
        let run = executions.get(outcome.id.as_str())?;
        let sent_ms: f64 = run.headers.get("x-slo-remaining-ms")?.parse().ok()?;
        // The server is sent the remaining time without the reserve, the client with it.
        Some(sent_ms + reserve_ms - answered_ms - (run.ended_ms - run.arrived_ms))
    };
    let trips: Vec<f64> = outcomes.iter().filter_map(trip).collect();
    ensure!(!trips.is_empty(), "no request was answered in time");
    Ok(trips.iter().sum::<f64>() / trips.len() as f64)
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
