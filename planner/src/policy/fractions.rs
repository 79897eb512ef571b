//! Fractions of a core: a service that counts in halves of a core is planned like one whose cores do half as much.

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;
use weir_api::{Cores, Rps};

use super::infaas::tests::infaas;
use super::ipa::tests::pipeline as ipa_pipeline;
use super::themis::tests::pipeline as themis_pipeline;
use super::{Ipa, Themis, decide};
use crate::capacity::{Actual, Allocation, Target};
use crate::service::{Decision, Inputs, Replicas, Service, SharedPolicy};
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

/// Service of replicas that execute one batch at a time: half as many cores each, of twice the size.
fn halved(whole: &Service, policy: SharedPolicy) -> Service {
    let mut halves = whole.clone();
    (halves.step, halves.policy) = (HALF, policy);
    for variant in &mut halves.variants {
        variant.step = HALF;
        variant.profile.latency.model.gamma_ms /= 2.0;
        variant.profile.latency.model.epsilon_ms /= 2.0;
    }
    halves
}

/// Gives the variants replicas of fixed cores that execute one batch at a time, or of more cores up to them.
fn replicated(mut service: Service, each: &[u32]) -> Service {
    service.solver_limit = Duration::from_secs(60);
    for (variant, each) in service.variants.iter_mut().zip(each) {
        (variant.min, variant.max) = (*each, *each);
        variant.replicas = Replicas { min: 0, max: 6 };
        let profile = &mut variant.profile;
        profile.parallelism = Parallelism::Fixed(NonZeroU32::MIN);
        profile.latency.model.epsilon_ms = 4.0;
    }
    service
}

/// Decides for both from these (replicas, steps of each), and checks that the second is the first in halves.
fn same_replicas(pair: [&Service; 2], running: &[(u32, u32)], inputs: Inputs) -> [Decision; 2] {
    let [expected, found] = pair.map(|service| {
        let one = |(replicas, each): &(u32, u32)| {
            Actual::certain(Allocation::new(*replicas, service.step.times(*each)))
        };
        let actual: Vec<Actual> = running.iter().map(one).collect();
        decide(service, &actual, Some(inputs))
    });
    let steps = |decision: &Decision, step: Cores| -> Vec<(u32, u32, u32)> {
        let each = decision.targets.iter().map(|target| {
            assert!(target.each.is_multiple(step) && target.start.is_multiple(step));
            (
                target.replicas,
                target.each.count(step),
                target.start.count(step),
            )
        });
        each.collect()
    };
    let [whole, halves] = pair;
    assert_eq!(
        (steps(&found, halves.step), found.status, found.kept),
        (steps(&expected, whole.step), expected.status, expected.kept),
        "{} / {}",
        expected.why,
        found.why
    );
    [expected, found]
}

/// Checks that objectives are this part of those in whole cores.
fn same_worth([expected, found]: &[Decision; 2], part: f64) {
    for (expected, found) in [
        (expected.objective, found.objective),
        (expected.optimum, found.optimum),
    ] {
        let near = |(a, b): (f64, f64)| (a * part - b).abs() < 1e-9;
        assert_eq!(expected.is_some(), found.is_some());
        assert!(
            expected.zip(found).is_none_or(near),
            "{expected:?} {found:?}"
        );
    }
}

/// Checks that a decision for new cores is within the budget.
fn within_budget(service: &Service, decision: &Decision) {
    let cores: Cores = decision
        .targets
        .iter()
        .map(|target| target.each.times(target.replicas))
        .sum();
    assert!(
        decision.kept || cores <= service.budget_cores(),
        "{cores} of {}: {}",
        service.budget_cores(),
        decision.why
    );
}

/// The service in steps of that size, with servers that need as much less of them.
fn in_steps(whole: &Service, step: Cores) -> Service {
    let mut service = whole.clone();
    service.step = step;
    for variant in &mut service.variants {
        variant.step = step;
        variant.profile.latency.model.gamma_ms *= step.as_f64();
        variant.profile.latency.model.epsilon_ms *= step.as_f64();
    }
    service
}

const IPA: Ipa = Ipa {
    alpha: 2.0,
    beta: 1.0,
    delta: 1e-6,
    tolerance: 1.0,
};

const THEMIS: Themis = Themis {
    horizontal_cores: Cores::whole(1),
    tolerance: 1.0,
};

fn inputs(demand: f64, window_full: bool) -> Inputs {
    let mut inputs = Inputs::steady(Rps(demand));
    inputs.forecast.window_full = window_full;
    inputs
}

#[test]
fn replicas_of_half_a_core_are_started_and_reported() {
    let whole = replicated(infaas(0.0, 0.0), &[1, 2, 3]);
    let halves = halved(&whole, whole.policy.clone());
    let both = same_replicas(
        [&whole, &halves],
        &[(1, 1), (0, 2), (0, 3)],
        inputs(60.0, true),
    );
    same_worth(&both, 0.5);
    let [expected, found] = both;
    assert!(expected.why.contains("3 of 8 cores"), "{}", expected.why);
    assert!(found.why.contains("1.5 of 4 cores"), "{}", found.why);
    assert_eq!(found.targets[0], Target::of(Allocation::new(3, HALF)));
}

#[test]
fn replica_of_a_server_per_core_is_a_whole_core() {
    for (mut service, running) in [(infaas(0.0, 0.0), 3), (ipa_pipeline(8), 4)] {
        service.step = HALF;
        service.solver_limit = Duration::from_secs(60);
        // 3.5 cores: half a one is of no use.
        service.budget = 7;
        for variant in &mut service.variants {
            (variant.step, variant.max) = (HALF, 7);
        }
        let none = vec![Actual::default(); running];
        let decision = decide(&service, &none, Some(inputs(500.0, true)));
        let cores: Vec<Cores> = decision.targets.iter().map(|target| target.each).collect();
        assert!(cores.iter().all(|each| each.is_multiple(Cores::whole(1))));
        let all: Cores = cores.into_iter().sum();
        assert_eq!(all, Cores::whole(3), "{}", decision.why);
    }
}

