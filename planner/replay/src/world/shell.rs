//! What the host shell is to an engine: tells it what has happened, obeys its verdicts on those it
//! held, and sets its timer.

use weir_filter::coordination::Notification;
use weir_filter::engine::{End, StreamId};
use weir_filter::verdict::Verdict;

use super::agenda::What;
use super::flight::Place;
use super::witness::Witness;
use super::{World, nanos};
use crate::plane::{DataPlane, Worker};

impl<W: Witness> World<'_, W> {
    /// A worker's timer fires.
    pub(super) fn tick(&mut self, worker: u32) {
        let mut fired = false;
        self.tell(worker, |worker, now, verdicts| {
            fired = worker.on_tick(now, verdicts)
        });
        if fired {
            self.obey(worker, false);
            self.probe(worker);
            self.arm(worker);
        }
    }

    /// A worker was rung because a variant has begun or ceased to fail.
    pub(super) fn news(&mut self, worker: u32) {
        self.tell(worker, |worker, now, verdicts| {
            worker.on_news(now, verdicts);
        });
        self.obey(worker, false);
        self.probe(worker);
        self.arm(worker);
    }

    /// A worker was rung.
    pub(super) fn ring(&mut self, worker: u32) {
        self.tell(worker, |worker, now, verdicts| {
            worker.on_ring(now, verdicts);
        });
        self.obey(worker, false);
        self.arm(worker);
    }

    /// Rings go out to the other workers of its proxy.
    pub(super) fn send_rings(&mut self, index: u32) {
        let DataPlane::Weir(workers) = &mut self.plane else {
            return;
        };
        let rung = workers.get_mut(index as usize).map(Worker::take_rings);
        let Some((proxy, entries)) = rung.filter(|(_, entries)| !entries.is_empty()) else {
            return;
        };
        let at = self.now + nanos(self.scenario.proxies.ring_delay);
        for (worker, known) in (0..).zip(workers.iter()) {
            for (entry, why) in &entries {
                if known.proxy != proxy || known.entry != Some(*entry) {
                    continue;
                }
                let rung = match why {
                    Notification::Health => What::News { worker },
                    Notification::Slot | Notification::Plan => What::Ring { worker },
                };
                self.agenda.add(at, rung);
            }
        }
    }

    /// A stream has ended at its worker.
    pub(super) fn on_end(&mut self, worker: u32, stream: StreamId, end: End) {
        self.tell(worker, |worker, now, verdicts| {
            worker.on_end(stream, end, now, verdicts)
        });
        self.obey(worker, true);
        self.arm(worker);
    }

    /// Tells a worker something; its verdicts are there to be obeyed.
    pub(super) fn tell(
        &mut self,
        index: u32,
        tell: impl FnOnce(&mut Worker, u64, &mut Vec<(StreamId, Verdict)>),
    ) {
        let DataPlane::Weir(workers) = &mut self.plane else {
            return;
        };
        if let Some(worker) = workers.get_mut(index as usize) {
            tell(worker, self.now, &mut self.verdicts);
            if let Some(counted) = self.counted.get_mut(worker.proxy as usize) {
                worker.count_into(counted);
            }
            self.witness
                .told(index as usize, worker, &self.verdicts, self.now);
        }
        self.send_rings(index);
    }

    /// Carries out verdicts on requests that are held or in flight; refusals wait for the next tick where the call they
    /// come from is another stream's end.
    pub(super) fn obey(&mut self, index: u32, owes_refusals: bool) {
        let mut verdicts = std::mem::take(&mut self.verdicts);
        for (stream, verdict) in verdicts.drain(..) {
            let place = self.flights.get(stream as usize).map(|flight| flight.place);
            // What is in flight can only be ended: its deadline has passed.
            let ends = place == Some(Place::InFlight) && matches!(verdict, Verdict::Reject(_));
            if place != Some(Place::Held) && !ends {
                continue;
            }
            match (&verdict, &mut self.plane) {
                (Verdict::Reject(refusal), DataPlane::Weir(workers)) if owes_refusals => {
                    if let Some(worker) = workers.get_mut(index as usize) {
                        worker.owe(stream, *refusal);
                    }
                }
                _ => self.carry_out(stream, &verdict),
            }
        }
        self.verdicts = verdicts;
    }

    pub(super) fn arm(&mut self, index: u32) {
        let DataPlane::Weir(workers) = &mut self.plane else {
            return;
        };
        if let Some(at) = workers
            .get_mut(index as usize)
            .and_then(|worker| worker.arm(self.now))
        {
            self.agenda.add(at, What::Tick { worker: index });
        }
    }

    pub(super) fn wake_site(&mut self, variant: u16) {
        let site = self.sites.get_mut(usize::from(variant));
        if let Some(at) = site.and_then(|site| site.wake(self.now)) {
            self.agenda.add(at, What::Server { variant });
        }
    }

    /// A worker has a new engine.
    pub(crate) fn renew(&mut self, worker: u32) {
        self.witness.anew(worker as usize);
    }
}
