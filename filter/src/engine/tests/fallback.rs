//! Ordered fallback: a request's list of variants, on arrival, while it waits, and on changes.

use super::*;
use crate::request::body::BodyChunk;
use crate::request::wire::Field;

mod any_run;
mod changes;
mod streams;

fn accurate(name: &str, share: f64, slots: u32, service_ms: f64, accuracy: u32) -> String {
    variant(name, share, slots, service_ms)
        .replace("\"accuracy\":70", &format!("\"accuracy\":{accuracy}"))
}

fn three(slots: u32) -> [String; 3] {
    [
        accurate("small", 1.0, slots, 20.0, 70),
        accurate("medium", 0.0, slots, 100.0, 75),
        accurate("large", 0.0, slots, 300.0, 80),
    ]
}

const NO_OVERLAP: &str = r#","queue":{"overlap":false}"#;

/// Sends a request with a list, a budget and further headers.
fn list(
    engine: &mut Engine,
    stream: StreamId,
    (budget_ms, value): (u64, &str),
    more: &[(&str, &[u8])],
    now: Now,
) -> Verdict {
    let budget = budget_ms.to_string();
    let mut headers = vec![
        ("x-slo-ms", budget.as_bytes()),
        ("x-slo-variants", value.as_bytes()),
    ];
    headers.extend(more);
    request(engine, stream, &headers, now)
}

/// Variant that serves it and its list on the answer, or reason and list of the refusal.
fn outcome(
    engine: &mut Engine,
    stream: StreamId,
    verdict: &Verdict,
    now: Now,
) -> (String, Option<String>) {
    match verdict {
        Verdict::Forward(dispatch) => {
            assert!(dispatch.lists_variants, "the header is removed");
            let name = dispatch.name.to_string();
            let tags = engine.on_answer(stream, Answer::default(), now).unwrap();
            assert_eq!(*tags.variant, *name);
            end(engine, stream, End::Answered, now);
            (name, tags.variants)
        }
        Verdict::Reject(refusal) => {
            let variants = refusal.variants.as_deref().map(str::to_owned);
            (refusal.reason.label().to_owned(), variants)
        }
        other => panic!("{other:?}"),
    }
}

fn counted(engine: &mut Engine, metric: Metric) -> Vec<String> {
    let mut samples = Vec::new();
    engine.stats.swap(&mut samples);
    let labels = samples.iter().filter(|sample| sample.metric == metric);
    let labels = labels.map(|sample| match sample.label {
        Label::Variant(id) => engine.variant_name(id).unwrap().to_string(),
        Label::Header(field) => field.name().to_owned(),
        Label::Reason(reason) => reason.label().to_owned(),
        _ => String::new(),
    });
    labels.collect()
}

#[test]
fn first_listed_variant_that_can_serve_does() {
    let variants = three(9);
    let closed = accurate("closed", 0.0, 0, 1.0, 90);
    let mut engine = engine(&[&variants[..], &[closed]].concat(), PLAN_HOLDS);
    for (budget_ms, value, served, variants) in [
        // Neither shares nor accuracies count.
        (1000, "large, small", "large", "large"),
        (1000, "small, large", "small", "small"),
        (
            299,
            "large, small",
            "small",
            "large;skipped=infeasible, small",
        ),
        (1000, "large;within=300, small", "large", "large"),
        (
            1000,
            "large;within=299, medium;within=100",
            "medium",
            "large;skipped=infeasible, medium",
        ),
        (
            1000,
            "closed, medium",
            "medium",
            "closed;skipped=no-capacity, medium",
        ),
        (
            99,
            "large, medium",
            "infeasible",
            "large;skipped=infeasible, medium;skipped=infeasible",
        ),
        (99, "large, *", "small", "large;skipped=infeasible, *"),
        (1000, "closed", "no-capacity", "closed;skipped=no-capacity"),
    ] {
        let verdict = list(&mut engine, 1, (budget_ms, value), &[], at(0));
        let (found, text) = outcome(&mut engine, 1, &verdict, at(1));
        assert_eq!(
            (&*found, text.as_deref()),
            (served, Some(variants)),
            "{value}"
        );
    }
    let floor: [(&str, &[u8]); 1] = [("x-slo-min-accuracy", b"75")];
    let verdict = list(&mut engine, 1, (1000, "small, medium"), &floor, at(0));
    let (found, text) = outcome(&mut engine, 1, &verdict, at(1));
    assert_eq!(found, "medium");
    assert_eq!(text.as_deref(), Some("small;skipped=accuracy, medium"));
    let verdict = submit(&mut engine, 1, 1000, at(0));
    let Verdict::Forward(dispatch) = verdict else {
        panic!("not sent")
    };
    assert!(!dispatch.lists_variants);
    let tags = engine.on_answer(1, Answer::default(), at(1)).unwrap();
    assert_eq!(tags.variants, None, "without a list");
}

