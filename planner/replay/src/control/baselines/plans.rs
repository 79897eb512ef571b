//! Plans of a baseline: of the ready cores, with what its rule has decided.

use std::time::Duration;

use weir_api::plan::HOUR_MS;
use weir_api::{Plan, Revision};

use crate::EPOCH_MS;
use crate::control::unplanned;
use weir_planner::capacity::Allocation;
use weir_planner::clock::Now;
use weir_planner::distribution::Publishers;
use weir_planner::plan::Draft;
use weir_planner::profile::Profile;
use weir_planner::service::Service;

/// Decided shares of the variants, and a variant with its batch.
type Decided<'a> = (Option<&'a [f64]>, Option<(usize, u32)>);

/// Publishers of all stages.
#[derive(Debug)]
pub(super) struct Plans {
    publishers: Publishers,
    /// Newest revision of each stage's plan.
    newest: Vec<Revision>,
}

impl Plans {
    pub(super) fn new(service: &Service) -> Plans {
        Plans {
            publishers: Publishers::new(service),
            newest: vec![Revision(0); service.stages.len().max(1)],
        }
    }

    /// Publishes the plans for ready replicas, and returns those that are new to the filters, each with its stage.
    pub(super) fn publish(
        &mut self,
        service: &Service,
        ready: &[Allocation],
        decided: Decided<'_>,
        at: Duration,
    ) -> Vec<(u16, Plan)> {
        let Some(mut drafts) = unplanned::drafts(service, ready) else {
            return Vec::new();
        };
        if let Some(first) = drafts.first_mut() {
            amend(first, service, ready, decided);
        }
        let ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        let now = Now {
            at,
            unix_ms: EPOCH_MS.saturating_add(ms),
        };
        let mut new = Vec::new();
        if self.publishers.publish(drafts, now).is_err() {
            return new;
        }
        let all = self.publishers.all().zip(&mut self.newest);
        for (stage, (publisher, known)) in (0..).zip(all) {
            if let Some(newest) = publisher.newest()
                && newest.plan.revision != *known
            {
                *known = newest.plan.revision;
                new.push((stage, newest.plan.clone()));
            }
        }
        new
    }
}

/// Puts the decided shares and batch into the draft of the only stage.
fn amend(draft: &mut Draft, service: &Service, ready: &[Allocation], (shares, batch): Decided<'_>) {
    for (part, share) in draft.variants.iter_mut().zip(shares.unwrap_or_default()) {
        part.share.0 = *share;
    }
    let Some((index, batch)) = batch else {
        return;
    };
    if let (Some(part), Some(variant), Some(ready)) = (
        draft.variants.get_mut(index),
        service.variants.get(index),
        ready.get(index),
    ) {
        let profile = Profile {
            batch,
            ..variant.profile
        };
        part.batch = batch;
        part.slots = profile.slots(ready.each()).saturating_mul(ready.replicas());
        part.service_ms = profile.service_ms(ready.each()).min(HOUR_MS as f64);
    }
}
