//! The engine's promises: quotas, order, limits, ends; then conservation under any sequence.

use super::*;
use crate::config::Config;
use crate::time::Wall;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Now {
    Now {
        mono: Mono(ms * MS),
        wall: Wall((1_790_000_000_000 + ms) * MS),
    }
}

fn variant(name: &str, share: f64, slots: u32, service_ms: f64) -> String {
    format!(
        r#"{{"name":"{name}","cluster":"c-{name}","share":{share},"slots":{slots},"service_ms":{service_ms},"accuracy":70}}"#
    )
}

fn engine(variants: &[String], rest: &str) -> Engine {
    let json = format!(
        r#"{{"service":"demo","plan":{{"variants":[{}]}}{rest}}}"#,
        variants.join(",")
    );
    Engine::new(Config::parse(json.as_bytes()).unwrap())
}

fn one_slot() -> Engine {
    engine(&[variant("a", 1.0, 1, 0.0)], "")
}

fn ask(engine: &mut Engine, stream: StreamId, budget_ms: u64, now: Now) -> Verdict {
    let budget = budget_ms.to_string();
    engine.on_request(stream, &Wire::pick([("x-slo-ms", budget.as_bytes())]), now)
}

fn release(engine: &mut Engine, now: Now) -> Vec<(StreamId, Verdict)> {
    let mut verdicts = Vec::new();
    engine.release(now, &mut verdicts);
    verdicts
}

fn forwarded(verdicts: &[(StreamId, Verdict)]) -> Vec<StreamId> {
    let forwarded = verdicts
        .iter()
        .filter(|(_, v)| matches!(v, Verdict::Forward(_)));
    forwarded.map(|(stream, _)| *stream).collect()
}

fn reason(verdict: &Verdict) -> Option<Reason> {
    match verdict {
        Verdict::Reject(refusal) => Some(refusal.reason),
        _ => None,
    }
}

fn plan(revision: u64, variants: &[String]) -> Plan {
    let json = format!(
        r#"{{"format":1,"service":"demo","revision":{revision},"max_age_ms":1000,"variants":[{}]}}"#,
        variants.join(",")
    );
    crate::plan::read(json.as_bytes(), "demo", weir_api::Revision(0)).unwrap()
}

#[test]
fn a_free_slot_is_taken_at_once_and_upstream_is_told() {
    let mut engine = one_slot();
    let headers = [
        ("x-slo-ms", b"500".as_slice()),
        ("x-slo-start", b"1789999999900"),
    ];
    let Verdict::Forward(dispatch) = engine.on_request(1, &Wire::pick(headers), at(0)) else {
        panic!("not forwarded")
    };
    assert_eq!((&*dispatch.name, &*dispatch.cluster), ("a", "c-a"));
    assert_eq!(dispatch.remaining, Duration::from_millis(400));
    assert_eq!(dispatch.deadline.as_ms(), 1_790_000_000_400);
    assert!(!dispatch.grpc);
    let tags = engine.on_answer(1, at(100)).unwrap();
    assert_eq!(
        (
            &*tags.variant,
            tags.remaining.as_millis(),
            tags.waited.as_millis()
        ),
        ("a", 300, 0)
    );
}

#[test]
fn held_requests_go_in_order_of_their_deadlines() {
    let mut engine = one_slot();
    assert!(matches!(
        ask(&mut engine, 0, 1000, at(0)),
        Verdict::Forward(_)
    ));
    for (stream, budget) in [(1, 900), (2, 300), (3, 600), (4, 301), (5, 300)] {
        assert_eq!(ask(&mut engine, stream, budget, at(0)), Verdict::Park);
    }
    let mut order = Vec::new();
    let mut running = 0;
    for ms in 1..=5 {
        engine.on_end(running, End::Answered, at(ms));
        assert!(engine.can_release());
        let next = forwarded(&release(&mut engine, at(ms)));
        assert_eq!(next.len(), 1, "one slot");
        running = next[0];
        order.push(running);
    }
    assert_eq!(order, [2, 5, 4, 3, 1]);
}

#[test]
fn what_expires_while_held_is_refused_at_its_deadline_and_not_before() {
    let mut engine = one_slot();
    ask(&mut engine, 0, 1000, at(0));
    ask(&mut engine, 1, 200, at(0));
    assert_eq!(engine.next_wake(), Some(at(200).mono));
    assert!(release(&mut engine, at(199)).is_empty());
    let verdicts = release(&mut engine, at(200));
    assert_eq!(verdicts.len(), 1);
    assert_eq!(reason(&verdicts[0].1), Some(Reason::Expired));
    assert_eq!(engine.next_wake(), None);
}

#[test]
fn what_cannot_finish_any_more_does_not_take_a_slot_from_what_can() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], "");
    ask(&mut engine, 0, 1000, at(0));
    ask(&mut engine, 1, 150, at(0));
    ask(&mut engine, 2, 400, at(0));
    engine.on_end(0, End::Answered, at(100));
    let verdicts = release(&mut engine, at(100));
    assert_eq!(reason(&verdicts[0].1), Some(Reason::Infeasible));
    assert_eq!(forwarded(&verdicts), [2]);
}

