//! Sentences, fields and their bounds.

use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

fn name() -> Option<Rc<str>> {
    Some(Rc::from("resnet18"))
}

#[test]
fn sentences_have_names_and_numbers() {
    let none = Facts::default;
    let slow = || Facts {
        variant: name(),
        needed: Some(ms(60)),
        left: Some(ms(20)),
        ..none()
    };
    let queued = || Facts {
        needed: Some(ms(160)),
        wait: ms(100),
        queued: Some(12),
        ..slow()
    };
    let late = |stage| Facts {
        stage,
        on_arrival: Some(ms(200)),
        waited: Some(ms(180)),
        ..slow()
    };
    let limited = |limit, value| Facts {
        limit: Some(limit),
        limit_value: value,
        variant: name(),
        ..none()
    };
    for (reason, facts, expected) in [
        (Reason::Expired, none(), "its time was over on arrival"),
        (
            Reason::Expired,
            late(Stage::Receiving),
            "its body has not ended 180 ms after its headers, the fastest allowed variant resnet18 needs 60 ms, \
             20 ms are left",
        ),
        (
            Reason::Expired,
            late(Stage::Queue),
            "waited 180 ms in the queue of resnet18, 200 ms were left on arrival",
        ),
        (
            Reason::Expired,
            late(Stage::Server),
            "resnet18 did not answer in the 200 ms left on arrival, of which the request waited 180 ms",
        ),
        (
            Reason::Infeasible,
            slow(),
            "the fastest allowed variant resnet18 needs 60 ms, 20 ms are left",
        ),
        (
            Reason::Infeasible,
            queued(),
            "the fastest allowed variant resnet18 needs 160 ms, 100 ms of them in its queue behind 12 others, \
             20 ms are left",
        ),
        (
            Reason::Infeasible,
            Facts {
                downstream: ms(300),
                ..slow()
            },
            "the fastest allowed variant resnet18 needs 60 ms, 20 ms are left before the 300 ms of the later stages",
        ),
        (
            Reason::Infeasible,
            late(Stage::Queue),
            "waited 180 ms in the queue of resnet18, which needs 60 ms, 20 ms are left",
        ),
        (
            Reason::Infeasible,
            Facts {
                variant: None,
                ..slow()
            },
            "the later stages need 60 ms, 20 ms are left",
        ),
        (
            Reason::Infeasible,
            Facts {
                needed: None,
                ..slow()
            },
            "no allowed variant can answer in the 20 ms that are left",
        ),
        (
            Reason::QueueFull,
            limited(Limit::Requests, Some(4096)),
            "this worker holds 4096 requests, its queue.max_requests",
        ),
        (
            Reason::QueueFull,
            limited(Limit::Streams, Some(2)),
            "of resnet18 half of the slots have requests whose bodies still arrive",
        ),
        (
            Reason::ClassLimit,
            limited(Limit::ClassRequests, Some(100)),
            "this worker holds 100 requests of the class, its classes[].max_requests",
        ),
        (
            Reason::SourceLimit,
            limited(Limit::SourceBytes, Some(5)),
            "bodies of its source fill body.source_max_bytes, 5",
        ),
        (
            Reason::BodyBytesLimit,
            limited(Limit::TotalBytes, Some(6)),
            "bodies fill body.total_max_bytes, 6",
        ),
        (
            Reason::BodyBytesLimit,
            limited(Limit::RequestBytes, Some(7)),
            "no slot is free, and its body exceeds body.request_max_bytes, 7",
        ),
        (
            Reason::NoCapacity,
            none(),
            "the plan gives no slot to any allowed variant",
        ),
        (
            Reason::NoCapacity,
            slow(),
            "the plan gives no slot to resnet18",
        ),
        (
            Reason::NoBackend,
            slow(),
            "no server of resnet18 can be reached",
        ),
        (Reason::NoPlan, none(), "there is no valid plan"),
        (Reason::InvalidVariants, Facts::detail("wrong"), "wrong"),
        (
            Reason::Accuracy,
            Facts {
                accuracies: Some(Accuracies::new(78.31, 99.0)),
                ..slow()
            },
            "the most accurate allowed variant resnet18 has 78.31 percent, x-slo-min-accuracy is 99",
        ),
    ] {
        let label = reason.label();
        assert_eq!(
            facts.message(reason),
            format!("refused by weir: {label}: {expected}")
        );
    }
}