/// A budget of a variant counts from the client's send time, as that of the request.
#[test]
fn expiry_counts_from_the_send_time_less_reserve_and_downstream() {
    let mut engine = engine(&three(9), r#","deadline":{"reserve_ms":10}"#);
    let mut plan = plan(2, &three(9));
    plan.downstream_ms = 40.0;
    engine.on_plan(&plan, at(0).mono, at(0), &mut Vec::new());
    // Sent 100 ms ago: 150 ms of each budget are lost.
    let sent: [(&str, &[u8]); 1] = [("x-slo-start", b"1789999999900")];
    for (value, served) in [
        ("large;within=450, small", "large"),
        ("large;within=449, small", "large;skipped=infeasible, small"),
        ("large;within=151, small", "large;skipped=infeasible, small"),
        ("large;within=150, small", "large;skipped=expired, small"),
        ("large;within=1, small", "large;skipped=expired, small"),
    ] {
        let verdict = list(&mut engine, 1, (2000, value), &sent, at(0));
        let (_, text) = outcome(&mut engine, 1, &verdict, at(1));
        assert_eq!(text.as_deref(), Some(served), "{value}");
    }
}

#[test]
fn waiting_request_moves_on_when_its_variant_expires() {
    let mut engine = engine(&three(1), NO_OVERLAP);
    list(&mut engine, 1, (5000, "large"), &[], at(0));
    let value = "large;within=500, medium;within=590, small";
    let verdict = list(&mut engine, 2, (5000, value), &[], at(0));
    assert_eq!(verdict, Verdict::Park);
    // Less urgent by deadline, so it stays behind, whatever expires for the other.
    let verdict = list(&mut engine, 3, (4999, "large"), &[], at(0));
    assert_eq!(verdict, Verdict::Park);
    counted(&mut engine, Metric::Fallbacks);
    assert_eq!(release(&mut engine, at(200)), []);
    let moved = release(&mut engine, at(201));
    assert_eq!(moved.len(), 1);
    assert_eq!(moved[0].0, 2);
    assert_eq!(counted(&mut engine, Metric::Fallbacks), ["large"]);
    let (by, text) = outcome(&mut engine, 2, &moved[0].1, at(202));
    assert_eq!(by, "medium");
    assert_eq!(text.as_deref(), Some("large;skipped=infeasible, medium"));
    assert_eq!(forwarded(&end(&mut engine, 1, End::Answered, at(300))), [3]);
}

#[test]
fn deadlines_and_not_expiries_give_the_order() {
    let mut engine = engine(&three(1), NO_OVERLAP);
    list(&mut engine, 1, (5000, "large"), &[], at(0));
    list(
        &mut engine,
        2,
        (4000, "large;within=600, small"),
        &[],
        at(0),
    );
    list(&mut engine, 3, (3000, "large, small"), &[], at(0));
    assert_eq!(forwarded(&end(&mut engine, 1, End::Answered, at(250))), [3]);
    // Its turn comes too late.
    let verdicts = end(&mut engine, 3, End::Answered, at(550));
    assert_eq!(forwarded(&verdicts), [2]);
    let (by, text) = outcome(&mut engine, 2, &verdicts[0].1, at(560));
    assert_eq!(by, "small");
    assert_eq!(text.as_deref(), Some("large;skipped=infeasible, small"));
}

#[test]
fn request_whose_only_variant_expires_is_refused() {
    let mut engine = engine(&three(1), NO_OVERLAP);
    list(&mut engine, 1, (5000, "large"), &[], at(0));
    list(&mut engine, 2, (5000, "large;within=400"), &[], at(0));
    assert_eq!(release(&mut engine, at(100)), []);
    let refused = release(&mut engine, at(401));
    let (why, text) = outcome(&mut engine, 2, &refused[0].1, at(401));
    assert_eq!(why, "infeasible");
    assert_eq!(text.as_deref(), Some("large;skipped=expired"));
    assert_eq!(engine.open(), 1);
}

#[test]
fn batch_closes_before_a_listed_variant_expires() {
    let batched = variant("a", 1.0, 8, 100.0).replace("\"slots\"", "\"batch\":4,\"slots\"");
    let window = r#","queue":{"batch_wait_ms":60000}"#;
    let mut engine = engine(&[batched, variant("b", 0.0, 8, 10.0)], window);
    list(&mut engine, 1, (5000, "a"), &[], at(0));
    list(&mut engine, 2, (6000, "a;within=300, b"), &[], at(0));
    assert_eq!(release(&mut engine, at(190)), []);
    let wake = engine.next_wake(at(193).mono).unwrap();
    assert!(wake <= at(194).mono, "{wake:?}");
    let left = release(&mut engine, at(195));
    assert_eq!(forwarded(&left), [1, 2]);
    let (by, _) = outcome(&mut engine, 2, &left[1].1, at(196));
    assert_eq!(by, "a");
}

#[test]
fn wrong_list_is_refused_with_the_reason() {
    let mut engine = engine(&three(9), "");
    let mut wrong = |value: &str| match list(&mut engine, 1, (1000, value), &[], at(0)) {
        Verdict::Reject(refusal) => {
            assert_eq!(refusal.reason, Reason::InvalidVariants);
            refusal.facts.detail.unwrap().into_string()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(
        wrong("large, tiny"),
        "x-slo-variants: this service has no 'tiny', but 'small', 'medium', 'large'"
    );
    assert_eq!(
        wrong("large, large"),
        "x-slo-variants: 'large' stands twice"
    );
    assert_eq!(
        wrong("large;within=x"),
        "x-slo-variants: within='x' must be a number of milliseconds greater than 0"
    );
    assert_eq!(engine.open(), 0);
    let mut samples = Vec::new();
    engine.stats.swap(&mut samples);
    let count = |metric, label| {
        let same = samples.iter();
        same.filter(|sample| (sample.metric, sample.label) == (metric, label))
            .count()
    };
    let header = Label::Header(Field::Variants);
    assert_eq!(count(Metric::InvalidHeaders, header), 3);
    let refused = Label::Reason(Reason::InvalidVariants);
    assert_eq!(count(Metric::Refused, refused), 3);
    assert_eq!(count(Metric::Unservable, Label::None), 3);
    assert_eq!(count(Metric::Arrivals, Label::None), 0);
}

#[test]
fn list_means_nothing_without_a_plan_and_at_a_gate() {
    let planner = r#"{"service":"demo","planner":{"cluster":"p","key":"k"}}"#;
    let mut engine = alone(planner);
    let verdict = list(&mut engine, 1, (1000, "any"), &[], at(0));
    assert_eq!(verdict, Verdict::Pass);
    assert_eq!(
        counted(&mut engine, Metric::Arrivals).len(),
        1,
        "it is demand"
    );
    let json = format!(
        r#"{{"service":"demo","role":"gate","variant":"small","plan":{{"variants":[{}]}}}}"#,
        three(1).join(",")
    );
    let mut gate = alone(&json);
    let Verdict::Forward(dispatch) = list(&mut gate, 1, (1000, "large, ?"), &[], at(0)) else {
        panic!("not sent")
    };
    assert_eq!(&*dispatch.name, "small");
    let tags = gate.on_answer(1, Answer::default(), at(1)).unwrap();
    assert_eq!(tags.variants, None);
}

#[test]
fn router_serves_by_the_list() {
    let json = format!(
        r#"{{"service":"demo","role":"router","plan":{{"variants":[{}]}}}}"#,
        three(1).join(",")
    );
    let mut router = alone(&json);
    let verdict = list(&mut router, 1, (250, "large, medium"), &[], at(0));
    assert_eq!(counted(&mut router, Metric::Fallbacks), ["large"]);
    let (by, text) = outcome(&mut router, 1, &verdict, at(1));
    assert_eq!(by, "medium");
    assert_eq!(text.as_deref(), Some("large;skipped=infeasible, medium"));
}

#[test]
fn body_is_awaited_as_long_as_a_listed_variant_can_serve() {
    let mut engine = engine(&three(9), PLAN_HOLDS);
    let headers = [
        ("x-slo-ms", b"1000".as_slice()),
        ("x-slo-variants", b"large, medium;within=500"),
    ];
    let mut incoming: IncomingRequest<'_> = Wire::pick(headers).into();
    incoming.body_follows = true;
    for stream in [1, 2] {
        let verdict = engine.on_request(stream, &incoming, at(0), &mut Vec::new());
        assert_eq!(verdict, Verdict::Park);
    }
    assert_eq!(engine.next_timer(), Some(at(700).mono), "the large one's");
    let complete = BodyChunk {
        bytes: 9,
        complete: true,
    };
    let mut others = Vec::new();
    let verdict = engine.on_body(1, complete, |_| None, at(650), &mut others);
    let (by, _) = outcome(&mut engine, 1, &verdict.decided().unwrap(), at(660));
    assert_eq!(by, "large");
    let refused = release(&mut engine, at(701));
    let (why, text) = outcome(&mut engine, 2, &refused[0].1, at(701));
    assert_eq!(why, "expired");
    let skipped = "large;skipped=infeasible, medium;skipped=expired";
    assert_eq!(text.as_deref(), Some(skipped));
    let headers = [
        ("x-slo-ms", b"99".as_slice()),
        ("x-slo-variants", b"large, medium"),
    ];
    let mut short: IncomingRequest<'_> = Wire::pick(headers).into();
    short.body_follows = true;
    let refused = engine.on_request(3, &short, at(701), &mut Vec::new());
    let (why, text) = outcome(&mut engine, 3, &refused, at(701));
    assert_eq!(why, "infeasible");
    let skipped = "large;skipped=infeasible, medium;skipped=infeasible";
    assert_eq!(text.as_deref(), Some(skipped));
}
