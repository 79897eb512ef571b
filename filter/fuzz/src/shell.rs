//! Events of one worker's shell in any order: each stream gets one answer or goes to a server, and never both.

use crate::envoy::{Envoy, Place, plan};
use crate::input::Input;

/// Bytes of a body that exceed what one request may hold, 1,000, and not what a source may.
const LARGE: u64 = 1001;

fn variants(slots: [usize; 2], batch: bool) -> String {
    let batch = if batch { r#","batch":3"# } else { "" };
    let one = |name: &str, slots: usize, service_ms: u32| {
        format!(
            r#"{{"name":"{name}","cluster":"{name}","share":0.5,"slots":{slots},"service_ms":{service_ms},"accuracy":70{batch}}}"#
        )
    };
    let [small, large] = slots;
    [one("small", small, 20), one("large", large, 80)].join(",")
}

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (max_requests, batch) = (1 + input.below(6), input.flag());
    let limits = format!(
        r#""queue":{{"max_requests":{max_requests}}},"body":{{"request_max_bytes":1000,"source_max_bytes":2000,"total_max_bytes":3000}}"#
    );
    let mut envoy = Envoy::new(&format!(
        r#"{{"service":"demo",{limits},"plan":{{"variants":[{}]}}}}"#,
        variants([1, 2], batch)
    ));
    let mut revision = 0;
    while let Some(event) = input.next() {
        let ids: Vec<_> = envoy.streams.keys().copied().collect();
        match event % 26 {
            0..6 => {
                let budget_ms = 1 + input.wide() % 800;
                let kind = input.below(4);
                let id = envoy.request(&[("x-slo-ms", &budget_ms.to_string())], kind > 0);
                if kind > 1 {
                    // More than is waited for: it is decided while the rest comes.
                    envoy.body(id, LARGE, false);
                }
            }
            6..12 => {
                let id = input.pick(&ids);
                let (more, last) = (input.wide() % 1200, input.flag());
                if let Some(id) = id {
                    envoy.body(id, more, last);
                }
            }
            12..16 => {
                // So many actions may be under way that those of its end have to wait.
                if input.flag() {
                    envoy.spend_actions(0);
                }
                let part = input.below(7);
                if let Some(id) = input.pick(&ids) {
                    match part {
                        0 | 1 => envoy.answer(id),
                        2 => envoy.begin_answer(id, false),
                        3 => envoy.begin_answer(id, true),
                        4 => envoy.first_byte(id),
                        5 => envoy.time_out(id),
                        _ => envoy.end_answer(id),
                    }
                }
            }
            16..18 => {
                if let Some(id) = input.pick(&ids) {
                    envoy.disconnect(id);
                }
            }
            18..21 => envoy.now_ms += input.below(200) as u64,
            21..23 => match input.flag() {
                true => envoy.tick(),
                false => envoy.tick_with(input.wide() as u32 % 3),
            },
            23 => {
                revision += 1;
                let slots = [1 + input.below(2), 1 + input.below(3)];
                envoy.plan(Some(&plan(revision, &variants(slots, batch))));
            }
            24 => envoy.plan(None),
            _ => envoy.clusters_missing = input.flag(),
        }
    }
    // Nothing is held for ever.
    envoy.now_ms += 60_000;
    envoy.drain();
    let paused = envoy.at(Place::Paused);
    assert!(paused.is_empty(), "neither sent nor answered: {paused:?}");
    for place in [Place::Upstream, Place::Answering] {
        for id in envoy.at(place) {
            envoy.disconnect(id);
        }
    }
    envoy.drain();
    let engine = &envoy.shell.engine;
    assert_eq!((engine.open(), engine.bytes_held()), (0, 0));
}
