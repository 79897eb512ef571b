//! Feasibility: on arrival, while held, and by measurements.

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

/// Executions under way count with their remaining time. The first in line waits all the same, because the
/// slot may be free at once.
#[test]
fn infeasible_wait_is_downgraded_or_refused_on_arrival() {
    let variants = [
        variant("fast", 0.0, 1, 50.0).replace("\"accuracy\":70", "\"accuracy\":60"),
        variant("slow", 1.0, 1, 300.0),
    ];
    let mut engine = engine(&variants, r#","queue":{"overlap":true}"#);
    assert_eq!(name(&submit(&mut engine, 1, 1000, at(0))), Some("slow"));
    assert_eq!(submit(&mut engine, 2, 700, at(0)), Verdict::Park);
    assert_eq!(name(&submit(&mut engine, 3, 800, at(0))), Some("fast"));
    let headers: [(&str, &[u8]); 2] = [("x-slo-ms", b"800"), ("x-slo-min-accuracy", b"65")];
    let refused = request(&mut engine, 4, &headers, at(0));
    assert_eq!(reason(&refused), Some(Reason::Infeasible));
    assert_eq!(submit(&mut engine, 5, 950, at(0)), Verdict::Park);
}

#[test]
fn overdue_request_is_downgraded_to_a_faster_variant() {
    let mut engine = two(1, 1);
    assert_eq!(name(&submit(&mut engine, 1, 1000, at(0))), Some("slow"));
    assert_eq!(submit(&mut engine, 2, 500, at(0)), Verdict::Park);
    // Until 200 ms the slow variant could still serve it.
    assert_eq!(release(&mut engine, at(200)), []);
    counted(&mut engine, Metric::Arrivals);
    let moved = release(&mut engine, at(201));
    assert_eq!(moved.len(), 1);
    assert_eq!((moved[0].0, name(&moved[0].1)), (2, Some("fast")));
    assert_eq!(counted(&mut engine, Metric::DowngradedFrom), 1);
}

#[test]
fn overdue_request_with_an_accuracy_minimum_is_refused() {
    let mut engine = two(1, 1);
    submit(&mut engine, 1, 1000, at(0));
    let headers: [(&str, &[u8]); 2] = [("x-slo-ms", b"500"), ("x-slo-min-accuracy", b"75")];
    assert_eq!(request(&mut engine, 2, &headers, at(0)), Verdict::Park);
    let verdicts = release(&mut engine, at(201));
    assert_eq!(reason(&verdicts[0].1), Some(Reason::Infeasible));
}

#[test]
fn downgraded_request_waits_in_deadline_order() {
    let mut engine = two(1, 1);
    submit(&mut engine, 1, 2000, at(0));
    let short: [(&str, &[u8]); 1] = [("x-slo-ms", b"290")];
    // Too short for the slow variant: the fast one's only slot is taken, and another waits for it.
    assert_eq!(name(&request(&mut engine, 2, &short, at(0))), Some("fast"));
    assert_eq!(submit(&mut engine, 3, 299, at(0)), Verdict::Park);
    assert_eq!(submit(&mut engine, 4, 490, at(0)), Verdict::Park);
    let verdicts = release(&mut engine, at(191));
    assert_eq!(verdicts, [], "4 waits for the fast one now, behind 3");
    let next = end(&mut engine, 2, End::Answered, at(195));
    assert_eq!(forwarded(&next), [3]);
    let next = end(&mut engine, 3, End::Answered, at(245));
    assert_eq!(forwarded(&next), [4]);
}

#[test]
fn downgraded_request_precedes_less_urgent_ones_at_once() {
    let mut engine = two(1, 1);
    submit(&mut engine, 1, 2000, at(0));
    let short: [(&str, &[u8]); 1] = [("x-slo-ms", b"290")];
    assert_eq!(name(&request(&mut engine, 2, &short, at(0))), Some("fast"));
    assert_eq!(
        submit(&mut engine, 3, 350, at(0)),
        Verdict::Park,
        "for slow"
    );
    // Behind 3 it would be too late there.
    assert_eq!(
        submit(&mut engine, 4, 400, at(0)),
        Verdict::Park,
        "for fast"
    );
    end(&mut engine, 2, End::Disconnected, at(10));
    // At once: the orphaned slot has expired, and 3 can wait for slow no longer.
    assert_eq!(forwarded(&release(&mut engine, at(51))), [3]);
}

#[test]
fn wait_counts_on_arrival() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], "");
    submit(&mut engine, 0, 5000, at(0));
    for stream in 1..=4 {
        assert_eq!(submit(&mut engine, stream, 1000, at(0)), Verdict::Park);
    }
    // Four go before it, 100 ms each, and its own 100.
    let late = submit(&mut engine, 5, 1001, at(0));
    assert_eq!(late, Verdict::Park);
    let mut pressed = |stream, budget| {
        let floor: [(&str, &[u8]); 1] = [("x-slo-ms", budget)];
        reason(&request(&mut engine, stream, &floor, at(900)))
    };
    let _ = pressed(6, b"99");
    assert_eq!(pressed(7, b"99"), Some(Reason::Infeasible));
}