#[test]
fn a_client_that_leaves_while_held_frees_its_place_and_wakes_nobody() {
    let mut engine = engine(&[variant("a", 1.0, 1, 0.0)], r#","queue":{"held_max":1}"#);
    ask(&mut engine, 0, 1000, at(0));
    ask(&mut engine, 1, 1000, at(0));
    assert_eq!(
        reason(&ask(&mut engine, 2, 1000, at(0))),
        Some(Reason::QueueFull)
    );
    engine.on_end(1, End::Gone, at(1));
    assert_eq!(ask(&mut engine, 3, 1000, at(1)), Verdict::Park);
    engine.on_end(1, End::Gone, at(1));
    engine.on_end(0, End::Answered, at(2));
    assert_eq!(forwarded(&release(&mut engine, at(2))), [3]);
}

#[test]
fn an_abandoned_execution_keeps_its_slot_until_its_predicted_end() {
    for (end, free_at) in [
        (End::Gone, 300),
        (End::TimedOut, 300),
        (End::Failed, 50),
        (End::Answered, 50),
    ] {
        let mut engine = engine(&[variant("a", 1.0, 1, 300.0)], "");
        ask(&mut engine, 0, 1000, at(0));
        ask(&mut engine, 1, 1000, at(0));
        engine.on_end(0, end, at(50));
        if free_at > 50 {
            assert_eq!(engine.next_wake(), Some(at(free_at).mono), "{end:?}");
            assert!(release(&mut engine, at(free_at - 1)).is_empty(), "{end:?}");
        }
        assert_eq!(
            forwarded(&release(&mut engine, at(free_at))),
            [1],
            "{end:?}"
        );
    }
}

#[test]
fn without_a_plan_the_configuration_says_what_holds() {
    let planner = r#"{"service":"demo","planner":{"cluster":"p","key":"k"}}"#;
    let mut engine = Engine::new(Config::parse(planner.as_bytes()).unwrap());
    assert_eq!(ask(&mut engine, 1, 100, at(0)), Verdict::Pass);
    let refusing = planner.replace("}}", r#"},"on_stale":"refuse"}"#);
    let mut engine = Engine::new(Config::parse(refusing.as_bytes()).unwrap());
    assert_eq!(
        reason(&ask(&mut engine, 1, 100, at(0))),
        Some(Reason::NoPlan)
    );
}

#[test]
fn a_new_plan_routes_the_held_anew_and_loses_nobody() {
    let mut engine = one_slot();
    ask(&mut engine, 0, 1000, at(0));
    for stream in 1..=4 {
        assert_eq!(
            ask(&mut engine, stream, 1000 - u64::from(stream), at(0)),
            Verdict::Park
        );
    }
    let mut verdicts = Vec::new();
    let next = plan(9, &[variant("b", 1.0, 3, 0.0)]);
    engine.on_plan(&next, at(1).mono, at(1), &mut verdicts);
    assert_eq!(
        forwarded(&verdicts),
        [4, 3, 2],
        "by deadline, as many as there are slots"
    );
    engine.on_end(0, End::Answered, at(2));
    assert!(
        !engine.can_release(),
        "the old variant's slot is of no use any more"
    );
    engine.on_end(4, End::Answered, at(3));
    assert_eq!(forwarded(&release(&mut engine, at(3))), [1]);
}

#[test]
fn a_plan_too_old_gives_way_as_configured() {
    let next = plan(9, &[variant("b", 1.0, 1, 0.0)]);
    for (on_stale, expected) in [("keep", "b"), ("static", "a"), ("refuse", "")] {
        let mut engine = engine(
            &[variant("a", 1.0, 1, 0.0)],
            &format!(r#","on_stale":"{on_stale}""#),
        );
        engine.on_plan(&next, at(0).mono, at(0), &mut Vec::new());
        release(&mut engine, at(1000));
        let name = match ask(&mut engine, 1, 100, at(1000)) {
            Verdict::Forward(dispatch) => dispatch.name.to_string(),
            verdict => {
                assert_eq!(reason(&verdict), Some(Reason::NoPlan), "{on_stale}");
                String::new()
            }
        };
        assert_eq!(name, expected, "{on_stale}");
    }
}

#[test]
fn the_table_of_variants_does_not_grow_with_the_plans() {
    let mut engine = one_slot();
    for revision in 2..500 {
        let next = plan(revision, &[variant(&format!("v{revision}"), 1.0, 1, 0.0)]);
        engine.on_plan(&next, at(0).mono, at(0), &mut Vec::new());
        let stream = revision as StreamId;
        assert!(matches!(
            ask(&mut engine, stream, 100, at(0)),
            Verdict::Forward(_)
        ));
        engine.on_end(stream - 1, End::Answered, at(0));
    }
    assert!(engine.variants.len() <= 3, "{}", engine.variants.len());
}

#[test]
fn an_accuracy_floor_is_kept_and_a_nonsensical_one_ignored() {
    let mut engine = one_slot();
    let mut with_floor = |stream, floor: &str| {
        engine.on_request(
            stream,
            &Wire::pick([("x-slo-min-accuracy", floor.as_bytes())]),
            at(0),
        )
    };
    assert_eq!(reason(&with_floor(1, "70.1")), Some(Reason::Infeasible));
    assert!(matches!(with_floor(2, "70"), Verdict::Forward(_)));
    assert_eq!(with_floor(3, "-1e9"), Verdict::Park);
}

#[derive(Debug, Clone)]
enum Event {
    Ask { budget_ms: u64 },
    End { nth: usize, end: End },
    Pass { ms: u64 },
    Plan { slots: [u32; 2], share: f64 },
    Divide { count: u32 },
}

fn event() -> impl Strategy<Value = Event> {
    let end = prop::sample::select(vec![End::Answered, End::Failed, End::TimedOut, End::Gone]);
    prop_oneof![
        6 => (10..500_u64).prop_map(|budget_ms| Event::Ask { budget_ms }),
        5 => (0..64_usize, end).prop_map(|(nth, end)| Event::End { nth, end }),
        2 => (1..100_u64).prop_map(|ms| Event::Pass { ms }),
        1 => ([1..6_u32, 1..6_u32], 0.0..1.0_f64).prop_map(|(slots, share)| Event::Plan { slots, share }),
        1 => (1..4_u32).prop_map(|count| Event::Divide { count }),
    ]
}

proptest! {
    /// Every request gets exactly one answer; the gauges come back to zero; never more in flight
    /// at a dispatch than there are slots; never more held than allowed; and whoever waits does
    /// so only while no slot is free.
    #[test]
    fn every_request_is_answered_once(events in prop::collection::vec(event(), 1..300)) {
        let mut engine = engine(
            &[variant("a", 0.5, 2, 20.0), variant("b", 0.5, 1, 60.0)],
            r#","queue":{"held_max":8}"#,
        );
        let mut now_ms = 0;
        let mut revision = 1;
        let mut open: Vec<StreamId> = Vec::new();
        let (mut asked, mut refused, mut ended) = (0_u32, 0_u32, 0_u32);
        for event in events {
            let mut verdicts = Vec::new();
            match event {
                Event::Ask { budget_ms } => {
                    asked += 1;
                    let verdict = ask(&mut engine, asked, budget_ms, at(now_ms));
                    open.push(asked);
                    if verdict != Verdict::Park {
                        verdicts.push((asked, verdict));
                    }
                }
                Event::End { nth, end } if !open.is_empty() => {
                    let stream = open.remove(nth % open.len());
                    engine.on_end(stream, end, at(now_ms));
                    ended += 1;
                    engine.release(at(now_ms), &mut verdicts);
                }
                Event::End { .. } => {}
                Event::Pass { ms } => {
                    now_ms += ms;
                    engine.release(at(now_ms), &mut verdicts);
                }
                Event::Plan { slots: [a, b], share } => {
                    revision += 1;
                    let variants = [variant("a", share, a, 20.0), variant("b", 1.0 - share, b, 60.0)];
                    engine.on_plan(&plan(revision, &variants), at(now_ms).mono, at(now_ms), &mut verdicts);
                    engine.release(at(now_ms), &mut verdicts);
                }
                Event::Divide { count } => {
                    engine.set_part(Part { index: 0, count });
                    engine.release(at(now_ms), &mut verdicts);
                }
            }
            for (stream, verdict) in verdicts {
                prop_assert!(open.contains(&stream), "a verdict for a stream that has ended");
                if matches!(verdict, Verdict::Reject(_)) {
                    open.retain(|other| *other != stream);
                    refused += 1;
                }
            }
            prop_assert!(engine.held <= 8);
            prop_assert!(!engine.can_release(), "somebody waits beside a free slot");
            prop_assert_eq!(engine.requests.len(), open.len());
            prop_assert_eq!(engine.held, engine.variants.iter().map(|v| v.gate.queue.len()).sum::<usize>());
        }
        for stream in open.drain(..) {
            engine.on_end(stream, End::Answered, at(now_ms));
            ended += 1;
        }
        prop_assert_eq!(asked, refused + ended);
        prop_assert_eq!((engine.requests.len(), engine.held), (0, 0));
        let mut samples = Vec::new();
        engine.stats.swap(&mut samples);
        let gauge = |metric| samples.iter().filter(|s| s.metric == metric).map(|s| match s.change {
            crate::stats::Change::By(by) => by,
            _ => 0,
        }).sum::<i64>();
        prop_assert_eq!((gauge(Metric::Held), gauge(Metric::InFlight)), (0, 0));
        prop_assert_eq!(gauge(Metric::Arrivals), i64::from(asked));
    }
}
