//! Simulated resizes. A change takes effect after the server's delay. A variant that had no cores must
//! also become ready first. Only then is the change confirmed. Faults refuse or defer changes. Variants that may have
//! several replicas are in [`super::replicas`].

use weir_api::Cores;
use weir_planner::backends::ActuateError;
use weir_planner::capacity::{Actual, Allocation, Resize, Target};

use super::replicas::{ReplicaChange, ReplicaDue, ReplicaSet};
use super::resize_faults::{ResizeFaults, interrupted};
use crate::nanos;
use crate::scenario::Server;

/// Pending change of cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    /// Index of the variant.
    pub(crate) variant: u16,
    /// Target cores.
    pub(crate) cores: Cores,
    /// Time at which the cores take effect, ns.
    pub(crate) in_force_at: u64,
    /// Time at which the cores are usable, ns.
    pub(crate) ready_at: u64,
    /// Identifier of the change.
    pub(crate) ticket: u32,
}

/// Servers that must become ready before new cores are usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loading {
    /// Nothing, unless the variant had no cores: its server is resized in place.
    InPlace,
    /// Replicas that come with a growth. While they load, a further growth waits.
    Replicas,
    /// Another server, with the old one in service until that time has passed.
    Replacement {
        /// Time until the new one is ready, ns.
        ready_after: u64,
    },
}

/// Cores of all variants, in variant order.
#[derive(Debug)]
pub(crate) struct Kubelet {
    /// Resize delay and readiness time of each variant, ns.
    times: Vec<(u64, u64)>,
    confirmed: Vec<Cores>,
    pending: Vec<Option<Change>>,
    tickets: u32,
    /// Faults of changes.
    pub(crate) faults: ResizeFaults,
    started: Vec<Change>,
    /// Replicas of the variants that may have several.
    replicas: Vec<Option<ReplicaSet>>,
    /// Index of the next server to start.
    next_server: u32,
    due: Vec<ReplicaDue>,
    /// Largest batch of each variant's servers.
    batches_max: Vec<u32>,
    /// Batch that each variant's servers have been sent.
    batches: Vec<Option<u32>>,
    new_batches: Vec<(u16, u32)>,
}

/// Change that was requested.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Requested {
    /// Time at which it is in force, ns.
    pub(crate) at: u64,
    /// Reason why a part of it has to wait.
    pub(crate) blocked: Option<ActuateError>,
}

/// Actual capacity of a variant with one server.
fn one(cores: Cores) -> Actual {
    Actual::certain(Allocation::one(cores))
}

impl Kubelet {
    pub(crate) fn new(servers: &[Server], cores: &[Cores]) -> Kubelet {
        let times = |server: &Server| (nanos(server.resize_delay), nanos(server.readiness));
        let mut next_server = 0;
        let mut replicas = Vec::with_capacity(servers.len());
        for (variant, (server, cores)) in (0..).zip(servers.iter().zip(cores)) {
            let count = server.replicas.unwrap_or(1);
            let set = |count| ReplicaSet::new(variant, times(server), (count, next_server), *cores);
            replicas.push(server.replicas.map(set));
            next_server += count;
        }
        Kubelet {
            times: servers.iter().map(times).collect(),
            replicas,
            next_server,
            due: Vec::new(),
            batches_max: servers.iter().map(|server| server.batch_max).collect(),
            batches: vec![None; servers.len()],
            new_batches: Vec::new(),
            confirmed: cores.to_vec(),
            pending: vec![None; servers.len()],
            tickets: 0,
            faults: ResizeFaults::new(servers.len()),
            started: Vec::new(),
        }
    }

    /// Confirmed cores of each variant.
    pub(crate) fn confirmed(&self) -> &[Cores] {
        &self.confirmed
    }

    /// Actual capacity of each variant; both outcomes of a pending change count.
    pub(crate) fn all(&self) -> impl Iterator<Item = Actual> {
        (0..self.confirmed.len()).map(|variant| self.actual(variant))
    }

