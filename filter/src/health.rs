//! Health of a variant: whether it fails, since when, and when it is tried again.
//!
//! A variant that cannot be reached fails at the first sign; one that answers with errors, after
//! [`Policy::errors`] of them in a row; one that answers nothing, after two silences, each as long as an execution. It fails until a probe reaches it, or until a trial request is
//! served. A variant that fails again before it has served any request is avoided for twice as long as
//! before. All workers of a proxy share one [`Healths`] per variant (see
//! [`VariantColumn`](crate::coordination::VariantColumn)); time is an argument.
//!
//! What REST and gRPC requests show counts for their own protocol alone: servers may know a model under the name that the
//! clients of one of them use, or have only one of the two ports open.
//!
//! Only the server is judged: a client's own mistakes (4xx) show only that the server answers. 404 is an
//! exception, because model servers return it for a model that is not loaded: for a path that the variant has lately served
//! (the engine remembers a few), and not for names that a client makes up.
//!
//! A client can provoke errors too, by a body or a name of its making. Errors in a row that one source alone has had
//! ([`ErrorSources::One`]) are an outage for that source alone; the first error of another one makes it an outage for all.

mod sources;

pub use self::sources::{ErrorSources, Source};
use crate::reason::Reason;
use crate::time::{Mono, Span};

/// Default number of errors in a row after which a variant fails.
pub const ERRORS_DEFAULT: u16 = 5;
/// Default pause before the first trial.
pub const BASE_DEFAULT: Span = Span::from_millis(500);
/// Default of the longest pause between trials: the longest time for which a recovered server gets nothing.
pub const MAX_DEFAULT: Span = Span::from_secs(10);
/// Failures and failed trials, without anything served between them, after which an outage of one source counts as the
/// variant's own: had others been there, they would have been served within these pauses, 3.5 s by default.
const ALONE_ROUNDS: u8 = 4;
/// Time between probes of a failing variant, and timeout of a probe.
pub const PROBE_PERIOD: Span = Span::from_millis(500);

/// Configured rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether failing variants are avoided at all.
    pub eject: bool,
    /// Errors in a row after which a variant fails.
    pub errors: u16,
    /// Pause before the first trial; it doubles with each further one.
    pub base: Span,
    /// Longest such pause.
    pub max: Span,
    /// Path that returns 2xx if a server is ready; `None`: a real request is the trial.
    pub path: Option<String>,
}

/// Kind of a variant's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// No connection, no healthy host, or a reset before the answer began.
    Unreachable,
    /// Its servers answer with errors.
    Errors,
    /// Its servers take requests, and answer nothing: they hang. What shows that they are ready shows nothing of that.
    Silent,
}

/// Client that looks for a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// Whether it uses gRPC; else REST.
    pub grpc: bool,
    /// Its source, where it is known.
    pub source: Option<Source>,
}

/// Signal of a server's health in an answer, or in its absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthSignal {
    /// It served the request.
    Served,
    /// It answered with a client error.
    Answered,
    /// It answered with a server error.
    Erred,
    /// It does not know the path, or the model: it has not loaded it, or the client has made the name up.
    NotFound,
    /// It could not be reached.
    Unreachable,
    /// It has answered nothing since a request was sent, for as long as that should have taken, until its deadline.
    Silent,
}

/// Result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeResult {
    /// No server answered.
    Nobody,
    /// A server answered with this status.
    Status(u32),
}

/// One variant's health, by protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Healths {
    /// For REST, and whatever else is not gRPC.
    pub rest: Health,
    /// For gRPC.
    pub grpc: Health,
}

/// One variant's health for one protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Health {
    /// The present outage, if it fails.
    pub failing: Option<Outage>,
    /// Errors in a row.
    pub errors: u16,
    /// Number of failures, and of failed trials, since it last served a request.
    pub rounds: u8,
    /// Whether it has served a request since it last failed.
    pub serves: bool,
    /// Sources of the errors in a row.
    pub sources: ErrorSources,
}

/// Outage of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outage {
    /// Kind of the failure.
    pub failure: Failure,
    /// Start.
    pub since: Mono,
    /// Earliest time of the next trial.
    pub next_trial: Mono,
}

