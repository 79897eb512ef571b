//! Lifecycle of a request, from the proxy's verdict to the single outcome that its client sees.

use std::time::Duration;

use weir_filter::engine::End;
use weir_filter::health::HealthSignal;
use weir_filter::reason::Reason;
use weir_filter::verdict::{Refusal, Verdict};

use super::Simulation;
use super::event_queue::Event;
use super::flight::Place;
use super::server::Job;
use super::witness::Witness;
use crate::nanos;
use crate::plane::DataPlane;
use crate::request::{Fate, Request};
use crate::scenario::Scenario;

/// First retry delay of a client after a 503; it doubles with each retry.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Maximum retry delay, as a multiple of the first.
const RETRY_PAUSES_MAX: u32 = 64;
/// Label of a rejection by an open circuit breaker, which is Envoy's, not Weir's.
pub(super) const OVERFLOW: &str = "overflow";
/// Label of a route's timeout without Weir.
const TIMEOUT: &str = "timeout";

impl<W: Witness> Simulation<'_, W> {
    pub(super) fn carry_out(&mut self, request: u32, verdict: &Verdict) {
        match verdict {
            Verdict::Forward(dispatch) => {
                if let Some(flight) = self.flights.get_mut(request as usize) {
                    flight.deadline_ms = dispatch.deadline.as_ms();
                }
                let variant = self.names.get(&*dispatch.name).copied().unwrap_or(u16::MAX);
                // The engine ends it.
                self.forward(request, variant, Duration::MAX);
            }
            Verdict::Reject(refusal) => {
                let Refusal {
                    reason,
                    retry_after_s,
                    ..
                } = *refusal;
                self.refuse(request, reason.label(), reason.status(), retry_after_s);
            }
            Verdict::Pass | Verdict::PassTo(_) => {
                let reason = Reason::NoPlan;
                self.refuse(request, reason.label(), reason.status(), None);
            }
            Verdict::Park => {}
        }
    }

    pub(super) fn forward(&mut self, request: u32, variant: u16, timeout: Duration) {
        let (now, time) = (self.now, self.time());
        let place = request as usize;
        let Some(flight) = self.flights.get_mut(place) else {
            return;
        };
        (flight.place, flight.variant) = (Place::InFlight, variant);
        let (attempt, worker) = (flight.attempt, flight.worker);
        let server = self.choose_server(worker, variant);
        if let Some(flight) = self.flights.get_mut(place) {
            flight.server = server;
        }
        if let Some(outcome) = self.outcomes.get_mut(place) {
            outcome.dispatched = Some(time);
        }
        self.record_dispatch(request, variant);
        // Servers start only once they have the whole request.
        let hop = self
            .hop(server)
            .saturating_add(self.remaining_upload(request));
        if hop > 0 {
            self.arm_limit(request, attempt, timeout);
            let reach = Event::ServerArrival {
                request,
                attempt,
                server,
            };
            self.event_queue.add(now.saturating_add(hop), reach);
        } else if self.take(request, attempt, server) {
            self.arm_limit(request, attempt, timeout);
            self.wake_server(server);
        }
    }

    fn arm_limit(&mut self, request: u32, attempt: u16, timeout: Duration) {
        if let Some(known) = self.requests.get(request as usize) {
            let limit = leaves_at(known).min(self.now.saturating_add(nanos(timeout)));
            // An answer at exactly that time still counts.
            self.event_queue.add(
                limit.saturating_add(1),
                Event::TimeLimit { request, attempt },
            );
        }
    }

    /// Handles an answer, or its first byte, at the proxy; its client may have disconnected.
    pub(super) fn answer(&mut self, job: Job, variant: u16) {
        let Job { request, attempt } = job;
        let place = request as usize;
        let (Some(known), Some(flight)) = (self.requests.get(place), self.flights.get_mut(place))
        else {
            return;
        };
        let at_proxy = nanos(known.reading.at_proxy);
        if (flight.place, flight.attempt) != (Place::InFlight, attempt) {
            return;
        }
        let worker = flight.worker;
        let goes_on = usize::from(flight.stage) + 1 < self.stages.len();
        if goes_on {
            self.end_flight(request, attempt);
            self.tell(worker, |worker, now, verdicts| {
                worker.on_answer(request, HealthSignal::Served, now, verdicts)
            });
        } else if at_proxy > 0 {
            flight.place = Place::Reading;
            let ends = self.now.saturating_add(at_proxy).min(leaves_at(known));
            self.event_queue
                .add(ends, Event::AnswerEnd { request, attempt });
            self.tell(worker, |worker, now, verdicts| {
                worker.on_bulk(request, now, verdicts)
            });
        } else {
            self.end_flight(request, attempt);
            let (way_back, longer) = (known.way_back, known.reading.longer);
            self.reach_client(request, Fate::Answered(variant), way_back + longer);
            self.tell(worker, |worker, now, verdicts| {
                worker.on_answer(request, HealthSignal::Served, now, verdicts)
            });
        }
        self.carry_out_verdicts(worker, true);
        self.arm(worker);
        if goes_on {
            self.enter_next_stage(request);
        }
    }

    /// Handles the end of a slowly read answer at the proxy; its client may have disconnected.
    pub(super) fn answer_rest(&mut self, request: u32, attempt: u16) {
        let Some((worker, variant)) = self.remove_from(Place::Reading, request, attempt) else {
            return;
        };
        let Some(known) = self.requests.get(request as usize) else {
            return;
        };
        let (leaves, way_back, reading) = (leaves_at(known), known.way_back, known.reading);
        if leaves <= self.now {
            self.end(request, Fate::Disconnected, leaves);
            self.on_end(worker, request, End::Disconnected);
        } else {
            let after = way_back + reading.longer.saturating_sub(reading.at_proxy);
            self.reach_client(request, Fate::Answered(variant), after);
            self.on_end(worker, request, End::Answered);
        }
    }

    pub(super) fn limit(&mut self, request: u32, attempt: u16) {
        let mut left = self.remove_from(Place::InFlight, request, attempt);
        if left.is_none() && matches!(self.plane, DataPlane::Fifo(_)) {
            // A route's timeout cuts off an answer that has begun; Weir lets it finish.
            left = self.remove_from(Place::Reading, request, attempt);
        }
        let Some((worker, _)) = left else {
            return;
        };
        let Some(known) = self.requests.get(request as usize) else {
            return;
        };
        let leaves = leaves_at(known);
        if leaves <= self.now {
            self.end(request, Fate::Disconnected, leaves);
            self.on_end(worker, request, End::Disconnected);
        } else {
            let label = match self.plane {
                DataPlane::Weir(_) => Reason::Expired.label(),
                DataPlane::Fifo(_) => TIMEOUT,
            };
            self.refuse(request, label, 504, None);
            self.on_end(worker, request, End::TimedOut);
        }
    }

    pub(super) fn leave(&mut self, request: u32, attempt: u16) {
        let flight = self.flights.get(request as usize);
        let held = flight.filter(|f| f.place == Place::Held && f.attempt == attempt);
        let Some(worker) = held.map(|flight| flight.worker) else {
            return;
        };
        self.end(request, Fate::Disconnected, self.now);
        self.on_end(worker, request, End::Disconnected);
    }

    /// Handles the failed connection to a server that was or went down.
    pub(crate) fn broken(&mut self, request: u32, attempt: u16) {
        let Some(worker) = self.end_flight(request, attempt) else {
            return;
        };
        let reason = Reason::NoBackend;
        self.refuse(request, reason.label(), reason.status(), None);
        self.on_end(worker, request, End::Unreachable);
    }

    /// Answers a request 503 that was in flight when its worker's VM restarted; no engine is left to notify.
    pub(crate) fn break_flight(&mut self, request: u32, attempt: u16) {
        if self.end_flight(request, attempt).is_some() {
            let reason = Reason::NoBackend;
            self.refuse(request, reason.label(), reason.status(), None);
        }
    }

    /// Records a request as lost that was in flight when its proxy restarted.
    pub(crate) fn lose(&mut self, request: u32, attempt: u16) {
        if self.end_flight(request, attempt).is_some() {
            self.end(request, Fate::Lost, self.now);
        }
    }

    /// Ends the flight of that attempt, if it is in flight; returns its worker.
    pub(super) fn end_flight(&mut self, request: u32, attempt: u16) -> Option<u32> {
        let left = self.remove_from(Place::InFlight, request, attempt);
        left.map(|(worker, _)| worker)
    }

    /// Removes the attempt from upstream, if it is at `place`; returns its worker and
    /// variant.
    fn remove_from(&mut self, place: Place, request: u32, attempt: u16) -> Option<(u32, u16)> {
        let flight = self.flights.get_mut(request as usize)?;
        if (flight.place, flight.attempt) != (place, attempt) {
            return None;
        }
        flight.place = Place::Away;
        let (worker, variant, server) = (flight.worker, flight.variant, flight.server);
        let stage = usize::from(flight.stage);
        if let DataPlane::Fifo(stages) = &mut self.plane
            && let Some(fifo) = stages.get_mut(stage)
        {
            fifo.ended(variant);
        }
        self.leave_server(worker, server);
        Some((worker, variant))
    }

    /// Records an answer as lost whose client was still reading when the proxy or the VM restarted.
    pub(crate) fn lose_answer(&mut self, request: u32, attempt: u16) {
        if self.remove_from(Place::Reading, request, attempt).is_some() {
            self.end(request, Fate::Lost, self.now);
        }
    }

    /// Rejects a request; its client may retry.
    pub(super) fn refuse(
        &mut self,
        request: u32,
        label: &'static str,
        status: u32,
        retry_after_s: Option<u32>,
    ) {
        let place = request as usize;
        let (Some(known), Some(flight)) = (self.requests.get(place), self.flights.get_mut(place))
        else {
            return;
        };
        let left = std::mem::replace(&mut flight.place, Place::Away);
        if left == Place::InFlight {
            let (worker, server) = (flight.worker, flight.server);
            self.leave_server(worker, server);
        }
        let Some(flight) = self.flights.get_mut(place) else {
            return;
        };
        let leaves = leaves_at(known);
        let hears = self.now.saturating_add(nanos(known.way_back));
        if matches!(status, 429 | 503) && flight.retried < known.retries && hears < leaves {
            let pauses = 2_u32
                .saturating_pow(u32::from(flight.retried))
                .min(RETRY_PAUSES_MAX);
            let pause =
                retry_after_s.map_or(RETRY_PAUSE * pauses, |s| Duration::from_secs(u64::from(s)));
            let retry_at = hears.saturating_add(nanos(pause));
            if retry_at < leaves {
                flight.retried += 1;
                flight.attempt += 1;
                flight.stage = 0;
                let way_up = nanos(known.head.saturating_sub(known.sent));
                self.event_queue
                    .add(retry_at.saturating_add(way_up), Event::Retry { request });
                return;
            }
        }
        let way_back = known.way_back;
        self.reach_client(request, Fate::Refused(label), way_back);
    }

    /// Sends an answer to the client, which has all of it after `after` and may have disconnected by then.
    fn reach_client(&mut self, request: u32, fate: Fate, after: Duration) {
        let Some(known) = self.requests.get(request as usize) else {
            return;
        };
        let (leaves, hears) = (leaves_at(known), self.now.saturating_add(nanos(after)));
        if hears > leaves {
            self.end(request, Fate::Disconnected, leaves);
        } else {
            self.end(request, fate, hears);
        }
    }

    /// Records the single outcome of a request.
    pub(crate) fn end(&mut self, request: u32, fate: Fate, at: u64) {
        let place = request as usize;
        if let Some(flight) = self.flights.get_mut(place) {
            flight.place = Place::Ended;
        }
        if let Some(ends) = self.ends.get_mut(place) {
            *ends += 1;
        }
        if let Some(outcome) = self.outcomes.get_mut(place) {
            outcome.fate = fate;
            outcome.ended = Duration::from_nanos(at);
        }
        self.under_way = self.under_way.saturating_sub(1);
    }
}

/// Class header of a request, if there are several classes.
pub(super) fn class_of<'a>(scenario: &'a Scenario, request: &Request) -> Option<&'a str> {
    let known = scenario.classes.get(usize::from(request.class));
    known
        .filter(|_| scenario.classes.len() > 1)
        .map(String::as_str)
}

/// Time at which a request's client disconnects.
pub(super) fn leaves_at(request: &Request) -> u64 {
    nanos(request.sent.saturating_add(request.timeout))
}