#[test]
fn measurements_correct_the_planned_service_time() {
    let mut engine = engine(&[variant("a", 1.0, 1, 40.0)], "");
    for n in 0..100 {
        let now = n * 100;
        assert!(matches!(
            submit(&mut engine, n as StreamId, 1000, at(now)),
            Verdict::Forward(_)
        ));
        end(&mut engine, n as StreamId, End::Answered, at(now + 80));
    }
    let pressed = submit(&mut engine, 1000, 60, at(10_000));
    assert_eq!(reason(&pressed), Some(Reason::Infeasible));
    assert!(matches!(
        submit(&mut engine, 1001, 100, at(10_000)),
        Verdict::Forward(_)
    ));
}

/// Eight workers at 5 requests/s together: none has enough measurements of its own.
#[test]
fn few_measurements_of_all_workers_correct_the_planned_service_time() {
    let json = format!(
        r#"{{"service":"demo","plan":{{"variants":[{}]}}}}"#,
        variant("a", 1.0, 4, 20.0)
    );
    let without = json.replace(r#""plan":"#, r#""queue":{"correct":false},"plan":"#);
    for (json, corrected) in [(json, true), (without, false)] {
        let store = Memory::default();
        let mut workers: Vec<Engine> = (1..=8).map(|one| worker(&json, &store, one)).collect();
        for n in 0..20 {
            let (now, one) = (n * 200, n as usize % 8);
            for renewed in (now..now + 200).step_by(50) {
                for worker in &mut workers {
                    worker.renew(false, at(renewed).mono);
                }
            }
            let sent = submit(&mut workers[one], n as StreamId, 5000, at(now + 100));
            assert!(matches!(sent, Verdict::Forward(_)), "{sent:?}");
            end(
                &mut workers[one],
                n as StreamId,
                End::Answered,
                at(now + 175),
            );
        }
        for worker in &mut workers {
            worker.renew(false, at(4000).mono);
            let refused = reason(&submit(worker, 1000, 60, at(4000)));
            assert_eq!(refused, corrected.then_some(Reason::Infeasible));
            end(worker, 1000, End::Answered, at(4010));
        }
    }
}

/// Another worker took all slots of a server that does one thing after the other when this one last looked, and has none
/// any more.
#[test]
fn old_usage_of_another_worker_refuses_nothing() {
    let json = format!(
        r#"{{"service":"demo","plan":{{"variants":[{}]}}}}"#,
        variant("a", 1.0, 4, 50.0)
    );
    let store = Memory::default();
    let [mut one, mut other] = [1, 2].map(|incarnation| worker(&json, &store, incarnation));
    let mut refused = 0;
    for round in 0..40_u32 {
        let now = u64::from(round) * 400;
        for n in 0..4 {
            let sent = submit(&mut other, round * 4 + n, 1000, at(now));
            assert!(matches!(sent, Verdict::Forward(_)), "{sent:?}");
        }
        // Until the times are known it would wait.
        if round >= 10 {
            let seen = submit(&mut one, 1000 + round, 90, at(now + 1));
            refused += u32::from(reason(&seen) == Some(Reason::Infeasible));
        }
        for n in 0..4 {
            let ended = at(now + 50 * (u64::from(n) + 1));
            end(&mut other, round * 4 + n, End::Answered, ended);
        }
        for renewed in (now + 200..now + 300).step_by(50) {
            one.renew(false, at(renewed).mono);
            other.renew(false, at(renewed).mono);
            let _ = release(&mut other, at(renewed));
        }
        let sent = submit(&mut one, 2000 + round, 90, at(now + 300));
        assert!(matches!(sent, Verdict::Forward(_)), "{round}: {sent:?}");
        end(&mut one, 2000 + round, End::Answered, at(now + 350));
    }
    assert_eq!(refused, 30);
}

#[test]
fn orphaned_slot_is_kept_for_the_planned_time() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], SLOTS_HOLD);
    for n in 0..100 {
        let now = n * 100;
        assert!(matches!(
            submit(&mut engine, n as StreamId, 1000, at(now)),
            Verdict::Forward(_)
        ));
        end(&mut engine, n as StreamId, End::Answered, at(now + 30));
    }
    submit(&mut engine, 1000, 1000, at(10_000));
    assert_eq!(submit(&mut engine, 1001, 1000, at(10_000)), Verdict::Park);
    assert!(end(&mut engine, 1000, End::Disconnected, at(10_010)).is_empty());
    assert!(release(&mut engine, at(10_099)).is_empty());
    assert_eq!(forwarded(&release(&mut engine, at(10_100))), [1001]);
}

