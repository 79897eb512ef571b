//! Guarantees of the engine: quotas, order, limits, ends.

use weir_api::Plan;

use super::*;
use crate::config::Config;
use crate::coordination::Memory;
use crate::request::wire::Wire;
use crate::time::Wall;

mod batches;
mod class_times;
mod classes;
mod demand;
mod fallback;
mod feasibility;
mod full;
mod health;
mod lanes;
mod latency;
mod limits;
mod plan_change;
mod publication;
mod quota;
mod receive;
mod refusals;
mod roles;
mod served;
mod servers;
mod shared_times;
mod silence;
mod size_times;
mod sources;
mod streams;
mod uploads;

const MS: u64 = 1_000_000;
/// The planned times and slots hold, whatever is measured: a request is refused by them alone.
const PLAN_HOLDS: &str = r#","queue":{"correct":false}"#;
/// The planned slots hold.
const SLOTS_HOLD: &str = r#","queue":{"concurrency_max":0}"#;

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
    alone(&json)
}

fn alone(json: &str) -> Engine {
    worker(json, &Memory::default(), 1)
}

fn worker(json: &str, store: &Memory, incarnation: u64) -> Engine {
    let config = Config::parse(json.as_bytes()).unwrap();
    Engine::new(config, Box::new(store.clone()), incarnation)
}

fn one_slot() -> Engine {
    engine(&[variant("a", 1.0, 1, 0.0)], "")
}

fn submit(engine: &mut Engine, stream: StreamId, budget_ms: u64, now: Now) -> Verdict {
    let budget = budget_ms.to_string();
    request(engine, stream, &[("x-slo-ms", budget.as_bytes())], now)
}

fn request(engine: &mut Engine, stream: StreamId, headers: &[(&str, &[u8])], now: Now) -> Verdict {
    let mut others = Vec::new();
    let incoming = Wire::pick(headers.iter().copied()).into();
    let verdict = engine.on_request(stream, &incoming, now, &mut others);
    assert_eq!(others, []);
    verdict
}

fn release(engine: &mut Engine, now: Now) -> Vec<(StreamId, Verdict)> {
    let mut verdicts = Vec::new();
    engine.release(now, &mut verdicts);
    verdicts
}

fn end(engine: &mut Engine, stream: StreamId, end: End, now: Now) -> Vec<(StreamId, Verdict)> {
    let mut verdicts = Vec::new();
    engine.on_end(stream, end, now, &mut verdicts);
    verdicts
}

/// Answer of a server that serves.
fn served() -> Answer {
    Answer {
        sign: Some(HealthSignal::Served),
        ..Answer::default()
    }
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
fn free_slot_is_taken_and_headers_are_set() {
    let mut engine = one_slot();
    let headers = [
        ("x-slo-ms", b"500".as_slice()),
        ("x-slo-start", b"1789999999900"),
    ];
    let Verdict::Forward(dispatch) = request(&mut engine, 1, &headers, at(0)) else {
        panic!("not forwarded")
    };
    assert_eq!(
        (&*dispatch.name, dispatch.cluster.as_deref()),
        ("a", Some("c-a"))
    );
    assert_eq!(dispatch.remaining, Span::from_millis(400));
    assert_eq!(dispatch.deadline.as_ms(), 1_790_000_000_400);
    assert!(!dispatch.grpc_timeout);
    let tags = engine.on_answer(1, Answer::default(), at(100)).unwrap();
    assert_eq!(
        (
            &*tags.variant,
            tags.remaining.as_millis(),
            tags.waited.unwrap().as_millis()
        ),
        ("a", 300, 0)
    );
}

#[test]
fn held_requests_leave_in_deadline_order() {
    let mut engine = one_slot();
    assert!(matches!(
        submit(&mut engine, 0, 1000, at(0)),
        Verdict::Forward(_)
    ));
    for (stream, budget) in [(1, 900), (2, 300), (3, 600), (4, 301), (5, 300)] {
        assert_eq!(submit(&mut engine, stream, budget, at(0)), Verdict::Park);
    }
    let mut order = Vec::new();
    let mut running = 0;
    for ms in 1..=5 {
        let next = forwarded(&end(&mut engine, running, End::Answered, at(ms)));
        assert_eq!(next.len(), 1, "one slot");
        running = next[0];
        order.push(running);
    }
    assert_eq!(order, [2, 5, 4, 3, 1]);
}

#[test]
fn held_request_is_refused_exactly_at_its_deadline() {
    let mut engine = one_slot();
    submit(&mut engine, 0, 1000, at(0));
    submit(&mut engine, 1, 200, at(0));
    assert_eq!(engine.next_wake(at(195).mono), Some(at(200).mono));
    assert_eq!(
        engine.next_wake(at(0).mono),
        Some(at(0).mono + CHECK_PERIOD)
    );
    assert!(release(&mut engine, at(199)).is_empty());
    let verdicts = release(&mut engine, at(200));
    assert_eq!(verdicts.len(), 1);
    assert_eq!(reason(&verdicts[0].1), Some(Reason::Expired));
    let in_flight = Mono(at(1000).mono.0 + 1);
    assert_eq!(engine.next_wake(at(200).mono), Some(in_flight));
}

#[test]
fn infeasible_request_does_not_take_a_slot() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], "");
    submit(&mut engine, 0, 1000, at(0));
    submit(&mut engine, 1, 150, at(0));
    submit(&mut engine, 2, 400, at(0));
    let verdicts = end(&mut engine, 0, End::Answered, at(100));
    assert_eq!(reason(&verdicts[0].1), Some(Reason::Infeasible));
    assert_eq!(forwarded(&verdicts), [2]);
}

