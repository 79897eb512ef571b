//! The planner that allocates slots, as the endpoints know it. Only the holder of the Lease allocates, within its
//! term; the others forward polls to it, or refuse them. Proxies whose polls are refused keep their plans.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;

/// The leader among several planners for the same services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader {
    /// This planner leads.
    Us,
    /// Another planner leads, at this address. It allocates the slots, so it must get the proxies' polls.
    At(String),
    /// No leader is known. Proxies keep their plans, and nobody allocates slots.
    Nobody,
}

/// The time in which this planner may allocate slots without another doing so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Its begin. A slot allocation that began earlier may not know what another planner allocated since.
    pub since: Duration,
    /// Its end, unless it is prolonged.
    pub until: Duration,
}

impl Term {
    /// The term of a planner without others.
    pub const ALONE: Term = Term {
        since: Duration::ZERO,
        until: Duration::MAX,
    };

    /// Whether `now` is before its end.
    pub fn covers(&self, now: Duration) -> bool {
        now < self.until
    }

    /// Returns the term of a planner that may lead until `until`, with `before` as its last known term. A term
    /// that had ended is not continued: another planner may have led since.
    pub fn prolonged(before: Option<Term>, until: Option<Duration>, now: Duration) -> Option<Term> {
        let until = until.filter(|until| now < *until)?;
        let since = before
            .filter(|term| term.covers(now))
            .map(|term| term.since);
        Some(Term {
            since: since.unwrap_or(now),
            until,
        })
    }
}

/// Leadership, and its changes.
#[derive(Debug, Clone)]
pub struct Leadership {
    /// The leader.
    pub leader: watch::Receiver<Leader>,
    /// This planner's term; `None` while it does not lead.
    pub term: watch::Receiver<Option<Term>>,
}

/// Connection of a standby to the leader, by its probes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LeaderLink {
    /// Not probed yet, or there is nobody to probe.
    #[default]
    Unknown,
    /// The planner at this address answers.
    Reached(String),
    /// The planner at this address does not answer.
    Lost {
        /// Its address.
        address: String,
        /// The reason.
        why: String,
    },
}

/// The way of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// This planner allocates the slots, in this term.
    Local(Term),
    /// The planner at this address does; whether it answers may not be known.
    Forward { address: String, reached: bool },
    /// Nobody who can be reached; the reason.
    Refuse(String),
}

/// Leadership in the status.
#[derive(Debug, Clone, Serialize, PartialEq, Eq, schemars::JsonSchema)]
pub(super) struct LeaderView {
    /// Whether this planner leads.
    leads: bool,
    /// Address of the leader, if another planner leads.
    address: Option<String>,
    /// Why polls are refused; `null` if they are not.
    refuses: Option<String>,
}

impl Leadership {
    /// Leadership of a planner without others.
    pub fn alone() -> Leadership {
        Leadership {
            leader: watch::channel(Leader::Us).1,
            term: watch::channel(Some(Term::ALONE)).1,
        }
    }

    pub(super) fn route(&self, link: &LeaderLink, now: Duration) -> Route {
        let leader = self.leader.borrow().clone();
        route(leader, *self.term.borrow(), link, now)
    }

    /// Whether this planner's term goes on.
    pub(super) fn is_in(&self, term: Term, now: Duration) -> bool {
        let current = self.term.borrow().filter(|term| term.covers(now));
        current.is_some_and(|current| current.since == term.since)
    }