#[test]
fn server_errors_are_not_measured_as_service_time() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], "");
    let failed = Answer {
        failed: true,
        ..Answer::default()
    };
    for n in 0..100 {
        submit(&mut engine, n, 1000, at(u64::from(n)));
        engine.on_answer(n, failed, at(u64::from(n) + 1));
        end(&mut engine, n, End::Answered, at(u64::from(n) + 1));
    }
    let pressed = submit(&mut engine, 1000, 20, at(200));
    assert_eq!(reason(&pressed), Some(Reason::Infeasible));
}

#[test]
fn least_urgent_request_is_evicted_from_a_full_queue() {
    let mut engine = engine(
        &[variant("a", 1.0, 1, 0.0)],
        r#","queue":{"max_requests":2}"#,
    );
    submit(&mut engine, 0, 1000, at(0));
    submit(&mut engine, 1, 500, at(0));
    submit(&mut engine, 2, 900, at(0));
    let late = submit(&mut engine, 3, 950, at(0));
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
fn downstream_time_is_reserved() {
    let mut engine = engine(&[variant("a", 1.0, 1, 100.0)], PLAN_HOLDS);
    let mut plan = plan(2, &[variant("a", 1.0, 1, 100.0)]);
    plan.downstream_ms = 300.0;
    engine.on_plan(&plan, at(0).mono, at(0), &mut Vec::new());
    let pressed = submit(&mut engine, 1, 399, at(0));
    assert_eq!(reason(&pressed), Some(Reason::Infeasible));
    let Verdict::Forward(dispatch) = submit(&mut engine, 2, 450, at(0)) else {
        panic!("not forwarded")
    };
    assert_eq!(dispatch.remaining.as_millis(), 450);
    assert_eq!(dispatch.stage, StageHeader::Set(Span::from_millis(150)));
}

/// Its own deadline is far: the latest start of the downstream stages has passed.
#[test]
fn waiting_into_the_downstream_time_is_infeasible() {
    for (late_ms, expected) in [
        (700, Reason::Infeasible),
        (999, Reason::Infeasible),
        (1000, Reason::Expired),
    ] {
        let mut engine = engine(&[variant("a", 1.0, 1, 50.0)], "");
        let mut plan = plan(1, &[variant("a", 1.0, 1, 50.0)]);
        plan.downstream_ms = 300.0;
        engine.on_plan(&plan, at(0).mono, at(0), &mut Vec::new());
        submit(&mut engine, 1, 5000, at(0));
        assert_eq!(submit(&mut engine, 2, 1000, at(0)), Verdict::Park);
        let verdicts = release(&mut engine, at(late_ms));
        let verdict = verdicts.iter().find(|(stream, _)| *stream == 2);
        assert_eq!(reason(&verdict.unwrap().1), Some(expected), "at {late_ms}");
    }
}

/// A plan that is wrong by ten, and many free slots: what was just answered refuses, with one worker and with two, and
/// whether or not requests are sent ahead.
#[test]
fn fresh_answers_refuse_a_request_before_an_idle_server() {
    for (workers, overlap) in [(1, true), (1, false), (2, true), (2, false)] {
        let queue = format!(r#","queue":{{"overlap":{overlap}}}"#);
        let mut engine = engine(&[variant("only", 1.0, 100, 20.0)], &queue);
        engine.workers = workers;
        let mut now = 0;
        assert_eq!(name(&submit(&mut engine, 1, 100, at(now))), Some("only"));
        end(&mut engine, 1, End::TimedOut, at(now + 100));
        now += 400;
        let mut stream = 2;
        for _ in 0..3 {
            for more in 0..8 {
                submit(&mut engine, stream + more, 5000, at(now));
            }
            for more in 0..8 {
                end(&mut engine, stream + more, End::Answered, at(now + 200));
            }
            stream += 8;
            now += 201;
        }
        let refused = submit(&mut engine, stream, 60, at(now));
        assert_eq!(
            reason(&refused),
            Some(Reason::Infeasible),
            "burst, {workers} {overlap}"
        );
        now += 5000;
        for _ in 0..4 {
            stream += 1;
            submit(&mut engine, stream, 5000, at(now));
            end(&mut engine, stream, End::Answered, at(now + 200));
            now += 201;
        }
        let refused = submit(&mut engine, stream + 1, 60, at(now));
        assert_eq!(
            reason(&refused),
            Some(Reason::Infeasible),
            "alone, {workers} {overlap}"
        );
    }
}

#[test]
fn early_prediction_expires_when_nothing_ends_any_more() {
    // Fewer executions than this worker's own percentiles take.
    let mut engine = engine(&[variant("only", 1.0, 1, 20.0)], "");
    let high = |engine: &Engine| engine.variants.get(VariantId(0)).unwrap().predicted.high;
    for stream in 1..=5 {
        let now = u64::from(stream) * 300;
        submit(&mut engine, stream, 5000, at(now));
        end(&mut engine, stream, End::Answered, at(now + 200));
    }
    engine.renew(false, at(1800).mono);
    assert!(high(&engine) >= Span::from_millis(200), "believed");
    for now in [6_000, 12_000, 18_000] {
        engine.renew(false, at(now).mono);
    }
    assert_eq!(high(&engine), Span::from_millis(20), "as planned");
}
