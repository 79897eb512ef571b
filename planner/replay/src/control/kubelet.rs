//! Simulated resizes. A change takes effect after the server's delay. A variant that had no cores must
//! also become ready first. Only then is the change confirmed. Faults refuse or defer changes.

use weir_api::Cores;

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

/// What must become ready before new cores are usable.
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
    /// End of the fault that refuses changes, ns.
    pub(crate) refused_until: u64,
    /// End of the fault that defers changes, ns.
    pub(crate) deferred_until: u64,
    started: Vec<Change>,
}

impl Kubelet {
    pub(crate) fn new(servers: &[Server], cores: &[Cores]) -> Kubelet {
        let times = |server: &Server| (nanos(server.resize_delay), nanos(server.readiness));
        Kubelet {
            times: servers.iter().map(times).collect(),
            confirmed: cores.to_vec(),
            pending: vec![None; servers.len()],
            tickets: 0,
            refused_until: 0,
            deferred_until: 0,
            started: Vec::new(),
        }
    }

    /// Confirmed cores of each variant.
    pub(crate) fn confirmed(&self) -> &[Cores] {
        &self.confirmed
    }

    /// Confirmed and pending cores of each variant.
    pub(crate) fn known(&self) -> impl Iterator<Item = (Cores, Option<Cores>)> {
        let pending = self.pending.iter();
        let pending = pending.map(|change| change.map(|change| change.cores));
        self.confirmed.iter().copied().zip(pending)
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
        if now < self.refused_until {
            return None;
        }
        let (delay, readiness) = *self.times.get(variant)?;
        let has = *self.confirmed.get(variant)?;
        let pending = self.pending.get_mut(variant)?;
        match pending {
            Some(change) if change.cores == cores => return Some(change.ready_at),
            None if has == cores => return Some(now),
            Some(change) if loading == Loading::Replicas && change.cores.min(cores) > has => {
                return Some(change.ready_at);
            }
            _ => {}
        }
        let in_force_at = (now + delay).max(self.deferred_until);
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
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::simulation::tests::{ms, server};

    fn kubelet() -> Kubelet {
        let mut server = server("a", 10.0, 0.0);
        (server.resize_delay, server.readiness) = (ms(2), ms(5));
        Kubelet::new(&[server], &[Cores::ZERO])
    }

    #[test]
    fn change_continues_until_replaced_by_another() {
        let mut kubelet = kubelet();
        let (two, three) = (Cores::whole(2), Cores::whole(3));
        // 2 ms for the resize, and 5 more to load.
        assert_eq!(kubelet.request(0, 0, two), Some(7_000_000));
        assert_eq!(kubelet.request(1_000_000, 0, two), Some(7_000_000));
        assert_eq!(kubelet.request(1_000_000, 0, three), Some(8_000_000));
        let started = kubelet.take_started();
        assert_eq!(started.len(), 2, "the same change was not begun twice");
        assert_eq!(kubelet.pending(0, started[0].ticket), None);
        let change = kubelet.pending(0, started[1].ticket).unwrap();
        assert_eq!(kubelet.confirmed(), [Cores::ZERO]);
        kubelet.confirm(change);
        assert_eq!(kubelet.confirmed(), [three]);
        assert_eq!(kubelet.request(9_000_000, 0, three), Some(9_000_000));
        // The model is loaded already.
        assert_eq!(kubelet.request(9_000_000, 0, two), Some(11_000_000));
    }

    #[test]
    fn replicas_that_load_continue_until_fewer_suffice() {
        let mut kubelet = kubelet();
        let grow = |kubelet: &mut Kubelet, now, cores| {
            kubelet.request_loading(now, 0, Cores::whole(cores), Loading::Replicas)
        };
        assert_eq!(grow(&mut kubelet, 0, 2), Some(7_000_000));
        let change = kubelet.take_started()[0];
        kubelet.confirm(change);
        // A third replica loads too; the fourth waits for it.
        assert_eq!(grow(&mut kubelet, 10_000_000, 3), Some(17_000_000));
        assert_eq!(grow(&mut kubelet, 11_000_000, 4), Some(17_000_000));
        assert_eq!(grow(&mut kubelet, 12_000_000, 1), Some(14_000_000));
        assert_eq!(kubelet.take_started().len(), 2);
    }

    #[test]
    fn replaced_server_serves_until_the_new_one_is_ready() {
        let mut kubelet = kubelet();
        let loading = Loading::Replacement {
            ready_after: kubelet.ready_after(0),
        };
        let two = Cores::whole(2);
        assert_eq!(kubelet.request_loading(0, 0, two, loading), Some(7_000_000));
        let change = kubelet.take_started()[0];
        assert_eq!(change.in_force_at, 2_000_000, "nothing is replaced");
        kubelet.confirm(change);
        let one = Cores::whole(1);
        assert_eq!(kubelet.request_loading(0, 0, one, loading), Some(7_000_000));
        assert!(kubelet.is_changing());
        assert_eq!(kubelet.take_started()[0].in_force_at, 7_000_000);
    }

    #[test]
    fn changes_are_refused_and_deferred_during_faults() {
        let mut kubelet = kubelet();
        kubelet.refused_until = 10;
        assert_eq!(kubelet.request(9, 0, Cores::whole(1)), None);
        kubelet.deferred_until = crate::nanos(Duration::from_secs(1));
        assert_eq!(kubelet.request(10, 0, Cores::whole(1)), Some(1_005_000_000));
    }
}
