//! Explanations of refusals, and when another try makes sense.

use super::*;
use crate::explanation::{Accuracies, Limit, Stage};
use crate::verdict::{RETRY_AFTER_MAX_S, RETRY_AFTER_NO_CAPACITY_S, Refusal};

fn refusal(verdict: &Verdict) -> Refusal {
    match verdict {
        Verdict::Reject(refusal) => refusal.clone(),
        other => panic!("not refused: {other:?}"),
    }
}

fn only(verdicts: &[(StreamId, Verdict)]) -> Refusal {
    let refused = verdicts.iter().filter_map(|(_, verdict)| match verdict {
        Verdict::Reject(refusal) => Some(refusal.clone()),
        _ => None,
    });
    let mut refused: Vec<Refusal> = refused.collect();
    assert_eq!(refused.len(), 1, "{verdicts:?}");
    refused.remove(0)
}

fn count(engine: &mut Engine, metric: Metric) -> i64 {
    let mut samples = Vec::new();
    engine.stats.swap(&mut samples);
    let by = samples.iter().map(|sample| match sample.change {
        crate::stats::Change::By(by) if sample.metric == metric => by,
        _ => 0,
    });
    by.sum()
}

/// One slot of 100 ms, by the plan alone.
fn slow(rest: &str) -> Engine {
    engine(&[variant("a", 1.0, 1, 100.0)], rest)
}

#[test]
fn hopeless_request_gets_the_times_and_no_retry_after() {
    let two = [variant("a", 1.0, 1, 100.0), variant("b", 0.0, 1, 60.0)];
    let mut engine = engine(&two, PLAN_HOLDS);
    let refused = refusal(&submit(&mut engine, 1, 20, at(0)));
    assert_eq!(refused.reason, Reason::Infeasible);
    let facts = &refused.facts;
    assert_eq!(facts.variant.as_deref(), Some("b"));
    assert_eq!(facts.needed, Some(Span::from_millis(60)));
    assert_eq!(facts.wait, Span::ZERO);
    assert_eq!(facts.left, Some(Span::from_millis(20)));
    assert_eq!(facts.in_queue(), Some(Span::ZERO));
    assert_eq!(refused.retry_after_s, None);
}

#[test]
fn request_that_the_queue_makes_late_may_come_again() {
    let mut engine = slow(PLAN_HOLDS);
    submit(&mut engine, 1, 5000, at(0));
    // The first in line waits in any case, because the slot may be free at once.
    assert_eq!(submit(&mut engine, 2, 190, at(0)), Verdict::Park);
    let refused = refusal(&submit(&mut engine, 3, 195, at(0)));
    assert_eq!(refused.reason, Reason::Infeasible);
    let facts = &refused.facts;
    assert_eq!(facts.needed, Some(Span::from_millis(300)));
    assert_eq!(facts.wait, Span::from_millis(200));
    assert_eq!(facts.queued, Some(1));
    assert_eq!(refused.retry_after_s, Some(1));
}

