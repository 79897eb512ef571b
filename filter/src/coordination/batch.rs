//! Batches: whether one is closed, and how many of its requests have still to leave. It knows neither slots
//! nor the order of workers.

use super::AcquireRequest;
use crate::priority::Urgency;

/// Batches of one variant during an acquisition.
#[derive(Debug)]
pub(super) struct Batch {
    size: u32,
    /// Requests that may still leave with closed batches.
    open: u32,
    /// Requests waiting, at all workers together.
    waiting: u32,
    /// Least urgent request here whose batch window is over.
    due: Option<Urgency>,
}

impl Batch {
    /// No batches: each request leaves by itself.
    pub(super) const fn single() -> Batch {
        Batch {
            size: 1,
            open: 0,
            waiting: 0,
            due: None,
        }
    }

    /// Batches of the requested size. By the last write, `open` requests may still leave, and `waited` waited
    /// here. `elsewhere` wait at other workers.
    ///
    /// A place opened for a request that has left otherwise, or whose worker died, is not for a newcomer: no
    /// more places stay open than requests of that time still wait.
    pub(super) fn new<W>(
        request: &AcquireRequest<'_, W>,
        open: u32,
        elsewhere: u32,
        waited: u32,
    ) -> Batch {
        if request.batch <= 1 {
            return Batch::single();
        }
        let still = elsewhere.saturating_add(waited.min(request.waiting_count));
        Batch {
            size: request.batch,
            open: open.min(still),
            waiting: elsewhere.saturating_add(request.waiting_count),
            due: request.due.filter(|_| request.waiting_count > 0),
        }
    }

    /// Whether each request leaves by itself.
    pub(super) fn is_single(&self) -> bool {
        self.size <= 1
    }

    /// Whether a request may leave, `head` first. Closes a batch that is full, or whose window is over for
    /// `head`.
    ///
    /// A batch closed because its window is over contains all waiting requests: they are fewer than a full
    /// batch.
    pub(super) fn may_leave(&mut self, head: Option<Urgency>) -> bool {
        if self.is_single() {
            return true;
        }
        let due = head.zip(self.due).is_some_and(|(head, due)| head <= due);
        let closes = self.waiting >= self.size || due;
        if self.open == 0 && closes {
            self.open = self.size.min(self.waiting);
        }
        self.open > 0
    }

    /// Counts one request that leaves.
    pub(super) fn leave(&mut self) {
        self.open = self.open.saturating_sub(1);
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Requests that may still leave.
    pub(super) fn open(&self) -> u32 {
        self.open
    }
}
