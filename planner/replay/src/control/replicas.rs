//! Replicas of a variant that may have several, as a Kubernetes workload runs them: new ones load before they are
//! ready, serving ones are resized in place, and a scale-down drains those that loaded last. A change takes effect
//! after the resize delay. Ending replicas are reserved until they have ended.

use weir_api::Cores;
use weir_planner::backends::{ActuateError, BackendError, Reason};
use weir_planner::capacity::{Actual, Allocation, Resize};

/// Time at which something changes at a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplicaDue {
    /// Index of its variant.
    pub(crate) variant: u16,
    /// Index of its server.
    pub(crate) server: u32,
    /// Time, ns.
    pub(crate) at: u64,
}

/// Changes of a replica that are due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReplicaChange {
    /// Cores from now on.
    pub(crate) cores: Option<Cores>,
    /// Whether it is ready from now on.
    pub(crate) is_ready: bool,
    /// Whether it gets no new requests from now on, and ends with those it has.
    pub(crate) drains: bool,
}

/// Replicas of a variant.
#[derive(Debug)]
pub(crate) struct ReplicaSet {
    variant: u16,
    /// Time from the request for a change to its effect, ns.
    delay: u64,
    /// Time from the start of a replica to its first answer, ns.
    readiness: u64,
    /// Existing and requested replicas, in the order of their start.
    replicas: Vec<Replica>,
}

#[derive(Debug, Clone, Copy)]
struct Replica {
    server: u32,
    /// Cores in force; none until it exists.
    cores: Cores,
    /// Requested cores, and the time from which they are in force, ns.
    pending: Option<(Cores, u64)>,
    is_ready: bool,
    /// Whether it has been ready before.
    has_served: bool,
    /// Time at which it is ready, ns; `None` if it is, or is down.
    ready_at: Option<u64>,
    /// Time from which it drains, ns.
    ends_at: Option<u64>,
    drains: bool,
}

impl ReplicaSet {
    /// Creates `count` ready replicas with those cores each; their servers count from `server`.
    pub(crate) fn new(
        variant: u16,
        (delay, readiness): (u64, u64),
        (count, server): (u32, u32),
        cores: Cores,
    ) -> ReplicaSet {
        let replica = |server| Replica {
            server,
            cores,
            pending: None,
            is_ready: true,
            has_served: true,
            ready_at: None,
            ends_at: None,
            drains: false,
        };
        ReplicaSet {
            variant,
            // Never at once, so that a change is carried out before it is answered.
            delay: delay.max(1),
            readiness,
            replicas: (server..server + count).map(replica).collect(),
        }
    }

    /// Time from the request for a change to its effect, ns.
    pub(crate) fn delay(&self) -> u64 {
        self.delay
    }

    /// Interrupts the changes of existing replicas' cores that are not in force yet.
    pub(crate) fn interrupt(&mut self, now: u64) {
        let staying = self.replicas.iter_mut();
        for replica in staying.filter(|replica| replica.cores > Cores::ZERO) {
            replica.pending.take_if(|(_, at)| *at > now);
        }
    }

    /// Actual capacity, as the watches of a workload's pods show it.
    pub(crate) fn actual(&self) -> Actual {
        let (ready, other): (Vec<Replica>, Vec<Replica>) =
            self.staying().partition(|replica| replica.is_ready);
        Actual {
            ready: smallest(&ready, Replica::certain),
            starting: smallest(&other, Replica::requested),
            reserved: self.reserved(),
            replicas_reserved: self.replicas.len() as u32,
        }
    }

    /// Requests a change, which is in force at `at`. Adds the times at which replicas change to `due`;
    /// new servers count from `next_server`. Returns the time at which the change is in force, or the part of it that
    /// has to wait.
    pub(crate) fn request(
        &mut self,
        (now, at): (u64, u64),
        change: &Resize,
        next_server: &mut u32,
        due: &mut Vec<ReplicaDue>,
    ) -> (u64, Option<ActuateError>) {
        let before = due.len();
        let most = change.cores();
        let staying = self.staying().count() as u32;
        let mut waiting = 0;
        if change.target.replicas < staying {
            self.remove(staying - change.target.replicas, at, due);
        } else {
            let more = change.target.replicas - staying;
            let free = most.saturating_sub(self.reserved()).millis();
            let fit = free.checked_div(change.target.start.millis());
            let count = self.replicas.len() as u32;
            let limit = match change.limited {
                true => change.target.replicas.saturating_sub(count),
                false => u32::MAX,
            };
            let new = more.min(fit.unwrap_or(0)).min(limit);
            waiting = more - new;
            for _ in 0..new {
                self.add(*next_server, change.target.start, at, due);
                *next_server += 1;
            }
        }
        let grows_later = self.resize(change, at, due);
        let in_force = match due.len() > before {
            true => at,
            false => self.pending_until().unwrap_or(now),
        };
        let blocked = (waiting > 0 || grows_later).then(|| {
            ActuateError::Backend(BackendError {
                reason: Reason::Waiting,
                message: format!("{waiting} replicas and all growth wait until ending ones have freed their cores"),
                indeterminate: true,
            })
        });
        (in_force, blocked)
    }