#[test]
fn client_disconnect_frees_a_held_place() {
    let mut engine = engine(
        &[variant("a", 1.0, 1, 0.0)],
        r#","queue":{"max_requests":1}"#,
    );
    submit(&mut engine, 0, 1000, at(0));
    submit(&mut engine, 1, 1000, at(0));
    assert_eq!(
        reason(&submit(&mut engine, 2, 1000, at(0))),
        Some(Reason::QueueFull)
    );
    assert!(end(&mut engine, 1, End::Disconnected, at(1)).is_empty());
    assert_eq!(submit(&mut engine, 3, 1000, at(1)), Verdict::Park);
    assert!(end(&mut engine, 1, End::Disconnected, at(1)).is_empty());
    assert_eq!(forwarded(&end(&mut engine, 0, End::Answered, at(2))), [3]);
}

#[test]
fn abandoned_execution_keeps_its_slot_until_its_predicted_end() {
    for (how, free_at) in [
        (End::Disconnected, 300),
        (End::TimedOut, 300),
        (End::Failed, 50),
        (End::Answered, 50),
    ] {
        let mut engine = engine(&[variant("a", 1.0, 1, 300.0)], "");
        submit(&mut engine, 0, 1000, at(0));
        submit(&mut engine, 1, 1000, at(0));
        let mut verdicts = end(&mut engine, 0, how, at(50));
        if free_at > 50 {
            assert!(verdicts.is_empty(), "{how:?}");
            let just_before = at(free_at - 1);
            let wake = engine.next_wake(just_before.mono);
            assert_eq!(wake, Some(at(free_at).mono), "{how:?}");
            assert!(release(&mut engine, just_before).is_empty(), "{how:?}");
            verdicts = release(&mut engine, at(free_at));
        }
        assert_eq!(forwarded(&verdicts), [1], "{how:?}");
    }
}

#[test]
fn execution_that_is_cut_off_is_counted_with_its_time() {
    for (how, failed, metric) in [
        (End::TimedOut, false, Some(Metric::CutOffMs)),
        (End::Answered, false, Some(Metric::ServiceMs)),
        (End::Answered, true, None),
        (End::Disconnected, false, None),
        (End::Failed, false, None),
    ] {
        let mut engine = engine(&[variant("a", 1.0, 1, 300.0)], "");
        submit(&mut engine, 0, 1000, at(0));
        let answer = Answer {
            failed,
            ..Answer::default()
        };
        engine.on_answer(0, answer, at(50));
        end(&mut engine, 0, how, at(50));
        release(&mut engine, at(400));
        let mut samples = Vec::new();
        engine.stats.swap(&mut samples);
        let times = samples
            .iter()
            .filter(|sample| matches!(sample.metric, Metric::CutOffMs | Metric::ServiceMs));
        let times: Vec<_> = times.map(|sample| (sample.metric, sample.change)).collect();
        let expected: Vec<_> = metric
            .into_iter()
            .map(|metric| (metric, crate::stats::Change::Value(50)))
            .collect();
        assert_eq!(times, expected, "{how:?}");
    }
}

