//! RefusalContext can still finish: on arrival, while held, and by what was measured.

use super::*;
use crate::verdict::StageHeader;

fn two(fast_slots: u32, slow_slots: u32) -> Engine {
    let accurate = |name: &str, share, slots, service, accuracy: f64| {
        variant(name, share, slots, service)
            .replace("\"accuracy\":70", &format!("\"accuracy\":{accuracy}"))
    };
    engine(
        &[
            accurate("fast", 0.0, fast_slots, 50.0, 70.0),
            accurate("slow", 1.0, slow_slots, 300.0, 78.0),
        ],
        r#","queue":{"overlap":false}"#,
    )
}

fn name(verdict: &Verdict) -> Option<&str> {
    match verdict {
        Verdict::Forward(dispatch) => Some(&dispatch.name),
        _ => None,
    }
}

fn counted(engine: &mut Engine, metric: Metric) -> i64 {
    let mut samples = Vec::new();
    engine.stats.swap(&mut samples);
    let by = samples.iter().map(|sample| match sample.change {
        crate::stats::Change::By(by) if sample.metric == metric => by,
        _ => 0,
    });
    by.sum()
}

/// What is under way counts with what is left of it. The first in line waits all the same: the slot may get
/// free at once.
#[test]
fn one_that_could_not_wait_goes_to_a_faster_one_or_is_refused_at_once() {
    let variants = [
        variant("fast", 0.0, 1, 50.0).replace("\"accuracy\":70", "\"accuracy\":60"),
        variant("slow", 1.0, 1, 300.0),
    ];
    let mut engine = engine(&variants, r#","queue":{"overlap":true}"#);
    assert_eq!(name(&ask(&mut engine, 1, 1000, at(0))), Some("slow"));
    assert_eq!(ask(&mut engine, 2, 700, at(0)), Verdict::Park);
    assert_eq!(name(&ask(&mut engine, 3, 800, at(0))), Some("fast"));
    let headers: [(&str, &[u8]); 2] = [("x-slo-ms", b"800"), ("x-slo-min-accuracy", b"65")];
    let refused = request(&mut engine, 4, &headers, at(0));
    assert_eq!(reason(&refused), Some(Reason::Infeasible));
    assert_eq!(ask(&mut engine, 5, 950, at(0)), Verdict::Park);
}

#[test]
fn one_that_cannot_wait_for_its_variant_goes_to_a_faster_one() {
    let mut engine = two(1, 1);
    assert_eq!(name(&ask(&mut engine, 1, 1000, at(0))), Some("slow"));
    assert_eq!(ask(&mut engine, 2, 500, at(0)), Verdict::Park);
    // Until 200 ms it could still be served by the slow one.
    assert_eq!(release(&mut engine, at(200)), []);
    counted(&mut engine, Metric::Arrivals);
    let moved = release(&mut engine, at(201));
    assert_eq!(moved.len(), 1);
    assert_eq!((moved[0].0, name(&moved[0].1)), (2, Some("fast")));
    assert_eq!(counted(&mut engine, Metric::DowngradedFrom), 1);
}

#[test]
fn an_accuracy_floor_keeps_it_where_it_is_and_it_is_refused() {
    let mut engine = two(1, 1);
    ask(&mut engine, 1, 1000, at(0));
    let headers: [(&str, &[u8]); 2] = [("x-slo-ms", b"500"), ("x-slo-min-accuracy", b"75")];
    assert_eq!(request(&mut engine, 2, &headers, at(0)), Verdict::Park);
    let told = release(&mut engine, at(201));
    assert_eq!(reason(&told[0].1), Some(Reason::Infeasible));
}

#[test]
fn whoever_is_moved_waits_there_in_order_of_deadlines() {
    let mut engine = two(1, 1);
    ask(&mut engine, 1, 2000, at(0));
    let short: [(&str, &[u8]); 1] = [("x-slo-ms", b"290")];
    // Too short for the slow one: the fast one's only slot is taken, and another waits for it.
    assert_eq!(name(&request(&mut engine, 2, &short, at(0))), Some("fast"));
    assert_eq!(ask(&mut engine, 3, 299, at(0)), Verdict::Park);
    assert_eq!(ask(&mut engine, 4, 490, at(0)), Verdict::Park);
    let told = release(&mut engine, at(191));
    assert_eq!(told, [], "4 waits for the fast one now, behind 3");
    let next = end(&mut engine, 2, End::Answered, at(195));
    assert_eq!(forwarded(&next), [3]);
    let next = end(&mut engine, 3, End::Answered, at(245));
    assert_eq!(forwarded(&next), [4]);
}

#[test]
fn whoever_is_moved_goes_before_the_less_urgent_at_the_same_moment() {
    let mut engine = two(1, 1);
    ask(&mut engine, 1, 2000, at(0));
    let short: [(&str, &[u8]); 1] = [("x-slo-ms", b"290")];
    assert_eq!(name(&request(&mut engine, 2, &short, at(0))), Some("fast"));
    assert_eq!(ask(&mut engine, 3, 350, at(0)), Verdict::Park, "for slow");
    // Behind 3 it would be too late there.
    assert_eq!(ask(&mut engine, 4, 400, at(0)), Verdict::Park, "for fast");
    end(&mut engine, 2, End::Gone, at(10));
    // At once: the ghost is laid, and 3 can wait for slow no longer.
    assert_eq!(forwarded(&release(&mut engine, at(51))), [3]);
}

#[test]
fn on_arrival_the_wait_counts_too() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], "");
    ask(&mut engine, 0, 5000, at(0));
    for stream in 1..=4 {
        assert_eq!(ask(&mut engine, stream, 1000, at(0)), Verdict::Park);
    }
    // Four stand before it, 100 ms each, and its own 100.
    let late = ask(&mut engine, 5, 1001, at(0));
    assert_eq!(late, Verdict::Park);
    let mut pressed = |stream, budget| {
        let floor: [(&str, &[u8]); 1] = [("x-slo-ms", budget)];
        reason(&request(&mut engine, stream, &floor, at(900)))
    };
    let _ = pressed(6, b"99");
    assert_eq!(pressed(7, b"99"), Some(Reason::Infeasible));
}

