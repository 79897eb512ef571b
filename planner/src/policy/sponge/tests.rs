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
fn slow_network_gets_cores_and_fast_one_gets_batches() {
    let service = sponge();
    // demand, time left → cores, batch. One core carries 1000·b/(40·b + 10): 20 at b = 1, 24 at b = 6.
    for (rps, left_ms, cores, batch) in [
        (10.0, None, 1, 1),
        (20.0, None, 1, 1),
        (23.0, None, 1, 3),
        (60.0, None, 3, 3),
        // A batch must fill and execute within the time left.
        (60.0, Some(100.0), 3, 3),
        (60.0, Some(60.0), 4, 2),
        (60.0, Some(39.0), 6, 1),
        (60.0, Some(15.0), 8, 1),
    ] {
        let forecast = forecast(rps, left_ms);
        let decision = decide(&service, &three(), Some(forecast));
        assert_eq!(
            decision.targets,
            [Target::one(Cores::whole(cores))],
            "{rps} {left_ms:?}: {}",
            decision.why
        );
        assert_eq!(decision.status, SolveStatus::Optimal, "{}", decision.why);
        let got = super::batch(
            &service,
            RULE,
            &service.variants[0],
            Cores::whole(cores),
            Some(forecast),
        );
        assert_eq!(got, batch, "{rps} {left_ms:?}: {}", decision.why);
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