    /// Ready replicas of each variant, or its confirmed cores where it is one server.
    pub(crate) fn ready(&self) -> Vec<Allocation> {
        let each = self.confirmed.iter().enumerate();
        let ready = each.map(|(variant, cores)| match self.set(variant) {
            Some(set) => set.actual().ready,
            None => Allocation::one(*cores),
        });
        ready.collect()
    }

    /// Actual capacity of a variant; both outcomes of a pending change count.
    pub(crate) fn actual(&self, variant: usize) -> Actual {
        if let Some(set) = self.set(variant) {
            return set.actual();
        }
        let now = one(self.confirmed.get(variant).copied().unwrap_or_default());
        let pending = self.pending.get(variant).copied().flatten();
        pending.map_or(now, |change| now.or(Target::one(change.cores)))
    }

    /// Requests a change.
    ///
    /// # Errors
    /// The answer if it is refused.
    pub(crate) fn resize(&mut self, now: u64, change: &Resize) -> Result<Requested, ActuateError> {
        let variant = change.variant;
        let has = match self.set(variant) {
            Some(set) => set.actual().ready.cores(),
            None => self.confirmed.get(variant).copied().unwrap_or_default(),
        };
        let grows = change.cores() > has;
        if let Some(refusal) = self.faults.refusal(now, variant, grows) {
            return Err(refusal);
        }
        let delay = self.times.get(variant).map_or(0, |(delay, _)| *delay);
        let (at, blocked) = match self.replicas.get_mut(variant) {
            Some(Some(set)) => {
                let at = self.faults.in_force_at(now, variant, set.delay());
                set.request((now, at), change, &mut self.next_server, &mut self.due)
            }
            _ => {
                let at = self.request(now, variant, change.cores());
                (at.ok_or_else(interrupted)?, None)
            }
        };
        // A kubelet says so once it has seen the change.
        Ok(match self.faults.deferral(now, variant, (delay, at)) {
            Some(deferral) => Requested {
                at: at.min(now.saturating_add(delay)),
                blocked: Some(deferral),
            },
            None => Requested { at, blocked },
        })
    }

    /// Actual capacity after a change whose time has come.
    ///
    /// # Errors
    /// The answer if it was interrupted.
    pub(crate) fn resized(&self, change: &Resize) -> Result<Actual, ActuateError> {
        let (variant, cores) = (change.variant, change.cores());
        if let Some(set) = self.set(variant) {
            return Ok(set.actual());
        }
        let pending = self.pending.get(variant).copied().flatten();
        let comes = pending.is_some_and(|change| change.cores == cores);
        match comes || self.confirmed.get(variant) == Some(&cores) {
            true => Ok(one(cores)),
            false => Err(interrupted()),
        }
    }

    /// Interrupts the changes of a variant, or of all, that are not in force yet: the cores stay as they are.
    pub(crate) fn interrupt(&mut self, now: u64, variant: Option<usize>) {
        let affected = |index: &usize| variant.is_none_or(|variant| variant == *index);
        for index in (0..self.pending.len()).filter(affected) {
            if let Some(pending) = self.pending.get_mut(index) {
                pending.take_if(|change| change.in_force_at > now);
            }
            if let Some(Some(set)) = self.replicas.get_mut(index) {
                set.interrupt(now);
            }
        }
    }

    fn set(&self, variant: usize) -> Option<&ReplicaSet> {
        self.replicas.get(variant)?.as_ref()
    }

    /// Runs `act` on the replicas of a variant that may have several.
    pub(crate) fn with_replicas<R>(
        &mut self,
        variant: u16,
        act: impl FnOnce(&mut ReplicaSet) -> R,
    ) -> Option<R> {
        let set = self.replicas.get_mut(usize::from(variant))?;
        set.as_mut().map(act)
    }

    /// Carries out what is due at a replica; `None` if it has ended.
    pub(crate) fn carry_out(&mut self, now: u64, due: ReplicaDue) -> Option<ReplicaChange> {
        self.with_replicas(due.variant, |set| set.carry_out(now, due.server))?
    }

