//! Servers of one variant: the life of its replicas, and the [load balancing](balancing) among them.

mod balancing;

use std::time::Duration;

use weir_api::Cores;

use super::event_queue::Event;
use super::server::{Phase, SimulatedServer};
use super::witness::Witness;
use super::{PlayError, Simulation, replica_seed};
use crate::control::ReplicaDue;
use crate::nanos;
use crate::request::Resize;
use crate::scenario::Scenario;

pub(super) use balancing::{NO_SERVER, balance};

/// Longest time that an ending replica has for its requests: Kubernetes' default grace period.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(30);
/// Servers of one variant.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    /// Servers that proxies choose from, in the order of their start.
    listed: Vec<u32>,
    /// Servers that have not ended, in the order of their start.
    servers: Vec<u32>,
    /// Servers started so far.
    started: u64,
    /// Position of each worker in the round of the servers.
    positions: Vec<u32>,
    /// Maximum batch that its servers have been sent.
    batch: Option<u32>,
}

/// Creates the servers that exist at the start, and the fleet of each variant.
pub(super) fn at_start(
    scenario: &Scenario,
    cores: &[Cores],
    (workers, proxies): (usize, usize),
    seed: u64,
) -> Result<(Vec<SimulatedServer>, Vec<Fleet>), PlayError> {
    let (mut servers, mut fleets) = (Vec::new(), Vec::new());
    for (variant, (server, cores)) in (0_u16..).zip(scenario.variants.iter().zip(cores)) {
        let mut fleet = Fleet {
            // Each worker begins with another server, as in Envoy.
            positions: (0..workers.max(proxies) as u32).collect(),
            ..Fleet::default()
        };
        // Checked even if none exists yet.
        SimulatedServer::new(server, (variant, proxies), *cores, seed)?;
        for _ in 0..server.count() {
            let seed = fleet.seed(seed, variant);
            let new = SimulatedServer::new(server, (variant, proxies), *cores, seed)?;
            fleet.add(servers.len() as u32, true);
            servers.push(new);
        }
        fleets.push(fleet);
    }
    Ok((servers, fleets))
}

impl Fleet {
    /// Servers that have not ended.
    pub(crate) fn servers(&self) -> &[u32] {
        &self.servers
    }

    /// Servers that proxies choose from.
    pub(super) fn listed(&self) -> &[u32] {
        &self.listed
    }

    /// First server that proxies choose from.
    pub(super) fn first(&self) -> Option<u32> {
        self.listed.first().copied()
    }

    /// Noise seed of the next server.
    fn seed(&self, seed: u64, variant: u16) -> u64 {
        replica_seed(seed, u64::from(variant), self.started)
    }

    fn add(&mut self, server: u32, is_ready: bool) {
        self.started += 1;
        self.servers.push(server);
        if is_ready {
            self.listed.push(server);
        }
    }

    pub(super) fn list(&mut self, server: u32) {
        if let Err(place) = self.listed.binary_search(&server) {
            self.listed.insert(place, server);
        }
    }

    pub(super) fn unlist(&mut self, server: u32) {
        self.listed.retain(|listed| *listed != server);
    }
}

