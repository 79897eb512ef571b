//! Any order of events: each stream gets one answer or goes to a server, and never both.

use proptest::prelude::*;

use super::envoy::{Envoy, Place, plan};
use super::variant;

/// One event. Streams are drawn from those that there are.
#[derive(Debug, Clone)]
enum Event {
    Request(u16, bool),
    Body(prop::sample::Index, u16, bool),
    Answer(prop::sample::Index),
    Disconnect(prop::sample::Index),
    Wait(u16),
    Tick,
    Plan([u32; 2]),
    NoSlots,
    Clusters(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let any = any::<prop::sample::Index>;
    prop_oneof![
        6 => (1..800_u16, prop::bool::ANY).prop_map(|(ms, body)| Event::Request(ms, body)),
        6 => (any(), 0..600_u16, prop::bool::ANY).prop_map(|(at, more, last)| Event::Body(at, more, last)),
        4 => any().prop_map(Event::Answer),
        2 => any().prop_map(Event::Disconnect),
        3 => (0..200_u16).prop_map(Event::Wait),
        2 => Just(Event::Tick),
        1 => [1..3_u32, 1..4_u32].prop_map(Event::Plan),
        1 => Just(Event::NoSlots),
        1 => prop::bool::ANY.prop_map(Event::Clusters),
    ]
}

fn variants(slots: [u32; 2]) -> String {
    let [small, large] = slots;
    let half = |variant: String| variant.replace(r#""share":1.0"#, r#""share":0.5"#);
    [
        half(variant("small", small, 20)),
        half(variant("large", large, 80)),
    ]
    .join(",")
}

fn play(events: Vec<Event>) {
    let limits = r#""queue":{"max_requests":4},"body":{"request_max_bytes":1000,"source_max_bytes":2000,"total_max_bytes":3000}"#;
    let mut envoy = Envoy::new(&format!(
        r#"{{"service":"demo",{limits},"plan":{{"variants":[{}]}}}}"#,
        variants([1, 2])
    ));
    let mut revision = 0;
    for event in events {
        let ids: Vec<_> = envoy.streams.keys().copied().collect();
        let pick = |at: prop::sample::Index| (!ids.is_empty()).then(|| *at.get(&ids));
        match event {
            Event::Request(budget_ms, body_follows) => {
                envoy.request(&[("x-slo-ms", &budget_ms.to_string())], body_follows);
            }
            Event::Body(at, more, last) => {
                if let Some(id) = pick(at) {
                    envoy.body(id, more.into(), last);
                }
            }
            Event::Answer(at) => {
                if let Some(id) = pick(at) {
                    envoy.answer(id);
                }
            }
            Event::Disconnect(at) => {
                if let Some(id) = pick(at) {
                    envoy.disconnect(id);
                }
            }
            Event::Wait(ms) => envoy.now_ms += u64::from(ms),
            Event::Tick => envoy.tick(),
            Event::Plan(slots) => {
                revision += 1;
                envoy.plan(Some(&plan(revision, &variants(slots))));
            }
            Event::NoSlots => envoy.plan(None),
            Event::Clusters(missing) => envoy.clusters_missing = missing,
        }
    }
    // Nothing is held for ever.
    envoy.now_ms += 60_000;
    envoy.drain();
    let paused = envoy.at(Place::Paused);
    assert!(paused.is_empty(), "neither sent nor answered: {paused:?}");
    for id in envoy.at(Place::Upstream) {
        envoy.disconnect(id);
    }
    envoy.drain();
    assert_eq!(
        (envoy.shell.engine.open(), envoy.shell.engine.bytes_held()),
        (0, 0)
    );
}

proptest! {
    #[test]
    fn each_stream_has_one_outcome(events in prop::collection::vec(event(), 1..120)) {
        play(events);
    }
}
