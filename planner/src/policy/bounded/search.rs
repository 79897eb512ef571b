//! Branch and bound over the maximum replicas of each variant.

use std::collections::BTreeSet;
use std::time::Duration;

use super::replicas;
use crate::capacity::{Actual, Allocation, ResourceLimit, Target};
use crate::service::{Decision, SolveStatus};
use crate::service::{Service, Stage, Variant};

/// Maximum number of branches.
pub const BRANCHES_MAX: usize = 300;

/// Decision under given maximum replicas of each variant.
pub(super) struct Branch {
    pub(super) most: Vec<u32>,
    /// Steps from the root.
    depth: u32,
    pub(super) decision: Decision,
    pub(super) worth: Worth,
}

/// Value of a branch: the objective if it carries the demand, else the load it carries. The former ranks higher.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) enum Worth {
    Short(f64),
    Full(f64),
}

impl Worth {
    /// Whether it exceeds `other` by more than `by`.
    fn beats(self, other: Worth, by: f64) -> bool {
        match (self, other) {
            (Worth::Full(worth), Worth::Full(other)) => worth > other + by,
            _ => self > other,
        }
    }
}

/// Possible improvement over the best result when the search ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Left {
    Nothing,
    /// The policy has not proven the optimum of some branch.
    Unproven,
    /// Upper bound on the objective of unexplored branches.
    Worth(f64),
}

pub(super) struct Search<'a, S> {
    pub(super) service: &'a Service,
    pub(super) actual: &'a [Actual],
    pub(super) elapsed: &'a dyn Fn() -> Duration,
    pub(super) solve: &'a S,
    /// Maximum replicas of all branches so far.
    known: BTreeSet<Vec<u32>>,
    /// Unexplored branches that exceed the limits.
    open: Vec<Branch>,
    /// Best branch within the limits.
    pub(super) found: Option<Branch>,
    /// Whether the objective of every branch is its proven optimum.
    proven: bool,
}

