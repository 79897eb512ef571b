//! Classes through the engine: claims, shares, and limits.

use super::*;
use crate::request::wire::Names;

const CLASSES: &str = r#","classes":[
    {"name":"gold","share":0.75,"claim":{"header":"x-tier","values":["gold"]},"max_requests":4},
    {"name":"bulk","share":0.25}],"default_class":"bulk""#;

pub(super) fn names(claims: &[String]) -> Names<'_> {
    Names {
        claims,
        budgets: &[],
    }
}

fn classed(engine: &mut Engine, stream: StreamId, headers: &[(&str, &[u8])], now: Now) -> Verdict {
    let claims = engine.config().claim_headers.clone();
    let wire = Wire::pick_with(headers.iter().copied(), names(&claims));
    let mut others = Vec::new();
    let verdict = engine.on_request(stream, &wire.into(), now, &mut others);
    assert_eq!(others, []);
    verdict
}

const GOLD: [(&str, &[u8]); 3] = [
    ("x-slo-ms", b"9000"),
    ("x-slo-class", b"gold"),
    ("x-tier", b"gold"),
];
const BULK: [(&str, &[u8]); 1] = [("x-slo-ms", b"8000")];

#[test]
fn under_contention_slots_follow_the_shares() {
    let mut engine = engine(
        &[variant("a", 1.0, 1, 1.0)],
        &(CLASSES.replace(",\"max_requests\":4", "") + r#","queue":{"overlap":false}"#),
    );
    classed(&mut engine, 0, &BULK, at(0));
    for stream in 1..=80 {
        let headers: &[_] = if stream % 2 == 0 { &GOLD } else { &BULK };
        assert_eq!(classed(&mut engine, stream, headers, at(0)), Verdict::Park);
    }
    // Slots are contended: a request could not be served because of those waiting.
    assert_eq!(submit(&mut engine, 99, 10, at(0)), Verdict::Park);
    assert_eq!(release(&mut engine, at(10)).len(), 1);
    let mut gold = 0;
    let mut running = 0;
    for ms in 11..=50 {
        let next = forwarded(&end(&mut engine, running, End::Answered, at(ms)));
        assert_eq!(next.len(), 1);
        running = next[0];
        gold += u32::from(running % 2 == 0);
    }
    assert!(
        (28..=32).contains(&gold),
        "{gold} of 40 for a share of 0.75"
    );
}

#[test]
fn unproven_class_becomes_the_default_in_the_forwarded_header() {
    let mut engine = engine(&[variant("a", 1.0, 9, 0.0)], CLASSES);
    let lie: [(&str, &[u8]); 2] = [("x-slo-class", b"gold"), ("x-tier", b"silver")];
    for (stream, headers, class) in [
        (1, GOLD.as_slice(), None),
        (2, lie.as_slice(), Some("bulk")),
        (3, &lie[..1], Some("bulk")),
        (4, &[("x-slo-class", b"no such".as_slice())], Some("bulk")),
        (5, BULK.as_slice(), None),
    ] {
        let Verdict::Forward(dispatch) = classed(&mut engine, stream, headers, at(0)) else {
            panic!("{stream} not forwarded")
        };
        assert_eq!(dispatch.class.as_deref(), class, "{stream}");
    }
}

/// `request_headers_to_add` of an Envoy before this one appends a separate line by default.
#[test]
fn repeated_claim_header_proves_no_class() {
    let mut engine = engine(&[variant("a", 1.0, 9, 0.0)], CLASSES);
    for (stream, appended) in [(1, &b"bulk"[..]), (2, b"gold")] {
        let headers = [GOLD[0], GOLD[1], GOLD[2], ("x-tier", appended)];
        let Verdict::Forward(dispatch) = classed(&mut engine, stream, &headers, at(0)) else {
            panic!("{stream} not forwarded")
        };
        assert_eq!(dispatch.class.as_deref(), Some("bulk"), "{stream}");
    }
}

#[test]
fn class_limit_bounds_its_held_requests() {
    let mut engine = engine(&[variant("a", 1.0, 1, 0.0)], CLASSES);
    classed(&mut engine, 0, &BULK, at(0));
    for stream in 1..=4 {
        assert_eq!(classed(&mut engine, stream, &GOLD, at(0)), Verdict::Park);
    }
    let fifth = classed(&mut engine, 5, &GOLD, at(0));
    assert_eq!(reason(&fifth), Some(Reason::ClassLimit));
    assert_eq!(classed(&mut engine, 6, &BULK, at(0)), Verdict::Park);
    end(&mut engine, 3, End::Disconnected, at(1));
    assert_eq!(classed(&mut engine, 7, &GOLD, at(1)), Verdict::Park);
}

/// Forty requests wait, twenty of each class, all of bulk more urgent. Returns the number of gold among the
/// next twenty once `last` has been refused.
fn gold_among_the_next(last: &[(&str, &[u8])], why: Reason) -> usize {
    let classes = CLASSES.replace(",\"max_requests\":4", "");
    let rest = format!("{classes},\"queue\":{{\"max_requests\":40}}");
    let mut engine = engine(&[variant("a", 1.0, 1, 20.0)], &rest);
    classed(&mut engine, 0, &BULK, at(0));
    for stream in 1..=40 {
        let headers: &[_] = if stream % 2 == 0 { &GOLD } else { &BULK };
        assert_eq!(classed(&mut engine, stream, headers, at(0)), Verdict::Park);
    }
    assert_eq!(reason(&classed(&mut engine, 99, last, at(0))), Some(why));
    let (mut gold, mut running) = (0, 0);
    for ms in 1..=20 {
        running = forwarded(&end(&mut engine, running, End::Answered, at(ms)))[0];
        gold += usize::from(running % 2 == 0);
    }
    gold
}

#[test]
fn shares_apply_only_after_a_request_is_lost() {
    let hopeless: [(&str, &[u8]); 1] = [("x-slo-ms", b"10")];
    assert_eq!(gold_among_the_next(&hopeless, Reason::Infeasible), 0);
    let last: [(&str, &[u8]); 1] = [("x-slo-ms", b"9500")];
    assert_eq!(gold_among_the_next(&last, Reason::QueueFull), 15);
    let behind: [(&str, &[u8]); 2] = [("x-slo-ms", b"9500"), ("x-slo-min-accuracy", b"71")];
    assert_eq!(gold_among_the_next(&behind, Reason::Accuracy), 0);
}
