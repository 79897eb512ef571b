//! Plans → filters: revisions, and who waits for which. Every plan is checked before it leaves. What
//! each proxy gets of a plan is [`sharing`](crate::distribution::slot_allocation)'s to say. Each stage of a pipeline has plans,
//! revisions and proxies of its own.
//!
//! A plan is published when its content changed, renewed under a new revision after a third of its
//! age limit (so that a filter sees two renewals before it takes a plan for stale), and published at
//! once where a proxy already holds a greater revision than ours: a planner that was started anew, or
//! whose clock was set back, must not be ignored.

pub mod slot_allocation;
mod stages;
mod visit;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use weir_api::plan::FORMAT;
use weir_api::{Plan, PlanError, Revision};

use crate::clock::{Clock, Now};
use crate::distribution::slot_allocation::{Full, LOOK, Poll, Sharing};
use crate::plan::{Draft, differs};
use crate::service::Service;

pub use stages::Publishers;
pub use visit::{Told, Visit};

/// Greatest revision a poll may claim to have. Above it no revisions would be left to outrun it with
/// (half of [`Revision::MAX`] is the year 142,000).
pub const AFTER_MAX: Revision = Revision(Revision::MAX.0 / 2);

/// A plan that is out.
#[derive(Debug, Clone)]
pub struct Published {
    /// As it was checked.
    pub plan: Plan,
    /// As it goes over the wire.
    pub json: Arc<[u8]>,
    /// When; [`Now::at`].
    pub at: Duration,
}

/// What became of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The revision that is out; of several stages the greatest.
    pub revision: Revision,
    /// Plans that this offer brought out.
    pub new: u32,
}

/// The port to the filters; a replay hands the plan to its simulated ones.
pub trait Publish {
    /// Publishes, if there is reason to; one draft for each stage, in their order.
    ///
    /// # Errors
    /// What is offered is no valid plan; the last ones stay.
    fn publish(&self, drafts: Vec<Draft>, now: Now) -> Result<Receipt, PlanError>;

    /// Waits until every live proxy has what was out with `revision`, at most `within`; whether they have.
    fn taken_over(&self, revision: Revision, within: Duration)
    -> impl Future<Output = bool> + Send;

    /// Waits until what was sent by an older plan has been executed, which takes so long.
    fn drained(&self, takes: Duration) -> impl Future<Output = ()> + Send;
}

/// Publishes to the real filters of one stage, which poll.
#[derive(Debug)]
pub struct Publisher {
    service: String,
    max_age: Duration,
    sharing: Mutex<Sharing>,
    newest: watch::Sender<Option<Arc<Published>>>,
    /// Some proxy is to have another plan, or there are more of them.
    moved: watch::Sender<()>,
    polled: Notify,
}

impl Publisher {
    /// Nothing published yet, and nobody known, for the entry.
    pub fn new(service: &Service) -> Publisher {
        let name = service.stages.first().map_or("", |stage| &stage.name);
        Publisher::listening(name, service.plan_max_age, Duration::ZERO)
    }

    /// The same, for proxies that a planner before this one may have given plans: nothing is handed
    /// out until [`Now::at`] is `until`.
    fn listening(stage: &str, max_age: Duration, until: Duration) -> Publisher {
        Publisher {
            service: stage.to_owned(),
            max_age,
            sharing: Mutex::new(Sharing::new(until)),
            newest: watch::Sender::new(None),
            moved: watch::Sender::new(()),
            polled: Notify::new(),
        }
    }

    /// The stage: the service that its filters carry.
    pub fn stage(&self) -> &str {
        &self.service
    }

    /// The newest plan, whole, and word of each newer one.
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Published>>> {
        self.newest.subscribe()
    }

    /// The newest plan, whole.
    pub fn newest(&self) -> Option<Arc<Published>> {
        self.newest.borrow().clone()
    }

