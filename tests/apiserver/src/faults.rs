//! Fault injection, by rule and probability: slow or refused responses, broken connections,
//! responses lost after the write took effect, watches that close or lag.
//!
//! Seeded: the same requests in the same order get the same faults. This file does not know the
//! requests' effects; `serve` carries the faults out.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::sync::watch;

use super::request::{ApiRequest, Verb};

/// A kind of fault.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The response is delayed; the request takes effect on arrival.
    Slow(Duration),
    /// The request is delayed: it takes effect, and is answered, only after this time.
    Late(Duration),
    /// The request takes effect only after this time, even if its client has given up by then: a real server finishes
    /// what it has begun.
    Overdue(Duration),
    /// The response has this status (500 to 599); the request takes no effect.
    Error(u16),
    /// The response is 404, as for a kind that the server does not know; the request takes no effect.
    NotFound,
    /// The response is 403, as without the right; the request takes no effect.
    Forbidden,
    /// The response is 429 with `Retry-After`, in seconds; the request takes no effect.
    TooMany(u64),
    /// The connection is closed without a response; the request takes no effect.
    HangUp,
    /// The request takes effect, then the connection is closed without a response.
    LoseAnswer,
    /// A watch ends after this many changes.
    CloseWatch(usize),
    /// A watch delivers each change with this delay.
    LagWatch(Duration),
}

impl Fault {
    fn is_of_watches(&self) -> bool {
        matches!(self, Fault::CloseWatch(_) | Fault::LagWatch(_))
    }
}

/// A fault and the requests it applies to. Empty and `None` match everything.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The fault.
    pub fault: Fault,
    /// Matches these verbs.
    pub verbs: Vec<Verb>,
    /// Matches this resource, with its subresource, such as `pods/resize`.
    pub resource: Option<String>,
    /// Matches objects of this name.
    pub name: Option<String>,
    /// Matches this subject.
    pub subject: Option<String>,
    /// Probability, 0 to 1.
    pub probability: f64,
    /// Maximum number of faults.
    pub times: Option<u32>,
}

impl Rule {
    /// A fault of every request to which it can apply.
    pub fn always(fault: Fault) -> Rule {
        Rule {
            fault,
            verbs: Vec::new(),
            resource: None,
            name: None,
            subject: None,
            probability: 1.0,
            times: None,
        }
    }

    /// Restricts the rule to these verbs.
    pub fn verbs(mut self, verbs: &[Verb]) -> Rule {
        self.verbs = verbs.to_vec();
        self
    }

    /// Restricts the rule to this resource (and subresource, after a slash).
    pub fn resource(mut self, resource: &str) -> Rule {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Restricts the rule to objects of this name.
    pub fn name(mut self, name: &str) -> Rule {
        self.name = Some(name.to_owned());
        self
    }

    /// Restricts the rule to this subject.
    pub fn subject(mut self, subject: &str) -> Rule {
        self.subject = Some(subject.to_owned());
        self
    }

    /// Sets the probability.
    pub fn probability(mut self, probability: f64) -> Rule {
        self.probability = probability;
        self
    }

    /// Sets the maximum number of faults.
    pub fn times(mut self, times: u32) -> Rule {
        self.times = Some(times);
        self
    }

    fn fits(&self, request: &ApiRequest) -> bool {
        let watches = request.verb == Verb::Watch;
        let is = |required: &Option<String>, found: &str| {
            required.as_ref().is_none_or(|required| required == found)
        };
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && (watches || !self.fault.is_of_watches())
            && is(&self.resource, &request.resource())
            && is(&self.name, &request.key.name)
            && is(&self.subject, &request.subject.user)
    }
}

/// The faults of one watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WatchFault {
    pub(super) events_left: usize,
    pub(super) lag: Duration,
}

#[derive(Debug)]
struct Rules {
    rules: Vec<Rule>,
    rng: ChaCha8Rng,
    met: u64,
}

/// The faults of an API server.
#[derive(Debug)]
pub struct Faults {
    rules: Mutex<Rules>,
    close_watches: watch::Sender<u64>,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Faults {
        let rules = Rules {
            rules: Vec::new(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            met: 0,
        };
        Faults {
            rules: Mutex::new(rules),
            close_watches: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule. If several match a request, the first that its probability selects applies.
    pub fn add(&self, rule: Rule) {
        self.lock().rules.push(rule);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// Number of faults so far.
    pub fn met(&self) -> u64 {
        self.lock().met
    }

    /// Ends every watch now.
    pub fn close_watches(&self) {
        self.close_watches.send_modify(|times| *times += 1);
    }

    pub(super) fn closing(&self) -> watch::Receiver<u64> {
        self.close_watches.subscribe()
    }

    /// The fault of a request.
    pub(super) fn of(&self, request: &ApiRequest) -> Option<Fault> {
        self.lock().pick(request, false)
    }

    /// The fault of a watch after its start.
    pub(super) fn of_watch(&self, request: &ApiRequest) -> Option<WatchFault> {
        let none = WatchFault {
            events_left: usize::MAX,
            lag: Duration::ZERO,
        };
        match self.lock().pick(request, true)? {
            Fault::CloseWatch(events_left) => Some(WatchFault {
                events_left,
                ..none
            }),
            Fault::LagWatch(lag) => Some(WatchFault { lag, ..none }),
            _ => None,
        }
    }
}

impl Rules {
    fn pick(&mut self, request: &ApiRequest, of_watch: bool) -> Option<Fault> {
        for rule in &mut self.rules {
            if rule.fault.is_of_watches() != of_watch
                || rule.times == Some(0)
                || !rule.fits(request)
            {
                continue;
            }
            if rule.probability >= 1.0 || self.rng.random::<f64>() < rule.probability {
                rule.times = rule.times.map(|times| times - 1);
                self.met += 1;
                return Some(rule.fault.clone());
            }
        }
        None
    }
}
