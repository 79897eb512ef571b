//! Pending writes of one variant: changes sent whose answer has not come. Any of them may still take effect, not only
//! the latest. All are counted until the backend has what the latest requested, has answered another change, or they
//! expire. Pure.

use crate::capacity::{Actual, Resize, Target};

/// Maximum number of pending writes remembered; a repeated change counts once.
const PENDING_MAX: usize = 16;

/// Pending writes and when each expires.
#[derive(Debug, Clone)]
pub(crate) struct PendingWrites<T> {
    pending: Vec<PendingWrite<T>>,
    /// Capacity that the backend reported last.
    last: Option<Actual>,
}

#[derive(Debug, Clone, Copy)]
struct PendingWrite<T> {
    target: Target,
    until: T,
    /// Whether the backend already had this target when the change was sent; seeing it later then proves nothing.
    already_reached: bool,
}

impl<T> Default for PendingWrites<T> {
    fn default() -> PendingWrites<T> {
        PendingWrites {
            pending: Vec::new(),
            last: None,
        }
    }
}

impl<T: Copy + Ord> PendingWrites<T> {
    /// Records a change that is sent.
    pub(crate) fn record(&mut self, change: &Resize, until: T) {
        let target = change.target;
        self.pending.retain(|write| write.target != target);
        if self.pending.len() == PENDING_MAX {
            self.pending.remove(0);
        }
        let last = self.last.unwrap_or(Actual::certain(change.ready));
        self.pending.push(PendingWrite {
            target,
            until,
            already_reached: is_reached(last, target),
        });
    }

    /// Whether no write is pending any more.
    #[cfg_attr(
        not(feature = "kubernetes"),
        allow(dead_code, reason = "only an operator's services come and go")
    )]
    pub(crate) fn is_idle(&self, now: T) -> bool {
        !self.pending.iter().any(|write| write.until > now)
    }

    /// Records that a change was answered: it supersedes all earlier ones.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Returns `actual`, extended by the outcomes that the pending writes may have.
    pub(crate) fn with(&mut self, actual: Actual, now: T) -> Actual {
        self.last = Some(actual);
        self.pending.retain(|write| write.until > now);
        let has_come =
            |write: &PendingWrite<T>| is_reached(actual, write.target) && !write.already_reached;
        if self.pending.last().is_some_and(has_come) {
            self.pending.clear();
        }
        let all = self.pending.iter();
        all.fold(actual, |actual, write| actual.or(write.target))
    }
}

/// Whether the actual capacity is exactly the target.
fn is_reached(actual: Actual, target: Target) -> bool {
    actual.ready == target.ready(actual.ready) && actual.reserved == target.cores(actual.ready)
}

#[cfg(test)]
mod tests {
    use weir_api::Cores;

    use super::*;
    use crate::capacity::Allocation;

    fn change(ready: u32, to: u32) -> Resize {
        Resize {
            variant: 0,
            target: Target::one(Cores::whole(to)),
            ready: Allocation::one(Cores::whole(ready)),
            limited: false,
        }
    }

    /// Cores that are ready, and cores reserved, when the backend has `reported` cores.
    fn with(pending: &mut PendingWrites<u32>, reported: u32, now: u32) -> (Cores, Cores) {
        let actual = Actual::certain(Allocation::one(Cores::whole(reported)));
        let with = pending.with(actual, now);
        (with.ready.cores(), with.reserved)
    }

    #[test]
    fn each_pending_write_is_counted_until_latest_takes_effect() {
        let mut pending = PendingWrites::default();
        let cores = |ready, reserved| (Cores::whole(ready), Cores::whole(reserved));
        // A server loads and is stopped, both without an answer: that nothing serves does not prove that it was
        // stopped.
        pending.record(&change(0, 3), 60);
        assert_eq!(with(&mut pending, 0, 1), cores(0, 3));
        pending.record(&change(0, 0), 61);
        assert_eq!(with(&mut pending, 0, 2), cores(0, 3));
        assert_eq!(with(&mut pending, 0, 60), cores(0, 0));
        // A scale-down takes effect late and is undone without an answer: that it has not happened yet proves
        // nothing.
        let mut pending = PendingWrites::default();
        assert_eq!(with(&mut pending, 3, 0), cores(3, 3));
        pending.record(&change(3, 1), 60);
        assert_eq!(with(&mut pending, 3, 1), cores(1, 3));
        pending.record(&change(1, 3), 61);
        assert_eq!(with(&mut pending, 3, 2), cores(1, 3));
        // The latest target is reached: no other write is pending.
        let mut pending = PendingWrites::default();
        pending.record(&change(4, 2), 60);
        pending.record(&change(4, 6), 61);
        assert_eq!(with(&mut pending, 4, 1), cores(2, 6));
        assert_eq!(with(&mut pending, 6, 2), cores(6, 6));
        assert_eq!(with(&mut pending, 4, 3), cores(4, 4));
        pending.record(&change(4, 2), 60);
        pending.clear();
        assert_eq!(with(&mut pending, 4, 4), cores(4, 4));
    }
}
