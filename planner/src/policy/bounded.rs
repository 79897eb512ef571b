//! Any policy under the limits of resources that replicas hold ([`ResourceLimits`]). Policies decide about cores and
//! know the maximum replicas of each variant. If a decision exceeds a limit, they decide again with lower maxima, by
//! branch and limit.
//!
//! Let n replicas exceed a limit by E. Any allocation within the limit has fewer replicas of some variant: of k
//! variants that hold the resource, one must give up E/k at least. With h held per replica, a branch for each of the
//! k with ⌈E / (k·h)⌉ replicas fewer therefore loses no solution, and a branch's objective bounds all branches below
//! it.
//!
//! The first descent takes the branch with the highest objective at each step. Its result is improved with the
//! resources left over. Then branches are explored in the order of their objective until none can be better by more
//! than the policy's tolerance. The actual allocation is kept if it is within the limits, and within that tolerance
//! of the best result or of the optimum without limits.
//!
//! If demand exceeds the capacity, branches are ordered by the load that they carry. When time runs out, the best
//! result so far counts, or the actual allocation with replicas removed until it is within the limits.

mod search;

use search::{Branch, Left, Search, Worth, max};

use super::{keep, stay};
use crate::capacity::{Actual, Amount, ResourceLimit, Target};
use crate::clock::stopwatch;
use crate::service::{Decision, Service, SolveStatus};

pub use search::BRANCHES_MAX;

/// Runs the policy under the service's resource limits.
pub(super) fn decide(
    service: &Service,
    actual: &[Actual],
    window_full: bool,
    solve: impl Fn(&Service, &[Actual]) -> Decision,
) -> Decision {
    let elapsed = stopwatch();
    let mut search = Search::new(service, actual, &elapsed, &solve);
    let free = search.branch(max(service), 0);
    if search.fits_limits(&free.decision) {
        return free.decision;
    }
    let tight = tight(service, &free.decision);
    let left = search.run(service.policy.tolerance(service));
    let mut decision = match search.found.take() {
        Some(found) => or_stay(&search, found, window_full),
        None => fewer(service, actual),
    };
    if decision.status == SolveStatus::Optimal && left != Left::Nothing {
        decision.status = SolveStatus::Good;
    }
    if let (Left::Worth(above), SolveStatus::Good, Some(optimum)) =
        (left, decision.status, decision.optimum)
    {
        decision.why += &format!(", at most {:.4} below the best", above - optimum);
    }
    decision.why += &exceeded_limits(&tight, &decision);
    decision
}

/// Returns the actual allocation instead of `found` if it is within the limits and near the best.
fn or_stay<S>(search: &Search<'_, S>, found: Branch, window_full: bool) -> Decision
where
    S: Fn(&Service, &[Actual]) -> Decision,
{
    let targets = stay(search.actual);
    let running = replicas(&targets);
    let Worth::Full(worth) = found.worth else {
        return found.decision;
    };
    if !search.service.limits.fit(&running) || found.decision.targets == targets {
        return found.decision;
    }
    let most = running.into_iter().zip(search.most());
    let here = search.branch(most.map(|(now, most)| now.min(most)).collect(), 0);
    let near =
        |objective: f64| worth - objective <= search.service.policy.tolerance(search.service);
    let stays = matches!(here.worth, Worth::Full(_))
        && here.decision.targets == targets
        && (!window_full || here.decision.objective.is_some_and(near));
    if !stays {
        return found.decision;
    }
    Decision {
        kept: true,
        status: found.decision.status,
        optimum: found.decision.optimum,
        ..here.decision
    }
}

/// The actual allocation with replicas removed until it is within the limits.
fn fewer(service: &Service, actual: &[Actual]) -> Decision {
    let why = "no replicas were found in time that carry it".to_owned();
    let mut decision = keep(actual, SolveStatus::OutOfTime, why);
    while !service.limits.fit(&replicas(&decision.targets)) {
        let replicas = replicas(&decision.targets);
        let over = service
            .limits
            .0
            .iter()
            .filter(|limit| limit.excess(&replicas) > 0);
        let holders = |limit: &ResourceLimit| {
            let each = limit.each.iter().zip(&replicas).enumerate();
            let holders = each.filter(|(_, (each, count))| **each > 0 && **count > 0);
            holders
                .max_by_key(|(_, (_, count))| **count)
                .map(|(index, _)| index)
        };
        let most = over.filter_map(holders).next();
        let Some(target) = most.and_then(|index| decision.targets.get_mut(index)) else {
            break;
        };
        *target = target.at_most(target.replicas - 1);
    }
    decision
}

/// Limits that a decision exceeds.
fn tight<'a>(service: &'a Service, decision: &Decision) -> Vec<&'a ResourceLimit> {
    let replicas = replicas(&decision.targets);
    let limits = service.limits.0.iter();
    limits.filter(|limit| limit.excess(&replicas) > 0).collect()
}

fn exceeded_limits(tight: &[&ResourceLimit], decision: &Decision) -> String {
    let replicas = replicas(&decision.targets);
    let one = |limit: &&ResourceLimit| {
        let (name, used) = (&limit.name, Amount(limit.used(&replicas)));
        let most = Amount(limit.most);
        format!("; more replicas would hold too much {name}: {used} of {most}")
    };
    tight.iter().map(one).collect()
}

fn replicas(targets: &[Target]) -> Vec<u32> {
    targets.iter().map(|target| target.replicas).collect()
}

#[cfg(test)]
mod tests;
