//! Distribution of plans to the filters: revisions and long polls. Every plan is validated before it is
//! sent. [`slot_allocation`] decides the slots of each proxy. Each stage of a pipeline has its own plans,
//! revisions and proxies.
//!
//! A plan is published when its content changed. It is renewed under a new revision after a third of its
//! age limit, so that a filter sees two renewals before it considers a plan stale. It is published at once
//! if a proxy already has a higher revision than the planner: a planner that restarted, or whose clock was
//! set back, must not be ignored.

#[cfg(feature = "serve")]
mod long_poll;
#[cfg(feature = "serve")]
mod polls;
pub mod slot_allocation;
mod stages;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use weir_api::plan::FORMAT;
use weir_api::{Plan, PlanError, Revision};

use crate::clock::Now;
use crate::distribution::slot_allocation::SlotAllocation;
use crate::plan::{Draft, differs};
use crate::service::Service;

#[cfg(feature = "serve")]
pub use long_poll::{LongPoll, PollResponse};
pub use stages::Publishers;

/// Highest revision that a poll may report. Above it no revisions would be left to exceed it with (half of
/// [`Revision::MAX`] is the year 142,000).
pub const AFTER_MAX: Revision = Revision(Revision::MAX.0 / 2);

/// Maximum number of plans that are kept of each stage, the newest included.
pub const PLANS_KEPT: usize = 32;

/// A published plan.
#[derive(Debug, Clone)]
pub struct Published {
    /// The plan, validated.
    pub plan: Plan,
    /// The plan as sent to proxies.
    pub json: Arc<[u8]>,
    /// Time of publication, by [`Now::at`].
    pub at: Duration,
}

/// Result of an offered plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Published revision; with several stages, the highest.
    pub revision: Revision,
    /// Number of plans that this offer published.
    pub new: u32,
}

/// Port to the filters. A replay passes the plan to its simulated ones.
pub trait Publish {
    /// Publishes if necessary; `drafts` has one draft for each stage, in their order.
    ///
    /// # Errors
    /// Fails if a draft is no valid plan; the previous plans stay in use.
    fn publish(&self, drafts: Vec<Draft>, now: Now) -> Result<Receipt, PlanError>;

    /// Waits until every live proxy has the plan of `revision`, at most `within`; returns whether they
    /// have.
    fn wait_adopted(
        &self,
        revision: Revision,
        within: Duration,
    ) -> impl Future<Output = bool> + Send;

    /// Waits until requests sent under an older plan have been executed, which takes `takes`.
    fn wait_drained(&self, takes: Duration) -> impl Future<Output = ()> + Send;
}

/// Publisher to the real filters of one stage, which poll.
#[derive(Debug)]
pub struct Publisher {
    service: String,
    max_age: Duration,
    allocation: Mutex<SlotAllocation>,
    newest: watch::Sender<Option<Arc<Published>>>,
    /// Latest plans, oldest first.
    kept: Mutex<VecDeque<Arc<Published>>>,
    /// Signals that a proxy should get another plan, or that proxies were added.
    moved: watch::Sender<()>,
    polled: Notify,
}

impl Publisher {
    /// Creates the first stage's publisher, without plans and proxies.
    pub fn new(service: &Service) -> Publisher {
        let name = service.stages.first().map_or("", |stage| &stage.name);
        Publisher::listening(name, service.plan_max_age, Duration::ZERO)
    }

    /// Creates a publisher for proxies that may have plans of a previous planner: nothing is sent before
    /// [`Now::at`] reaches `until`.
    fn listening(stage: &str, max_age: Duration, until: Duration) -> Publisher {
        Publisher {
            service: stage.to_owned(),
            max_age,
            allocation: Mutex::new(SlotAllocation::new(until)),
            newest: watch::Sender::new(None),
            kept: Mutex::default(),
            moved: watch::Sender::new(()),
            polled: Notify::new(),
        }
    }

    /// Returns the stage's name, which its filters carry as `service`.
    pub fn stage(&self) -> &str {
        &self.service
    }

    /// Returns a receiver of the newest complete plan.
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Published>>> {
        self.newest.subscribe()
    }

    /// Returns the newest complete plan.
    pub fn newest(&self) -> Option<Arc<Published>> {
        self.newest.borrow().clone()
    }

