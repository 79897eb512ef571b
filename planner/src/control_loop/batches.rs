//! Batch sizes that servers are sent before a plan counts on them: those that the policy chooses for the actual
//! capacity, and for capacity that is starting. Without an answer, a server is planned with its own batches.
//!
//! A larger batch is sent at once. A smaller one waits for `resize.scaleDownStabilization` after a larger one was last
//! the target: the change costs some servers a reload, and a batch size is only an upper limit.

use std::time::Duration;

use super::Planner;
use crate::backends::Actuate;
use crate::capacity::{Allocation, Target};
use crate::policy::batches;
use crate::service::{Inputs, Mode};

/// Batch sizes of the variants.
#[derive(Debug, Clone, Default)]
pub(super) struct Batches {
    /// Largest batch that all servers have confirmed.
    confirmed: Vec<Option<u32>>,
    /// Largest target batch, and when it was last the target.
    desired: Vec<Option<(u32, Duration)>>,
}

impl Batches {
    /// Creates a record of servers that have been sent nothing.
    pub(super) fn new(variants: usize) -> Batches {
        Batches {
            confirmed: vec![None; variants],
            desired: vec![None; variants],
        }
    }

    pub(super) fn confirmed(&self) -> &[Option<u32>] {
        &self.confirmed
    }

    /// Keeps a larger batch for `hold` after it was last the target.
    fn stabilize(&mut self, now: Duration, hold: Duration, desired: &mut [Option<u32>]) {
        for (kept, desired) in self.desired.iter_mut().zip(desired) {
            let Some(batch) = desired else {
                continue;
            };
            match kept {
                Some((greater, since)) if *greater > *batch && now < *since + hold => {
                    *batch = *greater;
                }
                _ => *kept = Some((*batch, now)),
            }
        }
    }
}

impl Planner {
    /// Tells the servers their batch sizes, and records their answers.
    pub(super) async fn tell_batches<A: Actuate>(
        &mut self,
        actuate: &A,
        targets: &[Target],
        inputs: Option<Inputs>,
    ) {
        let mut variants = self.service.variants.iter();
        let tells = variants.any(|variant| variant.receives_batch());
        if self.service.mode == Mode::Advisory || !tells || inputs.is_none() {
            return;
        }
        let mut desired = self.desired_batches(targets, inputs);
        let hold = self.service.scale_down_after;
        self.rollout.batches.stabilize(self.now, hold, &mut desired);
        let mut answers = actuate.tell(&desired).await.into_iter();
        let known = self
            .rollout
            .batches
            .confirmed
            .iter_mut()
            .zip(&self.service.variants);
        for (confirmed, variant) in known {
            let who = format!("batch of {}", variant.name);
            *confirmed = match answers.next().flatten() {
                Some(Ok(batch)) => {
                    self.troubles.went_well(&who);
                    Some(batch)
                }
                Some(Err(error)) => {
                    let fallback =
                        "it is planned as its servers make batches; sent again every cycle";
                    self.troubles.failed(&who, &error, fallback);
                    None
                }
                None => None,
            };
        }
    }

    /// Batch to send to each variant; `None` without actual or starting capacity, or if its servers are not sent any.
    fn desired_batches(&self, targets: &[Target], inputs: Option<Inputs>) -> Vec<Option<u32>> {
        let ready = self.rollout.ready();
        let to_be: Vec<Allocation> = targets
            .iter()
            .map(|target| Allocation::new(target.replicas, target.each))
            .collect();
        let now = batches(&self.service, &ready, inputs);
        let then = batches(&self.service, &to_be, inputs);
        let each = ready.iter().zip(&to_be).zip(now.iter().zip(then));
        let desired = each.map(|((ready, to_be), (now, then))| match (*ready, *to_be) {
            (Allocation::NONE, Allocation::NONE) => None,
            (Allocation::NONE, _) => Some(then),
            _ => Some(*now),
        });
        let each = self.service.variants.iter().zip(desired);
        each.map(|(variant, desired)| desired.filter(|_| variant.receives_batch()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_batch_is_sent_after_the_hold_time() {
        let mut batches = Batches::new(1);
        let mut at = |second: u64, desired: Option<u32>| {
            let mut all = [desired];
            let hold = Duration::from_secs(30);
            batches.stabilize(Duration::from_secs(second), hold, &mut all);
            all[0]
        };
        for (second, desired, confirmed) in [
            (0, Some(2), Some(2)),
            (1, Some(4), Some(4)),
            (2, Some(1), Some(4)),
            (20, Some(4), Some(4)),
            (49, Some(1), Some(4)),
            (50, Some(1), Some(1)),
            (51, None, None),
            (52, Some(2), Some(2)),
        ] {
            assert_eq!(at(second, desired), confirmed, "{second} s");
        }
    }
}