#[test]
fn cores_of_a_burst_are_fractions() {
    let mut whole = themis_pipeline(16);
    whole.solver_limit = Duration::from_secs(60);
    let policy = Themis {
        horizontal_cores: HALF,
        tolerance: 0.0,
    };
    let halves = halved(&whole, SharedPolicy::new(policy));
    let mut burst = inputs(40.0, true);
    burst.forecast.lasted = Some(Rps(8.0));
    let both = same_replicas([&whole, &halves], &[(1, 1), (1, 1)], burst);
    same_worth(&both, 0.5);
    let [_, found] = both;
    assert_eq!(found.targets[0].each, Cores::whole(2));
    assert!(
        found.why.contains("1 × 2 cores for detect"),
        "{}",
        found.why
    );
    burst.forecast.lasted = Some(Rps(35.0));
    let [_, lasting] = same_replicas([&whole, &halves], &[(1, 4), (1, 2)], burst);
    assert_eq!(lasting.targets[0].start, HALF);
    assert!(lasting.why.contains("4 × 0.5 cores"), "{}", lasting.why);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ipa_plans_in_halves_as_in_cores(
        demand in 0.1..80.0_f64,
        budget in 2_u32..16,
        each in proptest::array::uniform4(1_u32..4),
        running in proptest::array::uniform4(0_u32..4),
        window_full: bool,
    ) {
        let mut whole = replicated(ipa_pipeline(8), &each);
        whole.budget = budget;
        whole.policy = SharedPolicy::new(IPA);
        let policy = Ipa { beta: 2.0 * IPA.beta, ..IPA };
        let halves = halved(&whole, SharedPolicy::new(policy));
        let running: Vec<_> = running.into_iter().zip(each).collect();
        let both = same_replicas([&whole, &halves], &running, inputs(demand, window_full));
        same_worth(&both, 1.0);
        within_budget(&halves, &both[1]);
    }

    #[test]
    fn infaas_plans_in_halves_as_in_cores(
        demand in 0.1..200.0_f64,
        budget in 2_u32..16,
        each in proptest::array::uniform3(1_u32..4),
        running in proptest::array::uniform3(0_u32..4),
        window_full: bool,
    ) {
        let mut whole = replicated(infaas(0.0, 5.0), &each);
        whole.budget = budget;
        let halves = halved(&whole, whole.policy.clone());
        let running: Vec<_> = running.into_iter().zip(each).collect();
        let both = same_replicas([&whole, &halves], &running, inputs(demand, window_full));
        same_worth(&both, 0.5);
        within_budget(&halves, &both[1]);
    }

    #[test]
    fn themis_plans_in_halves_as_in_cores(
        demand in 0.1..120.0_f64,
        lasted in 0.0..1.0_f64,
        budget in 2_u32..24,
        running in proptest::array::uniform2((1_u32..4, 1_u32..8)),
        window_full: bool,
    ) {
        let mut whole = themis_pipeline(24);
        whole.budget = budget;
        whole.solver_limit = Duration::from_secs(60);
        whole.policy = SharedPolicy::new(THEMIS);
        let policy = Themis { horizontal_cores: HALF, tolerance: THEMIS.tolerance / 2.0 };
        let halves = halved(&whole, SharedPolicy::new(policy));
        let mut inputs = inputs(demand, window_full);
        inputs.forecast.lasted = Some(Rps(lasted * demand));
        let both = same_replicas([&whole, &halves], &running, inputs);
        same_worth(&both, 0.5);
    }

    #[test]
    fn no_step_leads_beyond_the_budget(
        step in proptest::sample::select(vec![10_u32, 50, 100, 200, 250]),
        demand in 0.1..200.0_f64,
        budget in 2_u32..30,
        each in proptest::array::uniform4(1_u32..8),
        running in proptest::array::uniform4(0_u32..4),
    ) {
        let step = Cores::from_millis(step);
        let running: Vec<_> = running.into_iter().zip(each).collect();
        for mut whole in [replicated(ipa_pipeline(8), &each), replicated(infaas(0.0, 0.0), &each)] {
            whole.budget = budget;
            let service = in_steps(&whole, step);
            let one = |(replicas, each): &(u32, u32)| {
                Actual::certain(Allocation::new(*replicas, step.times(*each)))
            };
            let actual: Vec<Actual> = running.iter().map(one).collect();
            let actual = &actual[..service.variants.len()];
            let decision = decide(&service, actual, Some(inputs(demand, true)));
            within_budget(&service, &decision);
            for target in &decision.targets {
                prop_assert!(target.each.is_multiple(step));
            }
        }
        // Of themis' plan, whose replicas start beside those that serve.
        let mut whole = themis_pipeline(24);
        whole.budget = budget;
        whole.solver_limit = Duration::from_secs(60);
        whole.policy = SharedPolicy::new(Themis { horizontal_cores: step, tolerance: 0.0 });
        let service = in_steps(&whole, step);
        let actual = [Actual::certain(Allocation::one(step)); 2];
        let decision = decide(&service, &actual, Some(inputs(demand, true)));
        let cores = decision.optimum.map_or(0.0, |cores| -cores);
        prop_assert!(cores <= service.budget_cores().as_f64() + 1e-9, "{}", decision.why);
    }
}
