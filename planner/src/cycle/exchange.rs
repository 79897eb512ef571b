//! Cores wanted → cores for this turn, where a stage is to serve with other variants than those it has and
//! the budget leaves no core to begin with: making before breaking is not possible then. Half of what
//! serves makes room in this turn and the other half in the next, so that the stage never stands still.
//! Pure.

use weir_api::Cores;

use crate::actuate::InForce;
use crate::config::{Service, Stage};

const ONE: Cores = Cores::whole(1);

/// What to make of `target` in this turn.
pub(super) fn step_towards(
    service: &Service,
    in_force: &[InForce],
    target: &[Cores],
) -> Vec<Cores> {
    let mut step = target.to_vec();
    let taken: Cores = in_force.iter().map(|now| now.at_most).sum();
    if taken + ONE <= Cores::whole(service.budget) {
        return step;
    }
    for stage in &service.stages {
        halve(stage, in_force, target, &mut step);
    }
    step
}

/// Where none of the stage's variants that are to have cores has any: half of the greatest that has goes to
/// the greatest that is to have.
fn halve(stage: &Stage, in_force: &[InForce], target: &[Cores], step: &mut [Cores]) {
    let of = |index: usize| {
        let now = in_force.get(index).map_or(Cores::ZERO, |now| now.at_least);
        (now, target.get(index).copied().unwrap_or_default())
    };
    let mut all = stage.variants.clone().map(of);
    if all.any(|(now, wanted)| now.min(wanted) > Cores::ZERO) {
        return;
    }
    let giver = stage.variants.clone().max_by_key(|index| of(*index).0);
    let taker = stage.variants.clone().max_by_key(|index| of(*index).1);
    let (Some(giver), Some(taker)) = (giver, taker) else {
        return;
    };
    let ((there, _), (_, wanted)) = (of(giver), of(taker));
    if wanted == Cores::ZERO {
        return;
    }
    // A single core stays until another stage leaves room.
    let freed = Cores::whole(there.millis() / 1000 / 2);
    let left = there.saturating_sub(freed);
    for (index, cores) in [(giver, left), (taker, wanted.min(freed))] {
        if let Some(step) = step.get_mut(index) {
            *step = cores;
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
        let step = step_towards(&service, &in_force, &cores([0, 1, 6]));
        assert_eq!(step, cores([1, 0, 6]));
    }

    /// Of a and b in one stage and a budget of 8: in force, wanted → this turn's.
    fn check(in_force: [u32; 2], target: [u32; 2], step: [u32; 2]) {
        let cores = |cores: [u32; 2]| cores.map(Cores::whole).to_vec();
        let in_force: Vec<InForce> = cores(in_force).into_iter().map(InForce::certain).collect();
        let got = step_towards(&service(8), &in_force, &cores(target));
        assert_eq!(got, cores(step), "{in_force:?} {target:?}");
    }

    #[test]
    fn a_stage_without_room_is_exchanged_by_halves() {
        check([8, 0], [0, 6], [4, 4]);
        check([8, 0], [0, 2], [4, 2]);
        check([4, 4], [0, 6], [0, 6]);
        // With room, or with a core that stays, there is nothing to it.
        check([7, 0], [0, 8], [0, 8]);
        check([8, 0], [1, 7], [1, 7]);
        check([8, 0], [0, 0], [0, 0]);
        check([1, 0], [0, 1], [0, 1]);
    }
}
