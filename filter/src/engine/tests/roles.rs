//! A router chooses, a gate holds: together they do once what one combined filter does.

use super::*;

fn role(role: &str, variants: &[String]) -> Engine {
    let json = format!(
        r#"{{"service":"demo","role":"{role}","deadline":{{"trust_deadline":true}},"plan":{{"variants":[{}]}}}}"#,
        variants.join(",")
    );
    alone(&json)
}

fn pair() -> [String; 2] {
    [variant("a", 0.5, 1, 50.0), variant("b", 0.5, 1, 50.0)]
}

fn metrics(engine: &mut Engine) -> Vec<Metric> {
    let mut samples = Vec::new();
    engine.stats.swap(&mut samples);
    samples.iter().map(|sample| sample.metric).collect()
}

#[test]
fn router_neither_holds_nor_takes_slots() {
    let mut router = role("router", &pair());
    for stream in 0..10 {
        let verdict = submit(&mut router, stream, 1000, at(0));
        assert!(matches!(verdict, Verdict::Forward(_)), "{stream}");
    }
    let outcome = metrics(&mut router);
    assert!(outcome.contains(&Metric::Arrivals) && outcome.contains(&Metric::Requests));
    for owned in [Metric::Dispatched, Metric::WaitMs, Metric::DispatchSlackMs] {
        assert!(!outcome.contains(&owned), "{owned:?} is the gate's");
    }
    end(&mut router, 1, End::Answered, at(50));
    assert_eq!(metrics(&mut router), [Metric::LatencyMs]);
}

#[test]
fn router_uses_gate_estimates_until_they_expire() {
    let mut router = role("router", &pair());
    let first = submit(&mut router, 1, 1000, at(0));
    let Verdict::Forward(first) = first else {
        panic!("not forwarded")
    };
    let slow = Answer {
        expected: Some(Span::from_millis(700)),
        ..Answer::default()
    };
    router.on_answer(1, slow, at(50));
    for stream in 2..12 {
        let Verdict::Forward(next) = submit(&mut router, stream, 500, at(100)) else {
            panic!("not forwarded")
        };
        assert_ne!(next.name, first.name);
    }
    let later: Vec<_> = (20..30)
        .filter_map(|stream| match submit(&mut router, stream, 500, at(3000)) {
            Verdict::Forward(next) => Some(next.name),
            _ => None,
        })
        .collect();
    assert!(
        later.contains(&first.name),
        "the gate's estimate has expired"
    );
}

#[test]
fn gate_holds_in_order_and_reports_its_response_time() {
    let mut gate = role("gate", &[variant("a", 1.0, 1, 50.0)]);
    let deadline = |ms: u64| (1_790_000_000_000 + ms).to_string();
    let routed = |gate: &mut Engine, stream, ms: u64| {
        let until = deadline(ms);
        let headers = [
            ("x-slo-deadline", until.as_bytes()),
            ("x-slo-variant", b"a".as_slice()),
        ];
        request(gate, stream, &headers, at(0))
    };
    let Verdict::Forward(dispatch) = routed(&mut gate, 1, 1000) else {
        panic!("not forwarded")
    };
    assert_eq!(
        dispatch.cluster, None,
        "the route is not a gate's to choose"
    );
    assert_eq!(routed(&mut gate, 2, 900), Verdict::Park);
    assert_eq!(routed(&mut gate, 3, 800), Verdict::Park);
    assert!(
        !metrics(&mut gate).contains(&Metric::Arrivals),
        "the router's"
    );
    let tags = gate.on_answer(1, Answer::default(), at(10)).unwrap();
    // Remaining time of the first, two that wait, and its own.
    assert_eq!(tags.expected, Some(Span::from_millis(190)));
    assert_eq!(forwarded(&end(&mut gate, 1, End::Answered, at(50))), [3]);
    assert!(metrics(&mut gate).contains(&Metric::Served));
}

#[test]
fn gate_never_downgrades() {
    let mut gate = role(
        "gate",
        &[variant("a", 0.0, 1, 500.0), variant("b", 1.0, 1, 50.0)],
    );
    let headers: [(&str, &[u8]); 2] = [("x-slo-ms", b"100"), ("x-slo-variant", b"a")];
    let outcome = request(&mut gate, 1, &headers, at(0));
    assert_eq!(reason(&outcome), Some(Reason::Infeasible));
}

/// Each counts its own part: summed over both, no request is counted twice.
#[test]
fn router_and_gate_count_each_request_once() {
    let engine = |role: &str| {
        alone(&format!(
            r#"{{"service":"demo","role":"{role}","deadline":{{"trust_deadline":true}},
                "classes":[{{"name":"low","share":0.5}},{{"name":"gold","share":0.5}}],
                "default_class":"low","plan":{{"variants":[{}]}}}}"#,
            variant("a", 1.0, 9, 50.0)
        ))
    };
    let (mut router, mut gate) = (engine("router"), engine("gate"));
    let Verdict::Forward(dispatch) = request(&mut router, 1, &[], at(0)) else {
        panic!("not forwarded")
    };
    let until = dispatch.deadline.as_ms().to_string();
    let tagged = [
        ("x-slo-deadline", until.as_bytes()),
        ("x-slo-variant", dispatch.name.as_bytes()),
    ];
    let outcome = request(&mut gate, 1, &tagged, at(1));
    assert!(matches!(outcome, Verdict::Forward(_)));
    end(&mut gate, 1, End::Answered, at(50));
    end(&mut router, 1, End::Answered, at(51));
    let mut all = metrics(&mut router);
    all.extend(metrics(&mut gate));
    for counted in [
        Metric::Arrivals,
        Metric::ClassArrivals,
        Metric::Requests,
        Metric::Admitted,
        Metric::ClassAdmitted,
        Metric::Dispatched,
        Metric::Served,
        Metric::OnTime,
        Metric::ClassOnTime,
        Metric::LatencyMs,
    ] {
        let times = all.iter().filter(|metric| **metric == counted).count();
        assert_eq!(times, 1, "{counted:?}");
    }
}

#[test]
fn gate_refusal_reports_its_response_time() {
    let mut gate = role("gate", &[variant("a", 1.0, 1, 300.0)]);
    let refused = (1..10).find_map(|stream| match submit(&mut gate, stream, 1000, at(0)) {
        Verdict::Reject(refusal) => Some(refusal),
        _ => None,
    });
    let refusal = refused.unwrap();
    assert_eq!(refusal.reason, Reason::Infeasible);
    let expected = refusal.expected.unwrap();
    assert!(expected > Span::from_millis(1000), "{expected:?}");
    let mut both = role("both", &[variant("a", 1.0, 1, 300.0)]);
    let Verdict::Reject(refusal) = submit(&mut both, 1, 70, at(0)) else {
        panic!("not refused")
    };
    assert_eq!(refusal.expected, None, "there is no router to tell");
}