impl<'a, S: Fn(&Service, &[Actual]) -> Decision> Search<'a, S> {
    pub(super) fn new(
        service: &'a Service,
        actual: &'a [Actual],
        elapsed: &'a dyn Fn() -> Duration,
        solve: &'a S,
    ) -> Search<'a, S> {
        Search {
            service,
            actual,
            elapsed,
            solve,
            known: BTreeSet::new(),
            open: Vec::new(),
            found: None,
            proven: true,
        }
    }

    /// Searches until no branch can be better by more than the tolerance, or time runs out; returns what may remain.
    pub(super) fn run(&mut self, tolerance: f64) -> Left {
        self.see(self.most(), 0);
        let mut left = self.left();
        while let Some(next) = self.next() {
            let found = self.found.as_ref().map(|found| found.worth);
            if found.is_some_and(|found| next.worth <= found) {
                return left;
            }
            if self.is_over() || found.is_some_and(|found| !next.worth.beats(found, tolerance)) {
                return match next.worth {
                    Worth::Full(worth) => Left::Worth(worth),
                    Worth::Short(_) => left,
                };
            }
            for most in self.below(&next) {
                self.see(most, next.depth + 1);
            }
            left = self.left();
        }
        left
    }

    /// Possible improvement without a better branch: the policy may not have proven an optimum, or not in time.
    fn left(&self) -> Left {
        match self.proven {
            true => Left::Nothing,
            false => Left::Unproven,
        }
    }

    /// Takes the best open branch; before a first result, the best of the deepest.
    fn next(&mut self) -> Option<Branch> {
        let deep = |branch: &Branch| {
            if self.found.is_none() {
                branch.depth
            } else {
                0
            }
        };
        let order = |a: &Branch, b: &Branch| {
            let worth = a.worth.partial_cmp(&b.worth);
            deep(a)
                .cmp(&deep(b))
                .then(worth.unwrap_or(std::cmp::Ordering::Equal))
        };
        let all = self.open.iter().enumerate();
        let best = all.max_by(|(_, a), (_, b)| order(a, b));
        let best = best.map(|(index, _)| index)?;
        Some(self.open.swap_remove(best))
    }

    /// Decides under these maximum replicas, unless that has been done.
    fn see(&mut self, most: Vec<u32>, depth: u32) {
        if !self.known.insert(most.clone()) {
            return;
        }
        let branch = self.branch(most, depth);
        self.proven &= !matches!(
            branch.decision.status,
            SolveStatus::Good | SolveStatus::OutOfTime
        );
        if !self.fits_limits(&branch.decision) {
            self.open.push(branch);
        } else if self.offer(branch) {
            self.fill();
        }
    }

    /// Records a branch within the limits if it is the best so far; returns whether it is.
    fn offer(&mut self, branch: Branch) -> bool {
        let better = self
            .found
            .as_ref()
            .is_none_or(|found| branch.worth > found.worth);
        if better {
            self.found = Some(branch);
        }
        better
    }

    /// Improves the result by more replicas of one variant, in free resources or in place of another variant's replica.
    fn fill(&mut self) {
        let mut better = true;
        while better {
            better = false;
            for most in self.beside() {
                if self.is_over() {
                    return;
                }
                if self.known.insert(most.clone()) {
                    let branch = self.branch(most, 0);
                    better |= self.fits_limits(&branch.decision) && self.offer(branch);
                }
            }
        }
    }

    /// Neighbours of the result: one variant has as many replicas more as the limits allow, and another one replica
    /// fewer or the same number.
    fn beside(&self) -> Vec<Vec<u32>> {
        let Some(found) = &self.found else {
            return Vec::new();
        };
        let current = replicas(&found.decision.targets);
        let fewer = |(index, variant): (usize, &Variant)| {
            let mut fewer = current.clone();
            let own = fewer
                .get_mut(index)
                .filter(|own| **own > variant.fewest())?;
            *own -= 1;
            Some(fewer)
        };
        let each = || self.service.variants.iter().enumerate();
        let fewer: Vec<Vec<u32>> = each().filter_map(fewer).collect();
        let bases = [current.clone()].into_iter().chain(fewer);
        let more = |base: Vec<u32>| {
            let of = move |(index, variant): (usize, &Variant)| {
                let max = self.service.limits.max_replicas(index, &base);
                let mut more = base.clone();
                let own = more.get_mut(index)?;
                let max = max.min(variant.replicas.max);
                *own = Some(max).filter(|max| *max > *own)?;
                Some(more)
            };
            each().filter_map(of)
        };
        bases.flat_map(more).collect()
    }

    fn is_over(&self) -> bool {
        (self.elapsed)() >= self.service.solver_limit || self.known.len() >= BRANCHES_MAX
    }

    /// Maximum replicas of each variant while the others have their minimum.
    pub(super) fn most(&self) -> Vec<u32> {
        let fewest: Vec<u32> = self.service.variants.iter().map(Variant::fewest).collect();
        let each = self.service.variants.iter().enumerate();
        let most = each.map(|(index, variant)| {
            let max = self.service.limits.max_replicas(index, &fewest);
            variant.replicas.max.min(max)
        });
        most.collect()
    }

    /// Decides under these maximum replicas.
    pub(super) fn branch(&self, most: Vec<u32>, depth: u32) -> Branch {
        let mut service = self.service.clone();
        for (variant, most) in service.variants.iter_mut().zip(&most) {
            variant.replicas.max = *most;
            variant.replicas.min = variant.replicas.min.min(*most);
        }
        // The first branch must leave time for others.
        service.solver_limit = self.service.solver_limit.saturating_sub((self.elapsed)()) / 2;
        let fewer = |(now, most): (&Actual, &u32)| clipped(*now, *most);
        let actual: Vec<Actual> = self.actual.iter().zip(&most).map(fewer).collect();
        let decision = (self.solve)(&service, &actual);
        let worth = match (decision.status, decision.optimum) {
            (SolveStatus::Optimal | SolveStatus::Good, Some(optimum)) => Worth::Full(optimum),
            _ => Worth::Short(self.carried(&decision.targets)),
        };
        Branch {
            most,
            depth,
            decision,
            worth,
        }
    }

    /// Branches below this one, which together contain all of its allocations within the limits.
    fn below(&self, branch: &Branch) -> Vec<Vec<u32>> {
        let replicas = replicas(&branch.decision.targets);
        let part =
            |limit: &&ResourceLimit| limit.excess(&replicas) as f64 / limit.most.max(1) as f64;
        let all = self.service.limits.0.iter();
        let Some(limit) = all.max_by(|a, b| part(a).total_cmp(&part(b))) else {
            return Vec::new();
        };
        let each = limit.each.iter().zip(&replicas).enumerate();
        let holders: Vec<(usize, u64, u32)> = each
            .filter(|(_, (each, replicas))| **each > 0 && **replicas > 0)
            .map(|(index, (each, replicas))| (index, *each, *replicas))
            .collect();
        let excess = limit
            .excess(&replicas)
            .div_ceil(holders.len().max(1) as u64);
        let less = |(index, each, replicas): (usize, u64, u32)| {
            let fewer = u32::try_from(excess.div_ceil(each)).unwrap_or(u32::MAX);
            let left = replicas.checked_sub(fewer)?;
            let min = self.service.variants.get(index).map_or(0, Variant::fewest);
            let mut most = branch.most.clone();
            *most.get_mut(index)? = left;
            Some(most).filter(|_| left >= min)
        };
        holders.into_iter().filter_map(less).collect()
    }

    pub(super) fn fits_limits(&self, decision: &Decision) -> bool {
        self.service.limits.fit(&replicas(&decision.targets))
    }

    /// Load that all stages carry with these targets.
    fn carried(&self, targets: &[Target]) -> f64 {
        let of = |stage: &Stage| -> f64 {
            let all = stage.variants.clone().filter_map(|index| {
                let (variant, target) = (self.service.variants.get(index)?, targets.get(index)?);
                let each = variant.capacity(target.each, self.service);
                Some(f64::from(target.replicas) * each)
            });
            all.sum()
        };
        let stages = self.service.stages.iter().map(of);
        stages.reduce(f64::min).unwrap_or(0.0)
    }
}

/// Maximum replicas by the service file, without resource limits.
pub(super) fn max(service: &Service) -> Vec<u32> {
    let each = service.variants.iter();
    each.map(|variant| variant.replicas.max).collect()
}

/// The actual state, limited to `most` replicas.
fn clipped(now: Actual, most: u32) -> Actual {
    if now.replicas() <= most {
        return now;
    }
    let ready = Allocation::new(now.ready.replicas().min(most), now.ready.each());
    let starting = now.starting.replicas().min(most - ready.replicas());
    let starting = Allocation::new(starting, now.starting.each());
    Actual {
        ready,
        starting,
        reserved: ready.cores() + starting.cores(),
        replicas_reserved: most,
    }
}
