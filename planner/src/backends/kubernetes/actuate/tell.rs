//! Tells the pods' servers their cores and batch size, and reports which values they have.

use futures_util::future::join_all;
use tokio::time::Instant;

use super::KubeBackends;
use super::unmet::Try;
use crate::backends::ActuateError;
use crate::backends::kubernetes::deal::Seen;

impl KubeBackends {
    /// Tells the servers that have not been told yet, or whose last request failed.
    pub(super) async fn catch_up(&self) {
        if !(self.fence)() {
            return;
        }
        let deadline = Instant::now() + self.timeout;
        let all = self.workloads.iter().enumerate();
        let told = all.map(async |(variant, watched)| {
            let (Some(tuner), Ok(seen)) = (&watched.tuner, self.seen(variant)) else {
                return;
            };
            let due = seen.pods.iter().filter(|pod| tuner.is_due(pod));
            join_all(due.map(|pod| tuner.tell(pod, deadline))).await;
        });
        join_all(told).await;
    }

    /// Returns the batch size that all serving servers of a variant have been told.
    pub(super) fn told(&self, variant: usize) -> Option<Result<u32, ActuateError>> {
        let tuner = self.watched(variant).ok()?.tuner.as_ref()?;
        let seen = self.seen(variant).ok()?;
        let serving = seen.pods.iter().filter(|pod| pod.ready && pod.stays());
        let each: Vec<Option<u32>> = serving.map(|pod| tuner.batch_of(pod)).collect();
        let (first, others) = each.split_first()?;
        let batch = (*first)?;
        others
            .iter()
            .all(|other| *other == Some(batch))
            .then_some(Ok(batch))
    }

    /// Tells the servers the cores that their pods have now.
    pub(super) async fn tune(
        &self,
        one: &Try,
        seen: &Seen,
        deadline: Instant,
    ) -> Result<(), ActuateError> {
        let Some(tuner) = &self.watched(one.variant)?.tuner else {
            return Ok(());
        };
        let due = seen.pods.iter().filter(|pod| tuner.is_due(pod));
        let told = due.map(async |pod| (pod, tuner.tell(pod, deadline).await));
        for (pod, told) in join_all(told).await {
            let pod = pod.name.clone();
            told.map_err(|why| ActuateError::Untuned { pod, why })?;
        }
        Ok(())
    }
}
