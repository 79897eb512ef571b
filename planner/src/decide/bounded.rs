//! Whatever the policy: the best that is borne of what replicas hold ([`Bounds`]). Policies decide about cores and
//! know how many replicas a variant may have at most; so where what they decide holds too much, they decide again
//! with fewer, by branch and bound.
//!
//! Of n replicas that hold E too much, any that are borne have fewer of some variant: of k variants that hold any, one
//! must give up E/k at least. So a branch for each of the k, with ⌈E / (k·h)⌉ replicas fewer, loses nothing; what a
//! branch was decided to be worth bounds all below it, and the first that is borne in the order of their worth is the
//! best. What runs and is borne stays where it is within the policy's tolerance of that, or of what would be best
//! without bounds.
//!
//! Where more is to be carried than can be, branches go by what they carry. Out of time, it is the best that was
//! found, or what runs with as many replicas fewer as it takes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Decision, Kind, keep, stay};
use crate::actuate::{Allocation, Amount, Bound, Goal, InForce};
use crate::clock::stopwatch;
use crate::config::{Policy, Service, Stage, Variant};

/// Most branches that are looked at.
pub const BRANCHES_MAX: usize = 1000;

/// What was decided where each variant has at most so many replicas.
struct Branch {
    most: Vec<u32>,
    decision: Decision,
    /// Whether it carries the demand, and what it is worth; else what it carries.
    worth: (bool, f64),
}

/// The best of what `solve` decides that the service's bounds bear.
pub(super) fn decide(
    service: &Service,
    in_force: &[InForce],
    settled: bool,
    solve: impl Fn(&Service, &[InForce]) -> Decision,
) -> Decision {
    let elapsed = stopwatch();
    let search = Search {
        service,
        in_force,
        elapsed: &elapsed,
        solve: &solve,
    };
    let free = search.branch(greatest_of(service));
    if search.is_borne(&free.decision) {
        return free.decision;
    }
    let tight = search.tight(&free.decision);
    let (found, left) = search.best(search.branch(search.most()));
    let mut decision = match found {
        Some(found) => search.or_stay(found, settled),
        None => search.fewer(),
    };
    if decision.kind == Kind::Optimal && left != Left::Nothing {
        decision.kind = Kind::Good;
    }
    if let (Left::Worth(above), Some(optimum)) = (left, decision.optimum) {
        decision.why += &format!(", at most {:.4} below the best", above - optimum);
    }
    decision.why += &search.says(&tight, &decision);
    decision
}

/// What may be better than what was found.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Left {
    Nothing,
    /// The policy itself has not proven the best of a branch.
    Unproven,
    /// Branches that nobody has looked into are worth so much at most.
    Worth(f64),
}

struct Search<'a, S> {
    service: &'a Service,
    in_force: &'a [InForce],
    elapsed: &'a dyn Fn() -> Duration,
    solve: &'a S,
}

