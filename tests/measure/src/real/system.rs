//! Envoy with the listeners `weir`, `careful` and `plain` over the same servers, and the planner.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::envoy::{Bootstrap, Careful, Envoy};
use weir_bed::load::Target;
use weir_bed::planner::{Planner, free_port};
use weir_bed::wait;

use super::grpc;
use super::profile::{Profile, file};
use super::servers::{MODEL, Server};

/// Latency objective: five times the mean of the slowest server.
pub(crate) const SLO: Duration = Duration::from_millis(400);
pub(crate) const SERVICE: &str = "digits";
const KEY: &str = "a-key-for-real-servers";
const KEY_ENV: &str = "WEIR_KEY";
/// Greatest weight of a host: Envoy balances finely enough.
const WEIGHT_MAX: f64 = 100.0;
/// Step of the cores.
const STEP: f64 = 0.05;
/// Weight of the cores in the objective: the default, and one at which cores are given back for a little accuracy.
const COST_USUAL: f64 = 0.05;
const COST_ACTIVE: f64 = 0.2;
const WORKERS: u32 = 2;
const READY_MAX: Duration = Duration::from_secs(30);

/// Way of a request to the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Through the filter; quotas stay as they are.
    Weir,
    /// Through the filter in mode `active`: the quotas follow the load, and are as many cores together.
    Active,
    /// Weighted least-request, a route timeout of the objective, and circuit breakers.
    Careful,
    /// Weights by capacity and nothing else.
    Weighted,
}

impl Way {
    /// Those over servers whose quotas stay as they are.
    pub(crate) const FIXED: [Way; 3] = [Way::Weir, Way::Careful, Way::Weighted];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Weir => "weir",
            Way::Active => "weir, active",
            Way::Careful => "careful",
            Way::Weighted => "weighted",
        }
    }

    fn listener(self) -> &'static str {
        match self {
            Way::Weir | Way::Active => "weir",
            Way::Careful => "careful",
            Way::Weighted => "plain",
        }
    }
}

/// Cores that the planner may give.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sizes {
    /// Each server keeps its own.
    Fixed,
    /// Those of all servers together, and of each at least and at most.
    Active { budget: f64, min: f64, max: f64 },
}

/// Planner and proxy.
#[derive(Debug)]
pub(crate) struct System {
    pub(crate) planner: Planner,
    pub(crate) envoy: Envoy,
    /// The service file.
    pub(crate) service: Value,
    /// Accuracy of each server's model, percent.
    pub(crate) accuracy: Vec<f64>,
}

impl System {
    /// Starts both for these servers, whose profiles are in the folder, and waits for the planner's plan.
    pub(crate) async fn start(
        servers: &[Server],
        profiles: &[Profile],
        folder: &Path,
        sizes: Sizes,
    ) -> Result<System> {
        let planner_at = free_port()?;
        let envoy = Envoy::start(&bootstrap(servers, profiles, planner_at)?, WORKERS).await?;
        let service = service_file(servers, folder, (planner_at, envoy.admin()), sizes);
        let text = service.to_string();
        let mut planner = Planner::start(SERVICE, planner_at, &text, (KEY_ENV, KEY))?;
        planner.until_ready(READY_MAX).await?;
        let adopted = async || {
            let revision = envoy.metric(Metric::PlanRevision, SERVICE, "").await;
            revision.is_ok_and(|revision| revision > 1)
        };
        wait::until_async("the filter to adopt the planner's plan", READY_MAX, adopted).await?;
        Ok(System {
            planner,
            envoy,
            service,
            accuracy: profiles.iter().map(|profile| profile.accuracy).collect(),
        })
    }

    /// Returns the number of requests that the filter has sent to each server.
    pub(crate) async fn sent(&self, servers: &[Server]) -> Result<Vec<f64>> {
        let text = self.envoy.stats("cluster.*upstream_rq_total").await?;
        let of = |server: &Server| {
            let label = format!("{{envoy_cluster_name=\"{}\"}}", server.name);
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.split_once(&label));
            value.map_or(Ok(0.0), |(_, value)| {
                value.trim().parse().context("a counter")
            })
        };
        servers.iter().map(of).collect()
    }

    /// Returns the target of requests over REST.
    pub(crate) fn target(&self, way: Way) -> Result<Target> {
        self.target_at(way, &format!("/v2/models/{MODEL}/infer"))
    }

    /// Returns the target of requests over gRPC.
    pub(crate) fn grpc_target(&self, way: Way) -> Result<Target> {
        self.target_at(way, grpc::PATH)
    }

    fn target_at(&self, way: Way, path: &str) -> Result<Target> {
        let listener = self.envoy.listener(way.listener())?;
        Ok(Target {
            name: way.name().to_owned(),
            url: format!("http://{listener}{path}"),
            then: Vec::new(),
            headers: Vec::new(),
        })
    }
}

