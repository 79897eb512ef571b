//! Any sequence of requests with lists, ends, waits and plans.

use proptest::prelude::*;

use super::*;

/// One step of a run.
#[derive(Debug, Clone)]
enum Step {
    Submit(u64, Vec<(usize, Option<u64>)>, bool),
    End(prop::sample::Index),
    Wait(u64),
    Plan([u32; 3]),
}

const NAMES: [&str; 3] = ["small", "medium", "large"];

fn step() -> impl Strategy<Value = Step> {
    let order = Just(vec![0, 1, 2]).prop_shuffle();
    let within = prop::collection::vec(prop::option::of(1..600_u64), 3);
    let members = (order, within, 1..=3_usize)
        .prop_map(|(order, within, many)| order.into_iter().zip(within).take(many).collect());
    prop_oneof![
        4 => (20..1000_u64, members, any::<bool>()).prop_map(|(ms, list, any)| Step::Submit(ms, list, any)),
        3 => any::<prop::sample::Index>().prop_map(Step::End),
        3 => (1..100_u64).prop_map(Step::Wait),
        1 => [1..3_u32, 0..3_u32, 0..3_u32].prop_map(Step::Plan),
    ]
}

proptest! {
    /// Only listed variants serve, none after its time or the deadline, and each request has one end.
    #[test]
    fn lists_hold_in_any_run(
        steps in prop::collection::vec(step(), 1..80),
        overlap in any::<bool>(),
    ) {
        let mut engine = engine(&three(1), &format!(r#","queue":{{"overlap":{overlap},"correct":false}}"#));
        let service_ms = [20, 100, 300];
        let mut open = std::collections::BTreeMap::new();
        let (mut running, mut ms, mut stream, mut revision) = (Vec::new(), 0, 0, 1);
        for step in steps {
            let mut verdicts = Vec::new();
            match step {
                Step::Submit(budget_ms, members, any) => {
                    stream += 1;
                    let member = |(place, within): &(usize, Option<u64>)| {
                        let within = within.map(|ms| format!(";within={ms}"));
                        format!("{}{}", NAMES[*place], within.unwrap_or_default())
                    };
                    let mut value: Vec<String> = members.iter().map(member).collect();
                    value.extend(any.then(|| "*".to_owned()));
                    let (budget, value) = (budget_ms.to_string(), value.join(","));
                    let headers = [
                        ("x-slo-ms", budget.as_bytes()),
                        ("x-slo-variants", value.as_bytes()),
                    ];
                    let incoming = Wire::pick(headers).into();
                    open.insert(stream, (ms, budget_ms, members, any));
                    let verdict = engine.on_request(stream, &incoming, at(ms), &mut verdicts);
                    verdicts.push((stream, verdict));
                }
                Step::End(index) if !running.is_empty() => {
                    let stream: StreamId = running.remove(index.index(running.len()));
                    verdicts = end(&mut engine, stream, End::Answered, at(ms));
                }
                Step::End(_) => {}
                Step::Wait(wait_ms) => {
                    ms += wait_ms;
                    verdicts = release(&mut engine, at(ms));
                }
                Step::Plan(slots) => {
                    revision += 1;
                    let variants = three(1);
                    let variants: Vec<_> = variants.iter().zip(slots).map(|(variant, slots)| {
                        variant.replace("\"slots\":1", &format!("\"slots\":{slots}"))
                    }).collect();
                    engine.on_plan(&plan(revision, &variants), at(ms).mono, at(ms), &mut verdicts);
                }
            }
            for (stream, verdict) in verdicts {
                match verdict {
                    Verdict::Forward(dispatch) => {
                        let (arrived_ms, budget_ms, members, any) = open.remove(&stream).unwrap();
                        let place = NAMES.iter().position(|name| **name == *dispatch.name).unwrap();
                        let listed = members.iter().find(|(listed, _)| *listed == place);
                        prop_assert!(listed.is_some() || any, "{} of {members:?}", dispatch.name);
                        let within_ms = listed.and_then(|(_, within)| *within);
                        let until_ms = arrived_ms + within_ms.unwrap_or(budget_ms).min(budget_ms);
                        prop_assert!(
                            ms + service_ms[place] <= until_ms,
                            "{} at {ms}, until {until_ms}", dispatch.name
                        );
                        running.push(stream);
                    }
                    // A request in flight is refused at its deadline.
                    Verdict::Reject(_) => {
                        running.retain(|other| *other != stream);
                        open.remove(&stream);
                    }
                    Verdict::Park => prop_assert!(open.contains_key(&stream)),
                    Verdict::Pass | Verdict::PassTo(_) => prop_assert!(false, "a plan is in force"),
                }
            }
        }
        release(&mut engine, at(ms + 10_000));
        prop_assert_eq!(engine.open(), 0);
        for variant in engine.variants.iter() {
            prop_assert_eq!(variant.expiries.first(), None);
        }
    }
}