impl HealthSignal {
    /// Returns the signal of an answer with this status. `grpc`: its gRPC status, if it has no body. `dropped`:
    /// the reason if a gate refused; it is a signal only if the server could not be reached.
    #[must_use]
    pub fn of(status: u32, grpc: Option<u32>, dropped: Option<&[u8]>) -> Option<HealthSignal> {
        if let Some(dropped) = dropped {
            let unreachable = dropped == Reason::NoBackend.label().as_bytes();
            return unreachable.then_some(HealthSignal::Unreachable);
        }
        Some(match (status, grpc) {
            (404, _) => HealthSignal::NotFound,
            (500.., _) => HealthSignal::Erred,
            (400.., _) => HealthSignal::Answered,
            // Not found, unimplemented.
            (_, Some(5 | 12)) => HealthSignal::NotFound,
            // Unknown, internal, unavailable, data loss.
            (_, Some(2 | 13 | 14 | 15)) => HealthSignal::Erred,
            (_, Some(1..)) => HealthSignal::Answered,
            (_, None | Some(0)) => HealthSignal::Served,
        })
    }
}

impl Healths {
    /// Health for a protocol.
    #[must_use]
    pub fn of(&self, grpc: bool) -> &Health {
        if grpc { &self.grpc } else { &self.rest }
    }

    /// The same, to change it.
    pub fn of_mut(&mut self, grpc: bool) -> &mut Health {
        if grpc { &mut self.grpc } else { &mut self.rest }
    }

    /// Whether it fails for one protocol, whoever asks, and is not known to serve the other.
    #[must_use]
    pub fn fails(&self) -> bool {
        let both = [&self.rest, &self.grpc];
        let serves = |health: &&Health| health.serves && health.failing.is_none();
        both.iter().any(|health| health.fails_for_all()) && !both.iter().any(serves)
    }

    /// Whether it fails for this client.
    #[must_use]
    pub fn fail_for(&self, client: Client) -> bool {
        let health = self.of(client.grpc);
        let concerns = match health.sources {
            ErrorSources::One(one) => client.source.is_none_or(|source| source == one),
            ErrorSources::Nobody | ErrorSources::Several => true,
        };
        health.failing.is_some() && concerns
    }

    /// Whether it fails for one source alone.
    #[must_use]
    pub fn fail_for_one(&self) -> bool {
        let is_of_one = |health: &Health| {
            health.failing.is_some() && matches!(health.sources, ErrorSources::One(_))
        };
        is_of_one(&self.rest) || is_of_one(&self.grpc)
    }
}

