//! Start and end of faults. Each fault changes the simulation exactly as it would change a real
//! system.

use std::time::Duration;

use super::plane::{DataPlane, Tally};
use super::request::Fate;
use super::scenario::FaultKind;
use super::simulation::witness::Witness;
use super::simulation::{Event, Flight, Place, SimulatedServer, Simulation};
use crate::nanos;

impl<W: Witness> Simulation<'_, W> {
    pub(super) fn fault_begins(&mut self, fault: u32) {
        let Some(what) = self
            .scenario
            .faults
            .get(fault as usize)
            .map(|fault| fault.what)
        else {
            return;
        };
        let now = self.now;
        let lasts = match what {
            FaultKind::PlannerOutage { lasts }
            | FaultKind::ScrapeLoss { lasts }
            | FaultKind::ServerCrash { lasts, .. }
            | FaultKind::ReplicaCrash { lasts, .. }
            | FaultKind::ServerErrors { lasts, .. }
            | FaultKind::ServerSlow { lasts, .. }
            | FaultKind::Resize { lasts, .. } => nanos(lasts),
            _ => 0,
        };
        let until = now.saturating_add(lasts);
        match what {
            FaultKind::ProxyRestart { proxy } => self.restart_proxy(proxy),
            FaultKind::WorkerTrap { proxy, worker } => {
                if let Some(index) = self.worker_index(proxy, worker) {
                    self.restart_worker(index, false);
                }
            }
            FaultKind::PlannerOutage { .. } => self.outage_until = self.outage_until.max(until),
            FaultKind::ScrapeLoss { .. } => {
                self.scrapes_lost_until = self.scrapes_lost_until.max(until);
            }
            FaultKind::ServerCrash { variant, .. } => {
                for server in self.servers_of(variant) {
                    self.crash_server(server);
                    self.event_queue.add(until, Event::ServerRestart { server });
                }
            }
            FaultKind::ReplicaCrash {
                variant, replica, ..
            } => {
                if let Some(server) = self.crash_replica(variant, replica) {
                    self.event_queue.add(until, Event::ServerRestart { server });
                }
            }
            FaultKind::ServerErrors { variant, .. } => {
                self.with_servers(variant, |server, _| server.failing = true);
                self.event_queue.add(until, Event::FaultEnd { fault });
            }
            FaultKind::ServerSlow {
                variant, percent, ..
            } => {
                let factor = f64::from(percent) / 100.0;
                self.with_servers(variant, |server, time| server.slow_by(time, factor));
                self.event_queue.add(until, Event::FaultEnd { fault });
            }
            FaultKind::LostNotification { proxy, worker } => {
                let index = self.worker_index(proxy, worker);
                if let (Some(index), DataPlane::Weir(workers)) = (index, &mut self.plane)
                    && let Some(worker) = workers.get_mut(index as usize)
                {
                    worker.loses_wake = true;
                }
            }
            FaultKind::LostPlan { proxy } => {
                if let Some(loses) = self.loses_plan.get_mut(proxy as usize) {
                    *loses = true;
                }
            }
            FaultKind::Resize { fault, variant, .. } => {
                self.control
                    .with_kubelet(|kubelet| kubelet.faults.begin(fault, variant, until));
            }
            FaultKind::ResizeInterrupted { variant } => {
                self.control
                    .with_kubelet(|kubelet| kubelet.interrupt(now, variant));
            }
        }
    }

    pub(super) fn fault_ends(&mut self, fault: u32) {
        let known = self.scenario.faults.get(fault as usize);
        match known.map(|fault| fault.what) {
            Some(FaultKind::ServerErrors { variant, .. }) => {
                self.with_servers(variant, |server, _| server.failing = false);
            }
            Some(FaultKind::ServerSlow { variant, .. }) => {
                self.with_servers(variant, |server, time| server.slow_by(time, 1.0));
            }
            _ => {}
        }
    }

    /// Servers of a variant that have not ended.
    fn servers_of(&self, variant: usize) -> Vec<u32> {
        let fleet = self.fleets.get(variant);
        fleet.map_or_else(Vec::new, |fleet| fleet.servers().to_vec())
    }

    /// Runs `act` on each server of a variant.
    fn with_servers(&mut self, variant: usize, act: impl Fn(&mut SimulatedServer, Duration)) {
        let time = self.time();
        for server in self.servers_of(variant) {
            if let Some(server) = self.simulated_servers.get_mut(server as usize) {
                act(server, time);
            }
        }
    }

    /// Restarts a proxy: drops its connections, queued and in-flight requests, and its counters.
    fn restart_proxy(&mut self, proxy: u32) {
        let workers: Vec<u32> = match &self.plane {
            DataPlane::Weir(workers) => {
                let of_it = (0..)
                    .zip(workers)
                    .filter(|(_, worker)| worker.proxy == proxy);
                of_it.map(|(index, _)| index).collect()
            }
            DataPlane::Fifo(_) => vec![proxy],
        };
        if let DataPlane::Weir(known) = &self.plane {
            let of_it = known.iter().filter(|worker| worker.proxy == proxy);
            of_it.for_each(|worker| worker.forget_slot_table());
        }
        for worker in workers {
            self.restart_worker(worker, true);
        }
        if let Some(counted) = self.counted.get_mut(proxy as usize) {
            *counted = Tally::NEW;
        }
    }

    /// Restarts a worker's VM: its queued requests are lost. Its in-flight requests are answered 503, or lost
    /// if the whole proxy restarts.
    fn restart_worker(&mut self, index: u32, with_proxy: bool) {
        for request in 0..self.flights.len() as u32 {
            let Some(flight) = self.flights.get(request as usize).copied() else {
                continue;
            };
            if flight.worker != index {
                continue;
            }
            match flight.place {
                Place::Held => self.end(request, Fate::Lost, self.now),
                Place::Reading => self.lose_answer(request, flight.attempt),
                Place::InFlight if with_proxy => self.lose(request, flight.attempt),
                Place::InFlight if matches!(self.plane, DataPlane::Weir(_)) => {
                    self.break_flight(request, flight.attempt);
                }
                _ => {}
            }
        }
        if let DataPlane::Weir(workers) = &mut self.plane
            && let Some(worker) = workers.get_mut(index as usize)
        {
            worker.restart();
            let at = worker.start(self.now);
            self.event_queue.add(at, Event::Tick { worker: index });
            self.fetch_plan(index);
            self.renew(index);
        }
    }

    /// Breaks all connections to a server. The proxies notice one hop later; answers sent before arrive
    /// before.
    pub(super) fn break_connections(&mut self, server: u32) {
        let hop = self
            .simulated_servers
            .get(server as usize)
            .map_or(0, |server| server.hop);
        for request in 0..self.flights.len() as u32 {
            let flight = self.flights.get(request as usize).copied();
            let in_flight = flight.filter(|f| f.place == Place::InFlight && f.server == server);
            match in_flight {
                Some(Flight { attempt, .. }) if hop > 0 => {
                    let at = self.now.saturating_add(hop);
                    self.event_queue
                        .add(at, Event::ConnectionFailed { request, attempt });
                }
                Some(flight) => self.broken(request, flight.attempt),
                None => {}
            }
        }
    }

    fn worker_index(&self, proxy: u32, worker: u32) -> Option<u32> {
        let DataPlane::Weir(workers) = &self.plane else {
            return None;
        };
        let mut of_proxy = (0..).zip(workers).filter(|(_, known)| known.proxy == proxy);
        of_proxy.nth(worker as usize).map(|(index, _)| index)
    }
}
