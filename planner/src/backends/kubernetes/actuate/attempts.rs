//! A change, from its distribution over the pods to the answer: scaled, patched, and waited for.

use futures_util::StreamExt;
use futures_util::stream;
use tokio::time::Instant;
use weir_api::Cores;

use super::blockers::Attempt;
use super::{KubeBackends, PATCHES_AT_ONCE, PodBlocker};
use crate::backends::kubernetes::api_failure::ApiFailure;
use crate::backends::kubernetes::disruption::DisruptionAllowance;
use crate::backends::kubernetes::distribute::{CapacityLimit, PodChanges, PodPatch, WorkloadState};
use crate::backends::kubernetes::error::KubeError;
use crate::backends::kubernetes::rate_limit::PatchRequest;
use crate::capacity::{Actual, Resize};

impl KubeBackends {
    fn distribute(&self, change: Resize) -> Result<PodChanges, KubeError> {
        let state = self.state(change.variant)?;
        Ok(state.distribute(
            change.target,
            CapacityLimit::of(&change),
            &self.writes().refusals,
        ))
    }

    /// Scales the workload if needed and determines the pods to patch.
    pub(super) async fn start(
        &self,
        change: Resize,
        deadline: Instant,
    ) -> Result<Attempt, KubeError> {
        self.check_sole_writer(change.variant)?;
        let mut attempt = Attempt::new(change.variant, self.distribute(change)?);
        let Some(target_replicas) = attempt.changes.scale else {
            return Ok(attempt);
        };
        let spec_replicas = self.state(change.variant)?.replicas;
        let replicas =
            self.limit_by_pdb(change.variant, spec_replicas, target_replicas, &mut attempt)?;
        if replicas == spec_replicas && attempt.pdb_limit.is_some() {
            return Ok(attempt);
        }
        let fewer = replicas < spec_replicas;
        match self.scale(change.variant, replicas, deadline).await {
            Ok(()) => attempt.sent = true,
            Err(failure) => {
                attempt.sent = failure.may_have_applied();
                attempt.scaling_failure = Some(failure);
                return Ok(attempt);
            }
        }
        if fewer {
            // The workload's controller chooses which pods end; the others are patched.
            let half = Instant::now() + deadline.duration_since(Instant::now()) / 2;
            self.wait_until(half, || {
                let state = self.state(change.variant);
                state.is_ok_and(|state| state.staying() <= replicas)
            })
            .await;
            attempt.changes = self
                .distribute(change)
                .map_err(|error| attempt.with_progress(error))?;
        }
        Ok(attempt)
    }

    /// Limits a scale-down to what PodDisruptionBudgets allow; returns the replica count to request.
    fn limit_by_pdb(
        &self,
        variant: usize,
        spec_replicas: u32,
        target_replicas: u32,
        attempt: &mut Attempt,
    ) -> Result<u32, KubeError> {
        if target_replicas >= spec_replicas {
            return Ok(target_replicas);
        }
        let pods = self.spec(variant)?.pods(self.namespace.pods()?);
        let allowed = self.namespace.disruption(&pods)?;
        let min = |allowed: &DisruptionAllowance| spec_replicas.saturating_sub(allowed.pods);
        let strict = allowed.filter(|allowed| target_replicas < min(allowed));
        let replicas = strict.as_ref().map_or(target_replicas, min);
        attempt.pdb_limit = strict;
        Ok(replicas)
    }