#[test]
fn what_is_measured_corrects_what_was_planned() {
    let mut engine = engine(&[variant("a", 1.0, 1, 40.0)], "");
    for n in 0..100 {
        let now = n * 100;
        assert!(matches!(
            ask(&mut engine, n as StreamId, 1000, at(now)),
            Verdict::Forward(_)
        ));
        end(&mut engine, n as StreamId, End::Answered, at(now + 80));
    }
    let pressed = ask(&mut engine, 1000, 60, at(10_000));
    assert_eq!(reason(&pressed), Some(Reason::Infeasible));
    assert!(matches!(
        ask(&mut engine, 1001, 100, at(10_000)),
        Verdict::Forward(_)
    ));
}

#[test]
fn a_ghost_stays_as_long_as_was_planned_though_most_were_faster() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], "");
    for n in 0..100 {
        let now = n * 100;
        assert!(matches!(
            ask(&mut engine, n as StreamId, 1000, at(now)),
            Verdict::Forward(_)
        ));
        end(&mut engine, n as StreamId, End::Answered, at(now + 30));
    }
    ask(&mut engine, 1000, 1000, at(10_000));
    assert_eq!(ask(&mut engine, 1001, 1000, at(10_000)), Verdict::Park);
    assert!(end(&mut engine, 1000, End::Gone, at(10_010)).is_empty());
    assert!(release(&mut engine, at(10_099)).is_empty());
    assert_eq!(forwarded(&release(&mut engine, at(10_100))), [1001]);
}

#[test]
fn errors_of_the_server_say_nothing_of_its_service_time() {
    let mut engine = engine(&[variant("a", 1.0, 1, 40.0)], "");
    let failed = Answer {
        failed: true,
        ..Answer::default()
    };
    for n in 0..100 {
        ask(&mut engine, n, 1000, at(u64::from(n)));
        engine.on_answer(n, failed, at(u64::from(n) + 1));
        end(&mut engine, n, End::Answered, at(u64::from(n) + 1));
    }
    let pressed = ask(&mut engine, 1000, 30, at(200));
    assert_eq!(reason(&pressed), Some(Reason::Infeasible));
}

#[test]
fn at_a_full_queue_the_least_urgent_makes_room() {
    let mut engine = engine(&[variant("a", 1.0, 1, 0.0)], r#","queue":{"held_max":2}"#);
    ask(&mut engine, 0, 1000, at(0));
    ask(&mut engine, 1, 500, at(0));
    ask(&mut engine, 2, 900, at(0));
    let late = ask(&mut engine, 3, 950, at(0));
    assert_eq!(reason(&late), Some(Reason::QueueFull));
    let mut others = Vec::new();
    let incoming = Wire::pick([("x-slo-ms", b"600".as_slice())]).into();
    let verdict = engine.on_request(4, &incoming, at(0), &mut others);
    assert_eq!(verdict, Verdict::Park);
    assert_eq!(others.len(), 1);
    assert_eq!(
        (others[0].0, reason(&others[0].1)),
        (2, Some(Reason::QueueFull))
    );
    assert_eq!(engine.open(), 3);
}

#[test]
fn the_rest_of_a_pipeline_has_to_fit_too() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], "");
    let mut plan = plan(2, &[variant("a", 1.0, 1, 100.0)]);
    plan.rest_ms = 300.0;
    engine.on_plan(&plan, at(0).mono, at(0), &mut Vec::new());
    let pressed = ask(&mut engine, 1, 399, at(0));
    assert_eq!(reason(&pressed), Some(Reason::Infeasible));
    let Verdict::Forward(dispatch) = ask(&mut engine, 2, 450, at(0)) else {
        panic!("not forwarded")
    };
    assert_eq!(dispatch.remaining.as_millis(), 450);
    assert_eq!(dispatch.stage, StageHeader::Set(Duration::from_millis(150)));
}

/// Its own deadline is far: what has passed is the last moment from which the rest could be done.
#[test]
fn who_waits_too_long_for_the_rest_is_told_that_it_cannot_be_done() {
    for (late_ms, told) in [
        (700, Reason::Infeasible),
        (999, Reason::Infeasible),
        (1000, Reason::Expired),
    ] {
        let mut engine = engine(&[variant("a", 1.0, 1, 50.0)], "");
        let mut plan = plan(1, &[variant("a", 1.0, 1, 50.0)]);
        plan.rest_ms = 300.0;
        engine.on_plan(&plan, at(0).mono, at(0), &mut Vec::new());
        ask(&mut engine, 1, 5000, at(0));
        assert_eq!(ask(&mut engine, 2, 1000, at(0)), Verdict::Park);
        let verdicts = release(&mut engine, at(late_ms));
        let verdict = verdicts.iter().find(|(stream, _)| *stream == 2);
        assert_eq!(reason(&verdict.unwrap().1), Some(told), "at {late_ms}");
    }
}
