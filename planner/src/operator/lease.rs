//! Who plans, by a Lease: pure. What was read, and when, comes in; whether to claim it, and whether this planner
//! may act, goes out.
//!
//! As client-go does it: a claim replaces the very version that was read, so that of two who claim at once one
//! is refused; and a holder is taken for gone once its record has not changed for as long as it promised, by
//! the clock of who waits, so that clocks that differ do no harm. A holder stops acting [`RENEW_MAX`] after it
//! *began* its last renewal that succeeded, and others wait [`DURATION`] from when they saw it: what the holder
//! has asked for by then has [`DURATION`] − [`RENEW_MAX`] to be answered or to have failed.

use std::time::Duration;

/// How long a record holds after it was seen to change.
pub const DURATION: Duration = Duration::from_secs(10);
/// How long a holder acts after a renewal.
pub const RENEW_MAX: Duration = Duration::from_secs(6);
/// How often the Lease is looked at, by all.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long one request about it may take.
pub const ASK_MAX: Duration = Duration::from_secs(2);

const _: () = assert!(LOOK_EVERY.as_secs() + 2 * ASK_MAX.as_secs() <= RENEW_MAX.as_secs());
/// Whoever waits has it, after a holder was killed, in at most this: the issue of 15 s for it all.
pub const TAKE_OVER_MAX: Duration =
    Duration::from_secs(DURATION.as_secs() + LOOK_EVERY.as_secs() + ASK_MAX.as_secs());
const _: () = assert!(TAKE_OVER_MAX.as_secs() < 15);

/// A Lease as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// `metadata.resourceVersion`.
    pub version: String,
    /// Who holds it; none where it was given back.
    pub holder: Option<String>,
    /// Where the holder answers.
    pub address: Option<String>,
    /// How long it holds.
    pub duration: Duration,
    /// How often it has changed hands.
    pub transitions: i32,
}

/// What one planner knows of it.
#[derive(Debug)]
pub struct Election {
    me: String,
    seen: Option<(Record, Duration)>,
    renewed: Option<Duration>,
}

impl Election {
    /// Nothing known, for the planner of that name.
    pub fn new(me: &str) -> Election {
        Election {
            me: me.to_owned(),
            seen: None,
            renewed: None,
        }
    }

    /// Takes in what was read, or that there is no Lease.
    pub fn saw(&mut self, record: Option<Record>, now: Duration) {
        let before = self.seen.take();
        self.seen = record.map(|record| match before {
            Some((before, at)) if before.version == record.version => (before, at),
            _ => (record, now),
        });
    }

    /// Whether this one is to claim it, or to renew its claim.
    pub fn claims(&self, now: Duration) -> bool {
        let Some((record, at)) = &self.seen else {
            return true;
        };
        match &record.holder {
            Some(holder) if *holder != self.me => now >= *at + record.duration,
            _ => true,
        }
    }

    /// Its claim has been taken, which it began to send at `began`; this is the Lease then.
    pub fn claimed(&mut self, record: Record, began: Duration, now: Duration) {
        self.saw(Some(record), now);
        self.renewed = Some(began);
    }

    /// It gives the Lease back, or may act no longer.
    pub fn resign(&mut self) {
        self.renewed = None;
    }

    /// Whether it may act.
    pub fn leads(&self, now: Duration) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// Until when it may act, without a further renewal.
    pub fn until(&self) -> Option<Duration> {
        let holder = self.seen.as_ref().map(|(record, _)| &record.holder);
        let mine = holder.is_some_and(|holder| holder.as_deref() == Some(&self.me));
        self.renewed.filter(|_| mine).map(|began| began + RENEW_MAX)
    }

    /// The other who holds it by its own word, and where it answers.
    pub fn other(&self, now: Duration) -> Option<&str> {
        let (record, at) = self.seen.as_ref()?;
        let holder = record.holder.as_deref().filter(|holder| *holder != self.me);
        holder.filter(|_| now < *at + record.duration)?;
        record.address.as_deref()
    }

    /// How often it has changed hands, after this one's claim.
    pub fn transitions(&self) -> i32 {
        let Some((record, _)) = &self.seen else {
            return 0;
        };
        let kept = record.holder.as_deref() == Some(&self.me);
        record.transitions.saturating_add(i32::from(!kept))
    }

