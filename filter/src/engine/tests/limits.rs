//! Displacement at the limits of held requests, compared with a list of all held requests.

use proptest::prelude::*;

use super::*;
use crate::waiting::class::ClassId;

/// Sends a request with these headers; returns its verdict and those of displaced requests.
fn come(
    engine: &mut Engine,
    stream: StreamId,
    headers: &[(&str, &[u8])],
) -> (Verdict, Vec<(StreamId, Reason)>) {
    let mut others = Vec::new();
    let incoming = Wire::pick(headers.iter().copied()).into();
    let verdict = engine.on_request(stream, &incoming, at(0), &mut others);
    let others = others.iter();
    let others = others.map(|(other, verdict)| (*other, reason(verdict).unwrap()));
    (verdict, others.collect())
}

/// A fast variant of accuracy 70, and an accurate one.
fn quick_and_accurate() -> [String; 2] {
    let accurate = variant("accurate", 0.0, 1, 0.0).replace("70", "80");
    [variant("quick", 1.0, 1, 0.0), accurate]
}

/// All held requests wait for the accurate variant, and have a minute.
#[test]
fn full_queue_evicts_for_the_more_urgent_of_another_variant() {
    let limit = r#","queue":{"max_requests":3}"#;
    let mut engine = engine(&quick_and_accurate(), limit);
    let patient: [(&str, &[u8]); 2] = [("x-slo-ms", b"60000"), ("x-slo-min-accuracy", b"78")];
    let quick: [(&str, &[u8]); 1] = [("x-slo-ms", b"500")];
    assert!(matches!(
        come(&mut engine, 0, &patient).0,
        Verdict::Forward(_)
    ));
    assert!(matches!(
        come(&mut engine, 1, &quick).0,
        Verdict::Forward(_)
    ));
    for stream in 2..5 {
        assert_eq!(come(&mut engine, stream, &patient), (Verdict::Park, vec![]));
    }
    for (stream, evicted) in [(5, 4), (6, 3), (7, 2)] {
        let others = vec![(evicted, Reason::QueueFull)];
        assert_eq!(come(&mut engine, stream, &quick), (Verdict::Park, others));
    }
    // Now all are equally urgent: the last to come is the least urgent.
    let (verdict, others) = come(&mut engine, 8, &quick);
    assert_eq!(
        (reason(&verdict), others),
        (Some(Reason::QueueFull), vec![])
    );
    assert_eq!(engine.held.all, 3);
    // The slot table knew of the first that waited for the accurate one.
    assert_eq!(engine.next_wake(at(0).mono), Some(at(0).mono));
    release(&mut engine, at(0));
    let gauges: Vec<usize> = engine.gauges().map(|gauge| gauge.held).collect();
    assert_eq!(gauges, [3, 0]);
    assert!(engine.variants.get(VariantId(1)).unwrap().slots.is_synced());
}

#[test]
fn class_at_its_limit_displaces_its_least_urgent() {
    let classes = r#","classes":[{"name":"gold","share":0.5,"max_requests":2},
        {"name":"bulk","share":0.5}],"default_class":"bulk""#;
    let mut engine = engine(&quick_and_accurate(), classes);
    let gold = |ms: &'static str, floor: &'static str| {
        let headers: [(&str, &[u8]); 3] = [
            ("x-slo-ms", ms.as_bytes()),
            ("x-slo-min-accuracy", floor.as_bytes()),
            ("x-slo-class", b"gold"),
        ];
        headers
    };
    for (stream, floor) in [(0, "0"), (1, "78")] {
        let verdict = come(&mut engine, stream, &gold("9000", floor)).0;
        assert!(matches!(verdict, Verdict::Forward(_)));
    }
    let bulk = come(&mut engine, 2, &[("x-slo-ms", b"60000")]);
    assert_eq!(bulk, (Verdict::Park, vec![]));
    for (stream, ms, floor) in [(3, "9000", "0"), (4, "8000", "78")] {
        let headers = gold(ms, floor);
        assert_eq!(come(&mut engine, stream, &headers), (Verdict::Park, vec![]));
    }
    let (verdict, others) = come(&mut engine, 5, &gold("9500", "78"));
    assert_eq!(
        (reason(&verdict), others),
        (Some(Reason::ClassLimit), vec![])
    );
    let others = vec![(3, Reason::ClassLimit)];
    assert_eq!(
        come(&mut engine, 6, &gold("7000", "78")),
        (Verdict::Park, others)
    );
    assert_eq!((engine.held.of(ClassId(0)), engine.held.all), (2, 3));
}

