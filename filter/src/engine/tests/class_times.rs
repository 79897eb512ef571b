//! Service times by class, in virtual time: a variant whose requests of one class take four times as long.

use super::classes::names;
use super::*;

const CLASSES: &str = r#","classes":[{"name":"short","share":0.5},
    {"name":"long","share":0.5,"claim":{"header":"x-tier","values":["long"]}}],"default_class":"short""#;

/// Time of an execution in ms.
fn took_ms(is_long: bool) -> u64 {
    if is_long { 40 } else { 10 }
}

/// Ends of the requests of one class.
#[derive(Debug, Default, PartialEq)]
struct Ends {
    on_time: u32,
    refused: u32,
    cut_off: u32,
}

/// Plays requests one after the other at one server, of which every `nth` is long, and returns the ends of the short and
/// the long ones after the first 200.
fn play(classes: &str, nth: u32, budget_ms: u64) -> [Ends; 2] {
    let mut engine = engine(&[variant("a", 1.0, 1, 20.0)], classes);
    let mut ends = [Ends::default(), Ends::default()];
    let mut now_ms = 0;
    for stream in 0..600 {
        let is_long = stream % nth == nth - 1;
        // What is measured at first has time.
        let budget_ms = if stream < 200 { 1000 } else { budget_ms };
        let budget = budget_ms.to_string();
        let class = if is_long {
            b"long".as_slice()
        } else {
            b"short"
        };
        let headers = [
            ("x-slo-ms", budget.as_bytes()),
            ("x-slo-class", class),
            ("x-tier", class),
        ];
        let claims = engine.config().claim_headers.clone();
        let wire = Wire::pick_with(headers, names(&claims));
        let verdict = engine.on_request(stream, &wire.into(), at(now_ms), &mut Vec::new());
        let took = took_ms(is_long);
        let counted = usize::from(is_long);
        let mut ignored = Ends::default();
        let ends = if stream < 200 {
            &mut ignored
        } else {
            &mut ends[counted]
        };
        match verdict {
            Verdict::Forward(_) if took <= budget_ms => {
                end(&mut engine, stream, End::Answered, at(now_ms + took));
                ends.on_time += 1;
            }
            Verdict::Forward(_) => {
                end(&mut engine, stream, End::TimedOut, at(now_ms + budget_ms));
                ends.cut_off += 1;
            }
            Verdict::Reject(_) => ends.refused += 1,
            other => panic!("{other:?}"),
        }
        now_ms += took + 1;
        release(&mut engine, at(now_ms));
        // Until the orphaned slots have ended.
        while engine.gauges().any(|gauge| gauge.taken > 0) {
            now_ms += 1;
            release(&mut engine, at(now_ms));
        }
    }
    ends
}

#[test]
fn short_requests_are_served_where_long_ones_are_refused() {
    let [short, long] = play(CLASSES, 2, 30);
    // What is refused for long enough is tried again.
    assert_eq!(short.on_time, 200, "{short:?}");
    assert!(long.refused > 140, "{long:?}");
}

#[test]
fn long_requests_are_refused_that_the_common_time_would_send_and_cut_off() {
    let [_, common] = play("", 10, 30);
    let [short, long] = play(CLASSES, 10, 30);
    assert_eq!(common.cut_off, 40, "{common:?}");
    assert_eq!((short.on_time, long.cut_off), (360, 0), "{long:?}");
}

#[test]
fn classes_that_take_the_same_time_are_served_as_one() {
    for budget_ms in [9, 10, 11, 40] {
        let same = |classes| play(classes, 601, budget_ms);
        assert_eq!(same("")[0], same(CLASSES)[0], "{budget_ms} ms");
    }
}