    /// Waits until another term or another leader is announced from now on.
    pub(super) async fn wait_changed(&self) {
        let mut leader = self.leader.clone();
        leader.mark_unchanged();
        // No sender is left of a planner without others, and of one that shuts down.
        if leader.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

/// Returns the way of a poll. The term decides first: a leader's announcement may be late.
fn route(leader: Leader, term: Option<Term>, link: &LeaderLink, now: Duration) -> Route {
    if let Some(term) = term.filter(|term| term.covers(now)) {
        return Route::Local(term);
    }
    let Leader::At(address) = leader else {
        return Route::Refuse("no planner is known to lead".to_owned());
    };
    match link {
        LeaderLink::Lost { address: of, why } if *of == address => Route::Refuse(format!(
            "the planner at {address} leads and is not reached: {why}"
        )),
        LeaderLink::Reached(of) => Route::Forward {
            reached: *of == address,
            address,
        },
        LeaderLink::Lost { .. } | LeaderLink::Unknown => Route::Forward {
            address,
            reached: false,
        },
    }
}

impl Route {
    /// Checks that proxies' polls get an answer here.
    ///
    /// # Errors
    /// Fails with the reason.
    pub(super) fn ready(&self) -> Result<(), String> {
        match self {
            Route::Local(_) | Route::Forward { reached: true, .. } => Ok(()),
            Route::Forward { address, .. } => Err(format!(
                "the planner at {address} leads and has not been reached yet"
            )),
            Route::Refuse(why) => Err(why.clone()),
        }
    }

    /// Whether this planner allocates the slots.
    pub(super) const fn is_local(&self) -> bool {
        matches!(self, Route::Local(_))
    }

    pub(super) fn view(self) -> LeaderView {
        let refuses = self.ready().err();
        let (leads, address) = match self {
            Route::Local(_) => (true, None),
            Route::Forward { address, .. } => (false, Some(address)),
            Route::Refuse(_) => (false, None),
        };
        LeaderView {
            leads,
            address,
            refuses,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lost(address: &str) -> LeaderLink {
        LeaderLink::Lost {
            address: address.to_owned(),
            why: "refused".to_owned(),
        }
    }

    #[test]
    fn poll_goes_to_leader_or_nowhere() {
        let own = Term {
            since: s(1),
            until: s(6),
        };
        let term = Some(own);
        let at = || Leader::At("http://b".to_owned());
        let forward = |reached| Route::Forward {
            address: "http://b".to_owned(),
            reached,
        };
        let refuse = |why: &str| Route::Refuse(why.to_owned());
        let nobody = "no planner is known to lead";
        let unreached = "the planner at http://b leads and is not reached: refused";
        let reached = |address: &str| LeaderLink::Reached(address.to_owned());
        for (leader, term, link, now, expected) in [
            (Leader::Us, term, LeaderLink::Unknown, 5, Route::Local(own)),
            // The term is over, and the announcement late.
            (Leader::Us, term, LeaderLink::Unknown, 6, refuse(nobody)),
            (Leader::Us, None, LeaderLink::Unknown, 5, refuse(nobody)),
            (Leader::Nobody, None, lost("http://b"), 5, refuse(nobody)),
            (at(), None, LeaderLink::Unknown, 5, forward(false)),
            (at(), None, reached("http://b"), 5, forward(true)),
            (at(), None, lost("http://b"), 5, refuse(unreached)),
            // Of another leader.
            (at(), None, lost("http://c"), 5, forward(false)),
            (at(), None, reached("http://c"), 5, forward(false)),
            (at(), term, lost("http://b"), 7, refuse(unreached)),
        ] {
            assert_eq!(route(leader, term, &link, s(now)), expected);
        }
        assert_eq!(forward(true).ready(), Ok(()));
        assert!(forward(false).ready().is_err_and(|why| why.contains("yet")));
        assert_eq!(refuse(nobody).ready(), Err(nobody.to_owned()));
    }

    #[test]
    fn term_that_had_ended_is_not_continued() {
        let term = Term::prolonged(None, Some(s(6)), s(1)).unwrap();
        assert_eq!((term.since, term.until), (s(1), s(6)));
        let renewed = Term::prolonged(Some(term), Some(s(9)), s(3)).unwrap();
        assert_eq!((renewed.since, renewed.until), (s(1), s(9)));
        let later = Term::prolonged(Some(renewed), Some(s(15)), s(9)).unwrap();
        assert_eq!((later.since, later.until), (s(9), s(15)));
        assert_eq!(Term::prolonged(Some(later), Some(s(15)), s(15)), None);
        assert_eq!(Term::prolonged(Some(later), None, s(10)), None);
    }
}
