//! Changes of one variant that were asked for and not answered: each may come to be later, whichever was asked for
//! last. All are counted with until the backend has what was asked for last, or has answered another change, or it is
//! too late for them. Pure.

use crate::capacity::{Goal, InForce, Resize};

/// Most of them that are remembered; the same change asked for again is one.
const DOUBTS_MAX: usize = 16;

/// Changes without an answer, and until when they may come to be.
#[derive(Debug, Clone)]
pub(crate) struct Doubts<T> {
    doubts: Vec<Doubt<T>>,
    /// The backend's last word.
    last: Option<InForce>,
}

#[derive(Debug, Clone, Copy)]
struct Doubt<T> {
    goal: Goal,
    until: T,
    /// Whether it was there already when it was asked for: to see it tells nothing then.
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
    /// There was no answer to that change.
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

    /// A change was answered: it has taken the place of all before.
    pub(crate) fn clear(&mut self) {
        self.doubts.clear();
    }

    /// Returns `there` with all that it may come to be.
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

/// Whether nothing but that is there.
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

    /// Cores that are ready, and those that there may be, where so many are there.
    fn with(doubts: &mut Doubts<u32>, there: u32, now: u32) -> (Cores, Cores) {
        let there = InForce::certain(Allocation::one(Cores::whole(there)));
        let with = doubts.with(there, now);
        (with.ready.cores(), with.at_most)
    }

    #[test]
    fn each_change_without_an_answer_may_come_to_be() {
        let mut doubts = Doubts::default();
        let cores = |ready, at_most| (Cores::whole(ready), Cores::whole(at_most));
        // A server loads, and is told to end without an answer: that nothing serves is no sign that it was told.
        doubts.add(&change(0, 3), 60);
        assert_eq!(with(&mut doubts, 0, 1), cores(0, 3));
        doubts.add(&change(0, 0), 61);
        assert_eq!(with(&mut doubts, 0, 2), cores(0, 3));
        assert_eq!(with(&mut doubts, 0, 60), cores(0, 0));
        // A shrinking comes late, and is taken back without an answer: that it is not there yet is no sign either.
        let mut doubts = Doubts::default();
        assert_eq!(with(&mut doubts, 3, 0), cores(3, 3));
        doubts.add(&change(3, 1), 60);
        assert_eq!(with(&mut doubts, 3, 1), cores(1, 3));
        doubts.add(&change(1, 3), 61);
        assert_eq!(with(&mut doubts, 3, 2), cores(1, 3));
        // What was asked for last is there: nothing else is on its way.
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