    /// The proxies that poll, and what each has.
    pub fn sharing(&self) -> MutexGuard<'_, Sharing> {
        self.sharing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a poll, which then waits.
    ///
    /// # Errors
    /// As many proxies share already as may.
    pub fn visit(&self, poll: &Poll, clock: Clock) -> Result<Visit<'_>, Full> {
        let now = clock.now();
        self.outrun(poll.after, now);
        let moved = self.moved.subscribe();
        let (ticket, others) = self.sharing().poll(poll, now)?;
        let visit = Visit {
            publisher: self,
            ticket,
            clock,
            moved,
            answered: false,
        };
        self.polled.notify_waiters();
        if others {
            self.moved.send_replace(());
        }
        Ok(visit)
    }

    /// Looks at the time for those who wait for a proxy that has gone; never ends.
    pub async fn keep_time(&self, clock: Clock) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let moved = self.sharing().pass(clock.now());
            if moved {
                self.moved.send_replace(());
                self.polled.notify_waiters();
            }
        }
    }

    /// A proxy holds `after`: if that is beyond all of ours, the newest is published anew beyond it.
    pub fn outrun(&self, after: Revision, now: Now) {
        let mut sharing = self.sharing();
        if !sharing.is_ahead(after.min(AFTER_MAX)) {
            return;
        }
        if let Some(newest) = self.newest() {
            // It passed the check before; only its revision and time change.
            let _ = self.send(&mut sharing, newest.draft(), now);
        }
    }

    /// Publishes, if there is reason to.
    ///
    /// # Errors
    /// What is offered is no valid plan; the last one stays.
    pub fn publish(&self, draft: Draft, now: Now) -> Result<Receipt, PlanError> {
        let mut sharing = self.sharing();
        if let Some(newest) = self.newest() {
            let fresh = now.at.saturating_sub(newest.at) < self.max_age / 3;
            if fresh && !differs(&newest.draft(), &draft) {
                return Ok(Receipt {
                    revision: newest.plan.revision,
                    new: 0,
                });
            }
        }
        self.send(&mut sharing, draft, now)
    }

    /// Waits until every live proxy has the newest plan.
    async fn taken_over(&self) {
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
            rest_ms: draft.rest_ms,
            variants: draft.variants,
        }
    }

    fn send(&self, sharing: &mut Sharing, draft: Draft, now: Now) -> Result<Receipt, PlanError> {
        let plan = self.plan(draft, sharing.next_revision(now), now);
        plan.check()?;
        let revision = plan.revision;
        sharing.publish(plan.clone(), now);
        // A checked plan holds no map and no number that JSON lacks.
        let json = serde_json::to_vec(&plan).unwrap_or_default().into();
        self.newest.send_replace(Some(Arc::new(Published {
            plan,
            json,
            at: now.at,
        })));
        self.moved.send_replace(());
        Ok(Receipt { revision, new: 1 })
    }

    async fn all_have(&self, revision: Revision) {
        loop {
            let polled = self.polled.notified();
            if self.sharing().all_have(revision) {
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
            rest_ms: self.plan.rest_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::service;
    use weir_api::{Share, VariantPlan};

    fn draft(share: f64) -> Draft {
        let variant = |name: &str, share| VariantPlan {
            name: name.into(),
            cluster: name.into(),
            share: Share(share),
            slots: 2,
            batch: 1,
            cancels: false,
            service_ms: 40.0,
            service_min_ms: 0.0,
            accuracy: 70.0,
        };
        Draft {
            variants: vec![variant("small", share), variant("large", 1.0 - share)],
            rest_ms: 40.5,
        }
    }

    fn now(seconds: u64) -> Now {
        Now {
            at: Duration::from_secs(seconds),
            unix_ms: 1_000_000 + seconds * 1000,
        }
    }

    #[test]
    fn published_when_changed_and_renewed_at_a_third_of_its_age() {
        let publisher = Publisher::new(&service(8));
        // second, share → revision out, whether new
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
        assert_eq!(newest.plan.rest_ms, 40.5);
        assert_eq!(
            serde_json::from_slice::<Plan>(&newest.json).unwrap(),
            newest.plan
        );
    }

    #[test]
    fn revisions_rise_when_the_clock_falls() {
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
    fn a_proxy_ahead_of_us_is_outrun_at_once() {
        let publisher = Publisher::new(&service(8));
        publisher.outrun(Revision(3_000_000), now(0));
        assert!(
            publisher.newest().is_none(),
            "there is no plan to publish yet"
        );
        assert_eq!(
            publisher.publish(draft(0.5), now(0)).unwrap().revision,
            Revision(3_000_001)
        );
        publisher.outrun(Revision(3_000_001), now(1));
        assert_eq!(
            publisher.newest().unwrap().plan.revision,
            Revision(3_000_001),
            "level is not ahead"
        );
        publisher.outrun(Revision(4_000_000), now(1));
        assert_eq!(
            publisher.newest().unwrap().plan.revision,
            Revision(4_000_001)
        );
    }

    #[test]
    fn a_plan_that_is_none_does_not_leave() {
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
