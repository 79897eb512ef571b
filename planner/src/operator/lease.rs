//! Leader election by a Lease: pure. The records read and their times come in. The result is whether to
//! claim the Lease, and whether this planner may act.
//!
//! The algorithm is client-go's. A claim replaces exactly the version that was read, so that one of two
//! simultaneous claims is refused. A holder counts as gone once its record has not changed for as long as
//! the record promises, measured by the waiting planner's clock; differing clocks therefore do no harm. A
//! holder stops acting [`RENEW_DEADLINE`] after it *began* its last successful renewal. Others wait [`DURATION`]
//! from when they saw it, so requests sent by the holder have [`DURATION`] − [`RENEW_DEADLINE`] to complete or
//! fail.

use std::time::Duration;

/// Validity of a record after it was seen to change.
pub const DURATION: Duration = Duration::from_secs(10);
/// Time for which a holder acts after a renewal.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(6);
/// Interval at which all planners read the Lease.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Timeout of one request about the Lease.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

const _: () =
    assert!(RETRY_PERIOD.as_secs() + 2 * REQUEST_TIMEOUT.as_secs() <= RENEW_DEADLINE.as_secs());
/// Maximum time until another planner leads after the holder was killed. The whole failover is allowed 15
/// s.
pub const TAKE_OVER_MAX: Duration =
    Duration::from_secs(DURATION.as_secs() + RETRY_PERIOD.as_secs() + REQUEST_TIMEOUT.as_secs());
const _: () = assert!(TAKE_OVER_MAX.as_secs() < 15);

/// A Lease as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// `metadata.resourceVersion`.
    pub version: String,
    /// Name of the holder; none if the Lease was released.
    pub holder: Option<String>,
    /// Address of the holder.
    pub address: Option<String>,
    /// Validity of the record.
    pub duration: Duration,
    /// Number of changes of the holder.
    pub transitions: i32,
}

/// One planner's view of the election.
#[derive(Debug)]
pub struct Election {
    me: String,
    observed: Option<(Record, Duration)>,
    renewed: Option<Duration>,
}

impl Election {
    /// Creates the view of the planner called `me`, with nothing known.
    pub fn new(me: &str) -> Election {
        Election {
            me: me.to_owned(),
            observed: None,
            renewed: None,
        }
    }

    /// Records what was read; `None` means that there is no Lease.
    pub fn observe(&mut self, record: Option<Record>, now: Duration) {
        let before = self.observed.take();
        self.observed = record.map(|record| match before {
            Some((before, at)) if before.version == record.version => (before, at),
            _ => (record, now),
        });
    }

    /// Whether this planner should claim the Lease, or renew its claim.
    pub fn should_claim(&self, now: Duration) -> bool {
        let Some((record, at)) = &self.observed else {
            return true;
        };
        match &record.holder {
            Some(holder) if *holder != self.me => now >= *at + record.duration,
            _ => true,
        }
    }

    /// Records that a claim sent at `began` succeeded, and the resulting Lease.
    pub fn record_claim(&mut self, record: Record, began: Duration, now: Duration) {
        self.observe(Some(record), now);
        self.renewed = Some(began);
    }

    /// Records that this planner releases the Lease or may no longer act.
    pub fn resign(&mut self) {
        self.renewed = None;
    }

    /// Whether this planner may act.
    pub fn leads(&self, now: Duration) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// Returns the time until which this planner may act without a further renewal.
    pub fn until(&self) -> Option<Duration> {
        let holder = self.observed.as_ref().map(|(record, _)| &record.holder);
        let mine = holder.is_some_and(|holder| holder.as_deref() == Some(&self.me));
        self.renewed
            .filter(|_| mine)
            .map(|began| began + RENEW_DEADLINE)
    }

    /// Returns the address of another planner that holds a valid Lease.
    pub fn other(&self, now: Duration) -> Option<&str> {
        let (record, at) = self.observed.as_ref()?;
        let holder = record.holder.as_deref().filter(|holder| *holder != self.me);
        holder.filter(|_| now < *at + record.duration)?;
        record.address.as_deref()
    }

    /// Returns the number of holder changes after this planner's claim.
    pub fn transitions(&self) -> i32 {
        let Some((record, _)) = &self.observed else {
            return 0;
        };
        let kept = record.holder.as_deref() == Some(&self.me);
        record.transitions.saturating_add(i32::from(!kept))
    }

