//! Health: signals, states, pauses.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Mono {
    Mono(ms * MS)
}

fn after(signs: &[HealthSignal]) -> Health {
    let mut health = Health::default();
    for sign in signs {
        health.observe(*sign, None, at(1000), &Policy::default());
    }
    health
}

#[test]
fn status_maps_to_a_health_signal() {
    for (status, grpc, dropped, sign) in [
        (200, None, None, Some(HealthSignal::Served)),
        (302, None, None, Some(HealthSignal::Served)),
        (400, None, None, Some(HealthSignal::Answered)),
        (404, None, None, Some(HealthSignal::NotFound)),
        (422, None, None, Some(HealthSignal::Answered)),
        (429, None, None, Some(HealthSignal::Answered)),
        (500, None, None, Some(HealthSignal::Erred)),
        (503, None, None, Some(HealthSignal::Erred)),
        (200, Some(0), None, Some(HealthSignal::Served)),
        (200, Some(3), None, Some(HealthSignal::Answered)),
        (200, Some(5), None, Some(HealthSignal::NotFound)),
        (200, Some(14), None, Some(HealthSignal::Erred)),
        (429, None, Some("queue-full"), None),
        (504, None, Some("expired"), None),
        (
            503,
            None,
            Some("no-backend"),
            Some(HealthSignal::Unreachable),
        ),
        (
            200,
            Some(14),
            Some("no-backend"),
            Some(HealthSignal::Unreachable),
        ),
    ] {
        let dropped = dropped.map(str::as_bytes);
        assert_eq!(
            HealthSignal::of(status, grpc, dropped),
            sign,
            "{status} {grpc:?}"
        );
    }
}

#[test]
fn refused_connection_or_errors_in_a_row_fail_a_variant() {
    use HealthSignal::{Answered, Erred, Served, Unreachable};
    let errors = Some(Failure::Errors);
    let unreachable = Some(Failure::Unreachable);
    for (signs, failure) in [
        (&[][..], None),
        (&[Unreachable], unreachable),
        (&[Erred; 4], None),
        (&[Erred; 5], errors),
        (&[Erred, Erred, Erred, Erred, Served, Erred], None),
        (&[Erred, Erred, Erred, Erred, Answered, Erred], errors),
        (&[Answered; 9], None),
        (&[Unreachable, Answered], None),
        (&[Unreachable, Erred], None),
        (&[Unreachable, Erred, Erred, Erred, Erred, Erred], errors),
        (&[Erred, Erred, Erred, Erred, Erred, Answered], errors),
        (&[Erred, Erred, Erred, Erred, Erred, Served], None),
        (
            &[Erred, Erred, Erred, Erred, Erred, Unreachable],
            unreachable,
        ),
    ] {
        assert_eq!(after(signs).failure(), failure, "{signs:?}");
    }
}

#[test]
fn successful_probe_ends_an_outage() {
    let ready = Policy {
        path: Some("/ready".to_owned()),
        ..Policy::default()
    };
    let plain = Policy::default();
    let dead = after(&[HealthSignal::Unreachable]);
    let erring = after(&[HealthSignal::Erred; 5]);
    for (health, policy, probed, back) in [
        (dead, &plain, ProbeResult::Nobody, false),
        (dead, &plain, ProbeResult::Status(404), true),
        (dead, &ready, ProbeResult::Status(503), false),
        (dead, &ready, ProbeResult::Status(200), true),
        (erring, &plain, ProbeResult::Status(200), false),
        (erring, &ready, ProbeResult::Status(204), true),
        (erring, &ready, ProbeResult::Status(500), false),
        (erring, &ready, ProbeResult::Nobody, false),
    ] {
        let mut tried = health;
        tried.on_probe(probed, policy);
        assert_eq!(tried.failing.is_none(), back, "{health:?} {probed:?}");
    }
    assert!(dead.wants_probe(at(1000), &plain), "at once");
    assert!(!erring.wants_probe(at(1500), &plain), "by a request");
    assert!(!erring.wants_probe(at(1499), &ready));
    assert!(erring.wants_probe(at(1500), &ready));
}

#[test]
fn trials_are_single_and_back_off() {
    let policy = Policy::default();
    let mut health = after(&[HealthSignal::Erred; 5]);
    let mut trials = Vec::new();
    for ms in 1000..60_000 {
        if health.take_trial(at(ms), &policy) {
            trials.push(ms - 1000);
            assert!(!health.take_trial(at(ms), &policy));
            health.observe(HealthSignal::Erred, None, at(ms), &policy);
        }
    }
    assert_eq!(
        trials,
        [
            500, 1500, 3500, 7500, 15_500, 25_500, 35_500, 45_500, 55_500
        ]
    );
    health.observe(HealthSignal::Served, None, at(60_000), &policy);
    let serves = Health {
        serves: true,
        ..Health::default()
    };
    assert_eq!(health, serves);
}

/// A server that answers probes and aborts requests.
#[test]
fn repeated_failure_doubles_the_pause() {
    let policy = Policy::default();
    let mut health = Health::default();
    let pauses = [0, 500, 1000, 2000, 4000, 8000, 10_000, 10_000];
    for pause in pauses {
        health.observe(HealthSignal::Unreachable, None, at(0), &policy);
        assert!(health.wants_probe(at(pause), &policy));
        assert!(pause == 0 || !health.wants_probe(at(pause - 1), &policy));
        health.on_probe(ProbeResult::Status(200), &policy);
        assert_eq!(health.failing, None);
    }
    health.observe(HealthSignal::Served, None, at(0), &policy);
    health.observe(HealthSignal::Unreachable, None, at(0), &policy);
    assert!(health.wants_probe(at(0), &policy), "forgotten");
}

proptest! {
    /// Under any events, a failing variant is tried again within the longest pause.
    #[test]
    fn failing_variant_is_tried_within_the_longest_pause(
        events in prop::collection::vec((0..6_u8, 0..5000_u64), 1..200),
        ready in any::<bool>(),
    ) {
        let path = ready.then(|| "/ready".to_owned());
        let policy = Policy { path, ..Policy::default() };
        let (mut health, mut now) = (Health::default(), 0);
        for (event, later) in events {
            now += later;
            match event {
                0 => health.observe(HealthSignal::Served, None, at(now), &policy),
                1 => health.observe(HealthSignal::Answered, None, at(now), &policy),
                2 => health.observe(HealthSignal::Erred, None, at(now), &policy),
                3 => health.observe(HealthSignal::Unreachable, None, at(now), &policy),
                4 => health.on_probe(ProbeResult::Nobody, &policy),
                _ => { health.take_trial(at(now), &policy); }
            }
            let latest = at(now) + policy.max;
            prop_assert!(
                health.failing.is_none()
                    || health.wants_probe(latest, &policy) != health.wants_trial(latest, &policy)
            );
        }
    }
}
