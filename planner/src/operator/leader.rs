//! The Lease in the Kubernetes API: reading, claiming, renewing and releasing it. [`lease`](super::lease)
//! decides; this module acts and announces the leader.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::lease::{DURATION, Election, REQUEST_TIMEOUT, RETRY_PERIOD, Record};
use crate::clock::Clock;
use crate::http::{Leader, Leadership, Term};

/// Name of the Lease.
pub const LEASE: &str = "weir-planner";
/// Annotation with the address of the holder.
const ADDRESS: &str = "weir.dev/address";

/// A planner that takes part in the election.
#[derive(Debug)]
pub struct Candidate {
    api: Api<Lease>,
    me: String,
    address: String,
    clock: Clock,
    election: Mutex<Election>,
    leader: watch::Sender<Leader>,
    term: watch::Sender<Option<Term>>,
}

impl Candidate {
    /// Creates the candidate `me`, which is reachable at `address`, with a Lease in that namespace.
    pub fn new(
        client: &kube::Client,
        namespace: &str,
        me: &str,
        address: &str,
        clock: Clock,
    ) -> Arc<Candidate> {
        Arc::new(Candidate {
            api: Api::namespaced(client.clone(), namespace),
            me: me.to_owned(),
            address: address.to_owned(),
            clock,
            election: Mutex::new(Election::new(me)),
            leader: watch::Sender::new(Leader::Nobody),
            term: watch::Sender::default(),
        })
    }

    /// Returns a receiver of the current leader and of each change.
    pub fn leader(&self) -> watch::Receiver<Leader> {
        self.leader.subscribe()
    }

    /// Returns receivers of the leader and of this planner's term.
    pub fn leadership(&self) -> Leadership {
        Leadership {
            leader: self.leader(),
            term: self.term.subscribe(),
        }
    }

    /// Returns the begin of this planner's current term; `None` while it does not lead.
    pub fn term_since(&self) -> Option<Duration> {
        let now = self.clock.now().at;
        let term = self.term.borrow().filter(|term| term.covers(now));
        term.map(|term| term.since)
    }

    /// Whether this planner may act now.
    pub fn leads(&self) -> bool {
        self.election().leads(self.clock.now().at)
    }

    /// Reads, claims and renews the Lease until `stop` is set. A claim under way is finished first: one whose answer is
    /// not known could not be released.
    pub async fn run(&self, mut stop: watch::Receiver<bool>) {
        let mut failing = false;
        while !*stop.borrow() {
            match self.try_acquire().await {
                Ok(()) => failing = false,
                Err(error) => {
                    if !failing {
                        tracing::warn!(
                            "lease {LEASE}: {error}; tried again every {RETRY_PERIOD:?}"
                        );
                    }
                    failing = true;
                }
            }
            self.announce();
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                () = self.pause() => {}
            }
        }
    }

    /// Releases the Lease if this planner holds it, so that another need not wait.
    pub async fn release(&self) {
        let held = {
            let mut election = self.election();
            let leads = election.leads(self.clock.now().at);
            election.resign();
            let version = election.version().filter(|_| leads).map(str::to_owned);
            version.map(|version| (version, election.transitions()))
        };
        self.announce();
        let Some((version, transitions)) = held else {
            return;
        };
        let released = self.write(Some(version), None, transitions).await;
        if let Err(error) = released {
            tracing::warn!("lease {LEASE}: not given back: {error}");
        }
    }

    fn election(&self) -> std::sync::MutexGuard<'_, Election> {
        self.election.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the next read is due. A leader whose time runs out is announced as such at that moment,
    /// once.
    async fn pause(&self) {
        let now = self.clock.now().at;
        let until = self.election().until();
        let left = until.and_then(|until| until.checked_sub(now));
        match left.filter(|left| !left.is_zero() && *left < RETRY_PERIOD) {
            Some(left) => {
                sleep(left).await;
                self.announce();
            }
            None => sleep(RETRY_PERIOD).await,
        }
    }

    async fn try_acquire(&self) -> Result<(), LeaseError> {
        let read = with_timeout(self.api.get_opt(LEASE)).await?;
        let now = self.clock.now().at;
        {
            let mut election = self.election();
            election.observe(read.map(|lease| record(&lease)), now);
            if !election.should_claim(now) {
                return Ok(());
            }
        }
        // A Lease that another planner has taken ends the term now, not after the claim.
        self.announce();
        let (version, transitions) = {
            let election = self.election();
            (
                election.version().map(str::to_owned),
                election.transitions(),
            )
        };
        let written = self.write(version, Some(&self.me), transitions).await?;
        let later = self.clock.now().at;
        self.election().record_claim(record(&written), now, later);
        Ok(())
    }

    /// Writes the Lease, replacing that version if there is one.
    async fn write(
        &self,
        version: Option<String>,
        holder: Option<&str>,
        transitions: i32,
    ) -> Result<Lease, LeaseError> {
        let params = PostParams::default();
        let address = holder.map(|_| BTreeMap::from([(ADDRESS.to_owned(), self.address.clone())]));
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(LEASE.to_owned()),
                resource_version: version.clone(),
                annotations: address,
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: holder.map(str::to_owned),
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
                lease_transitions: Some(transitions),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            }),
        };
        match version {
            Some(_) => with_timeout(self.api.replace(LEASE, &params, &lease)).await,
            None => with_timeout(self.api.create(&params, &lease)).await,
        }
    }

    fn announce(&self) {
        let now = self.clock.now().at;
        let (leader, until) = {
            let election = self.election();
            let leader = match (election.leads(now), election.other(now)) {
                (true, _) => Leader::Us,
                (false, Some(address)) => Leader::At(address.to_owned()),
                (false, None) => Leader::Nobody,
            };
            (leader, election.until())
        };
        let before = *self.term.borrow();
        let term = Term::prolonged(before, until, now);
        self.term.send_if_modified(|announced| {
            let new = *announced != term;
            *announced = term;
            new
        });
        // A term that begins is announced even where the end of the one before was missed.
        let begins = before.map(|term| term.since) != term.map(|term| term.since);
        self.leader.send_if_modified(|announced| {
            let new = *announced != leader || begins;
            if new {
                match &leader {
                    Leader::Us => tracing::info!("this planner leads"),
                    Leader::At(address) => tracing::info!("the planner at {address} leads"),
                    Leader::Nobody => tracing::info!("no planner is known to lead"),
                }
                *announced = leader;
            }
            new
        });
    }
}

/// Reason why the Lease could not be read or written.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("no answer within {REQUEST_TIMEOUT:?}")]
    Late,
    #[error("{0}")]
    Refused(#[from] kube::Error),
}

async fn with_timeout<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
    Ok(timeout(REQUEST_TIMEOUT, request)
        .await
        .map_err(|_| LeaseError::Late)??)
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.as_ref();
    let annotations = lease.metadata.annotations.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        holder: spec
            .and_then(|spec| spec.holder_identity.clone())
            .filter(|holder| !holder.is_empty()),
        address: annotations.and_then(|all| all.get(ADDRESS).cloned()),
        duration: seconds.map_or(DURATION, Duration::from_secs).max(DURATION),
        transitions: spec.and_then(|spec| spec.lease_transitions).unwrap_or(0),
    }
}
