//! What is wanted → what to go to first, where stages are to serve with other variants than those they have
//! and the budget does not leave each a core, and what a replica holds, to begin with: making before breaking is not
//! possible then. Half of what serves makes room for the greatest that is to, and only then the rest, so that no stage
//! stands still. A stage whose last replica leaves no room for another variant's first stays with it. Pure.

use weir_api::Cores;

use crate::actuate::{Allocation, Goal, InForce};
use crate::config::{Service, Stage};

/// How to come to what is wanted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// What to make of what is in force, one after the other; the last is what is wanted, as far as it can be had.
    pub(super) legs: Vec<Vec<Goal>>,
    /// Variants that cannot be started, as no replica of theirs may be there beside the last one that serves.
    pub(super) stuck: Vec<usize>,
}

/// From `in_force` to `goals`.
pub(super) fn way(service: &Service, in_force: &[InForce], goals: &[Goal]) -> Way {
    let taken: Cores = in_force.iter().map(|now| now.at_most).sum();
    let free = Cores::whole(service.budget).saturating_sub(taken);
    let exchanges: Vec<Exchange> = service
        .stages
        .iter()
        .filter_map(|stage| Exchange::of(stage, in_force, goals))
        .collect();
    let begin: Cores = exchanges.iter().map(|one| one.taker.1.first()).sum();
    let mut begun: Vec<u32> = in_force.iter().map(|now| now.replicas_at_most).collect();
    for exchange in &exchanges {
        if let Some(replicas) = begun.get_mut(exchange.taker.0) {
            *replicas = (*replicas).max(1);
        }
    }
    let mut way = Way {
        legs: vec![goals.to_vec()],
        stuck: Vec::new(),
    };
    if exchanges.is_empty() || free >= begin && service.bounds.bear(&begun) {
        return way;
    }
    let (mut step, mut end) = (goals.to_vec(), goals.to_vec());
    for exchange in &exchanges {
        exchange.halve(&mut step);
    }
    for exchange in &exchanges {
        if exchange.fits(service, in_force, &step) {
            continue;
        }
        // It goes on from there in the next turn.
        if let [(_, has)] = exchange.givers[..]
            && has.replicas() == 1
        {
            way.stuck.push(exchange.taker.0);
        }
        exchange.wait(in_force, &mut step);
        exchange.copy(&step, &mut end);
    }
    way.legs = if step == end {
        vec![end]
    } else {
        vec![step, end]
    };
    way
}

/// A stage none of whose variants that are to run does.
struct Exchange {
    /// Who serves, and how.
    givers: Vec<(usize, Allocation)>,
    /// Who is to have the most.
    taker: (usize, Goal),
}

impl Exchange {
    fn of(stage: &Stage, in_force: &[InForce], goals: &[Goal]) -> Option<Exchange> {
        let has = |index: usize| {
            in_force
                .get(index)
                .map_or(Allocation::NONE, |now| now.ready)
        };
        let goal = |index: usize| goals.get(index).copied().unwrap_or_default();
        let all = || stage.variants.clone();
        let stays = |index: usize| goal(index).ready(has(index)) != Allocation::NONE;
        if all().any(stays) {
            return None;
        }
        let taker = all().max_by_key(|index| goal(*index).cores(Allocation::NONE))?;
        let givers = all().map(|index| (index, has(index)));
        let exchange = Exchange {
            givers: givers.filter(|(_, has)| *has != Allocation::NONE).collect(),
            taker: (taker, goal(taker)),
        };
        (exchange.taker.1.replicas > 0).then_some(exchange)
    }

    /// Whether the taker may have a replica beside what serves after a step.
    fn fits(&self, service: &Service, in_force: &[InForce], step: &[Goal]) -> bool {
        let each = in_force.iter().zip(step);
        let after = each.map(|(now, goal)| now.replicas().min(goal.replicas));
        let mut after: Vec<u32> = after.collect();
        if let Some(own) = after.get_mut(self.taker.0) {
            *own = 1;
        }
        service.bounds.bear(&after)
    }

    /// Only the greatest goes on to serve: with half of its replicas, or as it is where it has but one.
    fn wait(&self, in_force: &[InForce], step: &mut [Goal]) {
        let greatest = self.givers.iter().max_by_key(|(_, has)| has.cores());
        let greatest = greatest.map(|(index, _)| *index);
        let all = self.givers.iter().map(|(index, _)| *index);
        for index in all.chain([self.taker.0]) {
            let Some(step) = step.get_mut(index) else {
                continue;
            };
            if Some(index) != greatest {
                *step = Goal::default();
            } else if let Some(now) = in_force.get(index).filter(|_| step.replicas == 1) {
                *step = now.goal();
            }
        }
    }

    fn copy(&self, step: &[Goal], end: &mut [Goal]) {
        let all = self.givers.iter().map(|(index, _)| *index);
        for index in all.chain([self.taker.0]) {
            if let (Some(step), Some(end)) = (step.get(index), end.get_mut(index)) {
                *end = *step;
            }
        }
    }

    /// A single core, or replica, stays until another stage leaves room.
    fn halve(&self, step: &mut [Goal]) {
        let freed = |has: &Allocation| has.cores().saturating_sub(half(*has).cores());
        let freed: Cores = self.givers.iter().map(|(_, has)| freed(has)).sum();
        let (taker, wanted) = self.taker;
        let left = |(index, has): &(usize, Allocation)| (*index, Goal::of(half(*has)));
        let changes = self.givers.iter().map(left);
        let begin = wanted.within(freed, Allocation::NONE);
        for (index, goal) in changes.chain([(taker, begin)]) {
            if let Some(step) = step.get_mut(index) {
                *step = goal;
            }
        }
    }
}