    /// The version that a claim replaces; none where there is no Lease.
    pub fn version(&self) -> Option<&str> {
        self.seen
            .as_ref()
            .map(|(record, _)| record.version.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn record(version: u64, holder: Option<&str>) -> Record {
        Record {
            version: version.to_string(),
            holder: holder.map(str::to_owned),
            address: holder.map(|holder| format!("http://{holder}")),
            duration: DURATION,
            transitions: 3,
        }
    }

    #[test]
    fn a_lease_that_is_nobodys_is_claimed_and_one_that_is_renewed_is_not() {
        let mut election = Election::new("a");
        assert!(election.claims(s(0)));
        election.saw(Some(record(1, None)), s(0));
        assert!(election.claims(s(0)));
        assert_eq!(election.transitions(), 4);
        for renewal in 0..10 {
            election.saw(Some(record(2 + renewal, Some("b"))), s(9 * renewal));
            assert!(!election.claims(s(9 * renewal + 9)), "{renewal}");
            assert_eq!(election.other(s(9 * renewal + 9)), Some("http://b"));
        }
        // Seen again, and nothing new: it counts from when it changed.
        election.saw(Some(record(11, Some("b"))), s(85));
        assert!(!election.claims(s(90)));
        assert!(election.claims(s(91)));
        assert_eq!(election.other(s(91)), None);
    }

    #[test]
    fn who_leads_acts_for_a_while_after_the_beginning_of_its_renewal() {
        let mut election = Election::new("a");
        election.claimed(record(1, Some("a")), s(10), s(12));
        assert_eq!(election.transitions(), 3, "it keeps it");
        assert!(election.leads(s(15)));
        assert!(!election.leads(s(16)), "from the beginning");
        election.claimed(record(2, Some("a")), s(14), s(14));
        assert!(election.leads(s(19)));
        election.saw(Some(record(3, Some("b"))), s(15));
        assert!(!election.leads(s(15)), "somebody has taken it");
        election.claimed(record(4, Some("a")), s(30), s(30));
        election.resign();
        assert!(!election.leads(s(30)));
        assert!(election.claims(s(30)), "it is its own still");
    }

    /// A Lease with versions, as the API server keeps one.
    #[derive(Default)]
    struct Server {
        record: Option<Record>,
        version: u64,
    }

    impl Server {
        fn replace(&mut self, by: &Election) -> Option<Record> {
            let there = self.record.as_ref().map(|record| record.version.as_str());
            if there != by.version() {
                return None;
            }
            self.version += 1;
            let mut new = record(self.version, Some(&by.me));
            new.transitions = by.transitions();
            self.record = Some(new.clone());
            Some(new)
        }
    }

    proptest! {
        /// Three planners with clocks of their own, which start at any time and run as fast as each other; requests
        /// are late, lost before the server or after it; planners stop for long and go on.
        #[test]
        fn never_do_two_lead(steps in prop::collection::vec((0usize..3, 0u64..4_000, 0u64..2_000, 0u8..8), 1..200)) {
            let offsets = [0, 1_000_000, 77];
            let mut planners = ["a", "b", "c"].map(Election::new);
            let mut server = Server::default();
            let mut now = 0;
            for (who, pause, way, luck) in steps {
                now += pause;
                let local = |who: usize, now: u64| Duration::from_millis(now + offsets[who]);
                // Read.
                if luck != 0 {
                    planners[who].saw(server.record.clone(), local(who, now));
                }
                now += way;
                if planners[who].claims(local(who, now)) {
                    let began = local(who, now);
                    // Lost before the server, or on its way back.
                    let answer = if luck == 1 { None } else { server.replace(&planners[who]) };
                    now += way;
                    if let Some(record) = answer.filter(|_| luck != 2) {
                        planners[who].claimed(record, began, local(who, now));
                    }
                }
                let leading: Vec<usize> = (0..3).filter(|one| planners[*one].leads(local(*one, now))).collect();
                prop_assert!(leading.len() < 2, "{leading:?} at {now}");
            }
        }
    }
}
