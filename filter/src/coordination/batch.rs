//! When those who wait may leave together: whether a batch is closed, and how many of it are still to
//! go. It knows neither slots nor whose turn it is.

use super::AcquireRequest;
use crate::priority::Urgency;

/// The batches of one variant during a turn.
#[derive(Debug)]
pub(super) struct Batch {
    size: u32,
    /// How many may still leave of batches closed.
    open: u32,
    /// How many wait, at all VMs together.
    waiting: u32,
    /// The least urgent of those here that can wait no longer for company.
    due: Option<Urgency>,
}

impl Batch {
    /// Each by itself.
    pub(super) const fn single() -> Batch {
        Batch {
            size: 1,
            open: 0,
            waiting: 0,
            due: None,
        }
    }

    /// Batches as asked for, of which `open` may still leave by the last turn's word. `elsewhere` wait at
    /// others; here `waited` did, by the last turn's word.
    ///
    /// What was opened for somebody who has since left otherwise, or died, is not for who comes after:
    /// no more stays open than of those who waited then still wait.
    pub(super) fn new<W>(
        ask: &AcquireRequest<'_, W>,
        open: u32,
        elsewhere: u32,
        waited: u32,
    ) -> Batch {
        if ask.batch <= 1 {
            return Batch::single();
        }
        let still = elsewhere.saturating_add(waited.min(ask.waiting_count));
        Batch {
            size: ask.batch,
            open: open.min(still),
            waiting: elsewhere.saturating_add(ask.waiting_count),
            due: ask.due.filter(|_| ask.waiting_count > 0),
        }
    }

    /// Whether each leaves by itself.
    pub(super) fn is_single(&self) -> bool {
        self.size <= 1
    }

    /// Whether somebody may leave, `head` first; closes a batch that is full, or that `head` can wait for no longer.
    ///
    /// A batch closed because one is due has all who wait in it: they are fewer than make a full one.
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

    /// One leaves.
    pub(super) fn leave(&mut self) {
        self.open = self.open.saturating_sub(1);
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// How many may still leave.
    pub(super) fn open(&self) -> u32 {
        self.open
    }
}
