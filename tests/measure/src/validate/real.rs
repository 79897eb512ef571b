//! The run in real time: an Envoy with the filter for each stage, and an emulated server for each replica.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weir_bed::emulator::{Emulator, Execution, Noise, ServerConfig};
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::fate::{Fate, Outcome};
use weir_bed::load::{Planned, Protocol, Schedule, Sender, Target, start};
use weir_replay::input::{Arrival, Sending};
use weir_replay::request::Request;
use weir_replay::scenario::{LoadBalancing, Scenario};
use weir_replay::simulation;

use super::{Figures, LAG_P99_MAX_MS, figures};

/// Name that all servers answer to, so that clients need not name the variant.
const MODEL: &str = "classifier";

/// Stage of a pipeline: its proxy and its servers.
struct Stage {
    envoy: Envoy,
    servers: Vec<Emulator>,
}

/// Sends the requests through the stages. Returns the figures, and the measured time from proxy to server and back, in
/// ms.
pub(super) async fn run(
    scenario: &Scenario,
    sending: &Sending,
    requests: &[Request],
) -> Result<(Figures, f64)> {
    let mut stages = Vec::new();
    for stage in 0..scenario.service.stages.len().max(1) {
        stages.push(Stage::start(scenario, stage).await?);
    }
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
    let mut urls = Vec::new();
    for stage in &stages {
        let listener = stage.envoy.listener("weir")?;
        urls.push(format!("http://{listener}/v2/models/{MODEL}/infer"));
    }
    let mut urls = urls.into_iter();
    let target = Target {
        name: "weir".to_owned(),
        url: urls.next().context("no stage")?,
        then: urls.collect(),
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
    let last = stages.last().context("no stage")?;
    let round_trip_ms = round_trip_ms(scenario, &last.servers, outcomes)?;
    Ok((figures(requests.len(), on_time, latencies)?, round_trip_ms))
}

impl Stage {
    /// Starts the servers of a stage, and its proxy.
    async fn start(scenario: &Scenario, stage: usize) -> Result<Stage> {
        let (proxies, service) = (&scenario.proxies, &scenario.service);
        let plugin = match stage.checked_sub(1) {
            None => Some(&proxies.plugin),
            Some(index) => proxies.later_plugins.get(index),
        };
        let mut bootstrap = Bootstrap::shipped()?.plugin(plugin.context("no plugin")?);
        let of_stage = match service.stages.len() {
            0 | 1 => 0..service.variants.len(),
            _ => service
                .stages
                .get(stage)
                .context("no stage")?
                .variants
                .clone(),
        };
        let mut servers = Vec::new();
        for (place, index) in of_stage.enumerate() {
            let server = scenario.variants.get(index).context("no server")?;
            let variant = service.variants.get(index).context("no variant")?;
            let mut hosts = Vec::new();
            for replica in 0..server.replicas.unwrap_or(1) {
                let mut config = ServerConfig::new(&server.name, server.latency.clone());
                config.aliases.push(MODEL.to_owned());
                config.cores = server.cores;
                config.parallelism = server.parallelism;
                config.batch_max = NonZeroU32::new(server.batch_max).context("no batch")?;
                config.batch_delay = server.batch_delay;
                config.noise = (server.noise_sigma > 0.0).then_some(Noise {
                    sigma: server.noise_sigma,
                    // The same factors in the same order as in replay: near capacity the order matters.
                    seed: simulation::replica_seed(scenario.seed, index as u64, replica.into()),
                });
                let emulator = Emulator::start(config).await?;
                hosts.push(emulator.addr());
                servers.push(emulator);
            }
            bootstrap = bootstrap.backends(&variant.cluster, &hosts);
            let policy = proxies.load_balancing.of_batches(server.batch_max);
            if let Some(policy) = balancing(policy) {
                let pointer = format!("/static_resources/clusters/{place}/load_balancing_policy");
                bootstrap = bootstrap.amend(&pointer, policy);
            }
        }
        let envoy = Envoy::start(&bootstrap, proxies.workers).await?;
        Ok(Stage { envoy, servers })
    }
}

/// Load balancing in Envoy's format; `None` for that of the shipped bootstrap.
fn balancing(given: LoadBalancing) -> Option<Value> {
    let name = match given {
        LoadBalancing::FullScan => return None,
        LoadBalancing::LeastRequest => ("least_request", "LeastRequest"),
        LoadBalancing::RoundRobin => ("round_robin", "RoundRobin"),
    };
    let (folder, message) = name;
    let kind = format!(
        "type.googleapis.com/envoy.extensions.load_balancing_policies.{folder}.v3.{message}"
    );
    let policy = json!({
        "name": format!("envoy.load_balancing_policies.{folder}"), "typed_config": { "@type": kind },
    });
    Some(json!({ "policies": [{ "typed_extension_config": policy }] }))
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
