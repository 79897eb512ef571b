//! Several emulated servers that share a resources URL, like the replicas of a workload.
//!
//! `GET` and `PUT /resources` read and change the total cores. The lanes (concurrent executions) are spread evenly
//! over the servers, and each server forms its own batches. A server without a lane refuses connections and is not
//! among the endpoints. [`state`] computes each server's resources and when they change; this file applies them.

mod front;
mod state;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{Emulator, Execution, Resources, ServerConfig};
use state::{Seat, Split, State};

/// Interval between checks of a server that is to stop.
const LEAVING_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Minimum time a server goes on after it left the endpoints: requests may still be on their way to it.
const LEAVING_MIN: Duration = Duration::from_millis(200);

/// Configuration of a group of servers.
#[derive(Debug, Clone)]
pub struct ReplicasConfig {
    /// Configuration of each server; `cores` and `parallelism` are totals.
    pub server: ServerConfig,
    /// Maximum number of servers.
    pub count: NonZeroU32,
    /// Load time of a new server, or of each further lane if lanes are the replicas.
    pub readiness: Duration,
    /// Minimum and maximum delay until a change takes effect.
    pub resize_delay: [Duration; 2],
    /// File with the endpoints of this cluster, watched by Envoy.
    pub endpoints: Option<Endpoints>,
}

/// File from which Envoy reads the endpoints of a cluster.
#[derive(Debug, Clone)]
pub struct Endpoints {
    /// Name of the cluster.
    pub cluster: String,
    /// Path of the file.
    pub file: PathBuf,
}

impl ReplicasConfig {
    /// One server that is ready at once and changes without delay.
    pub fn one(server: ServerConfig) -> ReplicasConfig {
        ReplicasConfig {
            server,
            count: NonZeroU32::MIN,
            readiness: Duration::ZERO,
            resize_delay: [Duration::ZERO; 2],
            endpoints: None,
        }
    }
}

/// Running servers; they stop when this is dropped.
#[derive(Debug)]
pub struct Replicas {
    shared: Arc<Shared>,
    front: SocketAddr,
    tasks: [AbortHandle; 2],
}

/// State shared by the handle, the resources endpoint and the background task.
#[derive(Debug)]
struct Shared {
    model: String,
    servers: Vec<Emulator>,
    state: Mutex<State>,
    endpoints: Option<Endpoints>,
    /// Signals a new request for resources.
    requested: Notify,
    /// Signals an applied change.
    changed: watch::Sender<u64>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resources(&self) -> Resources {
        let batch = self
            .servers
            .first()
            .map_or(NonZeroU32::MIN, Emulator::batch);
        self.state().actual(Instant::now(), batch)
    }

    /// Writes the endpoints for Envoy. Renames the file into place, so that Envoy never reads half of it.
    fn publish(&self) -> Result<()> {
        let Some(Endpoints { cluster, file }) = &self.endpoints else {
            return Ok(());
        };
        let serving = self.state().serving();
        let hosts: Vec<SocketAddr> = serving
            .into_iter()
            .filter_map(|index| self.servers.get(index))
            .map(Emulator::addr)
            .collect();
        let draft = file.with_extension("draft");
        std::fs::write(&draft, assignment(cluster, &hosts).to_string())?;
        std::fs::rename(&draft, file).with_context(|| format!("{}", file.display()))
    }
}

/// The endpoints in Envoy's format.
fn assignment(cluster: &str, hosts: &[SocketAddr]) -> Value {
    let endpoint = |host: &SocketAddr| {
        let address = json!({ "address": host.ip().to_string(), "port_value": host.port() });
        json!({
            "endpoint": { "address": { "socket_address": address } },
            "metadata": { "filter_metadata": { "weir": { "variant": cluster } } },
        })
    };
    let endpoints: Vec<Value> = hosts.iter().map(endpoint).collect();
    json!({ "resources": [{
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": cluster, "endpoints": [{ "lb_endpoints": endpoints }],
    }] })
}

