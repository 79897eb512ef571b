//! Lessons of a server's part in a request, once it is over.

use std::time::Duration;

use weir_api::metrics::Metric;

use super::{End, Engine, Flight, Request, StreamId};
use crate::coordination::{Landed, Sent};
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::variant::VariantId;

/// A request's place among those sent to its variant's lanes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Launch {
    /// Its ordinal; 0 where it has none.
    pub(super) ordinal: u32,
    /// Time for which it should lie behind others at the server; `None`: it was sent to an idle lane.
    pub(super) lies: Option<Duration>,
}

/// An execution that is over; when it began the board has yet to say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Landing {
    sent: Mono,
    at: Mono,
    launch: Launch,
    planned: Duration,
    answered: bool,
    /// Whether its time says what the server takes.
    says: bool,
}

impl Launch {
    /// That of number `place` of `granted`.
    pub(super) fn new(sent: &Sent, place: u32, granted: u32) -> Launch {
        if sent.first == 0 {
            return Launch::default();
        }
        let lies = place + sent.behind >= granted;
        Launch {
            ordinal: sent.first.wrapping_add(place),
            lies: lies.then_some(sent.waits),
        }
    }
}

impl Landing {
    /// Returns the execution for the board to learn from; `None` where the board does not know of it.
    pub(super) fn landed(&self) -> Option<Landed> {
        (self.launch.ordinal > 0).then_some(Landed {
            ordinal: self.launch.ordinal,
            sent: self.sent,
            at: self.at,
            alone: self.launch.lies.is_none(),
            says: self.answered && self.says,
        })
    }
}

impl Engine {
    /// The server's part in a request is over, or its slot is left to a ghost.
    pub(super) fn free(
        &mut self,
        stream: StreamId,
        request: &Request,
        flight: Flight,
        end: End,
        now: Now,
    ) {
        let id = request.variant;
        // One that no turn has told of yet.
        self.learn(id, None, now.mono);
        let Some(variant) = self.variants.get_mut(id) else {
            return;
        };
        variant.uploads = variant.uploads.saturating_sub(u32::from(request.uploads));
        let launch = flight.launch;
        let ghost = matches!(end, End::TimedOut | End::Gone) && !variant.cancels;
        if ghost {
            // The server may be slower this once than most executions were: what the plan
            // foresaw counts where that is longer.
            let service = variant.predicted.high.max(flight.planned);
            let end = flight.sent + launch.lies.unwrap_or_default() + service;
            let unique = u64::from(stream);
            variant.gate.abandon(now.mono, end, unique, launch.ordinal);
        } else {
            variant.gate.give_back(launch.ordinal);
        }
        // What was given up took at least so long. While the body still came the time was the client's.
        let says = matches!(end, End::Answered | End::TimedOut) && !flight.failed;
        variant.landing = Some(Landing {
            sent: flight.sent,
            at: now.mono,
            launch,
            planned: flight.planned,
            answered: end == End::Answered,
            says: says && !request.uploads,
        });
        if ghost {
            self.learn(id, None, now.mono);
        }
    }

    /// Learns how long the last execution that is over took, which `began` by the board's word.
    pub(super) fn learn(&mut self, id: VariantId, began: Option<Mono>, now: Mono) {
        let Some(variant) = self.variants.get_mut(id) else {
            return;
        };
        let Some(landing) = variant.landing.take() else {
            return;
        };
        let alone = landing.launch.lies.is_none();
        let counts_from = match began {
            _ if alone => landing.sent + variant.lead().known_gap(),
            _ if !variant.lead().is_sure() => landing.sent,
            Some(began) => began.max(landing.sent),
            // Of one that lay behind others nobody says for how long: as long as was foreseen.
            None => landing.sent + landing.launch.lies.unwrap_or_default(),
        };
        let took = landing.at.since(counts_from);
        if self.config.correct && landing.says {
            variant.observe(landing.planned, took, now);
        }
        if landing.answered {
            let label = Label::Variant(id);
            self.stats.time(Metric::ServiceMs, label, took);
        }
    }
}
