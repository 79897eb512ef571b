//! Pending writes of one variant: changes sent whose answer has not come. Any of them may still take effect, not only
//! the latest. All are counted until the backend has what the latest asked for, has answered another change, or they
//! expire. Pure.

use crate::capacity::{Goal, InForce, Resize};

/// Maximum number of pending writes remembered; a repeated change counts once.
const DOUBTS_MAX: usize = 16;

/// Pending writes and when each expires.
#[derive(Debug, Clone)]
pub(crate) struct Doubts<T> {
    doubts: Vec<Doubt<T>>,
    /// Capacity that the backend reported last.
    last: Option<InForce>,
}

#[derive(Debug, Clone, Copy)]
struct Doubt<T> {
    goal: Goal,
    until: T,
    /// Whether the backend already had this target when the change was sent; seeing it later then proves nothing.
    was_there: bool,
}

impl<T> Default for Doubts<T> {
    fn default() -> Doubts<T> {
        Doubts {
            doubts: Vec::new(),
            last: None,
        }
    }
}

impl<T: Copy + Ord> Doubts<T> {
    /// Records a change whose answer has not come.
    pub(crate) fn add(&mut self, change: &Resize, until: T) {
        let goal = change.goal;
        self.doubts.retain(|doubt| doubt.goal != goal);
        if self.doubts.len() == DOUBTS_MAX {
            self.doubts.remove(0);
        }
        let last = self.last.unwrap_or(InForce::certain(change.ready));
        self.doubts.push(Doubt {
            goal,
            until,
            was_there: is(last, goal),
        });
    }

    /// Records that a change was answered: it supersedes all earlier ones.
    pub(crate) fn clear(&mut self) {
        self.doubts.clear();
    }

    /// Returns `there`, extended by the outcomes that the pending writes may have.
    pub(crate) fn with(&mut self, there: InForce, now: T) -> InForce {
        self.last = Some(there);
        self.doubts.retain(|doubt| doubt.until > now);
        let has_come = |doubt: &Doubt<T>| is(there, doubt.goal) && !doubt.was_there;
        if self.doubts.last().is_some_and(has_come) {
            self.doubts.clear();
        }
        let all = self.doubts.iter();
        all.fold(there, |there, doubt| there.or(doubt.goal))
    }
}

/// Whether exactly the target is there.
fn is(there: InForce, goal: Goal) -> bool {
    there.ready == goal.ready(there.ready) && there.at_most == goal.cores(there.ready)
}

#[cfg(test)]
mod tests {
    use weir_api::Cores;

    use super::*;
    use crate::capacity::Allocation;

    fn change(ready: u32, to: u32) -> Resize {
        Resize {
            variant: 0,
            goal: Goal::one(Cores::whole(to)),
            ready: Allocation::one(Cores::whole(ready)),
            bound: false,
        }
    }

    /// Cores that are ready, and cores reserved, when the backend reports `there` cores.
    fn with(doubts: &mut Doubts<u32>, there: u32, now: u32) -> (Cores, Cores) {
        let there = InForce::certain(Allocation::one(Cores::whole(there)));
        let with = doubts.with(there, now);
        (with.ready.cores(), with.at_most)
    }

    #[test]
    fn each_pending_write_is_counted_until_latest_takes_effect() {
        let mut doubts = Doubts::default();
        let cores = |ready, at_most| (Cores::whole(ready), Cores::whole(at_most));
        // A server loads and is stopped, both without an answer: that nothing serves does not prove that it was
        // stopped.
        doubts.add(&change(0, 3), 60);
        assert_eq!(with(&mut doubts, 0, 1), cores(0, 3));
        doubts.add(&change(0, 0), 61);
        assert_eq!(with(&mut doubts, 0, 2), cores(0, 3));
        assert_eq!(with(&mut doubts, 0, 60), cores(0, 0));
        // A scale-down takes effect late and is undone without an answer: that it has not happened yet proves
        // nothing.
        let mut doubts = Doubts::default();
        assert_eq!(with(&mut doubts, 3, 0), cores(3, 3));
        doubts.add(&change(3, 1), 60);
        assert_eq!(with(&mut doubts, 3, 1), cores(1, 3));
        doubts.add(&change(1, 3), 61);
        assert_eq!(with(&mut doubts, 3, 2), cores(1, 3));
        // The latest target is there: no other write is pending.
        let mut doubts = Doubts::default();
        doubts.add(&change(4, 2), 60);
        doubts.add(&change(4, 6), 61);
        assert_eq!(with(&mut doubts, 4, 1), cores(2, 6));
        assert_eq!(with(&mut doubts, 6, 2), cores(6, 6));
        assert_eq!(with(&mut doubts, 4, 3), cores(4, 4));
        doubts.add(&change(4, 2), 60);
        doubts.clear();
        assert_eq!(with(&mut doubts, 4, 4), cores(4, 4));
    }
}