impl<S: Fn(&Service, &[InForce]) -> Decision> Search<'_, S> {
    /// As many replicas of each as may be where the others have their fewest.
    fn most(&self) -> Vec<u32> {
        let fewest: Vec<u32> = self.service.variants.iter().map(Variant::fewest).collect();
        let each = self.service.variants.iter().enumerate();
        let most = each.map(|(index, variant)| {
            let room = self.service.bounds.room(index, &fewest);
            variant.replicas.greatest.min(room)
        });
        most.collect()
    }

    /// What is decided with at most so many replicas.
    fn branch(&self, most: Vec<u32>) -> Branch {
        let mut service = self.service.clone();
        for (variant, most) in service.variants.iter_mut().zip(&most) {
            variant.replicas.greatest = *most;
            variant.replicas.least = variant.replicas.least.min(*most);
        }
        // The first branch must leave time for others.
        service.solver_limit = self.service.solver_limit.saturating_sub((self.elapsed)()) / 2;
        let fewer = |(now, most): (&InForce, &u32)| clipped(*now, *most);
        let there: Vec<InForce> = self.in_force.iter().zip(&most).map(fewer).collect();
        let decision = (self.solve)(&service, &there);
        let carries = matches!(decision.kind, Kind::Optimal | Kind::Good);
        let worth = match decision.optimum {
            Some(optimum) if carries => optimum,
            _ => self.carried(&decision.goals),
        };
        Branch {
            most,
            decision,
            worth: (carries, worth),
        }
    }

    /// The best that is borne.
    fn best(&self, root: Branch) -> (Option<Branch>, Left) {
        if self.is_borne(&root.decision) {
            return (Some(root), Left::Nothing);
        }
        let mut known = BTreeSet::from([root.most.clone()]);
        let mut left = Left::Nothing;
        let (mut open, mut found): (Vec<Branch>, Option<Branch>) = (vec![root], None);
        while let Some(best) = greatest(&open) {
            let best = open.swap_remove(best);
            if found.as_ref().is_some_and(|found| !better(&best, found)) {
                return (found, left);
            }
            if best.decision.kind == Kind::Good {
                left = Left::Unproven;
            }
            if (self.elapsed)() >= self.service.solver_limit || known.len() >= BRANCHES_MAX {
                let (carries, worth) = best.worth;
                return (found, if carries { Left::Worth(worth) } else { left });
            }
            for most in self.below(&best) {
                if !known.insert(most.clone()) {
                    continue;
                }
                let branch = self.branch(most);
                if !self.is_borne(&branch.decision) {
                    open.push(branch);
                } else if found.as_ref().is_none_or(|found| better(&branch, found)) {
                    found = Some(branch);
                }
            }
        }
        (found, left)
    }

    /// One of which all that is borne of a branch is part.
    fn below(&self, branch: &Branch) -> Vec<Vec<u32>> {
        let replicas = replicas(&branch.decision.goals);
        let part = |bound: &&Bound| bound.excess(&replicas) as f64 / bound.most.max(1) as f64;
        let all = self.service.bounds.0.iter();
        let Some(bound) = all.max_by(|a, b| part(a).total_cmp(&part(b))) else {
            return Vec::new();
        };
        let each = bound.each.iter().zip(&replicas).enumerate();
        let holders: Vec<(usize, u64, u32)> = each
            .filter(|(_, (each, replicas))| **each > 0 && **replicas > 0)
            .map(|(index, (each, replicas))| (index, *each, *replicas))
            .collect();
        let excess = bound
            .excess(&replicas)
            .div_ceil(holders.len().max(1) as u64);
        let less = |(index, each, replicas): (usize, u64, u32)| {
            let fewer = u32::try_from(excess.div_ceil(each)).unwrap_or(u32::MAX);
            let left = replicas.checked_sub(fewer)?;
            let least = self.service.variants.get(index).map_or(0, Variant::fewest);
            let mut most = branch.most.clone();
            *most.get_mut(index)? = left;
            Some(most).filter(|_| left >= least)
        };
        holders.into_iter().filter_map(less).collect()
    }

    fn is_borne(&self, decision: &Decision) -> bool {
        self.service.bounds.bear(&replicas(&decision.goals))
    }

    /// What all stages carry with these.
    fn carried(&self, goals: &[Goal]) -> f64 {
        let of = |stage: &Stage| -> f64 {
            let all = stage.variants.clone().filter_map(|index| {
                let (variant, goal) = (self.service.variants.get(index)?, goals.get(index)?);
                let each = variant.capacity(goal.each, self.service.latency_max_ms);
                Some(f64::from(goal.replicas) * each)
            });
            all.sum()
        };
        let stages = self.service.stages.iter().map(of);
        stages.reduce(f64::min).unwrap_or(0.0)
    }

    /// What runs, where that is borne and near the best.
    fn or_stay(&self, found: Branch, settled: bool) -> Decision {
        let (goals, (carries, worth)) = (stay(self.in_force), found.worth);
        if !self.service.bounds.bear(&replicas(&goals)) || !carries || found.decision.goals == goals
        {
            return found.decision;
        }
        let most: Vec<u32> = replicas(&goals);
        let known = self.most();
        let here = self.branch(
            most.into_iter()
                .zip(known)
                .map(|(now, most)| now.min(most))
                .collect(),
        );
        let near =
            |objective: f64| worth - objective <= tolerance(self.service.policy, self.service);
        let stays = here.worth.0
            && here.decision.goals == goals
            && (!settled || here.decision.objective.is_some_and(near));
        if !stays {
            return found.decision;
        }
        Decision {
            kept: true,
            optimum: found.decision.optimum,
            ..here.decision
        }
    }

    /// What runs, with as many replicas fewer as it takes.
    fn fewer(&self) -> Decision {
        let why = "no replicas were found in time that carry it".to_owned();
        let mut decision = keep(self.in_force, Kind::OutOfTime, why);
        while !self.is_borne(&decision) {
            let replicas = replicas(&decision.goals);
            let over = self
                .service
                .bounds
                .0
                .iter()
                .filter(|bound| bound.excess(&replicas) > 0);
            let holders = |bound: &Bound| {
                let each = bound.each.iter().zip(&replicas).enumerate();
                let holders = each.filter(|(_, (each, count))| **each > 0 && **count > 0);
                holders
                    .max_by_key(|(_, (_, count))| **count)
                    .map(|(index, _)| index)
            };
            let most = over.filter_map(holders).next();
            let Some(goal) = most.and_then(|index| decision.goals.get_mut(index)) else {
                break;
            };
            *goal = goal.at_most(goal.replicas - 1);
        }
        decision
    }

    /// What of the bounds was in the way.
    fn tight(&self, decision: &Decision) -> Vec<usize> {
        let replicas = replicas(&decision.goals);
        let bounds = self.service.bounds.0.iter().enumerate();
        let tight = bounds.filter(|(_, bound)| bound.excess(&replicas) > 0);
        tight.map(|(index, _)| index).collect()
    }

    fn says(&self, tight: &[usize], decision: &Decision) -> String {
        let replicas = replicas(&decision.goals);
        let each = tight
            .iter()
            .filter_map(|index| self.service.bounds.0.get(*index));
        let one = |bound: &Bound| {
            let (held, most) = (Amount(bound.held(&replicas)), Amount(bound.most));
            format!(
                "; more replicas would hold too much {}: {held} of {most}",
                bound.name
            )
        };
        each.map(one).collect()
    }
}