#[test]
fn held_request_gets_the_time_that_it_waited() {
    let mut engine = slow(r#","queue":{"correct":false,"overlap":false}"#);
    submit(&mut engine, 1, 5000, at(0));
    assert_eq!(submit(&mut engine, 2, 300, at(10)), Verdict::Park);
    let refused = only(&release(&mut engine, at(211)));
    assert_eq!(refused.reason, Reason::Infeasible);
    let facts = &refused.facts;
    assert_eq!(facts.stage, Stage::Queue);
    assert_eq!(facts.variant.as_deref(), Some("a"));
    assert_eq!(facts.waited, Some(Span::from_millis(201)));
    assert_eq!(facts.needed, Some(Span::from_millis(100)));
    assert_eq!(facts.left, Some(Span::from_millis(99)));
    assert_eq!(facts.on_arrival, Some(Span::from_millis(300)));
    assert_eq!(facts.queued, Some(0));
    assert_eq!(refused.retry_after_s, Some(1));
}

#[test]
fn request_in_flight_gets_the_variant_that_did_not_answer() {
    let mut engine = slow(r#","queue":{"correct":false,"overlap":false}"#);
    submit(&mut engine, 1, 5000, at(0));
    assert_eq!(submit(&mut engine, 2, 300, at(0)), Verdict::Park);
    assert_eq!(forwarded(&end(&mut engine, 1, End::Answered, at(40))), [2]);
    let instead = engine.refusal_in_flight(2, Reason::NoBackend, at(50).mono);
    assert_eq!(instead.unwrap().facts.stage, Stage::Server);
    assert_eq!(
        engine.refusal_in_flight(1, Reason::Expired, at(50).mono),
        None
    );
    let refused = only(&release(&mut engine, at(301)));
    assert_eq!(refused.reason, Reason::Expired);
    let facts = &refused.facts;
    assert_eq!(facts.stage, Stage::Server);
    assert_eq!(facts.variant.as_deref(), Some("a"));
    assert_eq!(facts.waited, Some(Span::from_millis(40)));
    assert_eq!(facts.on_arrival, Some(Span::from_millis(300)));
    assert_eq!(refused.retry_after_s, None);
}

#[test]
fn full_queue_names_its_limit_and_the_time_that_it_takes() {
    let mut engine = slow(r#","queue":{"max_requests":20,"correct":false}"#);
    for stream in 0..21 {
        submit(&mut engine, stream, 20_000, at(0));
    }
    let refused = refusal(&submit(&mut engine, 99, 25_000, at(0)));
    assert_eq!(refused.reason, Reason::QueueFull);
    assert_eq!(refused.facts.limit, Some(Limit::Requests));
    assert_eq!(refused.facts.limit_value, Some(20));
    assert_eq!(refused.facts.queued, Some(20));
    // The execution under way, and 21 of 100 ms.
    assert_eq!(refused.retry_after_s, Some(3));
}

#[test]
fn retry_after_is_bounded() {
    let one = [variant("a", 1.0, 1, 50_000.0)];
    let mut engine = engine(
        &one,
        r#","queue":{"max_requests":1,"correct":false},"deadline":{"max_ms":3600000}"#,
    );
    for stream in 0..2 {
        submit(&mut engine, stream, 3_000_000, at(0));
    }
    let refused = refusal(&submit(&mut engine, 99, 3_600_000, at(0)));
    assert_eq!(refused.reason, Reason::QueueFull);
    assert_eq!(refused.retry_after_s, Some(RETRY_AFTER_MAX_S));
}

#[test]
fn plan_without_slots_names_the_next_try() {
    let mut engine = engine(&[variant("a", 0.0, 0, 10.0)], "");
    let refused = refusal(&submit(&mut engine, 1, 500, at(0)));
    assert_eq!(refused.reason, Reason::NoCapacity);
    assert_eq!(refused.retry_after_s, Some(RETRY_AFTER_NO_CAPACITY_S));
    assert!(refused.reason.forbids_retries());
}

#[test]
fn accuracy_that_no_variant_has_is_a_reason_of_its_own_and_no_demand() {
    let accurate = |name: &str, slots, accuracy: &str| {
        let accuracy = format!("\"accuracy\":{accuracy}");
        let share = if slots > 0 { 0.5 } else { 0.0 };
        variant(name, share, slots, 10.0).replace("\"accuracy\":70", &accuracy)
    };
    // A variant without slots has its accuracy all the same.
    let three = [
        accurate("small", 1, "69.76"),
        accurate("large", 1, "76.13"),
        accurate("huge", 0, "78.31"),
    ];
    let mut engine = engine(&three, "");
    let floor =
        |accuracy: &'static [u8]| [("x-slo-ms", &b"500"[..]), ("x-slo-min-accuracy", accuracy)];
    let refused = refusal(&request(&mut engine, 1, &floor(b"99"), at(0)));
    assert_eq!(refused.reason, Reason::Accuracy);
    assert_eq!(refused.facts.variant.as_deref(), Some("huge"));
    assert_eq!(refused.facts.accuracies, Some(Accuracies::new(78.31, 99.0)));
    assert_eq!(refused.retry_after_s, None);
    assert_eq!(count(&mut engine, Metric::Unservable), 1);
    let refused = refusal(&request(&mut engine, 2, &floor(b"78.31"), at(0)));
    assert_eq!(
        refused.reason,
        Reason::Infeasible,
        "it exists, and has no slot"
    );
    assert_eq!(count(&mut engine, Metric::Arrivals), 1);
    let list = [
        floor(b"76")[0],
        floor(b"76")[1],
        ("x-slo-variants", b"small"),
    ];
    let refused = refusal(&request(&mut engine, 3, &list, at(0)));
    assert_eq!(refused.reason, Reason::Accuracy);
    assert_eq!(refused.facts.variant.as_deref(), Some("small"));
    assert_eq!(refused.variants.as_deref(), Some("small;skipped=accuracy"));
    let list = [
        floor(b"76")[0],
        floor(b"76")[1],
        ("x-slo-variants", b"small, *"),
    ];
    assert!(matches!(
        request(&mut engine, 4, &list, at(0)),
        Verdict::Forward(_)
    ));

    // Without any variant no accuracy is known to be too high.
    engine.on_no_slots(at(1), &mut Vec::new());
    let refused = refusal(&request(&mut engine, 5, &floor(b"99"), at(1)));
    assert_eq!(refused.reason, Reason::NoCapacity);
}

/// Whatever the load: a refusal for want of time never says that less is needed than is left.
#[test]
fn more_is_needed_than_is_left() {
    let mut explained = 0;
    for correct in [true, false] {
        let two = [variant("a", 0.7, 2, 40.0), variant("b", 0.3, 1, 15.0)];
        let mut engine = engine(&two, &format!(r#","queue":{{"correct":{correct}}}"#));
        let (mut verdicts, mut running) = (Vec::new(), std::collections::VecDeque::new());
        for stream in 0..600_u32 {
            let now = at(u64::from(stream) * 7);
            let budget_ms = (u64::from(stream) * 37) % 190 + 5;
            let budget = budget_ms.to_string();
            let incoming = Wire::pick([("x-slo-ms", budget.as_bytes())]).into();
            let verdict = engine.on_request(stream, &incoming, now, &mut verdicts);
            verdicts.push((stream, verdict));
            engine.release(now, &mut verdicts);
            if stream % 3 == 0
                && let Some(ends) = running.pop_front()
            {
                engine.on_answer(ends, served(), now);
                engine.on_end(ends, End::Answered, now, &mut verdicts);
            }
            for (stream, verdict) in verdicts.drain(..) {
                match verdict {
                    Verdict::Forward(_) => running.push_back(stream),
                    Verdict::Reject(refusal) => {
                        let facts = refusal.facts;
                        running.retain(|other| *other != stream);
                        explained += u32::from(facts.needed.is_some());
                        assert!(
                            facts.needed.is_none() || facts.needed > facts.left,
                            "{facts:?}"
                        );
                        assert!(
                            refusal.reason != Reason::Infeasible || facts.variant.is_some(),
                            "{facts:?}"
                        );
                    }
                    _ => {}
                }
            }
        }
    }
    assert!(explained > 100, "{explained}");
}
