//! Fractions of a core: a service that counts in halves of a core is planned like one whose cores do half as much.

use std::num::NonZeroU32;

use proptest::prelude::*;
use weir_api::{Cores, Rps};

use super::decide;
use crate::capacity::{Actual, Allocation, Target};
use crate::service::{Decision, Inputs, Service};
use crate::solve::latency_model::Parallelism;
use crate::spec::tests::service;

const HALF: Cores = Cores::from_millis(500);

/// A service of whole cores, and the same with cores of twice the size that are given in halves.
fn pair(whole: &Service) -> [Service; 2] {
    let mut whole = whole.clone();
    for variant in &mut whole.variants {
        variant.profile.parallelism = Parallelism::Fixed(NonZeroU32::MIN);
    }
    let mut halves = whole.clone();
    halves.step = HALF;
    for variant in &mut halves.variants {
        variant.step = HALF;
        let profile = &mut variant.profile;
        profile.latency.model.gamma_ms /= 2.0;
        profile.latency.model.epsilon_ms /= 2.0;
        if let Some(fit) = &mut profile.fit {
            fit.slope_rps *= 2.0;
        }
    }
    [whole, halves]
}

fn decided(service: &Service, steps: &[u32], inputs: Inputs) -> Decision {
    let actual = steps.iter().map(|steps| {
        let cores = service.step.times(*steps);
        Actual::certain(Allocation::one(cores))
    });
    let actual: Vec<Actual> = actual.collect();
    decide(service, &actual, Some(inputs))
}

/// Decides for both, and checks that the second is the first in halves. Returns the second.
fn same_in_halves(whole: &Service, steps: &[u32], inputs: Inputs) -> Decision {
    let [whole, halves] = pair(whole);
    let expected = decided(&whole, steps, inputs);
    let found = decided(&halves, steps, inputs);
    let expected_targets = expected.targets.iter().map(|target| {
        let steps = target.each.count(Cores::whole(1));
        assert!(target.replicas <= 1);
        Target::one(HALF.times(steps))
    });
    let expected_targets: Vec<Target> = expected_targets.collect();
    assert_eq!(found.targets, expected_targets, "{}", found.why);
    assert_eq!(
        (found.status, found.kept),
        (expected.status, expected.kept),
        "{}",
        found.why
    );
    found
}

#[test]
fn half_a_core_is_given_where_it_suffices() {
    let found = same_in_halves(&service(8), &[2, 2], Inputs::steady(Rps(6.0)));
    assert_eq!(found.targets, [Target::one(HALF), Target::one(HALF)]);
    assert!(found.why.contains("on 1 of 4 cores"), "{}", found.why);
    let most = same_in_halves(&service(7), &[2, 2], Inputs::steady(Rps(500.0)));
    let cores: Cores = most.targets.iter().map(|target| target.each).sum();
    assert_eq!(cores, Cores::from_millis(3500), "{}", most.why);
    assert!(
        most.why.contains("that 3.5 cores can carry"),
        "{}",
        most.why
    );
    // A size between two steps is not kept.
    let halves = pair(&service(8))[1].clone();
    let between = [700, 500].map(Cores::from_millis);
    let between = between.map(|cores| Actual::certain(Allocation::one(cores)));
    assert!(!decide(&halves, &between, Some(Inputs::steady(Rps(6.0)))).kept);
}

#[test]
fn sponge_gives_halves_at_their_cost() {
    let whole = super::sponge::tests::sponge();
    let found = same_in_halves(&whole, &[8], Inputs::steady(Rps(20.0)));
    let expected = decided(&pair(&whole)[0], &[8], Inputs::steady(Rps(20.0)));
    // Both objectives are in cores: the batch's part of it, δ·b, is not halved.
    let cores = found.targets[0].each.as_f64();
    let batch_cost = -expected.objective.unwrap() - 2.0 * cores;
    let cost = -found.objective.unwrap() - cores;
    assert!(
        batch_cost > 0.0 && (cost - batch_cost).abs() < 1e-9,
        "{}",
        found.why
    );
}

proptest! {
    #[test]
    fn any_demand_is_planned_in_halves_as_in_cores(
        demand in 0.1..200.0_f64,
        budget in 4_u32..12,
        steps in proptest::array::uniform2(0_u32..5),
        window_full: bool,
    ) {
        let mut inputs = Inputs::steady(Rps(demand));
        inputs.forecast.window_full = window_full;
        same_in_halves(&service(budget), &steps, inputs);
    }
}
