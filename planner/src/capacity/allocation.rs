//! Actual and target capacity of a variant: replicas, and the cores of each.

use std::fmt;

use weir_api::Cores;

/// Replicas and the cores of each; without replicas or cores it is [`Allocation::NONE`].
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

    /// Creates an allocation; replicas without cores are none.
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

    /// Number of replicas.
    pub fn replicas(self) -> u32 {
        self.replicas
    }

    /// Cores of each replica.
    pub fn each(self) -> Cores {
        self.each
    }

    /// Cores of all replicas together.
    pub fn cores(self) -> Cores {
        times(self.each, self.replicas)
    }
}

/// Formats as `3`, or `2 × 3` for several replicas.
impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replicas {
            0 | 1 => write!(f, "{}", self.each),
            replicas => write!(f, "{replicas} × {}", self.each),
        }
    }
}

/// Actual capacity of one variant, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct InForce {
    /// Capacity that a plan may count on: serving replicas, and the minimum cores of each.
    pub ready: Allocation,
    /// Replicas that have started and do not serve yet.
    pub starting: Allocation,
    /// Cores reserved in the budget, pending changes included.
    pub at_most: Cores,
    /// Replicas reserved, ending ones and pending changes included; each occupies its resources.
    pub replicas_at_most: u32,
}

impl InForce {
    /// Capacity that is exactly `ready`.
    pub fn certain(ready: Allocation) -> InForce {
        InForce {
            ready,
            starting: Allocation::NONE,
            at_most: ready.cores(),
            replicas_at_most: ready.replicas,
        }
    }

    /// Capacity that is either this or the result of an unconfirmed change to `goal`.
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

    /// Number of replicas, starting ones included.
    pub fn replicas(self) -> u32 {
        self.ready.replicas.saturating_add(self.starting.replicas)
    }

    /// Target that keeps this capacity.
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

/// Target capacity of one variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Goal {
    /// Number of replicas, including those still to start.
    pub replicas: u32,
    /// Cores of each serving replica.
    pub each: Cores,
    /// Cores of each new replica while it starts.
    pub start: Cores,
}

impl Goal {
    /// Target of exactly this allocation.
    pub fn of(allocation: Allocation) -> Goal {
        Goal {
            replicas: allocation.replicas,
            each: allocation.each,
            start: allocation.each,
        }
    }

    /// One replica, or none if it has no cores.
    pub fn one(cores: Cores) -> Goal {
        Goal::of(Allocation::one(cores))
    }

    /// Replicas of `ready` that stay, with their target cores.
    pub fn ready(self, ready: Allocation) -> Allocation {
        Allocation::new(ready.replicas.min(self.replicas), self.each)
    }

    /// Cores of all replicas, starting from `ready`.
    pub fn cores(self, ready: Allocation) -> Cores {
        let staying = self.ready(ready);
        staying.cores() + times(self.start, self.replicas - staying.replicas)
    }

    /// Largest part of the target that `most` cores cover beside `ready`, which keeps its cores.
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

    /// The same target with at most `replicas` replicas.
    #[must_use]
    pub fn at_most(self, replicas: u32) -> Goal {
        match self.replicas.min(replicas) {
            0 => Goal::default(),
            replicas => Goal { replicas, ..self },
        }
    }

    /// Minimum cores with which the variant serves at all.
    pub fn first(self) -> Cores {
        match self.replicas {
            0 => Cores::ZERO,
            1 => self.start.min(Cores::whole(1)),
            _ => self.start,
        }
    }
}

/// Rounds down to whole cores.
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
    fn allocation_without_cores_is_no_replica() {
        assert_eq!(allocation(3, 0), Allocation::NONE);
        assert_eq!(allocation(0, 3), Allocation::NONE);
        assert_eq!(Goal::one(Cores::ZERO).cores(Allocation::NONE), Cores::ZERO);
        let shown = [allocation(0, 3), allocation(1, 3), allocation(2, 3)];
        assert_eq!(shown.map(|a| a.to_string()), ["0", "3", "2 × 3"]);
    }

    #[test]
    fn target_costs_staying_and_starting_replicas() {
        for (goal, ready, cores) in [
            (goal(4, 8, 1), allocation(1, 2), 8 + 3),
            (goal(4, 8, 1), allocation(0, 0), 4),
            (goal(1, 8, 1), allocation(3, 2), 8),
        ] {
            assert_eq!(goal.cores(ready), Cores::whole(cores), "{goal:?} {ready}");
        }
    }

    #[test]
    fn replicas_start_before_others_grow_within_limit() {
        for (wanted, ready, most, expected) in [
            (goal(1, 6, 6), allocation(0, 0), 4, goal(1, 4, 4)),
            (goal(1, 6, 6), allocation(1, 2), 4, goal(1, 4, 6)),
            (goal(4, 8, 1), allocation(1, 2), 20, goal(4, 8, 1)),
            (goal(4, 8, 1), allocation(1, 2), 8, goal(4, 5, 1)),
            (goal(4, 8, 1), allocation(1, 2), 4, goal(3, 2, 1)),
            (goal(3, 2, 2), allocation(0, 0), 5, goal(2, 2, 2)),
            (goal(2, 4, 4), allocation(2, 1), 5, goal(2, 2, 4)),
            // Serving replicas stay, whatever the limit.
            (goal(2, 1, 1), allocation(3, 2), 1, goal(3, 2, 1)),
        ] {
            let got = wanted.within(Cores::whole(most), ready);
            assert_eq!(got, expected, "{wanted:?} {ready} {most}");
        }
    }

    #[test]
    fn unconfirmed_change_counts_with_worse_outcome() {
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
    fn target_of_current_capacity_keeps_starting_replicas() {
        let mut in_force = InForce::certain(allocation(2, 3));
        assert_eq!(in_force.goal(), goal(2, 3, 3));
        in_force.starting = allocation(2, 1);
        assert_eq!(in_force.goal(), goal(4, 3, 1));
        in_force.ready = Allocation::NONE;
        assert_eq!(in_force.goal(), goal(2, 1, 1));
    }
}