#[test]
fn cancelling_server_leaves_no_orphaned_slot() {
    for how in [End::Disconnected, End::TimedOut] {
        let cancels = variant("a", 1.0, 1, 300.0).replace('}', r#","cancels":true}"#);
        let mut engine = engine(&[cancels], "");
        submit(&mut engine, 0, 1000, at(0));
        submit(&mut engine, 1, 1000, at(0));
        assert_eq!(forwarded(&end(&mut engine, 0, how, at(50))), [1], "{how:?}");
    }
}

#[test]
fn configuration_decides_without_a_plan() {
    let planner = r#"{"service":"demo","planner":{"cluster":"p","key":"k"}}"#;
    let mut engine = alone(planner);
    assert_eq!(submit(&mut engine, 1, 100, at(0)), Verdict::Pass);
    let refusing = planner.replace("}}", r#"},"on_stale":"refuse"}"#);
    let mut engine = alone(&refusing);
    assert_eq!(
        reason(&submit(&mut engine, 1, 100, at(0))),
        Some(Reason::NoPlan)
    );
}

#[test]
fn new_plan_reroutes_all_held_requests() {
    let mut engine = one_slot();
    submit(&mut engine, 0, 1000, at(0));
    for stream in 1..=4 {
        assert_eq!(
            submit(&mut engine, stream, 1000 - u64::from(stream), at(0)),
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
    let verdicts = end(&mut engine, 0, End::Answered, at(2));
    assert!(
        verdicts.is_empty(),
        "the old variant's slot is of no use any more"
    );
    assert_eq!(forwarded(&end(&mut engine, 4, End::Answered, at(3))), [1]);
}

#[test]
fn proxy_without_slots_refuses_until_the_next_plan() {
    let mut engine = one_slot();
    submit(&mut engine, 0, 1000, at(0));
    assert_eq!(submit(&mut engine, 1, 1000, at(0)), Verdict::Park);
    let mut verdicts = Vec::new();
    engine.on_no_slots(at(1), &mut verdicts);
    assert_eq!(reason(&verdicts[0].1), Some(Reason::NoCapacity));
    let refused = submit(&mut engine, 2, 1000, at(2));
    assert_eq!(reason(&refused), Some(Reason::NoCapacity));
    let next = plan(2, &[variant("a", 1.0, 2, 0.0)]);
    engine.on_plan(&next, at(3).mono, at(3), &mut Vec::new());
    let served = submit(&mut engine, 3, 1000, at(3));
    assert!(matches!(served, Verdict::Forward(_)));
}

#[test]
fn stale_plan_is_handled_as_configured() {
    let next = plan(9, &[variant("b", 1.0, 1, 0.0)]);
    for (on_stale, expected) in [("keep", "b"), ("static", "a"), ("refuse", "")] {
        let mut engine = engine(
            &[variant("a", 1.0, 1, 0.0)],
            &format!(r#","on_stale":"{on_stale}""#),
        );
        engine.on_plan(&next, at(0).mono, at(0), &mut Vec::new());
        release(&mut engine, at(1000));
        let name = match submit(&mut engine, 1, 100, at(1000)) {
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
fn variant_table_does_not_grow_with_plans() {
    let mut engine = one_slot();
    for revision in 2..500 {
        let next = plan(revision, &[variant(&format!("v{revision}"), 1.0, 1, 0.0)]);
        engine.on_plan(&next, at(0).mono, at(0), &mut Vec::new());
        let stream = revision as StreamId;
        assert!(matches!(
            submit(&mut engine, stream, 100, at(0)),
            Verdict::Forward(_)
        ));
        end(&mut engine, stream - 1, End::Answered, at(0));
    }
    assert!(engine.variants.len() <= 3, "{}", engine.variants.len());
}

#[test]
fn accuracy_minimum_is_kept_and_an_invalid_one_ignored() {
    let mut engine = one_slot();
    let mut with_floor = |stream, floor: &str| {
        let headers = [("x-slo-min-accuracy", floor.as_bytes())];
        request(&mut engine, stream, &headers, at(0))
    };
    assert_eq!(reason(&with_floor(1, "70.1")), Some(Reason::Accuracy));
    assert!(matches!(with_floor(2, "70"), Verdict::Forward(_)));
    assert_eq!(with_floor(3, "-1e9"), Verdict::Park);
}