    /// Returns the latest plans, at most [`PLANS_KEPT`], oldest first.
    pub fn kept(&self) -> Vec<Arc<Published>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().cloned().collect()
    }

    /// Locks the slot allocation: the polling proxies and their slots.
    pub fn allocation(&self) -> MutexGuard<'_, SlotAllocation> {
        self.allocation
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Republishes the newest plan under a revision above `after` if a proxy's revision `after` exceeds all
    /// of this planner's.
    pub fn advance_revision(&self, after: Revision, now: Now) {
        let mut allocation = self.allocation();
        if !allocation.is_ahead(after.min(AFTER_MAX)) {
            return;
        }
        if let Some(newest) = self.newest() {
            // The plan was validated before; only its revision and time change.
            let _ = self.send(&mut allocation, newest.draft(), now);
        }
    }

    /// Publishes if necessary.
    ///
    /// # Errors
    /// Fails if the draft is no valid plan; the previous plan stays in use.
    pub fn publish(&self, draft: Draft, now: Now) -> Result<Receipt, PlanError> {
        let mut allocation = self.allocation();
        if let Some(newest) = self.newest() {
            let fresh = now.at.saturating_sub(newest.at) < self.max_age / 3;
            if fresh && !differs(&newest.draft(), &draft) {
                return Ok(Receipt {
                    revision: newest.plan.revision,
                    new: 0,
                });
            }
        }
        self.send(&mut allocation, draft, now)
    }

    /// Waits until every live proxy has the newest plan.
    pub async fn wait_adopted(&self) {
        if let Some(newest) = self.newest() {
            self.all_have(newest.plan.revision).await;
        }
    }

    fn plan(&self, draft: Draft, revision: Revision, now: Now) -> Plan {
        Plan {
            format: FORMAT,
            service: self.service.clone(),
            revision,
            published_ms: now.unix_ms,
            max_age_ms: u64::try_from(self.max_age.as_millis()).unwrap_or(u64::MAX),
            downstream_ms: draft.downstream_ms,
            variants: draft.variants,
        }
    }

    fn send(
        &self,
        allocation: &mut SlotAllocation,
        draft: Draft,
        now: Now,
    ) -> Result<Receipt, PlanError> {
        let plan = self.plan(draft, allocation.next_revision(now), now);
        plan.check()?;
        let revision = plan.revision;
        allocation.publish(plan.clone(), now);
        // A validated plan contains no map and no number that JSON cannot represent.
        let json = serde_json::to_vec(&plan).unwrap_or_default().into();
        let at = now.at;
        let published = Arc::new(Published { plan, json, at });
        self.keep(Arc::clone(&published));
        self.newest.send_replace(Some(published));
        self.moved.send_replace(());
        Ok(Receipt { revision, new: 1 })
    }

    /// Keeps a plan, and forgets the oldest beyond [`PLANS_KEPT`].
    fn keep(&self, published: Arc<Published>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == PLANS_KEPT {
            kept.pop_front();
        }
        kept.push_back(published);
    }

    async fn all_have(&self, revision: Revision) {
        loop {
            let polled = self.polled.notified();
            if self.allocation().all_have(revision) {
                return;
            }
            polled.await;
        }
    }
}

impl Published {
    fn draft(&self) -> Draft {
        Draft {
            variants: self.plan.variants.clone(),
            downstream_ms: self.plan.downstream_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::slot_allocation::tests::part;
    use super::*;
    use crate::spec::tests::service;

    fn draft(share: f64) -> Draft {
        Draft {
            variants: vec![part("small", share, 2), part("large", 1.0 - share, 2)],
            downstream_ms: 40.5,
        }
    }

    fn now(seconds: u64) -> Now {
        Now {
            at: Duration::from_secs(seconds),
            unix_ms: 1_000_000 + seconds * 1000,
        }
    }

    #[test]
    fn plan_is_published_on_change_and_renewed_at_third_of_age() {
        let publisher = Publisher::new(&service(8));
        // second, share → published revision, number of new plans
        for (second, share, revision, new) in [
            (0, 0.5, 1_000_000, 1),
            (1, 0.5, 1_000_000, 0),
            (2, 0.504, 1_000_000, 0),
            (3, 0.51, 1_003_000, 1),
            (22, 0.51, 1_003_000, 0),
            (23, 0.51, 1_023_000, 1),
        ] {
            let receipt = publisher.publish(draft(share), now(second)).unwrap();
            assert_eq!(
                receipt,
                Receipt {
                    revision: Revision(revision),
                    new
                },
                "second {second}"
            );
        }
        let newest = publisher.newest().unwrap();
        assert_eq!(newest.plan.published_ms, 1_023_000);
        assert_eq!(newest.plan.downstream_ms, 40.5);
        assert_eq!(
            serde_json::from_slice::<Plan>(&newest.json).unwrap(),
            newest.plan
        );
    }

    #[test]
    fn revisions_increase_when_clock_goes_back() {
        let publisher = Publisher::new(&service(8));
        publisher.publish(draft(0.5), now(100)).unwrap();
        let back = Now {
            at: Duration::from_secs(101),
            unix_ms: 5,
        };
        assert_eq!(
            publisher.publish(draft(0.2), back).unwrap().revision,
            Revision(1_100_001)
        );
    }

    #[test]
    fn proxy_with_higher_revision_causes_republication() {
        let publisher = Publisher::new(&service(8));
        publisher.advance_revision(Revision(3_000_000), now(0));
        assert!(
            publisher.newest().is_none(),
            "there is no plan to publish yet"
        );
        assert_eq!(
            publisher.publish(draft(0.5), now(0)).unwrap().revision,
            Revision(3_000_001)
        );
        publisher.advance_revision(Revision(3_000_001), now(1));
        assert_eq!(
            publisher.newest().unwrap().plan.revision,
            Revision(3_000_001),
            "level is not ahead"
        );
        publisher.advance_revision(Revision(4_000_000), now(1));
        assert_eq!(
            publisher.newest().unwrap().plan.revision,
            Revision(4_000_001)
        );
    }

    #[test]
    fn invalid_plan_is_not_published() {
        let publisher = Publisher::new(&service(8));
        let out = publisher.publish(draft(0.5), now(0)).unwrap().revision;
        let mut bad = draft(0.1);
        bad.variants[0].slots = 0;
        assert_eq!(
            publisher.publish(bad, now(1)),
            Err(PlanError::ShareWithoutSlots(0))
        );
        assert_eq!(publisher.newest().unwrap().plan.revision, out);
    }
}