/// Within what a policy lets be that runs.
fn tolerance(policy: Policy, service: &Service) -> f64 {
    match policy {
        Policy::Infadapter => service.objective.tolerance,
        Policy::Ipa(rule) => rule.tolerance,
        Policy::Themis(rule) => rule.tolerance,
        Policy::Sponge(_) | Policy::Infaas(_) => 0.0,
    }
}

/// As many replicas as the service lets be, whatever they hold.
fn greatest_of(service: &Service) -> Vec<u32> {
    let each = service.variants.iter();
    each.map(|variant| variant.replicas.greatest).collect()
}

fn replicas(goals: &[Goal]) -> Vec<u32> {
    goals.iter().map(|goal| goal.replicas).collect()
}

/// As if no more than so many replicas were there.
fn clipped(now: InForce, most: u32) -> InForce {
    if now.replicas() <= most {
        return now;
    }
    let ready = Allocation::new(now.ready.replicas().min(most), now.ready.each());
    let starting = now.starting.replicas().min(most - ready.replicas());
    let starting = Allocation::new(starting, now.starting.each());
    InForce {
        ready,
        starting,
        at_most: ready.cores() + starting.cores(),
        replicas_at_most: most,
    }
}

fn better(one: &Branch, other: &Branch) -> bool {
    let ((carries, worth), (other_carries, other_worth)) = (one.worth, other.worth);
    (carries, worth) > (other_carries, other_worth)
}

fn greatest(open: &[Branch]) -> Option<usize> {
    let order = |a: &Branch, b: &Branch| {
        a.worth
            .0
            .cmp(&b.worth.0)
            .then(a.worth.1.total_cmp(&b.worth.1))
    };
    let all = open.iter().enumerate();
    all.max_by(|(_, a), (_, b)| order(a, b))
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests;
