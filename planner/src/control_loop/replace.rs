//! `fallback: replace`: a pod that cannot grow on its full node is replaced by another one. Plans stop counting on it
//! first, so that no request is on its way to it. One replacement per cycle.

use weir_api::Cores;

use super::act::{Acted, TAKE_OVER_MAX, longest};
use super::{Planner, Ports};
use crate::backends::{Actuate, Blocker, Reason};
use crate::capacity::Actual;
use crate::clock::Now;
use crate::distribution::Publish;
use crate::service::{Fallback, Inputs, Mode};

impl Planner {
    /// Continues the replacement under way, or begins one.
    pub(super) async fn replace<O, A, P, S>(
        &mut self,
        ports: &Ports<'_, O, A, P, S>,
        inputs: Option<Inputs>,
        now: Now,
        acted: &mut Acted,
    ) where
        A: Actuate,
        P: Publish,
    {
        if self.service.fallback != Fallback::Replace || self.service.mode != Mode::Active {
            return;
        }
        let Some((variant, actual)) = self.retire(ports.actuate) else {
            return;
        };
        self.set_in_force(variant, actual);
        let plan: Vec<_> = self.rollout.actual.iter().map(|one| one.ready).collect();
        if !self.publish(ports.publish, &plan, inputs, now, acted) {
            return;
        }
        if let Some(revision) = acted.revision {
            ports.publish.wait_adopted(revision, TAKE_OVER_MAX).await;
            let under_way = longest(&acted.plan, [variant].into_iter());
            ports.publish.wait_drained(under_way).await;
        }
        let name = self.service.variants.get(variant);
        let who = name.map_or(String::new(), |variant| {
            format!("replacing {}", variant.name)
        });
        let blocker = match ports.actuate.replace(variant).await {
            Ok(actual) => {
                self.troubles.went_well(&who);
                self.set_in_force(variant, actual);
                self.rollout.retired = None;
                Blocker {
                    reason: Reason::Replacing,
                    why: "a pod that its node has no capacity for is replaced".to_owned(),
                }
            }
            Err(error) => {
                self.troubles.failed(&who, &error, "it is tried again");
                // A pending write: the pod stays uncounted, and the replacement is requested again.
                self.rollout.retired = error.may_have_applied().then_some(variant);
                Blocker::of(&error)
            }
        };
        if let Some(known) = self.rollout.blockers.get_mut(variant) {
            *known = Some(blocker);
        }
    }

    /// Returns the first variant with a pod to be replaced now, and the actual state without that pod. For variants
    /// whose replacement has to wait, adds the reason to the blocker.
    fn retire<A: Actuate>(&mut self, actuate: &A) -> Option<(usize, Actual)> {
        let reserved: Cores = self.rollout.actual.iter().map(|one| one.reserved).sum();
        let spare = self.service.budget_cores().saturating_sub(reserved);
        let begun = self.rollout.retired;
        let replicas: Vec<u32> = self
            .rollout
            .actual
            .iter()
            .map(|one| one.replicas_reserved)
            .collect();
        for (variant, blocker) in self.rollout.blockers.iter_mut().enumerate() {
            if blocker.is_none() && begun != Some(variant) {
                continue;
            }
            let own = replicas.get(variant).copied().unwrap_or(0);
            if begun != Some(variant) && self.service.limits.max_replicas(variant, &replicas) <= own
            {
                // The new pod starts before the old one has ended.
                let full = [Reason::Deferred, Reason::Infeasible];
                if let Some(blocker) = blocker.as_mut().filter(|one| full.contains(&one.reason)) {
                    blocker.why += "; it is not replaced: what another one uses would exceed budget.resources now";
                }
                continue;
            }
            match actuate.retire(variant, spare) {
                Some(Ok(actual)) => {
                    self.rollout.retired = Some(variant);
                    return Some((variant, actual));
                }
                Some(Err(kept)) => {
                    if let Some(blocker) = blocker {
                        blocker.why += &format!("; {kept}");
                    }
                }
                None => {}
            }
        }
        self.rollout.retired = None;
        None
    }

    fn set_in_force(&mut self, variant: usize, actual: Actual) {
        if let Some(known) = self.rollout.actual.get_mut(variant) {
            *known = actual;
        }
    }
}
