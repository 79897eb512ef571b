//! Faults, by rule and by chance: slow or refused answers, broken connections, answers lost after the
//! write took effect, watches that close or lag.
//!
//! Seeded: the same requests in the same order meet the same faults. Nothing here knows what a request
//! does; `serve` carries the faults out.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::sync::watch;

use super::request::{Asked, Verb};

/// What goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// It is answered so much later; it takes effect when it arrives.
    Slow(Duration),
    /// It is answered so much later, and takes effect only then.
    Late(Duration),
    /// It is answered with this status (500 to 599) and takes no effect.
    Error(u16),
    /// It is answered 429 with `Retry-After`, in seconds, and takes no effect.
    TooMany(u64),
    /// The connection is closed without an answer; it takes no effect.
    HangUp,
    /// It takes effect, then the connection is closed without an answer.
    LoseAnswer,
    /// A watch ends after so many changes.
    CloseWatch(usize),
    /// A watch is told of each change so much later.
    LagWatch(Duration),
}

impl Fault {
    fn is_of_watches(&self) -> bool {
        matches!(self, Fault::CloseWatch(_) | Fault::LagWatch(_))
    }
}

/// Which requests a fault befalls. What is left empty or `None` is not asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// What goes wrong.
    pub fault: Fault,
    /// Only these verbs.
    pub verbs: Vec<Verb>,
    /// Only this resource, with its subresource, such as `pods/resize`.
    pub resource: Option<String>,
    /// Only objects of this name.
    pub name: Option<String>,
    /// Only this subject.
    pub subject: Option<String>,
    /// How likely, 0 to 1.
    pub probability: f64,
    /// At most so many times.
    pub times: Option<u32>,
}

impl Rule {
    /// A fault that befalls every request it can.
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

    /// Only for these verbs.
    pub fn verbs(mut self, verbs: &[Verb]) -> Rule {
        self.verbs = verbs.to_vec();
        self
    }

    /// Only for this resource (and subresource, behind a slash).
    pub fn resource(mut self, resource: &str) -> Rule {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only for objects of this name.
    pub fn name(mut self, name: &str) -> Rule {
        self.name = Some(name.to_owned());
        self
    }

    /// Only for this subject.
    pub fn subject(mut self, subject: &str) -> Rule {
        self.subject = Some(subject.to_owned());
        self
    }

    /// So likely.
    pub fn probability(mut self, probability: f64) -> Rule {
        self.probability = probability;
        self
    }

    /// At most so many times.
    pub fn times(mut self, times: u32) -> Rule {
        self.times = Some(times);
        self
    }

    fn fits(&self, asked: &Asked) -> bool {
        let watches = asked.verb == Verb::Watch;
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        (self.verbs.is_empty() || self.verbs.contains(&asked.verb))
            && (watches || !self.fault.is_of_watches())
            && is(&self.resource, &asked.resource())
            && is(&self.name, &asked.key.name)
            && is(&self.subject, &asked.subject.user)
    }
}

/// What befalls one watch.
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

    /// From now on this goes wrong too. Of several that fit a request, the first that chance picks.
    pub fn add(&self, rule: Rule) {
        self.lock().rules.push(rule);
    }

    /// Nothing goes wrong any more.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// How many faults there have been.
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

    /// What befalls a request.
    pub(super) fn of(&self, asked: &Asked) -> Option<Fault> {
        self.lock().pick(asked, false)
    }

    /// What befalls a watch once it has begun.
    pub(super) fn of_watch(&self, asked: &Asked) -> Option<WatchFault> {
        let none = WatchFault {
            events_left: usize::MAX,
            lag: Duration::ZERO,
        };
        match self.lock().pick(asked, true)? {
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
    fn pick(&mut self, asked: &Asked, of_watch: bool) -> Option<Fault> {
        for rule in &mut self.rules {
            if rule.fault.is_of_watches() != of_watch || rule.times == Some(0) || !rule.fits(asked)
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
