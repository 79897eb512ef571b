//! How much of a variant runs, and how much is to: replicas, and the cores that each of them has.

use std::fmt;

use weir_api::Cores;

/// Replicas and the cores of each; nothing is no replica.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Allocation {
    replicas: u32,
    each: Cores,
}

impl Allocation {
    /// No replica.
    pub const NONE: Allocation = Allocation {
        replicas: 0,
        each: Cores::ZERO,
    };

    /// So many replicas with so many cores each; a replica without cores is none.
    pub fn new(replicas: u32, each: Cores) -> Allocation {
        if replicas == 0 || each == Cores::ZERO {
            return Allocation::NONE;
        }
        Allocation { replicas, each }
    }

    /// One replica.
    pub fn one(cores: Cores) -> Allocation {
        Allocation::new(1, cores)
    }

    /// One replica of each variant.
    pub fn ones(cores: &[Cores]) -> Vec<Allocation> {
        cores.iter().copied().map(Allocation::one).collect()
    }

    /// How many replicas.
    pub fn replicas(self) -> u32 {
        self.replicas
    }

    /// The cores that each has.
    pub fn each(self) -> Cores {
        self.each
    }

    /// The cores of all together.
    pub fn cores(self) -> Cores {
        times(self.each, self.replicas)
    }
}

/// `3`, or `2 × 3` where there is more than one replica.
impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replicas {
            0 | 1 => write!(f, "{}", self.each),
            replicas => write!(f, "{replicas} × {}", self.each),
        }
    }
}

/// What runs of one variant, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct InForce {
    /// What a plan may count on: replicas that serve, and the cores that each of them has at least.
    pub ready: Allocation,
    /// Replicas that have been started and do not serve yet.
    pub starting: Allocation,
    /// What the budget has to bear.
    pub at_most: Cores,
    /// Replicas that there may be, those that end included: what each holds, so many hold.
    pub replicas_at_most: u32,
}

impl InForce {
    /// This, and nothing else.
    pub fn certain(ready: Allocation) -> InForce {
        InForce {
            ready,
            starting: Allocation::NONE,
            at_most: ready.cores(),
            replicas_at_most: ready.replicas,
        }
    }

    /// This or, after a change of which nothing is known, `goal`.
    #[must_use]
    pub fn or(self, goal: Goal) -> InForce {
        let (ready, changed) = (self.ready, goal.ready(self.ready));
        InForce {
            ready: Allocation::new(
                ready.replicas.min(changed.replicas),
                ready.each.min(changed.each),
            ),
            at_most: self.at_most.max(goal.cores(ready)),
            replicas_at_most: self.replicas_at_most.max(goal.replicas),
            ..self
        }
    }

    /// Replicas, those that start included.
    pub fn replicas(self) -> u32 {
        self.ready.replicas.saturating_add(self.starting.replicas)
    }

    /// To go on like this.
    pub fn goal(self) -> Goal {
        let (ready, starting) = (self.ready.each, self.starting.each);
        Goal {
            replicas: self.replicas(),
            each: if self.ready.replicas > 0 {
                ready
            } else {
                starting
            },
            start: if self.starting.replicas > 0 {
                starting
            } else {
                ready
            },
        }
    }
}

/// What one variant is to have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Goal {
    /// Replicas, those that are still to start included.
    pub replicas: u32,
    /// Cores of each that serves.
    pub each: Cores,
    /// Cores with which another one starts.
    pub start: Cores,
}

impl Goal {
    /// Just that.
    pub fn of(allocation: Allocation) -> Goal {
        Goal {
            replicas: allocation.replicas,
            each: allocation.each,
            start: allocation.each,
        }
    }

    /// One replica, or none where it has no core.
    pub fn one(cores: Cores) -> Goal {
        Goal::of(Allocation::one(cores))
    }

    /// What stays of `ready`, with the cores it is to have.
    pub fn ready(self, ready: Allocation) -> Allocation {
        Allocation::new(ready.replicas.min(self.replicas), self.each)
    }

    /// All cores, where `ready` serves before.
    pub fn cores(self, ready: Allocation) -> Cores {
        let staying = self.ready(ready);
        staying.cores() + times(self.start, self.replicas - staying.replicas)
    }

