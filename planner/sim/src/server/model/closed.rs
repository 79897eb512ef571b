//! Batches that a server closes while it executes others, as Triton's dynamic batcher does where it has a delay.
//!
//! Triton hands a batch on at the end of its delay, whether an instance is free or not, and has twice as many such
//! batches waiting as it has instances. The latest takes more only once those behind it fill a batch, and nothing more
//! when the one before it begins (`DynamicBatchScheduler::BatcherThread`, `InstanceQueue::Dequeue`).

use std::collections::VecDeque;

/// Sizes of the closed batches at the head of the queue.
#[derive(Debug, Default)]
pub(super) struct ClosedBatches {
    sizes: VecDeque<usize>,
    /// Number of requests behind the latest batch at which it takes of them; none: never.
    fills_at: Option<usize>,
}

/// What decides on a new batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Requests of a full batch.
    pub(super) full: usize,
    /// Maximum number of closed batches.
    pub(super) batches: usize,
}

impl ClosedBatches {
    /// Requests in closed batches.
    pub(super) fn requests(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// Whether the next batch may be closed.
    pub(super) fn takes_more(&self, limits: Limits) -> bool {
        self.sizes.len() < limits.batches && self.fills_at.is_none()
    }

    /// Closes batches of `waiting` requests. `is_due`: whether the window of the batch that begins at that place in the
    /// queue has ended; `begins`: an execution has just begun.
    pub(super) fn close(
        &mut self,
        waiting: usize,
        limits: Limits,
        begins: bool,
        is_due: impl Fn(usize) -> bool,
    ) {
        let full = limits.full;
        while self.sizes.len() < limits.batches {
            let closed = self.requests();
            let behind = waiting.saturating_sub(closed);
            if behind == 0 {
                return;
            }
            match (self.fills_at, self.sizes.back_mut()) {
                (Some(at), Some(latest)) => {
                    if behind < at {
                        return;
                    }
                    let before = *latest;
                    *latest = full.min(before + behind);
                    self.fills_at = (*latest < full).then_some(full - before);
                }
                _ => {
                    if !is_due(closed) {
                        return;
                    }
                    self.sizes.push_back(full.min(behind));
                    // One that is closed without having waited takes the next request too.
                    let fills_at = if begins { 0 } else { full };
                    self.fills_at = (behind < full).then_some(fills_at);
                }
            }
        }
    }

    /// Takes the first batch, and with it those after it that fit.
    pub(super) fn take(&mut self, full: usize) -> Option<usize> {
        let mut taken = self.sizes.pop_front()?;
        if self.sizes.len() <= 1 {
            self.fills_at = None;
        }
        while let Some(next) = self.sizes.pop_front_if(|next| taken + *next <= full) {
            taken += next;
        }
        Some(taken)
    }
}