    /// Carries out what is due at a replica; `None` if it has ended.
    pub(crate) fn carry_out(&mut self, now: u64, server: u32) -> Option<ReplicaChange> {
        let replica = self.replica(server)?;
        let mut change = ReplicaChange::default();
        if let Some((cores, _)) = replica.pending.take_if(|(_, at)| *at <= now) {
            replica.cores = cores;
            change.cores = Some(cores);
        }
        let ends = replica.ends_at.is_some_and(|at| at <= now);
        if ends && !replica.drains {
            replica.drains = true;
            replica.is_ready = false;
            change.drains = true;
        }
        if replica.ends_at.is_none() && replica.ready_at.take_if(|at| *at <= now).is_some() {
            replica.is_ready = true;
            replica.has_served = true;
            change.is_ready = true;
        }
        Some(change)
    }

    /// Records that a replica has crashed.
    pub(crate) fn crashed(&mut self, server: u32) {
        if let Some(replica) = self.replica(server) {
            replica.is_ready = false;
            replica.ready_at = None;
        }
    }

    /// Records that a crashed replica is ready again.
    pub(crate) fn recovered(&mut self, server: u32) {
        if let Some(replica) = self.replica(server) {
            replica.is_ready = replica.ends_at.is_none();
        }
    }

    /// Removes a replica that has ended.
    pub(crate) fn ended(&mut self, server: u32) {
        self.replicas.retain(|replica| replica.server != server);
    }

    fn replica(&mut self, server: u32) -> Option<&mut Replica> {
        let mut each = self.replicas.iter_mut();
        each.find(|replica| replica.server == server)
    }

    fn staying(&self) -> impl Iterator<Item = Replica> {
        let each = self.replicas.iter().copied();
        each.filter(|replica| replica.ends_at.is_none())
    }

    fn reserved(&self) -> Cores {
        self.replicas.iter().map(Replica::reserved).sum()
    }

    fn pending_until(&self) -> Option<u64> {
        let pending = self.staying().filter_map(|replica| replica.pending);
        pending.map(|(_, at)| at).max()
    }

    /// Starts a replica.
    fn add(&mut self, server: u32, cores: Cores, at: u64, due: &mut Vec<ReplicaDue>) {
        let ready_at = at.saturating_add(self.readiness);
        self.replicas.push(Replica {
            server,
            cores: Cores::ZERO,
            pending: Some((cores, at)),
            is_ready: false,
            has_served: false,
            ready_at: Some(ready_at),
            ends_at: None,
            drains: false,
        });
        let variant = self.variant;
        let times = [at, ready_at].into_iter().take(match ready_at > at {
            true => 2,
            false => 1,
        });
        due.extend(times.map(|at| ReplicaDue {
            variant,
            server,
            at,
        }));
    }

    /// Ends `count` replicas: those that do not serve before those that do, the newest first.
    fn remove(&mut self, count: u32, at: u64, due: &mut Vec<ReplicaDue>) {
        let variant = self.variant;
        for _ in 0..count {
            let staying = self.replicas.iter_mut().enumerate();
            let staying = staying.filter(|(_, replica)| replica.ends_at.is_none());
            let last = staying.max_by_key(|(place, replica)| (!replica.is_ready, *place));
            let Some((_, last)) = last else {
                return;
            };
            last.ends_at = Some(at);
            last.ready_at = None;
            if last.cores == Cores::ZERO {
                last.pending = None;
            }
            due.push(ReplicaDue {
                variant,
                server: last.server,
                at,
            });
        }
    }

    /// Resizes the staying replicas in place, as far as the cores of the change cover it; returns whether any has to
    /// wait.
    fn resize(&mut self, change: &Resize, at: u64, due: &mut Vec<ReplicaDue>) -> bool {
        let (variant, most) = (self.variant, change.cores());
        let mut reserved = self.reserved();
        let mut waits = false;
        let staying = self.replicas.iter_mut();
        for replica in staying.filter(|replica| replica.ends_at.is_none()) {
            let desired = replica.target(change);
            if desired == replica.requested() || desired == Cores::ZERO {
                continue;
            }
            let then = reserved.saturating_sub(replica.reserved()) + desired.max(replica.cores);
            if then > reserved && then > most {
                waits = true;
                continue;
            }
            reserved = then;
            replica.pending = Some((desired, at));
            due.push(ReplicaDue {
                variant,
                server: replica.server,
                at,
            });
        }
        waits
    }
}

impl Replica {
    /// Cores that it has whether or not its pending change is in force.
    fn certain(&self) -> Cores {
        let pending = self.pending.map_or(self.cores, |(cores, _)| cores);
        self.cores.min(pending)
    }

    fn requested(&self) -> Cores {
        self.pending.map_or(self.cores, |(cores, _)| cores)
    }

    fn reserved(&self) -> Cores {
        self.cores.max(self.requested())
    }

    /// Cores for it. One that has served and is down keeps its own: with those of a starting one it would come back
    /// too small.
    fn target(&self, change: &Resize) -> Cores {
        let (each, start) = (change.target.each, change.target.start);
        match self.is_ready || start == Cores::ZERO {
            true => each,
            false if self.has_served => self.requested().min(each),
            false => start,
        }
    }
}

/// Number of replicas, and the minimum cores of one.
fn smallest(replicas: &[Replica], cores: fn(&Replica) -> Cores) -> Allocation {
    let min = replicas.iter().map(cores).min();
    Allocation::new(replicas.len() as u32, min.unwrap_or_default())
}

#[cfg(test)]
mod tests;