/// The greater half: of the replicas where they are several, else of the cores.
fn half(has: Allocation) -> Allocation {
    match has.replicas() {
        0 | 1 => {
            let gone = Cores::whole(has.each().millis() / 1000 / 2);
            Allocation::one(has.each().saturating_sub(gone))
        }
        replicas => Allocation::new(replicas.div_ceil(2), has.each()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actuate::{Bound, Bounds};
    use crate::config::tests::service;

    fn there<const N: usize>(cores: [u32; N]) -> [InForce; N] {
        cores.map(|cores| InForce::certain(Allocation::one(Cores::whole(cores))))
    }

    fn goals<const N: usize>(cores: [u32; N]) -> Vec<Goal> {
        there(cores).iter().map(|one| one.goal()).collect()
    }

    /// What to go to before what is wanted, which is gone to in the end.
    fn first(service: &Service, in_force: &[InForce], goals: &[Goal]) -> Option<Vec<Goal>> {
        let mut way = way(service, in_force, goals);
        assert!(way.stuck.is_empty());
        assert_eq!(way.legs.pop().as_deref(), Some(goals));
        way.legs.pop()
    }

    #[test]
    fn what_replicas_hold_must_leave_room_for_the_first() {
        let mut service = service(100);
        service.stages[0].variants = 0..3;
        service.bounds = Bounds(vec![Bound {
            name: "memory".to_owned(),
            most: 12,
            each: vec![2, 5, 8],
        }]);
        let of =
            |replicas: [u32; 3]| replicas.map(|n| Goal::of(Allocation::new(n, Cores::whole(2))));
        for (there, wanted, legs, stuck) in [
            // Five are left: one of b starts at once.
            ([3, 0, 0], [0, 2, 0], vec![[0, 2, 0]], vec![]),
            // Half makes room.
            ([6, 0, 0], [0, 2, 0], vec![[3, 2, 0], [0, 2, 0]], vec![]),
            // Half does not, a quarter in the next turn does.
            ([6, 0, 0], [0, 0, 1], vec![[3, 0, 0]], vec![]),
            ([3, 0, 0], [0, 0, 1], vec![[2, 0, 1], [0, 0, 1]], vec![]),
            // The other one goes first.
            ([1, 1, 0], [0, 0, 1], vec![[0, 1, 0]], vec![]),
            // Neither may be there beside the other.
            ([0, 1, 0], [0, 0, 1], vec![[0, 1, 0]], vec![2]),
            // One of them goes on to serve.
            ([1, 2, 0], [1, 0, 1], vec![[1, 0, 1]], vec![]),
        ] {
            let in_force =
                of(there).map(|goal| InForce::certain(goal.ready(Allocation::new(99, goal.each))));
            let got = way(&service, &in_force, &of(wanted));
            let shown: Vec<Vec<u32>> = got
                .legs
                .iter()
                .map(|leg| leg.iter().map(|goal| goal.replicas).collect())
                .collect();
            assert_eq!(
                (shown, got.stuck),
                (legs.iter().map(|leg| leg.to_vec()).collect(), stuck),
                "{there:?} {wanted:?}"
            );
        }
    }

    #[test]
    fn replicas_are_exchanged_by_halves_too() {
        let two = |replicas| Allocation::new(replicas, Cores::whole(2));
        let in_force = [InForce::certain(two(4)), InForce::default()];
        let goals = [Goal::default(), Goal::of(two(3))];
        let first = first(&service(8), &in_force, &goals);
        assert_eq!(first, Some(vec![Goal::of(two(2)), Goal::of(two(2))]));
    }

    #[test]
    fn a_single_core_stays_until_there_is_room() {
        let mut service = service(8);
        let stage = |name: &str, variants| Stage {
            name: name.to_owned(),
            variants,
        };
        service.stages = vec![stage("detect", 0..2), stage("classify", 2..3)];
        let first = first(&service, &there([1, 0, 7]), &goals([0, 1, 6]));
        assert_eq!(first, Some(goals([1, 0, 6])));
    }

    #[test]
    fn each_stage_needs_a_core_to_begin_with() {
        let mut service = service(24);
        let stage = |name: &str, variants| Stage {
            name: name.to_owned(),
            variants,
        };
        service.stages = vec![stage("detect", 0..2), stage("classify", 2..4)];
        for (in_force, target, expected) in [
            // One is free and two are to change: both by halves.
            ([0, 14, 0, 9], [9, 0, 7, 0], Some([7, 7, 4, 5])),
            ([0, 13, 0, 9], [9, 0, 7, 0], None),
        ] {
            let first = first(&service, &there(in_force), &goals(target));
            assert_eq!(first, expected.map(goals));
        }
    }

    /// Of a and b in one stage and a budget of 8: in force, wanted → half of the way.
    fn check(in_force: [u32; 2], target: [u32; 2], step: Option<[u32; 2]>) {
        let got = first(&service(8), &there(in_force), &goals(target));
        assert_eq!(got, step.map(goals), "{in_force:?} {target:?}");
    }

    #[test]
    fn a_stage_without_room_is_exchanged_by_halves() {
        check([8, 0], [0, 6], Some([4, 4]));
        check([8, 0], [0, 2], Some([4, 2]));
        // With room, or with a core that stays, there is nothing to it.
        check([4, 4], [0, 6], None);
        check([7, 0], [0, 8], None);
        check([8, 0], [1, 7], None);
        check([8, 0], [0, 0], None);
        check([1, 0], [0, 1], None);
    }

    #[test]
    fn all_that_serve_make_room() {
        let mut service = service(24);
        service.stages[0].variants = 0..3;
        let first = first(&service, &there([0, 9, 15]), &goals([20, 0, 0]));
        assert_eq!(first, Some(goals([11, 5, 8])));
    }
}
