//! Demand of a service for cores, by which a budget is divided among several services. Pure.

use weir_api::Cores;

use super::{Infadapter, decide};
use crate::capacity::Actual;
use crate::division::CoreDemand;
use crate::service::{Decision, Inputs, Objective, Service, SolveStatus, Variant};

/// Fewest cores of a service, in steps: those of `cores.min` and `replicas.min`, and a first step of each stage.
pub fn min_steps(service: &Service) -> u32 {
    let of_stage = |variants: &[Variant]| -> u32 {
        let kept = variants.iter().map(|one| one.min * one.fewest()).sum();
        let first = |one: &Variant| one.min.max(1) * one.replicas.min.max(1);
        variants
            .iter()
            .map(first)
            .min()
            .map_or(1, |first| first.max(kept))
    };
    let stages = service.stages.iter();
    let each = stages.filter_map(|stage| service.variants.get(stage.variants.clone()));
    each.map(of_stage).sum::<u32>().max(1)
}

/// Cores that the inputs need, and those that the policy prefers with the whole budget of the service. `None` if the
/// solver found nothing in time.
pub fn core_demand(service: &Service, actual: &[Actual], inputs: Inputs) -> Option<CoreDemand> {
    let preferred = steps(service, actual, &decide(service, actual, Some(inputs)))?;
    if service.policy.downcast::<Infadapter>().is_none() {
        // The objective of the other policies is cost.
        return Some(CoreDemand {
            need: preferred,
            preferred,
        });
    }
    let mut cheapest = service.clone();
    cheapest.objective = Objective {
        alpha: 0.0,
        beta: 1.0,
        gamma: 0.0,
        tolerance: 0.0,
    };
    let mut inputs = inputs;
    inputs.forecast.window_full = true;
    let need = steps(service, actual, &decide(&cheapest, actual, Some(inputs)))?;
    Some(CoreDemand { need, preferred })
}

/// Cores of the targets, in whole steps.
fn steps(service: &Service, actual: &[Actual], decision: &Decision) -> Option<u32> {
    if decision.status == SolveStatus::OutOfTime && decision.kept {
        return None;
    }
    let each = decision.targets.iter().zip(actual);
    let cores: Cores = each
        .map(|(target, actual)| target.cores(actual.ready))
        .sum();
    Some(whole_steps(cores, service.step))
}

/// Number of steps that contain the cores.
pub fn whole_steps(cores: Cores, step: Cores) -> u32 {
    cores.millis().div_ceil(step.millis().max(1))
}

#[cfg(test)]
mod tests {
    use weir_api::Rps;

    use super::*;
    use crate::capacity::Allocation;
    use crate::spec::tests::service;

    #[test]
    fn demand_is_the_fewest_cores_and_those_of_the_policy() {
        // a: 0.8·(20·n − 2), 70 %, 1 to 8 cores; b: 0.8·(10·n − 2), 80 %, 0 to 4 cores; budget 8.
        let service = service(8);
        let cores = |cores: u32| Actual::certain(Allocation::one(Cores::whole(cores)));
        for (demand_rps, need, preferred) in
            [(6.0, 1, 2), (28.0, 2, 5), (100.0, 7, 8), (500.0, 8, 8)]
        {
            let inputs = Inputs::steady(Rps(demand_rps));
            let demand = core_demand(&service, &[cores(2), cores(2)], inputs);
            assert_eq!(demand, Some(CoreDemand { need, preferred }), "{demand_rps}");
        }
        assert_eq!(min_steps(&service), 1);
    }

    #[test]
    fn steps_contain_the_cores() {
        let half = Cores::from_millis(500);
        for (millis, steps) in [(0, 0), (1, 1), (500, 1), (501, 2), (2000, 4)] {
            assert_eq!(whole_steps(Cores::from_millis(millis), half), steps);
        }
    }
}
