//! Lists where plans change and servers fail.

use super::*;
use crate::health::HealthSignal;

#[test]
fn new_plan_moves_waiting_requests_within_their_lists() {
    let mut engine = engine(&three(1), NO_OVERLAP);
    list(&mut engine, 1, (9000, "large"), &[], at(0));
    list(&mut engine, 2, (9000, "large, medium"), &[], at(0));
    list(&mut engine, 3, (9000, "large"), &[], at(0));
    // A variant of another name may take over the index of a listed one only when no list refers to it.
    let other = [
        accurate("small", 1.0, 1, 20.0, 70),
        accurate("medium", 0.0, 1, 100.0, 75),
        accurate("giant", 0.0, 1, 300.0, 80),
    ];
    let mut verdicts = Vec::new();
    engine.on_plan(&plan(2, &other), at(10).mono, at(10), &mut verdicts);
    verdicts.sort_by_key(|(stream, _)| *stream);
    assert_eq!(verdicts.len(), 2);
    let (by, text) = outcome(&mut engine, 2, &verdicts[0].1, at(11));
    assert_eq!(by, "medium");
    assert_eq!(text.as_deref(), Some("large;skipped=no-capacity, medium"));
    let (why, text) = outcome(&mut engine, 3, &verdicts[1].1, at(11));
    assert_eq!(why, "no-capacity");
    assert_eq!(text.as_deref(), Some("large;skipped=no-capacity"));
}

#[test]
fn failing_variant_is_skipped_and_tried_in_its_place() {
    let mut engine = engine(&three(9), "");
    engine.serve(at(0).mono);
    for stream in 0..5 {
        list(&mut engine, stream, (1000, "large"), &[], at(0));
        let answer = Answer {
            failed: true,
            sign: Some(HealthSignal::Erred),
            ..Answer::default()
        };
        engine.on_answer(stream, answer, at(1));
        end(&mut engine, stream, End::Answered, at(1));
    }
    let mut by = |value: &str, now: Now| {
        let verdict = list(&mut engine, 9, (1000, value), &[], now);
        outcome(&mut engine, 9, &verdict, now).1.unwrap()
    };
    let skipped = "large;skipped=no-backend, small";
    assert_eq!(by("large, small", at(100)), skipped);
    // All that it lists fail: then none counts as failing.
    assert_eq!(by("large", at(100)), "large");
    // The trial is only for a request that no variant before it can serve.
    assert_eq!(by("small, large", at(600)), "small");
    assert_eq!(by("large, small", at(600)), "large");
    assert_eq!(by("large, small", at(600)), skipped, "one trial");
}

#[test]
fn failover_stays_within_the_list() {
    let mut engine = engine(&three(9), r#","failover":"-else""#);
    for (value, cluster) in [
        ("large, medium", "c-large"),
        ("large, medium;within=900, small", "c-large"),
        ("large, *;within=900", "c-large"),
        ("large, *", "c-large-else"),
        ("large, medium, small", "c-large-else"),
    ] {
        let Verdict::Forward(to) = list(&mut engine, 1, (1000, value), &[], at(0)) else {
            panic!("not sent")
        };
        assert_eq!(to.cluster.as_deref(), Some(cluster), "{value}");
        let served_by = engine
            .variant("small")
            .filter(|_| value == "large, medium, small");
        let answer = Answer {
            served_by,
            ..Answer::default()
        };
        let tags = engine.on_answer(1, answer, at(1)).unwrap();
        if served_by.is_some() {
            let text = "large;skipped=no-backend, medium;skipped=no-backend, small";
            assert_eq!(tags.variants.as_deref(), Some(text));
        }
        end(&mut engine, 1, End::Answered, at(2));
    }
}