    /// Returns the version that a claim replaces; none if there is no Lease.
    pub fn version(&self) -> Option<&str> {
        self.observed
            .as_ref()
            .map(|(record, _)| record.version.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::Term;

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
    fn free_lease_is_claimed_and_renewed_lease_is_not() {
        let mut election = Election::new("a");
        assert!(election.should_claim(s(0)));
        election.observe(Some(record(1, None)), s(0));
        assert!(election.should_claim(s(0)));
        assert_eq!(election.transitions(), 4);
        for renewal in 0..10 {
            election.observe(Some(record(2 + renewal, Some("b"))), s(9 * renewal));
            assert!(!election.should_claim(s(9 * renewal + 9)), "{renewal}");
            assert_eq!(election.other(s(9 * renewal + 9)), Some("http://b"));
        }
        // Read again without a change: the time counts from the last change.
        election.observe(Some(record(11, Some("b"))), s(85));
        assert!(!election.should_claim(s(90)));
        assert!(election.should_claim(s(91)));
        assert_eq!(election.other(s(91)), None);
    }

    #[test]
    fn leader_acts_for_limited_time_after_start_of_renewal() {
        let mut election = Election::new("a");
        election.record_claim(record(1, Some("a")), s(10), s(12));
        assert_eq!(election.transitions(), 3, "it keeps it");
        assert!(election.leads(s(15)));
        assert!(!election.leads(s(16)), "from the beginning");
        election.record_claim(record(2, Some("a")), s(14), s(14));
        assert!(election.leads(s(19)));
        election.observe(Some(record(3, Some("b"))), s(15));
        assert!(!election.leads(s(15)), "somebody has taken it");
        election.record_claim(record(4, Some("a")), s(30), s(30));
        election.resign();
        assert!(!election.leads(s(30)));
        assert!(election.should_claim(s(30)), "it is its own still");
    }

    /// A Lease with versions, as the API server keeps one.
    #[derive(Default)]
    struct Server {
        record: Option<Record>,
        version: u64,
    }

    impl Server {
        fn replace(&mut self, by: &Election) -> Option<Record> {
            let actual = self.record.as_ref().map(|record| record.version.as_str());
            if actual != by.version() {
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
        /// Three planners whose clocks have different offsets and the same speed. Requests are delayed, or
        /// lost before or after the server; planners pause for long and resume.
        #[test]
        fn two_planners_never_lead_at_once(steps in prop::collection::vec((0usize..3, 0u64..4_000, 0u64..2_000, 0u8..8), 1..200)) {
            let offsets = [0, 1_000_000, 77];
            let mut planners = ["a", "b", "c"].map(Election::new);
            let mut server = Server::default();
            let mut now = 0;
            for (who, pause, way, luck) in steps {
                now += pause;
                let local = |who: usize, now: u64| Duration::from_millis(now + offsets[who]);
                // Read.
                if luck != 0 {
                    planners[who].observe(server.record.clone(), local(who, now));
                }
                now += way;
                if planners[who].should_claim(local(who, now)) {
                    let began = local(who, now);
                    // Lost before the server, or on its way back.
                    let answer = if luck == 1 { None } else { server.replace(&planners[who]) };
                    now += way;
                    if let Some(record) = answer.filter(|_| luck != 2) {
                        planners[who].record_claim(record, began, local(who, now));
                    }
                }
                let leading: Vec<usize> = (0..3).filter(|one| planners[*one].leads(local(*one, now))).collect();
                prop_assert!(leading.len() < 2, "{leading:?} at {now}");
            }
        }

        /// The same, with the terms in which they allocate slots. A term is announced late or not at all; whoever
        /// allocates does so by an allocation that began after all others had stopped.
        #[test]
        fn two_planners_never_allocate_slots(steps in prop::collection::vec((0usize..3, 0u64..6_000, 0u64..2_000, 0u8..8), 1..200)) {
            let offsets = [0, 1_000_000, 77];
            let local = |who: usize, now: u64| Duration::from_millis(now + offsets[who]);
            let mut planners = ["a", "b", "c"].map(Election::new);
            let mut terms: [Option<Term>; 3] = [None; 3];
            let mut allocated = [None; 3];
            let mut server = Server::default();
            let mut now = 0;
            for (who, pause, way, luck) in steps {
                // Proxies poll all planners meanwhile.
                for now in (now..=now + pause + way).step_by(100) {
                    let allocates = |one: &usize| terms[*one].filter(|term| term.covers(local(*one, now)));
                    let all: Vec<_> = (0..3).filter_map(|one| Some((one, allocates(&one)?))).collect();
                    prop_assert!(all.len() < 2, "{all:?} at {now}");
                    for (one, term) in all {
                        let others = (0..3).filter(|other| *other != one);
                        let latest = others.filter_map(|other| allocated[other]).max();
                        let began = term.since - Duration::from_millis(offsets[one]);
                        prop_assert!(latest.is_none_or(|latest| latest <= began), "{term:?} at {now}: {allocated:?}");
                        allocated[one] = Some(Duration::from_millis(now));
                    }
                }
                now += pause;
                if luck != 0 {
                    planners[who].observe(server.record.clone(), local(who, now));
                }
                now += way;
                if planners[who].should_claim(local(who, now)) {
                    let began = local(who, now);
                    if let Some(record) = server.replace(&planners[who]).filter(|_| luck != 2) {
                        planners[who].record_claim(record, began, local(who, now));
                    }
                }
                if luck != 3 {
                    terms[who] = Term::prolonged(terms[who], planners[who].until(), local(who, now));
                }
            }
        }
    }
}
