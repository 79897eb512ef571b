//! Crashes of servers, and their return.

use std::time::Duration;

use super::Simulation;
use super::event_queue::Event;
use super::server::Phase;
use super::witness::Witness;
use crate::nanos;
use crate::scenario::ReplicaChoice;

/// Time from the crash of a replica until proxies send it no more requests: about as long as a kubelet takes to notice
/// the end of a container.
const CRASH_NOTICE: Duration = Duration::from_secs(1);

impl<W: Witness> Simulation<'_, W> {
    /// Crashes a replica; returns its server, if there is one.
    pub(crate) fn crash_replica(&mut self, variant: usize, replica: ReplicaChoice) -> Option<u32> {
        let fleet = self.fleets.get(variant)?;
        let count = u32::try_from(fleet.listed().len()).ok()?;
        let place = match replica {
            ReplicaChoice::Place(place) => place.min(count.checked_sub(1)?),
            ReplicaChoice::Random(draw) => draw.checked_rem(count)?,
        };
        let server = *fleet.listed().get(place as usize)?;
        self.crash_server(server);
        Some(server)
    }

    /// Crashes a server. Proxies notice a replica's after a while, and then avoid it.
    pub(crate) fn crash_server(&mut self, server: u32) {
        let time = self.time();
        let Some(known) = self.simulated_servers.get_mut(server as usize) else {
            return;
        };
        known.crash(time);
        let variant = known.variant;
        self.break_connections(server);
        if self.is_replicated(variant) {
            self.control.with_kubelet(|kubelet| {
                kubelet.with_replicas(variant, |set| set.crashed(server));
            });
            let at = self.now + nanos(CRASH_NOTICE);
            self.event_queue.add(at, Event::CrashNotice { server });
            self.end_if_drained(server);
        }
    }

    /// Takes a crashed replica from the proxies' choice, unless it is up again.
    pub(super) fn notice_crash(&mut self, server: u32) {
        let known = self.simulated_servers.get(server as usize);
        if let Some(known) = known.filter(|known| !known.up)
            && let Some(fleet) = self.fleets.get_mut(usize::from(known.variant))
        {
            fleet.unlist(server);
        }
    }

    /// Starts a crashed server again. A replica then loads until it is ready.
    pub(crate) fn restart_server(&mut self, server: u32) {
        let Some(known) = self.simulated_servers.get(server as usize) else {
            return;
        };
        let variant = known.variant;
        if !self.is_replicated(variant) {
            if let Some(known) = self.simulated_servers.get_mut(server as usize) {
                known.up = true;
            }
            return;
        }
        let readiness = self.scenario.variants.get(usize::from(variant));
        let readiness = readiness.map_or(0, |known| nanos(known.readiness));
        self.event_queue
            .add(self.now + readiness, Event::ReplicaRecovered { server });
    }

    /// Lets proxies choose a crashed replica again that is ready, unless it has ended.
    pub(super) fn recover(&mut self, server: u32) {
        let time = self.time();
        let known = self.simulated_servers.get_mut(server as usize);
        let Some(known) =
            known.filter(|known| matches!(known.phase, Phase::Starts | Phase::Serves))
        else {
            return;
        };
        let variant = known.variant;
        let is_new = known.phase == Phase::Starts;
        known.up = true;
        known.phase = Phase::Serves;
        known.use_cores(time);
        if let Some(fleet) = self.fleets.get_mut(usize::from(variant)) {
            fleet.list(server);
        }
        self.control.with_kubelet(|kubelet| {
            kubelet.with_replicas(variant, |set| set.recovered(server));
        });
        if is_new {
            self.record_cores(variant);
        }
    }
}