impl Health {
    /// Kind of the failure, if it fails.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failing.map(|failing| failing.failure)
    }

    /// Whether it fails, whoever asks.
    fn fails_for_all(&self) -> bool {
        let is_of_one = matches!(self.sources, ErrorSources::One(_));
        self.failing.is_some() && (!is_of_one || self.rounds >= ALONE_ROUNDS)
    }

    /// Records a signal that a request of this source has had; `None`: unknown, or not by what a client sent.
    pub fn observe(
        &mut self,
        sign: HealthSignal,
        source: Option<Source>,
        now: Mono,
        policy: &Policy,
    ) {
        if !matches!(sign, HealthSignal::Served | HealthSignal::Answered) {
            self.sources = self.sources.with(source);
        }
        match (sign, self.failure()) {
            (HealthSignal::Served, _) => {
                *self = Health {
                    serves: true,
                    ..Health::default()
                };
            }
            (HealthSignal::Answered, Some(Failure::Unreachable | Failure::Silent)) => {
                self.recover()
            }
            (HealthSignal::Erred | HealthSignal::NotFound, None | Some(Failure::Unreachable)) => {
                self.add(1, Failure::Errors, now, policy);
            }
            (HealthSignal::Silent, None | Some(Failure::Unreachable)) => {
                self.add(policy.errors.div_ceil(2), Failure::Silent, now, policy);
            }
            (HealthSignal::Unreachable, None) => self.fail(Failure::Unreachable, now, policy),
            (HealthSignal::Unreachable, Some(_)) => {
                if let Some(failing) = &mut self.failing {
                    failing.failure = Failure::Unreachable;
                }
            }
            (HealthSignal::Answered, None | Some(Failure::Errors))
            | (
                HealthSignal::Erred | HealthSignal::NotFound | HealthSignal::Silent,
                Some(Failure::Errors | Failure::Silent),
            ) => {}
        }
    }

    /// Records the result of a probe. A configured path must return 2xx; without one, any answer shows only
    /// that the server can be reached.
    pub fn on_probe(&mut self, probed: ProbeResult, policy: &Policy) {
        let well = match (probed, self.failure()) {
            (ProbeResult::Nobody, _) | (_, Some(Failure::Silent)) => false,
            (ProbeResult::Status(status), _) if policy.path.is_some() => {
                (200..300).contains(&status)
            }
            (ProbeResult::Status(_), failure) => failure == Some(Failure::Unreachable),
        };
        if well {
            self.recover();
        } else {
            // What a probe has seen too was provoked by no client.
            self.sources = ErrorSources::Several;
        }
    }

    /// Whether a probe could end the outage, and is due.
    #[must_use]
    pub fn wants_probe(&self, now: Mono, policy: &Policy) -> bool {
        self.failing.is_some_and(|failing| {
            let probed = match failing.failure {
                Failure::Unreachable => true,
                Failure::Errors => policy.path.is_some(),
                Failure::Silent => false,
            };
            probed && failing.next_trial <= now
        })
    }

    /// Whether a trial has failed, or the variant has failed again, since it last served a request.
    #[must_use]
    pub fn was_tried(&self) -> bool {
        self.rounds > 1
    }

    /// Whether a trial request is due.
    #[must_use]
    pub fn wants_trial(&self, now: Mono, policy: &Policy) -> bool {
        self.failing.is_some_and(|failing| {
            let tried = match failing.failure {
                Failure::Unreachable => false,
                Failure::Errors => policy.path.is_none(),
                Failure::Silent => true,
            };
            tried && failing.next_trial <= now
        })
    }

    /// Claims the trial, so that no other request is sent before the next; returns whether it was due.
    pub fn take_trial(&mut self, now: Mono, policy: &Policy) -> bool {
        let due = self.wants_trial(now, policy);
        if let Some(failing) = self.failing.as_mut().filter(|_| due) {
            failing.next_trial = now + policy.pause(self.rounds);
            self.rounds = self.rounds.saturating_add(1);
        }
        due
    }

    /// Adds to the errors in a row; enough of them are a failure of this kind.
    fn add(&mut self, errors: u16, failure: Failure, now: Mono, policy: &Policy) {
        self.failing = None;
        self.errors = self.errors.saturating_add(errors);
        if self.errors >= policy.errors {
            self.fail(failure, now, policy);
        }
    }

    fn fail(&mut self, failure: Failure, now: Mono, policy: &Policy) {
        let pause = match (failure, self.rounds) {
            // A single connection may have been closed by chance: a probe tells at once, without cost to a
            // client.
            (Failure::Unreachable, 0) => Span::ZERO,
            (_, rounds) => policy.pause(rounds.saturating_sub(1)),
        };
        self.failing = Some(Outage {
            failure,
            since: now,
            next_trial: now + pause,
        });
        self.rounds = self.rounds.saturating_add(1);
        self.serves = false;
    }

    /// Ends the outage: the variant gets its whole share. The number of rounds is reset only when it has served
    /// a request.
    fn recover(&mut self) {
        (self.failing, self.errors) = (None, 0);
        self.sources = ErrorSources::Nobody;
    }
}

impl Policy {
    /// Pause after this many failed trials.
    fn pause(&self, rounds: u8) -> Span {
        let doubled = 1_u32.checked_shl(u32::from(rounds)).unwrap_or(u32::MAX);
        (self.base * doubled).min(self.max)
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            eject: true,
            errors: ERRORS_DEFAULT,
            base: BASE_DEFAULT,
            max: MAX_DEFAULT,
            path: None,
        }
    }
}

#[cfg(test)]
mod tests;