    /// Sends the servers of a variant their maximum batch; returns the one that they use, if any serves.
    pub(crate) fn send_batch(&mut self, variant: usize, batch: u32) -> Option<u32> {
        let batch = batch.min(*self.batches_max.get(variant)?).max(1);
        let sent = self.batches.get_mut(variant)?;
        if *sent != Some(batch) {
            *sent = Some(batch);
            self.new_batches.push((u16::try_from(variant).ok()?, batch));
        }
        let serves = self.actual(variant).ready != Allocation::NONE;
        serves.then_some(batch)
    }

    /// Takes the batches that servers have been sent since the last call.
    pub(crate) fn take_batches(&mut self) -> Vec<(u16, u32)> {
        std::mem::take(&mut self.new_batches)
    }

    /// Takes the times at which replicas change that were requested since the last call.
    pub(crate) fn take_due(&mut self) -> Vec<ReplicaDue> {
        std::mem::take(&mut self.due)
    }

    /// Time from the request for a variant's new server to its readiness, ns.
    pub(crate) fn ready_after(&self, variant: usize) -> u64 {
        let times = self.times.get(variant);
        times.map_or(0, |(delay, readiness)| delay + readiness)
    }

    /// Whether a change of any variant is pending.
    pub(crate) fn is_changing(&self) -> bool {
        self.pending.iter().any(Option::is_some)
    }

    /// Requests a change of cores and returns the time at which they are usable; `None` if refused. A pending
    /// change to the same cores continues; one to other cores is replaced.
    pub(crate) fn request(&mut self, now: u64, variant: usize, cores: Cores) -> Option<u64> {
        self.request_loading(now, variant, cores, Loading::InPlace)
    }

    /// Requests a change of cores, with what must become ready first.
    pub(crate) fn request_loading(
        &mut self,
        now: u64,
        variant: usize,
        cores: Cores,
        loading: Loading,
    ) -> Option<u64> {
        let (delay, readiness) = *self.times.get(variant)?;
        let has = *self.confirmed.get(variant)?;
        if self.faults.refusal(now, variant, cores > has).is_some() {
            return None;
        }
        let pending = self.pending.get_mut(variant)?;
        match pending {
            Some(change) if change.cores == cores => return Some(change.ready_at),
            None if has == cores => return Some(now),
            Some(change) if loading == Loading::Replicas && change.cores.min(cores) > has => {
                return Some(change.ready_at);
            }
            _ => {}
        }
        let in_force_at = self.faults.in_force_at(now, variant, delay);
        let from_zero = has == Cores::ZERO;
        let loads = cores > has && (from_zero || loading == Loading::Replicas);
        let ready_at = match loading {
            Loading::Replacement { ready_after } => (now + ready_after).max(in_force_at),
            _ if loads => in_force_at + readiness,
            _ => in_force_at,
        };
        let in_force_at = match loading {
            Loading::Replacement { .. } if !from_zero => ready_at,
            _ => in_force_at,
        };
        self.tickets += 1;
        let change = Change {
            variant: u16::try_from(variant).ok()?,
            cores,
            in_force_at,
            ready_at,
            ticket: self.tickets,
        };
        *pending = Some(change);
        self.started.push(change);
        Some(change.ready_at)
    }

    /// Returns the change with that ticket, unless another has replaced it.
    pub(crate) fn pending(&self, variant: u16, ticket: u32) -> Option<Change> {
        let pending = self.pending.get(usize::from(variant)).copied().flatten()?;
        (pending.ticket == ticket).then_some(pending)
    }

    /// Confirms a change whose cores are usable.
    pub(crate) fn confirm(&mut self, change: Change) {
        let variant = usize::from(change.variant);
        if let (Some(pending), Some(confirmed)) = (
            self.pending.get_mut(variant),
            self.confirmed.get_mut(variant),
        ) {
            *pending = None;
            *confirmed = change.cores;
        }
    }

    /// Takes the changes started since the last call.
    pub(crate) fn take_started(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.started)
    }
}

#[cfg(test)]
mod tests;
