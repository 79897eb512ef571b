//! Counterpart of the filter's host shell: passes events to an engine, carries out its verdicts and sets
//! its timer.

use weir_filter::coordination::Notification;
use weir_filter::engine::{End, StreamId};
use weir_filter::verdict::Verdict;

use super::Simulation;
use super::event_queue::Event;
use super::flight::Place;
use super::witness::Witness;
use crate::nanos;
use crate::plane::{DataPlane, Worker};

impl<W: Witness> Simulation<'_, W> {
    /// Handles a worker's timer.
    pub(super) fn tick(&mut self, worker: u32) {
        let mut fired = false;
        self.tell(worker, |worker, now, verdicts| {
            fired = worker.on_tick(now, verdicts)
        });
        if fired {
            self.carry_out_verdicts(worker, false);
            self.probe(worker);
            self.arm(worker);
        }
    }

    /// Handles a notification that a variant has started or stopped failing.
    pub(super) fn news(&mut self, worker: u32) {
        self.tell(worker, |worker, now, verdicts| {
            worker.on_news(now, verdicts);
        });
        self.carry_out_verdicts(worker, false);
        self.probe(worker);
        self.arm(worker);
    }

    /// Handles a notification.
    pub(super) fn notify(&mut self, worker: u32) {
        self.tell(worker, |worker, now, verdicts| {
            worker.on_notification(now, verdicts);
        });
        self.carry_out_verdicts(worker, false);
        self.arm(worker);
    }

    /// Delivers a worker's notifications to the other workers of its proxy.
    pub(super) fn send_notifications(&mut self, index: u32) {
        let DataPlane::Weir(workers) = &mut self.plane else {
            return;
        };
        let Some(worker) = workers.get_mut(index as usize) else {
            return;
        };
        let proxy = worker.take_notifications_out(&mut self.notified);
        if self.notified.is_empty() {
            return;
        }
        let at = self.now + nanos(self.scenario.proxies.notify_delay);
        for (worker, known) in (0..).zip(workers.iter()) {
            for (entry, why) in &self.notified {
                if known.proxy != proxy || known.entry != Some(*entry) {
                    continue;
                }
                let event = match why {
                    Notification::Health => Event::FailureNotice { worker },
                    Notification::Slot | Notification::Plan => Event::Notify { worker },
                };
                self.event_queue.add(at, event);
            }
        }
    }

    /// Handles the end of a stream at its worker.
    pub(super) fn on_end(&mut self, worker: u32, stream: StreamId, end: End) {
        self.tell(worker, |worker, now, verdicts| {
            worker.on_end(stream, end, now, verdicts)
        });
        self.carry_out_verdicts(worker, true);
        self.arm(worker);
    }

    /// Calls a worker with an event and collects its verdicts.
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
                .on_verdicts(index as usize, worker, &self.verdicts, self.now);
        }
        self.send_notifications(index);
    }

    /// Carries out verdicts on queued and in-flight requests. Rejections wait for the next tick if the call
    /// was another stream's end.
    pub(super) fn carry_out_verdicts(&mut self, index: u32, owes_refusals: bool) {
        if self.verdicts.is_empty() {
            return;
        }
        let mut verdicts = std::mem::take(&mut self.verdicts);
        for (stream, verdict) in verdicts.drain(..) {
            let place = self.flights.get(stream as usize).map(|flight| flight.place);
            // A request in flight can only be ended: its deadline has passed.
            let ends = place == Some(Place::InFlight) && matches!(verdict, Verdict::Reject(_));
            if place != Some(Place::Held) && !ends {
                continue;
            }
            match (&verdict, &mut self.plane) {
                (Verdict::Reject(refusal), DataPlane::Weir(workers)) if owes_refusals => {
                    if let Some(worker) = workers.get_mut(index as usize) {
                        worker.owe(stream, refusal.clone());
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
            self.event_queue.add(at, Event::Tick { worker: index });
        }
    }

    /// Gives a worker a new engine.
    pub(crate) fn renew(&mut self, worker: u32) {
        self.witness.on_new_engine(worker as usize);
    }
}
