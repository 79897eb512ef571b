//! A request's life in the world, from the proxy's verdict on it to the one end that its client sees.

use std::time::Duration;

use weir_filter::engine::End;
use weir_filter::health::HealthSignal;
use weir_filter::reason::Reason;
use weir_filter::verdict::{Refusal, Verdict};

use super::agenda::What;
use super::flight::Place;
use super::site::Job;
use super::witness::Witness;
use super::{World, nanos};
use crate::plane::DataPlane;
use crate::request::{Fate, Request};
use crate::scenario::Scenario;

/// From a connection to a server that is down to its refusal.
pub(super) const BREAK_DELAY: Duration = Duration::from_micros(200);
/// From a request's arrival at a server that only errs to its answer.
const ERROR_DELAY: Duration = Duration::from_millis(3);
/// A client's pause before it asks again after a 503, the first time; it doubles with each further one.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Longest such pause, in first ones.
const RETRY_PAUSES_MAX: u32 = 64;
/// The label of a refusal by an open circuit breaker, which is Envoy's, not Weir's.
pub(super) const OVERFLOW: &str = "overflow";
/// The label of a route's timeout without Weir.
const TIMEOUT: &str = "timeout";

impl<W: Witness> World<'_, W> {
    pub(super) fn carry_out(&mut self, request: u32, verdict: &Verdict) {
        match verdict {
            Verdict::Forward(dispatch) => {
                let variant = self.names.get(&*dispatch.name).copied().unwrap_or(u16::MAX);
                self.forward(
                    request,
                    variant,
                    whole_ms(dispatch.timeout.unwrap_or_default()),
                );
            }
            Verdict::Reject(refusal) => {
                let Refusal {
                    reason,
                    retry_after_s,
                    ..
                } = *refusal;
                self.refuse(request, reason.label(), reason.status(), retry_after_s);
            }
            Verdict::Pass => {
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
        let attempt = flight.attempt;
        if let Some(outcome) = self.outcomes.get_mut(place) {
            outcome.dispatched = Some(time);
        }
        // A server can work on nothing less than all of it.
        let hop = self.hop(variant).saturating_add(self.still_comes(request));
        if hop > 0 {
            self.arm_limit(request, attempt, timeout);
            let reach = What::Reach {
                request,
                attempt,
                variant,
            };
            self.agenda.add(now.saturating_add(hop), reach);
        } else if self.take(request, attempt, variant) {
            self.arm_limit(request, attempt, timeout);
            self.wake_site(variant);
        }
    }

    fn arm_limit(&mut self, request: u32, attempt: u8, timeout: Duration) {
        if let Some(known) = self.requests.get(request as usize) {
            let limit = leaves_at(known).min(self.now.saturating_add(nanos(timeout)));
            // An answer at the very instant still counts.
            self.agenda
                .add(limit.saturating_add(1), What::Limit { request, attempt });
        }
    }

    /// A request is with its server, whether or not anybody still waits for it.
    pub(super) fn reach(&mut self, request: u32, attempt: u8, variant: u16) {
        if self.take(request, attempt, variant) {
            self.wake_site(variant);
        }
    }

    /// Whether the server takes it; where not, the proxy will hear of it.
    fn take(&mut self, request: u32, attempt: u8, variant: u16) -> bool {
        let time = self.time();
        let site = self
            .sites
            .get_mut(usize::from(variant))
            .filter(|site| site.up);
        let errs = site.as_ref().is_some_and(|site| site.errs);
        let taken = !errs && site.is_some_and(|site| site.take(time, Job { request, attempt }));
        if errs {
            let at = self.now + nanos(ERROR_DELAY) + self.hop(variant);
            self.agenda.add(at, What::Erred { request, attempt });
        } else if !taken {
            let at = self.now + nanos(BREAK_DELAY) + self.hop(variant);
            self.agenda.add(at, What::Broken { request, attempt });
        }
        taken
    }

    /// From the proxy to that server, ns.
    fn hop(&self, variant: u16) -> u64 {
        let site = self.sites.get(usize::from(variant));
        site.map_or(0, |site| site.hop)
    }

    /// A server has something to end or start.
    pub(super) fn serve(&mut self, variant: u16) {
        let time = self.time();
        let mut ended = std::mem::take(&mut self.ended);
        if let Some(site) = self.sites.get_mut(usize::from(variant)) {
            site.advance(time, &mut ended);
        }
        let hop = self.hop(variant);
        for (job, _) in ended.drain(..) {
            if hop == 0 {
                self.answer(job, variant);
            } else {
                let Job { request, attempt } = job;
                let answer = What::Answer {
                    request,
                    attempt,
                    variant,
                };
                self.agenda.add(self.now.saturating_add(hop), answer);
            }
        }
        self.ended = ended;
        self.wake_site(variant);
    }

    /// An answer is with the proxy, or its beginning; nobody may be waiting for it any more.
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
        if at_proxy > 0 {
            flight.place = Place::Reading;
            let ends = self.now.saturating_add(at_proxy).min(leaves_at(known));
            self.agenda.add(ends, What::Rest { request, attempt });
            self.tell(worker, |worker, now, verdicts| {
                worker.on_bulk(request, now, verdicts)
            });
        } else {
            self.lands(request, attempt);
            let (way_back, longer) = (known.way_back, known.reading.longer);
            self.reach_client(request, Fate::Answered(variant), way_back + longer);
            self.tell(worker, |worker, now, verdicts| {
                worker.on_answer(request, HealthSignal::Served, now, verdicts)
            });
        }
        self.obey(worker, true);
        self.arm(worker);
    }

    /// All of an answer that is read slowly is with the proxy, or its client has left.
    pub(super) fn answer_rest(&mut self, request: u32, attempt: u8) {
        let Some((worker, variant)) = self.leaves_from(Place::Reading, request, attempt) else {
            return;
        };
        let Some(known) = self.requests.get(request as usize) else {
            return;
        };
        let (leaves, way_back, reading) = (leaves_at(known), known.way_back, known.reading);
        if leaves <= self.now {
            self.end(request, Fate::Gone, leaves);
            self.on_end(worker, request, End::Gone);
        } else {
            let after = way_back + reading.longer.saturating_sub(reading.at_proxy);
            self.reach_client(request, Fate::Answered(variant), after);
            self.on_end(worker, request, End::Answered);
        }
    }

    pub(super) fn limit(&mut self, request: u32, attempt: u8) {
        let mut left = self.leaves_from(Place::InFlight, request, attempt);
        if left.is_none() && matches!(self.plane, DataPlane::Fifo(_)) {
            // A route's timeout cuts off an answer that has begun; Weir lets it finish.
            left = self.leaves_from(Place::Reading, request, attempt);
        }
        let Some((worker, _)) = left else {
            return;
        };
        let Some(known) = self.requests.get(request as usize) else {
            return;
        };
        let leaves = leaves_at(known);
        if leaves <= self.now {
            self.end(request, Fate::Gone, leaves);
            self.on_end(worker, request, End::Gone);
        } else {
            let label = match self.plane {
                DataPlane::Weir(_) => Reason::Expired.label(),
                DataPlane::Fifo(_) => TIMEOUT,
            };
            self.refuse(request, label, 504, None);
            self.on_end(worker, request, End::TimedOut);
        }
    }

    pub(super) fn leave(&mut self, request: u32, attempt: u8) {
        let flight = self.flights.get(request as usize);
        let held = flight.filter(|f| f.place == Place::Held && f.attempt == attempt);
        let Some(worker) = held.map(|flight| flight.worker) else {
            return;
        };
        self.end(request, Fate::Gone, self.now);
        self.on_end(worker, request, End::Gone);
    }

    /// The server was down, or went down.
    pub(crate) fn broken(&mut self, request: u32, attempt: u8) {
        let Some(worker) = self.lands(request, attempt) else {
            return;
        };
        let reason = Reason::NoBackend;
        self.refuse(request, reason.label(), reason.status(), None);
        self.on_end(worker, request, End::Unreachable);
    }

    /// In flight when its worker's VM went: answered 503, and no engine is left to be told.
    pub(crate) fn break_flight(&mut self, request: u32, attempt: u8) {
        if self.lands(request, attempt).is_some() {
            let reason = Reason::NoBackend;
            self.refuse(request, reason.label(), reason.status(), None);
        }
    }

    /// In flight when its proxy went: lost.
    pub(crate) fn lose(&mut self, request: u32, attempt: u8) {
        if self.lands(request, attempt).is_some() {
            self.end(request, Fate::Lost, self.now);
        }
    }

    /// The request's time in flight is over, if it is that attempt that is in flight: at which worker.
    pub(super) fn lands(&mut self, request: u32, attempt: u8) -> Option<u32> {
        let left = self.leaves_from(Place::InFlight, request, attempt);
        left.map(|(worker, _)| worker)
    }

    /// A request is upstream no more, nor its answer, if that attempt is at `place`: at which worker it was, and to
    /// which variant.
    fn leaves_from(&mut self, place: Place, request: u32, attempt: u8) -> Option<(u32, u16)> {
        let flight = self.flights.get_mut(request as usize)?;
        if (flight.place, flight.attempt) != (place, attempt) {
            return None;
        }
        flight.place = Place::Away;
        let (worker, variant) = (flight.worker, flight.variant);
        if let DataPlane::Fifo(fifo) = &mut self.plane {
            fifo.ended(variant);
        }
        Some((worker, variant))
    }

    /// Its client still read when its proxy or its worker's VM went.
    pub(crate) fn lose_answer(&mut self, request: u32, attempt: u8) {
        if self.leaves_from(Place::Reading, request, attempt).is_some() {
            self.end(request, Fate::Lost, self.now);
        }
    }

    /// The proxy refuses it; the client may ask again.
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
        flight.place = Place::Away;
        let leaves = leaves_at(known);
        let hears = self.now.saturating_add(nanos(known.way_back));
        if matches!(status, 429 | 503) && flight.attempt < known.retries && hears < leaves {
            let pauses = 2_u32
                .saturating_pow(u32::from(flight.attempt))
                .min(RETRY_PAUSES_MAX);
            let pause =
                retry_after_s.map_or(RETRY_PAUSE * pauses, |s| Duration::from_secs(u64::from(s)));
            let asks = hears.saturating_add(nanos(pause));
            if asks < leaves {
                flight.attempt += 1;
                let way_up = nanos(known.head.saturating_sub(known.sent));
                self.agenda
                    .add(asks.saturating_add(way_up), What::Again { request });
                return;
            }
        }
        let way_back = known.way_back;
        self.reach_client(request, Fate::Refused(label), way_back);
    }

    /// An answer is on its way to the client, who has all of it after so long, and may have left by then.
    fn reach_client(&mut self, request: u32, fate: Fate, after: Duration) {
        let Some(known) = self.requests.get(request as usize) else {
            return;
        };
        let (leaves, hears) = (leaves_at(known), self.now.saturating_add(nanos(after)));
        if hears > leaves {
            self.end(request, Fate::Gone, leaves);
        } else {
            self.end(request, fate, hears);
        }
    }

    /// The request's one end.
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

/// What a request's client says of its class, where there are several.
pub(super) fn class_of<'a>(scenario: &'a Scenario, request: &Request) -> Option<&'a str> {
    let known = scenario.classes.get(usize::from(request.class));
    known
        .filter(|_| scenario.classes.len() > 1)
        .map(String::as_str)
}

/// When a request's client leaves.
pub(super) fn leaves_at(request: &Request) -> u64 {
    nanos(request.sent.saturating_add(request.patience))
}

/// As the shell tells Envoy's router: whole ms, 1 at least.
fn whole_ms(timeout: Duration) -> Duration {
    Duration::from_millis(
        u64::try_from(timeout.as_nanos().div_ceil(1_000_000))
            .unwrap_or(u64::MAX)
            .max(1),
    )
}
