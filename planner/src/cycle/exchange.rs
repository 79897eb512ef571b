//! Cores wanted → cores to go to first, where stages are to serve with other variants than those they have
//! and the budget does not leave each a core to begin with: making before breaking is not possible then. Half
//! of what serves makes room for the greatest that is to, and only then the rest, so that no stage stands
//! still. Pure.

use weir_api::Cores;

use crate::actuate::InForce;
use crate::config::{Service, Stage};

/// What to make of `in_force` on the way to `target`; `None` where it can be gone at once.
pub(super) fn halfway(
    service: &Service,
    in_force: &[InForce],
    target: &[Cores],
) -> Option<Vec<Cores>> {
    let taken: Cores = in_force.iter().map(|now| now.at_most).sum();
    let free = Cores::whole(service.budget).saturating_sub(taken);
    let exchanges: Vec<Exchange> = service
        .stages
        .iter()
        .filter_map(|stage| Exchange::of(stage, in_force, target))
        .collect();
    let begin = u32::try_from(exchanges.len()).unwrap_or(u32::MAX);
    if free >= Cores::whole(begin) {
        return None;
    }
    let mut step = target.to_vec();
    for exchange in &exchanges {
        exchange.halve(&mut step);
    }
    Some(step)
}

/// A stage none of whose variants that are to have cores has any.
struct Exchange {
    /// Who has some, and how many.
    givers: Vec<(usize, Cores)>,
    /// Who is to have the most.
    taker: (usize, Cores),
}

impl Exchange {
    fn of(stage: &Stage, in_force: &[InForce], target: &[Cores]) -> Option<Exchange> {
        let has = |index: usize| in_force.get(index).map_or(Cores::ZERO, |now| now.at_least);
        let wants = |index: usize| target.get(index).copied().unwrap_or_default();
        let all = || stage.variants.clone();
        if all().any(|index| has(index).min(wants(index)) > Cores::ZERO) {
            return None;
        }
        let taker = all().max_by_key(|index| wants(*index))?;
        let givers = all().map(|index| (index, has(index)));
        let exchange = Exchange {
            givers: givers.filter(|(_, cores)| *cores > Cores::ZERO).collect(),
            taker: (taker, wants(taker)),
        };
        (exchange.taker.1 > Cores::ZERO).then_some(exchange)
    }

    /// A single core stays until another stage leaves room.
    fn halve(&self, step: &mut [Cores]) {
        let half = |cores: Cores| Cores::whole(cores.millis() / 1000 / 2);
        let freed: Cores = self.givers.iter().map(|(_, cores)| half(*cores)).sum();
        let (taker, wanted) = self.taker;
        let left = |(index, cores): &(usize, Cores)| (*index, cores.saturating_sub(half(*cores)));
        let changes = self.givers.iter().map(left);
        for (index, cores) in changes.chain([(taker, wanted.min(freed))]) {
            if let Some(step) = step.get_mut(index) {
                *step = cores;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::service;

    #[test]
    fn a_single_core_stays_until_there_is_room() {
        let mut service = service(8);
        let stage = |name: &str, variants| Stage {
            name: name.to_owned(),
            variants,
        };
        service.stages = vec![stage("detect", 0..2), stage("classify", 2..3)];
        let cores = |cores: [u32; 3]| cores.map(Cores::whole).to_vec();
        let in_force: Vec<InForce> = cores([1, 0, 7]).into_iter().map(InForce::certain).collect();
        let step = halfway(&service, &in_force, &cores([0, 1, 6]));
        assert_eq!(step, Some(cores([1, 0, 6])));
    }

    #[test]
    fn each_stage_needs_a_core_to_begin_with() {
        let mut service = service(24);
        let stage = |name: &str, variants| Stage {
            name: name.to_owned(),
            variants,
        };
        service.stages = vec![stage("detect", 0..2), stage("classify", 2..4)];
        let cores = |cores: [u32; 4]| cores.map(Cores::whole).to_vec();
        for (in_force, target, expected) in [
            // One is free and two are to change: both by halves.
            ([0, 14, 0, 9], [9, 0, 7, 0], Some([7, 7, 4, 5])),
            ([0, 13, 0, 9], [9, 0, 7, 0], None),
        ] {
            let in_force: Vec<InForce> =
                cores(in_force).into_iter().map(InForce::certain).collect();
            let step = halfway(&service, &in_force, &cores(target));
            assert_eq!(step, expected.map(cores));
        }
    }

    /// Of a and b in one stage and a budget of 8: in force, wanted → half of the way.
    fn check(in_force: [u32; 2], target: [u32; 2], step: Option<[u32; 2]>) {
        let cores = |cores: [u32; 2]| cores.map(Cores::whole).to_vec();
        let in_force: Vec<InForce> = cores(in_force).into_iter().map(InForce::certain).collect();
        let got = halfway(&service(8), &in_force, &cores(target));
        assert_eq!(got, step.map(cores), "{in_force:?} {target:?}");
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
        let cores = |cores: [u32; 3]| cores.map(Cores::whole).to_vec();
        let in_force: Vec<InForce> = cores([0, 9, 15])
            .into_iter()
            .map(InForce::certain)
            .collect();
        let step = halfway(&service, &in_force, &cores([20, 0, 0]));
        assert_eq!(step, Some(cores([11, 5, 8])));
    }
}
