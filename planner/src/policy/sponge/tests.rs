//! Cores and batches by demand and time left.

use weir_api::Rps;

use super::super::decide;
use super::*;
use crate::capacity::Allocation;
use crate::service::SharedPolicy;
use crate::solve::latency_model::Parallelism;
use crate::spec::tests::{execute_exactly, service};

const RULE: Sponge = Sponge {
    delta: 0.001,
    percentile: 99.0,
};

/// 40·b/c + 10 ms, one batch at a time on 1 to 8 cores, batches to 8, 1000 ms promised.
pub(crate) fn sponge() -> Service {
    let mut service = service(8);
    service.policy = SharedPolicy::new(RULE);
    service.variants.truncate(1);
    service.stages[0].variants = 0..1;
    let variant = &mut service.variants[0];
    (variant.min, variant.max) = (1, 8);
    let one = Parallelism::Fixed(std::num::NonZeroU32::MIN);
    execute_exactly(variant, one, 8, (40.0, 10.0));
    service
}

fn three() -> [Actual; 1] {
    [Actual::certain(Allocation::one(Cores::whole(3)))]
}

fn forecast(rps: f64, left_ms: Option<f64>) -> Inputs {
    {
        let mut inputs = Inputs::steady(Rps(rps));
        inputs.left_ms = left_ms;
        inputs
    }
}

#[test]
fn slow_network_gets_cores() {
    let service = sponge();
    // demand, time left → cores. One core carries 1000·b/(40·b + 10): 20 at b = 1, 24 at b = 6.
    for (rps, left_ms, cores) in [
        (10.0, None, 1),
        (20.0, None, 1),
        (23.0, None, 1),
        (60.0, None, 3),
        // A batch must fill and execute within the time left.
        (60.0, Some(100.0), 3),
        (60.0, Some(60.0), 4),
        (60.0, Some(39.0), 6),
        (60.0, Some(15.0), 8),
    ] {
        let decision = decide(&service, &three(), Some(forecast(rps, left_ms)));
        assert_eq!(
            decision.targets,
            [Target::one(Cores::whole(cores))],
            "{rps} {left_ms:?}: {}",
            decision.why
        );
        assert_eq!(decision.status, SolveStatus::Optimal, "{}", decision.why);
    }
}

#[test]
fn batch_carries_a_quarter_more_or_leaves_time_to_wait() {
    let service = sponge();
    for (rps, left_ms, cores, batch) in [
        (10.0, None, 1, 1),
        // One core never carries 25/s: the most within half of the time.
        (20.0, None, 1, 6),
        (23.0, None, 1, 7),
        (60.0, None, 3, 8),
        (60.0, Some(60.0), 4, 1),
        (60.0, Some(39.0), 6, 2),
        // None takes half of the time.
        (60.0, Some(15.0), 8, 1),
        // Not even all of it.
        (100.0, Some(1.0), 1, 8),
    ] {
        let inputs = Some(forecast(rps, left_ms));
        let cores = Cores::whole(cores);
        let got = super::batch(&service, RULE, &service.variants[0], cores, inputs);
        assert_eq!(got, batch, "{rps} {left_ms:?} {cores}");
    }
}

#[test]
fn peak_waits_while_time_is_left() {
    let service = sponge();
    // A peak of 25 requests/s for 3 s; one core carries 20 to 24.2.
    for (average_rps, left_ms, rises, cores) in [
        (18.0, None, false, 1),
        (18.0, Some(150.0), false, 2),
        (25.0, None, false, 2),
        (18.0, None, true, 2),
    ] {
        let mut inputs = forecast(25.0, left_ms);
        (inputs.forecast.average, inputs.forecast.rises) = (Rps(average_rps), rises);
        let decision = decide(&service, &three(), Some(inputs));
        let target = [Target::one(Cores::whole(cores))];
        assert_eq!(
            decision.targets, target,
            "{average_rps} {left_ms:?}: {}",
            decision.why
        );
        let to_carry = RULE.to_carry(&service, inputs);
        assert_eq!(to_carry < Rps(25.0), cores == 1, "{to_carry:?}");
    }
}

#[test]
fn single_lane_idles_while_its_server_waits_for_a_batch_to_fill() {
    let (mut waits, mut takes) = (sponge(), sponge());
    waits.variants[0].batch_delay = Duration::from_millis(5);
    takes.variants[0].profile.latency.model.eta_ms += 5.0;
    for (rps, left_ms) in [(60.0, Some(60.0)), (23.0, None), (60.0, Some(39.0))] {
        let decided = |service| decide(service, &three(), Some(forecast(rps, left_ms))).why;
        assert_eq!(decided(&waits), decided(&takes));
        assert_ne!(decided(&waits), decided(&sponge()));
    }
}

#[test]
fn infeasible_demand_gets_nearest_cores() {
    let service = sponge();
    for (rps, left_ms, cores, expected) in [
        (500.0, None, 8, "a rate of 500.0 requests/s exceeds"),
        (10.0, Some(0.0), 1, "no batch that carries the rate"),
    ] {
        let decision = decide(&service, &three(), Some(forecast(rps, left_ms)));
        assert_eq!(
            (decision.status, &decision.targets),
            (
                SolveStatus::Infeasible,
                &vec![Target::one(Cores::whole(cores))]
            ),
            "{}",
            decision.why
        );
        assert!(decision.why.contains(expected), "{}", decision.why);
    }
}

#[test]
fn cores_are_not_removed_before_window_is_full() {
    let service = sponge();
    let mut early = forecast(10.0, None);
    early.forecast.window_full = false;
    let decision = decide(&service, &three(), Some(early));
    assert_eq!(
        (decision.kept, decision.targets),
        (true, vec![Target::one(Cores::whole(3))])
    );
    assert!(
        decision
            .why
            .ends_with("kept: the demand's window has not filled yet"),
        "{}",
        decision.why
    );
    let mut more = forecast(100.0, None);
    more.forecast.window_full = false;
    assert!(!decide(&service, &three(), Some(more)).kept);
}

#[test]
fn unknown_demand_gives_batch_of_one() {
    let service = sponge();
    assert_eq!(
        batch(&service, RULE, &service.variants[0], Cores::whole(2), None),
        1
    );
}