/// Returns the service file. It is JSON, which is YAML too.
fn service_file(
    servers: &[Server],
    folder: &Path,
    (planner, admin): (SocketAddr, SocketAddr),
    sizes: Sizes,
) -> Value {
    let variant = |server: &Server| {
        let (min, max) = match sizes {
            Sizes::Fixed => (server.cores, server.cores),
            Sizes::Active { min, max, .. } => (min, max),
        };
        let mut variant = json!({
            "name": server.name,
            "cluster": server.name,
            "grpcCluster": grpc::cluster(server.name),
            "cores": { "initial": server.cores, "min": min, "max": max },
            "profile": { "file": file(folder, server) },
        });
        if let (Sizes::Active { .. }, Some(keys)) = (sizes, variant.as_object_mut()) {
            keys.insert("cgroup".to_owned(), json!(server.group.name()));
        }
        variant
    };
    let together = servers.iter().map(|server| server.cores).sum();
    let (mode, budget, cost) = match sizes {
        Sizes::Fixed => ("advisory", together, COST_USUAL),
        Sizes::Active { budget, .. } => ("active", budget, COST_ACTIVE),
    };
    json!({
        "service": SERVICE,
        "listen": planner,
        "keyEnv": KEY_ENV,
        "slo": format!("{}ms", SLO.as_millis()),
        "mode": mode,
        "objective": { "beta": cost },
        "budget": { "cores": hundredths(budget), "step": STEP },
        "proxies": { "stats": [format!("http://{admin}/stats/prometheus?filter=weir_")] },
        "variants": servers.iter().map(variant).collect::<Vec<_>>(),
    })
}

/// Rounds a sum of decimal fractions.
fn hundredths(cores: f64) -> f64 {
    (cores * 100.0).round() / 100.0
}

/// Returns weights in proportion to rates.
pub(crate) fn weights(rates: &[f64]) -> Vec<u32> {
    let total: f64 = rates.iter().sum();
    let weight = |rate: &f64| (rate / total * WEIGHT_MAX).round().max(1.0) as u32;
    rates.iter().map(weight).collect()
}

fn bootstrap(servers: &[Server], profiles: &[Profile], planner: SocketAddr) -> Result<Bootstrap> {
    let each = || servers.iter().zip(profiles);
    let rate = |(server, profile): (&Server, &Profile)| profile.capacity_rps(server.cores);
    let total: f64 = each().map(rate).sum();
    let variant = |(server, profile): (&Server, &Profile)| {
        json!({
            "name": server.name,
            "cluster": server.name,
            "share": rate((server, profile)) / total,
            "slots": 1,
            "grpc_cluster": grpc::cluster(server.name),
            "service_ms": profile.service_ms(server.cores),
            "accuracy": profile.accuracy,
        })
    };
    let slo_ms = SLO.as_millis();
    let plugin = json!({
        "service": SERVICE,
        "deadline": { "default_ms": slo_ms, "max_ms": 10_000 },
        "planner": { "cluster": "planner", "authority": "planner", "key": KEY },
        "plan": { "variants": each().map(variant).collect::<Vec<_>>() },
    });
    let weights = weights(&each().map(rate).collect::<Vec<_>>());
    let addresses = servers.iter().map(|server| server.http);
    // Requests at the servers and waiting for a connection: as many as the servers answer within the objective.
    let at_once = (total * SLO.as_secs_f64()).round() as u32;
    let careful = Careful {
        hosts: addresses.zip(weights.iter().copied()).collect(),
        timeout: SLO,
        max_requests: at_once,
        max_pending_requests: at_once,
    };
    let plain: Vec<(&str, Vec<SocketAddr>)> = servers
        .iter()
        .map(|server| (server.name, vec![server.http]))
        .collect();
    let first = servers.first().context("no servers")?;
    let mut bootstrap = Bootstrap::shipped()?
        .plugin(&plugin)
        .planner(planner)
        .careful("careful", careful)
        .plain(&plain)
        .plain_weights(&weights)
        .fallback(first.name);
    for server in servers {
        bootstrap = bootstrap
            .backend(server.name, server.http)
            .backend_http2(&grpc::cluster(server.name), server.grpc);
    }
    Ok(bootstrap)
}
