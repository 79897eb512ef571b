//! Load balancing among the servers of one variant.

use std::cmp::Ordering;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::scenario::LoadBalancing;
use crate::simulation::Simulation;
use crate::simulation::witness::Witness;

/// Index of no server.
pub(in crate::simulation) const NO_SERVER: u32 = u32::MAX;

/// Separate random stream for the choice of servers.
pub(in crate::simulation) fn balance(seed: u64) -> ChaCha8Rng {
    const STREAM: u64 = u64::from_be_bytes(*b"balance ");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(STREAM);
    random
}

impl<W: Witness> Simulation<'_, W> {
    /// Chooses a server of the variant for a worker, and counts the request there; [`NO_SERVER`] if none serves.
    pub(in crate::simulation) fn choose_server(&mut self, worker: u32, variant: u16) -> u32 {
        let proxy = self.proxy_of(worker);
        let Some(fleet) = self.fleets.get_mut(usize::from(variant)) else {
            return NO_SERVER;
        };
        let active = |place: usize| {
            let server = self
                .simulated_servers
                .get(*fleet.listed.get(place)? as usize);
            server?.active.get(proxy).copied()
        };
        let count = fleet.listed.len();
        let known = self.scenario.variants.get(usize::from(variant));
        let policy = self.scenario.proxies.load_balancing;
        let policy = policy.of_batches(known.map_or(1, |known| known.batch_max));
        let place = match (count, policy) {
            (0, _) => return NO_SERVER,
            (1, _) => 0,
            (_, LoadBalancing::FullScan) => {
                // Of those that tie each has the same chance, as in Envoy.
                let (mut best, mut ties) = (0, 1_u32);
                for place in 1..count {
                    match active(place).cmp(&active(best)) {
                        Ordering::Greater => {}
                        Ordering::Less => (best, ties) = (place, 1),
                        Ordering::Equal => {
                            ties += 1;
                            if self.balance.random_range(0..ties) == 0 {
                                best = place;
                            }
                        }
                    }
                }
                best
            }
            (_, LoadBalancing::LeastRequest) => {
                let mut draw = || self.balance.random_range(0..count);
                let (first, second) = (draw(), draw());
                if active(second) < active(first) {
                    second
                } else {
                    first
                }
            }
            (_, LoadBalancing::RoundRobin) => {
                let position = fleet.positions.get_mut(worker as usize);
                position.map_or(0, |position| {
                    let place = *position as usize % count;
                    *position = position.wrapping_add(1);
                    place
                })
            }
        };
        let server = fleet.listed.get(place).copied().unwrap_or(NO_SERVER);
        let known = self.simulated_servers.get_mut(server as usize);
        if let Some(active) = known.and_then(|known| known.active.get_mut(proxy)) {
            *active += 1;
        }
        server
    }

    /// Records that a request of a worker has left its server.
    pub(in crate::simulation) fn leave_server(&mut self, worker: u32, server: u32) {
        let proxy = self.proxy_of(worker);
        let known = self.simulated_servers.get_mut(server as usize);
        if let Some(active) = known.and_then(|known| known.active.get_mut(proxy)) {
            *active = active.saturating_sub(1);
        }
        self.end_if_drained(server);
    }
}
