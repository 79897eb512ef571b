//! Plans that come while requests wait: fairness continues, and ids of variants keep their meaning.

use proptest::prelude::*;

use super::*;

/// Classes of these priorities, named by their index.
fn classes(priorities: &[u8], max_skips: u32) -> String {
    let class = |(i, priority)| format!(r#"{{"name":"c{i}","share":0.1,"priority":{priority}}}"#);
    let list: Vec<String> = priorities.iter().enumerate().map(class).collect();
    format!(
        r#","classes":[{}],"default_class":"c0","max_skips":{max_skips}"#,
        list.join(",")
    )
}

fn of_class(engine: &mut Engine, stream: StreamId, class: usize, now: Now) -> Verdict {
    let class = format!("c{class}");
    let headers = [
        ("x-slo-ms", &b"60000"[..]),
        ("x-slo-class", class.as_bytes()),
    ];
    request(engine, stream, &headers, now)
}

fn follow(engine: &mut Engine, revision: u64, variants: &[String]) -> Vec<(StreamId, Verdict)> {
    let mut verdicts = Vec::new();
    let next = plan(revision, variants);
    engine.on_plan(&next, at(0).mono, at(0), &mut verdicts);
    verdicts
}

/// Each plan gives the variant another name, or another share of two: all waiting requests are rerouted.
#[test]
fn plans_between_grants_do_not_starve_a_class() {
    let plans: [fn(u64) -> Vec<String>; 3] = [
        |revision| vec![variant(["a", "b"][revision as usize % 2], 1.0, 1, 0.0)],
        |revision| vec![variant("a", 1.0, 1 + revision as u32 % 2, 0.0)],
        |_| vec![variant("a", 1.0, 1, 0.0)],
    ];
    for (case, plan) in plans.into_iter().enumerate() {
        let mut engine = engine(&plan(0), &classes(&[0, 3], 5));
        of_class(&mut engine, 0, 1, at(0));
        assert_eq!(of_class(&mut engine, 1, 0, at(0)), Verdict::Park);
        for stream in 2..60 {
            assert_eq!(of_class(&mut engine, stream, 1, at(0)), Verdict::Park);
        }
        let mut running = vec![0];
        let mut dispatched = Vec::new();
        for revision in 1..40 {
            let mut went = forwarded(&follow(&mut engine, revision, &plan(revision)));
            if let Some(done) = running.pop() {
                went.extend(forwarded(&end(&mut engine, done, End::Answered, at(0))));
            }
            running.extend(&went);
            dispatched.extend(went);
        }
        let low = dispatched.iter().position(|stream| *stream == 1);
        assert_eq!(low, Some(5), "plans of kind {case}: {dispatched:?}");
    }
}

#[test]
fn plans_do_not_end_order_by_share() {
    let rest = r#","classes":[{"name":"c0","share":0.25},{"name":"c1","share":0.75}],
        "default_class":"c0""#;
    let name = |revision: u64| ["a", "b"][revision as usize % 2];
    let mut engine = engine(&[variant(name(0), 1.0, 1, 0.0)], rest);
    of_class(&mut engine, 0, 0, at(0));
    // The class of the small share is the more urgent one.
    for stream in 1..=80 {
        of_class(
            &mut engine,
            stream,
            usize::from(stream > 40),
            at(u64::from(stream)),
        );
    }
    let held = engine.variants.iter().next().unwrap().slots.queue.len();
    assert_eq!(held, 80);
    engine
        .variants
        .get_mut(VariantId(0))
        .unwrap()
        .slots
        .queue
        .set_contended();
    let mut running = std::collections::VecDeque::from([0]);
    let mut dispatched = Vec::new();
    for revision in 1.. {
        let mut went = forwarded(&follow(
            &mut engine,
            revision,
            &[variant(name(revision), 1.0, 1, 0.0)],
        ));
        if let Some(done) = running.pop_front() {
            went.extend(forwarded(&end(&mut engine, done, End::Answered, at(100))));
        }
        running.extend(&went);
        dispatched.extend(went);
        if dispatched.len() >= 40 {
            break;
        }
    }
    let large = dispatched
        .iter()
        .take(40)
        .filter(|stream| **stream > 40)
        .count();
    assert!(
        (28..=32).contains(&large),
        "{large} of 40 for a share of 0.75: {dispatched:?}"
    );
}

/// A plan that does not affect routing moves no request and makes no choice.
#[test]
fn unchanged_plan_does_not_move_waiting_requests() {
    let two = |service_ms| {
        [
            variant("a", 0.5, 1, service_ms),
            variant("b", 0.5, 1, service_ms),
        ]
    };
    let mut engine = engine(&two(100.0), "");
    for stream in 0..20 {
        submit(&mut engine, stream, 60_000, at(0));
    }
    let places = |engine: &Engine| {
        let mut places: Vec<(StreamId, VariantId)> = engine
            .requests
            .iter()
            .map(|(stream, request)| (*stream, request.variant))
            .collect();
        places.sort_unstable();
        places
    };
    let before = (places(&engine), engine.router.observed_share(0));
    assert!(follow(&mut engine, 1, &two(200.0)).is_empty());
    assert_eq!((places(&engine), engine.router.observed_share(0)), before);
    // The service time did change.
    assert_eq!(
        engine.next_wake(at(0).mono),
        Some(at(0).mono + CHECK_PERIOD)
    );
    let predicted = engine.variants.get(VariantId(0)).unwrap().predicted.high;
    assert_eq!(predicted, Span::from_millis(200));
}

/// A router takes no slots, but the requests it has sent still refer to a variant.
#[test]
fn variant_keeps_its_number_while_a_routers_request_is_in_flight() {
    let router = r#"{"service":"demo","role":"router","plan":{"variants":[VARIANTS]}}"#;
    let mut engine = alone(&router.replace("VARIANTS", &variant("a", 1.0, 1, 50.0)));
    assert!(matches!(
        submit(&mut engine, 1, 1000, at(0)),
        Verdict::Forward(_)
    ));
    follow(&mut engine, 1, &[variant("b", 1.0, 1, 90.0)]);
    assert!(matches!(
        submit(&mut engine, 2, 1000, at(0)),
        Verdict::Forward(_)
    ));
    let slow = Answer {
        expected: Some(Span::from_secs(30)),
        ..Answer::default()
    };
    let tags = engine.on_answer(1, slow, at(50)).unwrap();
    assert_eq!(&*tags.variant, "a");
    end(&mut engine, 1, End::Answered, at(50));
    // The estimate of the old variant's gate is not used for the new one's.
    assert!(matches!(
        submit(&mut engine, 3, 1000, at(50)),
        Verdict::Forward(_)
    ));
    let tags = engine.on_answer(2, Answer::default(), at(60)).unwrap();
    assert_eq!(&*tags.variant, "b");
    // Nothing refers to the first any more: its id is reused.
    follow(
        &mut engine,
        2,
        &[variant("b", 0.5, 1, 90.0), variant("c", 0.5, 1, 90.0)],
    );
    assert_eq!(engine.variants.len(), 2);
}

#[derive(Debug, Clone)]
enum Step {
    /// A request of this class arrives.
    Come(usize),
    /// The oldest request in flight is answered.
    End,
    /// A plan with these variants, each with that number of slots; their shares are equal.
    Plan(Vec<(usize, u32)>),
}

fn step(most: usize) -> impl Strategy<Value = Step> {
    let planned = prop::collection::vec((0..most, 1..3_u32), 1..=most);
    prop_oneof![
        4 => (0..4_usize).prop_map(Step::Come),
        4 => Just(Step::End),
        2 => planned.prop_map(Step::Plan),
    ]
}

/// Waiting requests, beside the engine.
#[derive(Default)]
struct Watch {
    /// Class of each waiting request, and the number of times in a row that its class was skipped.
    waiting: std::collections::BTreeMap<StreamId, (usize, u32)>,
    running: std::collections::VecDeque<(StreamId, VariantId)>,
}

impl Watch {
    fn went(&mut self, engine: &Engine, stream: StreamId, class: usize, priorities: &[u8]) {
        let variant = engine.requests[&stream].variant;
        self.running.push_back((stream, variant));
        for (other, (waits, passed)) in &mut self.waiting {
            if engine.requests[other].variant != variant {
                continue;
            }
            if *waits == class {
                *passed = 0;
            } else if priorities[*waits] < priorities[class] {
                *passed += 1;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// For any plans, and any moves of waiting requests.
    #[test]
    fn plans_never_starve_a_class(
        priorities in prop::collection::vec(0..4_u8, 2..=4),
        max_skips in 1..5_u32,
        steps in (1..4_usize).prop_flat_map(|most| prop::collection::vec(step(most), 1..200)),
    ) {
        let top = *priorities.iter().max().unwrap();
        let lower = priorities.iter().filter(|priority| **priority < top).count() as u32;
        let bound = max_skips + lower.saturating_sub(1);
        let mut engine = engine(&[variant("v0", 1.0, 1, 0.0)], &classes(&priorities, max_skips));
        let mut watch = Watch::default();
        let mut class_of = std::collections::BTreeMap::new();
        for (at_step, step) in (1..).zip(steps) {
            let verdicts = match step {
                Step::Come(class) => {
                    let class = class % priorities.len();
                    class_of.insert(at_step as StreamId, class);
                    let verdict = of_class(&mut engine, at_step as StreamId, class, at(0));
                    if verdict == Verdict::Park {
                        watch.waiting.insert(at_step as StreamId, (class, 0));
                    }
                    vec![(at_step as StreamId, verdict)]
                }
                Step::End => match watch.running.pop_front() {
                    Some((stream, _)) => end(&mut engine, stream, End::Answered, at(0)),
                    None => Vec::new(),
                },
                Step::Plan(planned) => {
                    let mut planned = planned;
                    planned.sort_unstable();
                    planned.dedup_by_key(|(name, _)| *name);
                    let share = 1.0 / planned.len() as f64;
                    let variants: Vec<String> = planned
                        .iter()
                        .map(|(name, slots)| variant(&format!("v{name}"), share, *slots, 0.0))
                        .collect();
                    follow(&mut engine, at_step, &variants)
                }
            };
            let forwarded = forwarded(&verdicts);
            for stream in &forwarded {
                watch.waiting.remove(stream);
            }
            for stream in forwarded {
                watch.went(&engine, stream, class_of[&stream], &priorities);
            }
            for (class, passed) in watch.waiting.values() {
                prop_assert!(*passed <= bound, "class {class}: {passed} > {bound}");
            }
        }
    }
}