impl Replicas {
    /// Starts the servers; those with a lane are ready at once.
    ///
    /// # Errors
    ///
    /// A configuration value is out of its range, there is no port, or the endpoints cannot be written.
    pub async fn start(config: ReplicasConfig) -> Result<Replicas> {
        let ReplicasConfig { server, count, .. } = &config;
        let split = Split::new(server.cores, server.parallelism, *count);
        let mut servers = Vec::new();
        for (index, seat) in split.seats().enumerate() {
            let mut one = server.clone();
            one.cores = seat.cores;
            one.parallelism = seat.parallelism(server.parallelism);
            if let Some(noise) = &mut one.noise {
                // The first server draws the same noise as a single server.
                noise.seed = noise.seed.wrapping_add((index as u64) << 32);
            }
            let emulator = Emulator::start(one).await?;
            if seat == Seat::NONE {
                emulator.crash();
            }
            servers.push(emulator);
        }
        let seed = server.noise.map_or(0, |noise| noise.seed);
        let state = State::new(split, config.readiness, config.resize_delay, seed);
        let shared = Arc::new(Shared {
            model: server.model.clone(),
            servers,
            state: Mutex::new(state),
            endpoints: config.endpoints,
            requested: Notify::new(),
            changed: watch::Sender::new(0),
        });
        shared.publish()?;
        let (front, serving) = front::listen(Arc::clone(&shared)).await?;
        let background = tokio::spawn(apply_changes(Arc::clone(&shared))).abort_handle();
        Ok(Replicas {
            shared,
            front,
            tasks: [serving, background],
        })
    }

    /// URL at which the total cores are read and changed.
    pub fn resources_url(&self) -> String {
        format!("http://{}/resources", self.front)
    }

    /// The file from which Envoy reads the endpoints.
    pub fn endpoints(&self) -> Option<&Endpoints> {
        self.shared.endpoints.as_ref()
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.shared.model
    }

    /// The servers, including those that refuse connections.
    pub fn servers(&self) -> &[Emulator] {
        &self.shared.servers
    }

    /// Servers with a lane, each with its number of lanes.
    pub fn hosts(&self) -> Vec<(SocketAddr, u32)> {
        let lanes = self.shared.state().lanes();
        let each = self.shared.servers.iter().zip(lanes);
        each.map(|(server, lanes)| (server.addr(), lanes))
            .filter(|(_, lanes)| *lanes > 0)
            .collect()
    }

    /// Actual cores and parallelism.
    pub fn resources(&self) -> Resources {
        self.shared.resources()
    }

    /// Cores × seconds since the start or the last [`Replicas::reset`], including cores that are loading.
    pub fn core_seconds(&self) -> f64 {
        let loading = self.shared.state().loading_core_seconds(Instant::now());
        let servers = self.shared.servers.iter();
        servers.map(Emulator::core_seconds).sum::<f64>() + loading
    }

    /// All executions started so far on all servers.
    pub fn executions(&self) -> Vec<Execution> {
        let servers = self.shared.servers.iter();
        servers.flat_map(Emulator::executions).collect()
    }

    /// Executions dropped from the journals.
    pub fn forgotten(&self) -> u64 {
        self.shared.servers.iter().map(Emulator::forgotten).sum()
    }

    /// Clears journals and core-seconds; queued and executing requests are not affected.
    pub fn reset(&self) {
        self.shared.servers.iter().for_each(Emulator::reset);
        self.shared.state().reset(Instant::now());
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Applies the changes of the state to the servers, each at its time.
async fn apply_changes(shared: Arc<Shared>) {
    loop {
        let now = Instant::now();
        let moved = shared.state().advance(now);
        for (index, seat) in &moved.seats {
            let Some(server) = shared.servers.get(*index) else {
                continue;
            };
            let begins = moved.begins.contains(index);
            // The port of a server that refused connections is still free.
            if begins && let Err(error) = server.come_back().await {
                eprintln!("{}: {error:#}", shared.model);
            }
            let resized = shared.state().parallelism(*seat);
            if let Err(error) = server.set_resources(seat.cores, resized) {
                eprintln!("{}: {error:#}", shared.model);
            }
        }
        if moved.endpoints
            && let Err(error) = shared.publish()
        {
            eprintln!("{}: {error:#}", shared.model);
        }
        let leaving = end_idle(&shared, now);
        shared.changed.send_modify(|times| *times += 1);
        let mut next = shared.state().next_event();
        if leaving {
            let check = now + LEAVING_CHECK_INTERVAL;
            next = Some(next.map_or(check, |next| next.min(check)));
        }
        match next {
            Some(at) => _ = tokio::time::timeout_at(at, shared.requested.notified()).await,
            None => shared.requested.notified().await,
        }
    }
}

/// Stops the leaving servers that are idle. Returns whether any is still busy.
fn end_idle(shared: &Shared, now: Instant) -> bool {
    let mut state = shared.state();
    for (index, since) in state.leaving() {
        let Some(server) = shared.servers.get(index) else {
            continue;
        };
        if now >= since + LEAVING_MIN && server.load() == (0, 0) {
            server.crash();
            // Zero cores are always in range.
            let _ = server.set_cores(0.0);
            state.ended(index);
        }
    }
    !state.leaving().is_empty()
}