impl<W: Witness> Simulation<'_, W> {
    /// Schedules the changes of replicas that were requested, and creates their servers.
    pub(super) fn start_replicas(&mut self) {
        let due = self.control.with_kubelet(|kubelet| kubelet.take_due());
        for due in due.unwrap_or_default() {
            let ReplicaDue {
                variant,
                server,
                at,
            } = due;
            if server as usize == self.simulated_servers.len() {
                self.add_server(variant, server);
            }
            self.event_queue
                .add(at, Event::ReplicaDue { variant, server });
        }
    }

    /// Carries out the changes of batches that the planner has sent.
    pub(super) fn send_batches(&mut self) {
        let time = self.time();
        let batches = self.control.with_kubelet(|kubelet| kubelet.take_batches());
        for (variant, batch) in batches.unwrap_or_default() {
            let Some(fleet) = self.fleets.get_mut(usize::from(variant)) else {
                continue;
            };
            fleet.batch = Some(batch);
            for server in fleet.servers.clone() {
                if let Some(known) = self.simulated_servers.get_mut(server as usize) {
                    known.set_batch(time, batch);
                }
                self.wake_server(server);
            }
        }
    }

    fn add_server(&mut self, variant: u16, server: u32) {
        let time = self.time();
        let index = usize::from(variant);
        let (Some(known), Some(fleet)) = (
            self.scenario.variants.get(index),
            self.fleets.get_mut(index),
        ) else {
            return;
        };
        let (place, seed) = (
            (variant, self.counted.len()),
            fleet.seed(self.seed, variant),
        );
        // Its configuration was checked at the start.
        if let Ok(mut new) = SimulatedServer::new(known, place, Cores::ZERO, seed) {
            new.phase = Phase::Starts;
            if let Some(batch) = fleet.batch {
                new.set_batch(time, batch);
            }
            fleet.add(server, false);
            self.simulated_servers.push(new);
        }
    }

    /// Carries out what is due at a replica.
    pub(super) fn replica_due(&mut self, variant: u16, server: u32) {
        let (now, time) = (self.now, self.time());
        let due = ReplicaDue {
            variant,
            server,
            at: now,
        };
        let change = self
            .control
            .with_kubelet(|kubelet| kubelet.carry_out(now, due));
        let Some(change) = change.flatten() else {
            return;
        };
        let known = self.simulated_servers.get_mut(server as usize);
        let Some(known) = known.filter(|known| known.phase != Phase::Ended) else {
            return;
        };
        if let Some(cores) = change.cores {
            known.resize(time, cores, known.phase != Phase::Starts);
        }
        if change.is_ready && known.phase == Phase::Starts {
            known.phase = Phase::Serves;
            known.use_cores(time);
            if let Some(fleet) = self.fleets.get_mut(usize::from(variant)) {
                fleet.list(server);
            }
        }
        if change.drains {
            known.phase = Phase::Drains;
            if let Some(fleet) = self.fleets.get_mut(usize::from(variant)) {
                fleet.unlist(server);
            }
            self.event_queue
                .add(now + nanos(DRAIN_MAX), Event::ReplicaKilled { server });
        }
        if change.cores.is_some() || change.is_ready {
            self.record_cores(variant);
        }
        self.end_if_drained(server);
        self.wake_server(server);
        if change.is_ready || change.drains {
            self.publish_baseline();
        }
    }

    /// Ends a replica that drains and has no request left.
    pub(super) fn end_if_drained(&mut self, server: u32) {
        let known = self.simulated_servers.get(server as usize);
        if known.is_some_and(|known| known.phase == Phase::Drains && known.is_idle()) {
            self.end_server(server);
        }
    }

    /// Ends a replica that has not drained in time; its requests break.
    pub(super) fn kill(&mut self, server: u32) {
        let known = self.simulated_servers.get(server as usize);
        if known.is_some_and(|known| known.phase == Phase::Drains) {
            self.end_server(server);
            self.break_connections(server);
        }
    }

    fn end_server(&mut self, server: u32) {
        let time = self.time();
        let Some(known) = self.simulated_servers.get_mut(server as usize) else {
            return;
        };
        let variant = known.variant;
        known.crash(time);
        known.phase = Phase::Ended;
        known.resize(time, Cores::ZERO, true);
        if let Some(fleet) = self.fleets.get_mut(usize::from(variant)) {
            fleet.servers.retain(|known| *known != server);
        }
        self.control.with_kubelet(|kubelet| {
            kubelet.with_replicas(variant, |set| set.ended(server));
        });
        self.record_cores(variant);
    }

    /// Server of a variant that is always one.
    pub(super) fn only_server(&self, variant: u16) -> Option<u32> {
        let fleet = self.fleets.get(usize::from(variant))?;
        fleet.servers.first().copied()
    }

    pub(super) fn is_replicated(&self, variant: u16) -> bool {
        let known = self.scenario.variants.get(usize::from(variant));
        known.is_some_and(|known| known.replicas.is_some())
    }

    /// Actual cores of each variant, over its servers.
    pub(super) fn actual_cores(&self) -> impl Iterator<Item = Cores> {
        let cores = |server: &u32| {
            let known = self.simulated_servers.get(*server as usize);
            known.map_or(Cores::ZERO, |known| known.cores)
        };
        let each = self.fleets.iter();
        each.map(move |fleet| fleet.servers.iter().map(cores).sum())
    }

    /// Records the actual cores of a variant from now on.
    pub(super) fn record_cores(&mut self, variant: u16) {
        let Some(fleet) = self.fleets.get(usize::from(variant)) else {
            return;
        };
        let servers = fleet.servers.iter();
        let servers = servers.filter_map(|server| self.simulated_servers.get(*server as usize));
        let mut resize = Resize {
            at: self.time(),
            variant,
            cores: 0.0,
            slots: 0,
            each: 0.0,
        };
        let mut cores = Cores::ZERO;
        for server in servers {
            cores = cores + server.cores;
            if !self.is_replicated(variant) || server.phase != Phase::Starts {
                resize.slots += server.at_once();
                resize.each = resize.each.max(server.cores.as_f64());
            }
        }
        resize.cores = cores.as_f64();
        self.resizes.push(resize);
    }
}