const CLASSES: [(&str, u8, usize); 3] = [("a", 0, 99), ("b", 0, 3), ("c", 5, 4)];

/// Waiting request in the list.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    stream: StreamId,
    class: usize,
    deadline_ms: u64,
}

impl Waiting {
    /// The greatest goes first: lower priority, later deadline, later arrival.
    fn dispensable(&self) -> (u8, u64, StreamId) {
        let (_, priority, _) = CLASSES[self.class];
        (u8::MAX - priority, self.deadline_ms, self.stream)
    }
}

/// Request displaced by `newcomer`: at the class's limit, else at the limit of all.
fn goes(held: &[Waiting], newcomer: Waiting, max_requests: usize) -> Option<(StreamId, Reason)> {
    let of_class = |other: &&Waiting| other.class == newcomer.class;
    let min = |among: Vec<&Waiting>| {
        let all = among.into_iter().chain([&newcomer]);
        all.max_by_key(|one| one.dispensable()).unwrap().stream
    };
    if held.iter().filter(of_class).count() >= CLASSES[newcomer.class].2 {
        let among = held.iter().filter(of_class).collect();
        return Some((min(among), Reason::ClassLimit));
    }
    (held.len() >= max_requests).then(|| (min(held.iter().collect()), Reason::QueueFull))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn least_urgent_of_all_variants_is_evicted(
        max_requests in 1..12_usize,
        many in 1..5_usize,
        arrivals in prop::collection::vec((0..3_usize, 1_000..60_000_u64, 0..5_usize), 1..60),
    ) {
        // The minimum determines the variant: one of that accuracy, or better.
        let accuracy = |index: usize| (60 + index).to_string();
        let variants: Vec<String> = (0..many)
            .map(|i| variant(&format!("v{i}"), 1.0 / many as f64, 1, 0.0).replace("70", &accuracy(i)))
            .collect();
        let classes: Vec<String> = CLASSES
            .iter()
            .map(|(name, priority, most)| format!(
                r#"{{"name":"{name}","share":0.3,"priority":{priority},"max_requests":{most}}}"#
            ))
            .collect();
        let rest = format!(
            r#","classes":[{}],"default_class":"a","queue":{{"max_requests":{max_requests}}}"#,
            classes.join(",")
        );
        let mut engine = engine(&variants, &rest);
        for stream in 0..many as StreamId {
            let floor = accuracy(stream as usize);
            let headers = [("x-slo-min-accuracy", floor.as_bytes())];
            come(&mut engine, 1000 + stream, &headers);
        }
        let mut held: Vec<Waiting> = Vec::new();
        for (stream, (class, deadline_ms, floor)) in (0..).zip(arrivals) {
            let newcomer = Waiting { stream, class, deadline_ms };
            let (ms, floor) = (deadline_ms.to_string(), accuracy(floor.min(many - 1)));
            let headers = [
                ("x-slo-ms", ms.as_bytes()),
                ("x-slo-class", CLASSES[class].0.as_bytes()),
                ("x-slo-min-accuracy", floor.as_bytes()),
            ];
            let (verdict, others) = come(&mut engine, stream, &headers);
            if matches!(verdict, Verdict::Forward(_)) {
                continue; // A slot was left.
            }
            let expected = goes(&held, newcomer, max_requests);
            held.push(newcomer);
            held.retain(|one| Some(one.stream) != expected.map(|(stream, _)| stream));
            match expected {
                Some((evicted, why)) if evicted == stream => {
                    prop_assert_eq!((reason(&verdict), others), (Some(why), vec![]));
                }
                expected => {
                    prop_assert_eq!(verdict, Verdict::Park);
                    prop_assert_eq!(others, Vec::from_iter(expected));
                }
            }
            prop_assert_eq!(engine.held.all, held.len());
        }
    }
}
