//! Servers behind an address, one replica each, as in [`crate::backends::HttpBackends`] and replay's kubelet. A
//! change is actual after a delay; one from no cores serves after a loading time in addition; one to other cores
//! replaces the change in progress and starts anew. An answer that takes longer than the timeout is lost; the change
//! stays a pending write until the server reports it, or for a minute.

use weir_api::Cores;

use super::backend::{Answer, Backend};
use super::case::{Case, Fate, Rng};
use super::play::TIMEOUT_MS;
use crate::backends::PendingWrites;
use crate::capacity::{Actual, Allocation, Resize};
use crate::rollout::MUCH_MORE;

/// Time to live of a pending write, as of [`crate::backends::HttpBackends`], in ms.
const PENDING_WRITE_TTL_MS: u64 = 60_000;

#[derive(Debug, Clone, Default)]
struct Server {
    real: Cores,
    pending: Option<Pending>,
    /// Whether a decrease of the change in progress was requested and did not reach it.
    let_go: bool,
    pending_writes: PendingWrites<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    requested: Cores,
    /// Cores that become actual: not those requested if the change is half done.
    cores: Cores,
    usable_at: u64,
}

#[derive(Debug)]
pub(super) struct Servers {
    servers: Vec<Server>,
    /// Number of servers for which other cores were requested while they loaded or grew.
    pub(super) requested_anew: u32,
}

impl Servers {
    pub(super) fn new(case: &Case) -> Servers {
        let server = |allocation: &Allocation| Server {
            real: allocation.cores(),
            ..Server::default()
        };
        Servers {
            servers: case.start.iter().map(server).collect(),
            requested_anew: 0,
        }
    }

    /// Requests a change; returns it with the time at which it can be used.
    fn request(
        &mut self,
        case: &Case,
        now: u64,
        index: usize,
        requested: Cores,
        by_half: bool,
    ) -> Pending {
        let within = self.used() <= case.budget;
        let (server, variant) = (&mut self.servers[index], &case.variants[index]);
        match server.pending {
            Some(pending) if pending.requested == requested => return pending,
            Some(pending) => {
                let grows = pending.cores > server.real;
                let growth = |cores: Cores| cores.saturating_sub(server.real).as_f64();
                let is_much_more = server.real > Cores::ZERO
                    && growth(requested) >= MUCH_MORE * growth(pending.requested);
                let grows_again = grows && requested > server.real && !server.let_go;
                let is_anew = grows_again && within && !is_much_more;
                self.requested_anew += u32::from(is_anew);
            }
            None => {}
        }
        let real = server.real;
        let cores = match by_half {
            true => Cores::from_millis(real.millis().midpoint(requested.millis())),
            false => requested,
        };
        let loads = real == Cores::ZERO && cores > Cores::ZERO;
        let readiness = if loads { variant.readiness_ms } else { 0 };
        let takes = if real == cores {
            0
        } else {
            variant.delay_ms + readiness
        };
        let pending = Pending {
            requested,
            cores,
            usable_at: now + takes,
        };
        (server.pending, server.let_go) = (Some(pending), false);
        pending
    }
}

impl Backend for Servers {
    fn advance(&mut self, now: u64) {
        for server in &mut self.servers {
            if let Some(pending) = server.pending.take_if(|pending| pending.usable_at <= now) {
                server.real = pending.cores;
            }
        }
    }

    fn actual(&mut self, now: u64) -> Vec<Actual> {
        let of = |server: &mut Server| {
            let actual = Actual::certain(Allocation::one(server.real));
            server.pending_writes.with(actual, now)
        };
        self.servers.iter_mut().map(of).collect()
    }

    fn resize(
        &mut self,
        case: &Case,
        now: u64,
        change: &Resize,
        fate: Fate,
        _: &mut Rng,
    ) -> (u64, Answer) {
        let (index, late) = (change.variant, now + TIMEOUT_MS);
        if fate == Fate::Refused {
            return (
                now,
                Answer::Failed {
                    indeterminate: false,
                },
            );
        }
        let mut confirmed = None;
        if fate != Fate::LostBefore {
            let pending = self.request(case, now, index, change.cores(), fate == Fate::Halfway);
            let pending = match fate {
                Fate::Deferred(ms) => Pending {
                    usable_at: pending.usable_at + ms,
                    ..pending
                },
                _ => pending,
            };
            self.servers[index].pending = Some(pending);
            confirmed =
                Some(pending).filter(|one| one.usable_at <= late && fate != Fate::LostAfter);
        }
        let server = &mut self.servers[index];
        if fate == Fate::LostBefore {
            let less = |pending: Pending| change.cores() < pending.requested;
            server.let_go |= server.pending.is_some_and(less);
        }
        let Some(confirmed) = confirmed else {
            server
                .pending_writes
                .record(change, now + PENDING_WRITE_TTL_MS);
            return (
                late,
                Answer::Failed {
                    indeterminate: true,
                },
            );
        };
        server.pending_writes.clear();
        let actual = Actual::certain(Allocation::one(confirmed.cores));
        (confirmed.usable_at, Answer::Confirmed(actual))
    }

    fn undo(&mut self, _: u64, _: &Case, index: usize, to: Allocation, _: &mut Rng) {
        let server = &mut self.servers[index];
        (server.real, server.pending) = (to.cores(), None);
    }

    fn used(&self) -> Cores {
        let of = |server: &Server| {
            let pending = server.pending.map_or(Cores::ZERO, |pending| pending.cores);
            server.real.max(pending)
        };
        self.servers.iter().map(of).sum()
    }

    fn replicas(&self) -> Vec<u32> {
        let has =
            |server: &Server| u32::from(server.real > Cores::ZERO || server.pending.is_some());
        self.servers.iter().map(has).collect()
    }

    fn serves(&self, index: usize, published: Allocation) -> bool {
        published.cores() <= self.servers[index].real
    }

    fn allocations(&self) -> Vec<Allocation> {
        let of = |server: &Server| Allocation::one(server.real);
        self.servers.iter().map(of).collect()
    }

    fn is_stable(&self) -> bool {
        self.servers.iter().all(|server| server.pending.is_none())
    }

    fn requested_anew(&self) -> u32 {
        self.requested_anew
    }
}
