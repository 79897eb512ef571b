//! Tells the pods' servers their cores and batch size, and reports which values they have.

use futures_util::future::join_all;
use tokio::time::Instant;

use super::KubeBackends;
use super::blockers::Attempt;
use crate::backends::kubernetes::distribute::WorkloadState;
use crate::backends::kubernetes::error::KubeError;

impl KubeBackends {
    /// Tells the servers that have not been reconfigured yet, or whose last request failed.
    pub(super) async fn tell_due_servers(&self) {
        if !(self.fence)() {
            return;
        }
        let deadline = Instant::now() + self.timeout;
        let all = self.workloads.iter().enumerate();
        let sent = all.map(async |(variant, watched)| {
            let (Some(hook), Ok(state)) = (&watched.hook, self.state(variant)) else {
                return;
            };
            let due = state.pods.iter().filter(|pod| hook.is_due(pod));
            join_all(due.map(|pod| hook.tell(pod, deadline))).await;
        });
        join_all(sent).await;
    }

    /// Returns the batch size that all serving servers of a variant have confirmed.
    pub(super) fn confirmed_batch(&self, variant: usize) -> Option<u32> {
        let hook = self.watched(variant).ok()?.hook.as_ref()?;
        let state = self.state(variant).ok()?;
        let serving = state.pods.iter().filter(|pod| pod.ready && pod.stays());
        let each: Vec<Option<u32>> = serving.map(|pod| hook.batch_of(pod)).collect();
        let (first, others) = each.split_first()?;
        let batch = (*first)?;
        others
            .iter()
            .all(|other| *other == Some(batch))
            .then_some(batch)
    }

    /// Tells the servers the cores that their pods have now.
    pub(super) async fn reconfigure_servers(
        &self,
        attempt: &Attempt,
        state: &WorkloadState,
        deadline: Instant,
    ) -> Result<(), KubeError> {
        let Some(hook) = &self.watched(attempt.variant)?.hook else {
            return Ok(());
        };
        let due = state.pods.iter().filter(|pod| hook.is_due(pod));
        let sent = due.map(async |pod| (pod, hook.tell(pod, deadline).await));
        for (pod, sent) in join_all(sent).await {
            let pod = pod.name.clone();
            sent.map_err(|why| KubeError::NotReconfigured { pod, why })?;
        }
        Ok(())
    }
}
