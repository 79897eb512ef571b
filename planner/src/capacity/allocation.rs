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
pub struct Actual {
    /// Capacity that a plan may count on: serving replicas, and the minimum cores of each.
    pub ready: Allocation,
    /// Replicas that have started and do not serve yet.
    pub starting: Allocation,
    /// Cores reserved in the budget, pending changes included.
    pub reserved: Cores,
    /// Replicas reserved, ending ones and pending changes included; each occupies its resources.
    pub replicas_reserved: u32,
}

impl Actual {
    /// Capacity that is exactly `ready`.
    pub fn certain(ready: Allocation) -> Actual {
        Actual {
            ready,
            starting: Allocation::NONE,
            reserved: ready.cores(),
            replicas_reserved: ready.replicas,
        }
    }

    /// Capacity that is either this or the result of an unconfirmed change to `target`.
    #[must_use]
    pub fn or(self, target: Target) -> Actual {
        let (ready, changed) = (self.ready, target.ready(self.ready));
        Actual {
            ready: Allocation::new(
                ready.replicas.min(changed.replicas),
                ready.each.min(changed.each),
            ),
            reserved: self.reserved.max(target.cores(ready)),
            replicas_reserved: self.replicas_reserved.max(target.replicas),
            ..self
        }
    }

    /// Number of replicas, starting ones included.
    pub fn replicas(self) -> u32 {
        self.ready.replicas.saturating_add(self.starting.replicas)
    }

    /// Target that keeps this capacity.
    pub fn target(self) -> Target {
        let (ready, starting) = (self.ready.each, self.starting.each);
        Target {
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
pub struct Target {
    /// Number of replicas, including those still to start.
    pub replicas: u32,
    /// Cores of each serving replica.
    pub each: Cores,
    /// Cores of each new replica while it starts.
    pub start: Cores,
}

impl Target {
    /// Target of exactly this allocation.
    pub fn of(allocation: Allocation) -> Target {
        Target {
            replicas: allocation.replicas,
            each: allocation.each,
            start: allocation.each,
        }
    }

    /// One replica, or none if it has no cores.
    pub fn one(cores: Cores) -> Target {
        Target::of(Allocation::one(cores))
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
    pub fn within(self, most: Cores, ready: Allocation) -> Target {
        if self.replicas == 1 && ready.replicas == 0 {
            return Target::one(self.start.min(part(most, self.start)));
        }
        let staying = ready.replicas.min(self.replicas);
        let left = most.saturating_sub(ready.cores());
        let desired = self.replicas - staying;
        let started = desired.min(left.millis() / self.start.millis().max(1));
        let left = left.saturating_sub(times(self.start, started));
        let each = match left.millis().checked_div(ready.replicas) {
            Some(more) => {
                let grown = ready.each + Cores::from_millis(more);
                self.each.min(part(grown, self.each))
            }
            None => self.each,
        };
        Target {
            replicas: ready.replicas.max(staying + started),
            each: each.max(ready.each),
            start: self.start,
        }
    }

    /// The same target with at most `replicas` replicas.
    #[must_use]
    pub fn at_most(self, replicas: u32) -> Target {
        match self.replicas.min(replicas) {
            0 => Target::default(),
            replicas => Target { replicas, ..self },
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

/// Part of the way to `target` that `cores` cover: all of it, or whole cores.
fn part(cores: Cores, target: Cores) -> Cores {
    if cores >= target {
        return target;
    }
    Cores::whole(cores.count(Cores::whole(1)))
}

fn times(cores: Cores, count: u32) -> Cores {
    cores.times(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(replicas: u32, cores: u32) -> Allocation {
        Allocation::new(replicas, Cores::whole(cores))
    }

    fn target(replicas: u32, each: u32, start: u32) -> Target {
        let (each, start) = (Cores::whole(each), Cores::whole(start));
        Target {
            replicas,
            each,
            start,
        }
    }

    #[test]
    fn allocation_without_cores_is_no_replica() {
        assert_eq!(allocation(3, 0), Allocation::NONE);
        assert_eq!(allocation(0, 3), Allocation::NONE);
        assert_eq!(
            Target::one(Cores::ZERO).cores(Allocation::NONE),
            Cores::ZERO
        );
        let shown = [allocation(0, 3), allocation(1, 3), allocation(2, 3)];
        assert_eq!(shown.map(|a| a.to_string()), ["0", "3", "2 × 3"]);
    }

    #[test]
    fn target_costs_staying_and_starting_replicas() {
        for (target, ready, cores) in [
            (target(4, 8, 1), allocation(1, 2), 8 + 3),
            (target(4, 8, 1), allocation(0, 0), 4),
            (target(1, 8, 1), allocation(3, 2), 8),
        ] {
            assert_eq!(
                target.cores(ready),
                Cores::whole(cores),
                "{target:?} {ready}"
            );
        }
    }

    #[test]
    fn replicas_start_before_others_grow_within_limit() {
        for (desired, ready, most, expected) in [
            (target(1, 6, 6), allocation(0, 0), 4, target(1, 4, 4)),
            (target(1, 6, 6), allocation(1, 2), 4, target(1, 4, 6)),
            (target(4, 8, 1), allocation(1, 2), 20, target(4, 8, 1)),
            (target(4, 8, 1), allocation(1, 2), 8, target(4, 5, 1)),
            (target(4, 8, 1), allocation(1, 2), 4, target(3, 2, 1)),
            (target(3, 2, 2), allocation(0, 0), 5, target(2, 2, 2)),
            (target(2, 4, 4), allocation(2, 1), 5, target(2, 2, 4)),
            // Serving replicas stay, whatever the limit.
            (target(2, 1, 1), allocation(3, 2), 1, target(3, 2, 1)),
        ] {
            let got = desired.within(Cores::whole(most), ready);
            assert_eq!(got, expected, "{desired:?} {ready} {most}");
        }
    }

    #[test]
    fn fraction_of_a_core_is_given_as_a_whole_target() {
        let millis = Cores::from_millis;
        let one = |cores| Allocation::one(millis(cores));
        for (desired, ready, most, expected) in [
            (500, 0, 700, 500),
            (500, 0, 400, 0),
            (1500, 0, 1400, 1000),
            (1500, 500, 1500, 1500),
            (1500, 500, 1200, 1000),
            (1500, 500, 800, 500),
        ] {
            let got = Target::one(millis(desired)).within(millis(most), one(ready));
            let got = got.cores(one(ready));
            assert_eq!(got, millis(expected), "{desired} {ready} {most}");
        }
    }

    #[test]
    fn unconfirmed_change_counts_with_worse_outcome() {
        let actual = Actual::certain(allocation(2, 2));
        let grown = actual.or(target(3, 4, 4));
        assert_eq!(
            (grown.ready, grown.reserved),
            (allocation(2, 2), Cores::whole(12))
        );
        let shrunk = actual.or(target(1, 1, 1));
        assert_eq!(
            (shrunk.ready, shrunk.reserved),
            (allocation(1, 1), Cores::whole(4))
        );
        let ended = actual.or(target(0, 0, 0));
        assert_eq!(ended.ready, Allocation::NONE);
    }

    #[test]
    fn target_of_current_capacity_keeps_starting_replicas() {
        let mut actual = Actual::certain(allocation(2, 3));
        assert_eq!(actual.target(), target(2, 3, 3));
        actual.starting = allocation(2, 1);
        assert_eq!(actual.target(), target(4, 3, 1));
        actual.ready = Allocation::NONE;
        assert_eq!(actual.target(), target(2, 1, 1));
    }
}