    /// Sends the patches of all changes, within the rate limit.
    pub(super) async fn patch(
        &self,
        attempts: &mut [Result<Attempt, KubeError>],
        deadline: Instant,
    ) {
        let mut all: Vec<(usize, PodPatch)> = Vec::new();
        for (index, attempt) in attempts.iter_mut().enumerate() {
            if let Ok(attempt) = attempt {
                let patches = std::mem::take(&mut attempt.changes.patches);
                all.extend(patches.into_iter().map(|pod_patch| (index, pod_patch)));
            }
        }
        let request_of =
            |(_, pod_patch): &(usize, PodPatch)| (pod_patch.pod.uid.clone(), pod_patch.grows());
        let requests: Vec<(String, bool)> = all.iter().map(request_of).collect();
        let requests: Vec<PatchRequest<'_>> = requests
            .iter()
            .map(|(pod, grows)| PatchRequest { pod, grows: *grows })
            .collect();
        let picked = self.limiter().admit(&requests, Instant::now());
        let mut all: Vec<Option<(usize, PodPatch)>> = all.into_iter().map(Some).collect();
        let mut sent = Vec::with_capacity(picked.len());
        for place in picked {
            let attempt = all.get_mut(place).and_then(Option::take);
            sent.extend(
                attempt.map(|(index, pod_patch)| self.send_indexed(index, pod_patch, deadline)),
            );
        }
        for (index, pod_patch) in all.into_iter().flatten() {
            if let Some(Ok(attempt)) = attempts.get_mut(index) {
                attempt.rate_limited.insert(pod_patch.pod.uid);
            }
        }
        let sent = stream::iter(sent).buffer_unordered(PATCHES_AT_ONCE);
        let answers: Vec<(usize, PodPatch, Result<(), ApiFailure>)> = sent.collect().await;
        for (index, pod_patch, answer) in answers {
            let Some(Ok(attempt)) = attempts.get_mut(index) else {
                continue;
            };
            match answer {
                Ok(()) => attempt.sent = true,
                Err(ApiFailure::NotFound) => {}
                Err(failure) => {
                    attempt.sent |= failure.may_have_applied();
                    let mut writes = self.writes();
                    writes
                        .refusals
                        .remember(&pod_patch.pod, pod_patch.target_cores, &failure);
                    attempt.failures.insert(pod_patch.pod.uid.clone(), failure);
                }
            }
        }
    }

    async fn send_indexed(
        &self,
        index: usize,
        pod_patch: PodPatch,
        deadline: Instant,
    ) -> (usize, PodPatch, Result<(), ApiFailure>) {
        let answer = self.send(&pod_patch, deadline).await;
        (index, pod_patch, answer)
    }

    /// Waits until the change is actuated or will not be; returns the actual capacity then.
    pub(super) async fn finish(
        &self,
        attempt: Attempt,
        deadline: Instant,
    ) -> Result<Actual, KubeError> {
        let decided = || {
            let state = self.state(attempt.variant);
            state.is_ok_and(|state| state.pods.iter().all(|pod| attempt.is_decided(pod)))
        };
        self.wait_until(deadline, decided).await;
        let state = self.state(attempt.variant);
        let state = state.map_err(|error| attempt.with_progress(error))?;
        let blocker = self.first_blocker(&attempt, &state);
        let partly = attempt.sent;
        if let Some(why) = attempt.scaling_failure {
            let workload = self.watched(attempt.variant)?.key.to_string();
            return Err(KubeError::NotScaled {
                workload,
                why,
                partly,
            });
        }
        if let Some(DisruptionAllowance { budget, .. }) = attempt.pdb_limit {
            return Err(KubeError::Protected {
                workload: self.watched(attempt.variant)?.key.to_string(),
                budget,
                partly,
            });
        }
        if let Some((pod, why)) = blocker {
            return Err(KubeError::PodBlocked { pod, why, partly });
        }
        if attempt.changes.unaffordable > 0 && state.template == Cores::ZERO {
            return Err(KubeError::NoTemplateRequest {
                workload: self.watched(attempt.variant)?.key.to_string(),
                container: self.spec(attempt.variant)?.container,
                partly,
            });
        }
        if attempt.changes.unaffordable > 0 {
            return Err(KubeError::OverBudget {
                replicas: attempt.changes.unaffordable,
                template: state.template,
                partly,
            });
        }
        self.reconfigure_servers(&attempt, &state, deadline).await?;
        self.state(attempt.variant)
            .map(|state| state.actual())
            .map_err(|error| attempt.with_progress(error))
    }

    /// Returns the first blocker of any of the pods.
    fn first_blocker(
        &self,
        attempt: &Attempt,
        state: &WorkloadState,
    ) -> Option<(String, PodBlocker)> {
        let (writes, now) = (&mut *self.writes(), Instant::now());
        let key = self.key(attempt.variant).ok()?;
        let mut all = Vec::new();
        for pod in state.pods.iter().filter(|pod| pod.stays()) {
            let blocker = attempt.blocker(pod, &writes.refusals, self.timeout);
            writes.replacements.record(pod, blocker.as_ref(), now);
            all.extend(blocker.map(|blocker| (pod.name.clone(), blocker)));
        }
        if all.is_empty() {
            writes.replacements.reset_backoff(key);
        }
        // Blockers that may still resolve come first: they decide what is counted.
        all.sort_by_key(|(_, why)| !why.may_have_applied());
        all.into_iter().next()
    }
}
