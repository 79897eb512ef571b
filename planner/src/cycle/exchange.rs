//! What is wanted → what to go to first, where stages are to serve with other variants than those they have
//! and the budget does not leave each a core to begin with: making before breaking is not possible then. Half
//! of what serves makes room for the greatest that is to, and only then the rest, so that no stage stands
//! still. Pure.

use weir_api::Cores;

use crate::actuate::{Allocation, Goal, InForce};
use crate::config::{Service, Stage};

/// What to make of `in_force` on the way to `goals`; `None` where it can be gone at once.
pub(super) fn halfway(
    service: &Service,
    in_force: &[InForce],
    goals: &[Goal],
) -> Option<Vec<Goal>> {
    let taken: Cores = in_force.iter().map(|now| now.at_most).sum();
    let free = Cores::whole(service.budget).saturating_sub(taken);
    let exchanges: Vec<Exchange> = service
        .stages
        .iter()
        .filter_map(|stage| Exchange::of(stage, in_force, goals))
        .collect();
    let begin: Cores = exchanges.iter().map(|one| one.taker.1.first()).sum();
    if free >= begin {
        return None;
    }
    let mut step = goals.to_vec();
    for exchange in &exchanges {
        exchange.halve(&mut step);
    }
    Some(step)
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
    use crate::config::tests::service;

    fn there<const N: usize>(cores: [u32; N]) -> [InForce; N] {
        cores.map(|cores| InForce::certain(Allocation::one(Cores::whole(cores))))
    }

    fn goals<const N: usize>(cores: [u32; N]) -> Vec<Goal> {
        there(cores).iter().map(|one| one.goal()).collect()
    }

    #[test]
    fn replicas_are_exchanged_by_halves_too() {
        let two = |replicas| Allocation::new(replicas, Cores::whole(2));
        let in_force = [InForce::certain(two(4)), InForce::default()];
        let goals = [Goal::default(), Goal::of(two(3))];
        let step = halfway(&service(8), &in_force, &goals);
        assert_eq!(step, Some(vec![Goal::of(two(2)), Goal::of(two(2))]));
    }

    #[test]
    fn a_single_core_stays_until_there_is_room() {
        let mut service = service(8);
        let stage = |name: &str, variants| Stage {
            name: name.to_owned(),
            variants,
        };
        service.stages = vec![stage("detect", 0..2), stage("classify", 2..3)];
        let step = halfway(&service, &there([1, 0, 7]), &goals([0, 1, 6]));
        assert_eq!(step, Some(goals([1, 0, 6])));
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
            let step = halfway(&service, &there(in_force), &goals(target));
            assert_eq!(step, expected.map(goals));
        }
    }

    /// Of a and b in one stage and a budget of 8: in force, wanted → half of the way.
    fn check(in_force: [u32; 2], target: [u32; 2], step: Option<[u32; 2]>) {
        let got = halfway(&service(8), &there(in_force), &goals(target));
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
        let step = halfway(&service, &there([0, 9, 15]), &goals([20, 0, 0]));
        assert_eq!(step, Some(goals([11, 5, 8])));
    }
}