    /// As much of it as `most` cores bear beside what is ready, which keeps what it has.
    #[must_use]
    pub fn within(self, most: Cores, ready: Allocation) -> Goal {
        if self.replicas == 1 && ready.replicas == 0 {
            return Goal::one(self.start.min(whole(most)));
        }
        let staying = ready.replicas.min(self.replicas);
        let left = most.saturating_sub(ready.cores());
        let wanted = self.replicas - staying;
        let started = wanted.min(left.millis() / self.start.millis().max(1));
        let left = left.saturating_sub(times(self.start, started));
        let each = match left.millis().checked_div(ready.replicas) {
            Some(more) => self.each.min(whole(ready.each + Cores::from_millis(more))),
            None => self.each,
        };
        Goal {
            replicas: ready.replicas.max(staying + started),
            each: each.max(ready.each),
            start: self.start,
        }
    }

    /// The same with no more replicas than so many.
    #[must_use]
    pub fn at_most(self, replicas: u32) -> Goal {
        match self.replicas.min(replicas) {
            0 => Goal::default(),
            replicas => Goal { replicas, ..self },
        }
    }

    /// The least with which something of it runs.
    pub fn first(self) -> Cores {
        match self.replicas {
            0 => Cores::ZERO,
            1 => self.start.min(Cores::whole(1)),
            _ => self.start,
        }
    }
}

/// Without the fraction of a core.
fn whole(cores: Cores) -> Cores {
    Cores::whole(cores.millis() / 1000)
}

fn times(cores: Cores, count: u32) -> Cores {
    Cores::from_millis(cores.millis().saturating_mul(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(replicas: u32, cores: u32) -> Allocation {
        Allocation::new(replicas, Cores::whole(cores))
    }

    fn goal(replicas: u32, each: u32, start: u32) -> Goal {
        let (each, start) = (Cores::whole(each), Cores::whole(start));
        Goal {
            replicas,
            each,
            start,
        }
    }

    #[test]
    fn nothing_is_no_replica() {
        assert_eq!(allocation(3, 0), Allocation::NONE);
        assert_eq!(allocation(0, 3), Allocation::NONE);
        assert_eq!(Goal::one(Cores::ZERO).cores(Allocation::NONE), Cores::ZERO);
        let shown = [allocation(0, 3), allocation(1, 3), allocation(2, 3)];
        assert_eq!(shown.map(|a| a.to_string()), ["0", "3", "2 × 3"]);
    }

    #[test]
    fn a_goal_costs_what_stays_and_what_starts() {
        for (goal, ready, cores) in [
            (goal(4, 8, 1), allocation(1, 2), 8 + 3),
            (goal(4, 8, 1), allocation(0, 0), 4),
            (goal(1, 8, 1), allocation(3, 2), 8),
        ] {
            assert_eq!(goal.cores(ready), Cores::whole(cores), "{goal:?} {ready}");
        }
    }

    #[test]
    fn within_so_many_cores_replicas_start_before_the_others_grow() {
        for (wanted, ready, most, expected) in [
            (goal(1, 6, 6), allocation(0, 0), 4, goal(1, 4, 4)),
            (goal(1, 6, 6), allocation(1, 2), 4, goal(1, 4, 6)),
            (goal(4, 8, 1), allocation(1, 2), 20, goal(4, 8, 1)),
            (goal(4, 8, 1), allocation(1, 2), 8, goal(4, 5, 1)),
            (goal(4, 8, 1), allocation(1, 2), 4, goal(3, 2, 1)),
            (goal(3, 2, 2), allocation(0, 0), 5, goal(2, 2, 2)),
            (goal(2, 4, 4), allocation(2, 1), 5, goal(2, 2, 4)),
            // What is there already stays, whatever may be.
            (goal(2, 1, 1), allocation(3, 2), 1, goal(3, 2, 1)),
        ] {
            let got = wanted.within(Cores::whole(most), ready);
            assert_eq!(got, expected, "{wanted:?} {ready} {most}");
        }
    }

    #[test]
    fn a_doubtful_change_counts_as_what_is_worse() {
        let in_force = InForce::certain(allocation(2, 2));
        let grown = in_force.or(goal(3, 4, 4));
        assert_eq!(
            (grown.ready, grown.at_most),
            (allocation(2, 2), Cores::whole(12))
        );
        let shrunk = in_force.or(goal(1, 1, 1));
        assert_eq!(
            (shrunk.ready, shrunk.at_most),
            (allocation(1, 1), Cores::whole(4))
        );
        let ended = in_force.or(goal(0, 0, 0));
        assert_eq!(ended.ready, Allocation::NONE);
    }

    #[test]
    fn going_on_keeps_what_starts() {
        let mut in_force = InForce::certain(allocation(2, 3));
        assert_eq!(in_force.goal(), goal(2, 3, 3));
        in_force.starting = allocation(2, 1);
        assert_eq!(in_force.goal(), goal(4, 3, 1));
        in_force.ready = Allocation::NONE;
        assert_eq!(in_force.goal(), goal(2, 1, 1));
    }
}
