//! Publishers of all stages together: the plans of a cycle are published for all stages or for none.

use std::time::Duration;

use weir_api::{PlanError, Revision};

use super::slot_allocation::LISTEN_TIME;
use super::{Publisher, Receipt};
use crate::clock::Now;
use crate::plan::Draft;
use crate::service::Service;

/// One publisher for each stage, in their order; at least the first stage's.
#[derive(Debug)]
pub struct Publishers {
    entry: Publisher,
    others: Vec<Publisher>,
    began_at: Duration,
}

impl Publishers {
    /// Creates the publishers, without plans and proxies.
    pub fn new(service: &Service) -> Publishers {
        Publishers::listening(service, Duration::ZERO)
    }

    /// Creates publishers for proxies that may have plans of a previous planner: nothing is sent before
    /// [`Now::at`] reaches `until`.
    pub fn listening(service: &Service, until: Duration) -> Publishers {
        let began_at = until.saturating_sub(LISTEN_TIME);
        let max_age = service.plan_max_age;
        let publisher = |name: &str| Publisher::listening(name, max_age, until);
        let names: Vec<&str> = service
            .stages
            .iter()
            .map(|stage| stage.name.as_str())
            .collect();
        let (entry, others) = names.split_first().unwrap_or((&"", &[]));
        Publishers {
            entry: publisher(entry),
            others: others.iter().map(|name| publisher(name)).collect(),
            began_at,
        }
    }

    /// Returns the time at which their slot allocations began, by [`Now::at`].
    pub fn began_at(&self) -> Duration {
        self.began_at
    }

    /// Returns the publisher of the first stage, through which requests enter.
    pub fn entry(&self) -> &Publisher {
        &self.entry
    }

    /// Returns the publisher of the stage with that name.
    pub fn of(&self, stage: &str) -> Option<&Publisher> {
        self.all().find(|publisher| publisher.stage() == stage)
    }

    /// Returns all publishers, in stage order.
    pub fn all(&self) -> impl Iterator<Item = &Publisher> {
        std::iter::once(&self.entry).chain(&self.others)
    }

    /// Publishes the newest plans once more, if they are due to be renewed.
    pub fn renew(&self, now: Now) {
        for publisher in self.all() {
            if let Some(newest) = publisher.newest() {
                // It was validated before; only its revision and time change.
                let _ = publisher.publish(newest.draft(), now);
            }
        }
    }

    /// Publishes the drafts of all stages, in their order, where they are news.
    ///
    /// # Errors
    /// A draft is no valid plan; then none is published.
    pub fn publish(&self, drafts: Vec<Draft>, now: Now) -> Result<Receipt, PlanError> {
        for (publisher, draft) in self.all().zip(&drafts) {
            publisher.plan(draft.clone(), Revision(1), now).check()?;
        }
        let mut all = Receipt {
            revision: Revision(0),
            new: 0,
        };
        for (publisher, draft) in self.all().zip(drafts) {
            let one = publisher.publish(draft, now)?;
            all.revision = all.revision.max(one.revision);
            all.new += one.new;
        }
        Ok(all)
    }
}

#[cfg(feature = "serve")]
impl Publishers {
    /// Advances the time of all slot allocations, so that proxies that are gone are noticed; never returns.
    pub async fn run_ticks(&self, clock: crate::clock::Clock) {
        futures_util::future::join_all(self.all().map(|publisher| publisher.run_ticks(clock)))
            .await;
    }
}

#[cfg(feature = "serve")]
impl super::Publish for Publishers {
    fn publish(&self, drafts: Vec<Draft>, now: Now) -> Result<Receipt, PlanError> {
        Publishers::publish(self, drafts, now)
    }

    async fn wait_adopted(&self, _revision: Revision, within: Duration) -> bool {
        let all = futures_util::future::join_all(self.all().map(Publisher::wait_adopted));
        tokio::time::timeout(within, all).await.is_ok()
    }

    async fn wait_drained(&self, takes: Duration) {
        tokio::time::sleep(takes).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot_allocation::tests::part;
    use super::*;
    use crate::service::Stage;
    use crate::spec::tests::service;

    fn draft(name: &str, slots: u32, downstream_ms: f64) -> Draft {
        Draft {
            variants: vec![part(name, 1.0, slots)],
            downstream_ms,
        }
    }

    #[test]
    fn stages_have_separate_plans_and_invalid_one_blocks_all() {
        let mut service = service(8);
        let stage = |name: &str, variant| Stage {
            name: name.to_owned(),
            variants: variant..variant + 1,
        };
        service.stages = vec![stage("detect", 0), stage("classify", 1)];
        let publishers = Publishers::new(&service);
        let at = |second| Now {
            at: Duration::from_secs(second),
            unix_ms: second * 1000,
        };
        let offer = |slots, downstream_ms, second| {
            let drafts = vec![draft("a", 2, downstream_ms), draft("b", slots, 0.0)];
            publishers.publish(drafts, at(second))
        };
        let (revision, new) = (Revision(5000), 2);
        assert_eq!(offer(3, 40.0, 5), Ok(Receipt { revision, new }));
        let (revision, new) = (Revision(6000), 1);
        assert_eq!(offer(4, 40.0, 6), Ok(Receipt { revision, new }));
        assert_eq!(offer(0, 80.0, 7), Err(PlanError::ShareWithoutSlots(0)));
        let plan = |stage| publishers.of(stage).unwrap().newest().unwrap().plan.clone();
        let (detect, classify) = (plan("detect"), plan("classify"));
        assert_eq!(
            (
                detect.service.as_str(),
                detect.revision.0,
                detect.downstream_ms
            ),
            ("detect", 5000, 40.0)
        );
        assert_eq!((classify.variants[0].slots, classify.revision.0), (4, 6000));
        assert_eq!(publishers.entry().stage(), "detect");
        assert!(publishers.of("other").is_none());
    }
}