#[test]
fn fields_are_those_that_are_known() {
    let facts = Facts {
        stage: Stage::Arrival,
        variant: name(),
        needed: Some(Span::from_nanos(60 * MS + 1)),
        wait: ms(10),
        queued: Some(3),
        left: Some(Span::from_nanos(61 * MS - 1)),
        on_arrival: Some(ms(70)),
        waited: Some(Span::ZERO),
        ..Facts::default()
    };
    assert_eq!(
        facts.body(Reason::Infeasible),
        "{\"error\":\"refused by weir: infeasible: the fastest allowed variant resnet18 needs 61 ms, 10 ms of them in \
         its queue behind 3 others, 60 ms are left\",\"reason\":\"infeasible\",\"variant\":\"resnet18\",\
         \"needed_ms\":61,\"queue_ms\":10,\"queued\":3,\"left_ms\":60,\"arrival_left_ms\":70,\"waited_ms\":0}\n"
    );
    assert_eq!(
        Facts::default().body(Reason::NoPlan),
        "{\"error\":\"refused by weir: no-plan: there is no valid plan\",\"reason\":\"no-plan\"}\n"
    );
}

#[test]
fn percent_is_what_a_client_may_demand() {
    for (max, demanded, expected) in [
        (78.31, 99.0, (7831, 9900)),
        (78.319, 78.3199, (7831, 7832)),
        (0.0, 100.0, (0, 10_000)),
        (69.76, 69.77, (6976, 6977)),
    ] {
        let of = Accuracies::new(max, demanded);
        assert_eq!((of.max, of.demanded), expected, "{max} {demanded}");
    }
    let mut text = String::new();
    for hundredths in [7831, 7830, 7800, 7803, 0] {
        write_percent(hundredths, &mut text).unwrap();
        text.push(' ');
    }
    assert_eq!(text, "78.31 78.3 78 78.03 0 ");
}

fn is_plain(text: &str) -> bool {
    text.chars()
        .all(|c| matches!(c, ' '..='~') && !matches!(c, '"' | '\\' | '%'))
}

prop_compose! {
    fn span()(ns in any::<u64>()) -> Span { Span::from_nanos(ns) }
}

prop_compose! {
    fn any_facts()(
        stage in prop::sample::select(vec![Stage::Arrival, Stage::Receiving, Stage::Queue, Stage::Server]),
        variant in prop::option::of("[a-z][a-z0-9]{0,62}"),
        needed in prop::option::of(span()),
        (wait, downstream) in (span(), span()),
        queued in any::<Option<u32>>(),
        (left, on_arrival, waited) in (span(), span(), span()),
        limit in prop::option::of(prop::sample::select(Limit::ALL.to_vec())),
        limit_value in any::<Option<u64>>(),
        accuracies in prop::option::of((0.0..1000.0, 0.0..1000.0)),
        detail in ".{0,2000}",
    ) -> Facts {
        Facts {
            stage,
            variant: variant.map(Rc::from),
            needed,
            wait,
            queued,
            left: Some(left),
            downstream,
            on_arrival: Some(on_arrival),
            waited: Some(waited),
            limit,
            limit_value,
            accuracies: accuracies.map(|(max, demanded)| Accuracies::new(max, demanded)),
            ..Facts::detail(&detail)
        }
    }
}

proptest! {
    #[test]
    fn refusal_is_bounded_and_harmless(facts in any_facts(), at in 0..Reason::ALL.len()) {
        let reason = Reason::ALL[at];
        let message = facts.message(reason);
        prop_assert!(message.len() <= BODY_MAX, "{message}");
        prop_assert!(is_plain(&message), "{message}");
        let body = facts.body(reason);
        prop_assert!(body.len() <= BODY_MAX, "{} {body}", body.len());
        let read: serde_json::Value = serde_json::from_str(&body).unwrap();
        prop_assert_eq!(&read["reason"], reason.label());
        let error = read["error"].as_str().unwrap();
        prop_assert!(is_plain(error), "{error}");
        prop_assert!(error.starts_with("refused by weir: "), "{error}");
    }
}
