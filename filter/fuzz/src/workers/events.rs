//! The events that bytes are made into.

use super::{ENDS, Proxy, variants};
use crate::envoy::plan;
use crate::input::Input;

/// Plays the events, and then waits until nothing may be left.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut proxy = Proxy::new(&mut input);
    let mut revision = 0;
    while let Some(event) = input.next() {
        let ids: Vec<_> = proxy.streams.keys().copied().collect();
        match event % 47 {
            0..12 => proxy.request(&mut input),
            12..20 => {
                let end = ENDS[input.below(ENDS.len())];
                if let Some(id) = input.pick(&ids) {
                    proxy.end(id, end);
                }
            }
            20..24 => {
                let (more, complete) = (input.wide() % 700, input.flag());
                if let Some(id) = input.pick(&ids) {
                    proxy.body(id, more, complete, input.below(2) as u64);
                }
            }
            24..28 => {
                if let Some(id) = input.pick(&ids) {
                    proxy.answer(id, &mut input);
                }
            }
            28..36 => proxy.tick(input.below(128) as u64),
            36..38 => {
                revision += 1;
                let slots = [1 + input.below(5), 1 + input.below(5)];
                let next = plan(revision, &variants(slots, input.below(17), ""));
                for worker in 0..proxy.workers.len() {
                    proxy.with(worker, |engine, now, verdicts| {
                        engine.on_plan(&next, now.mono, now, verdicts);
                    });
                }
            }
            38 => {
                let worker = input.below(proxy.workers.len());
                proxy.with(worker, |engine, now, verdicts| {
                    engine.on_no_slots(now, verdicts)
                });
            }
            39 => proxy.store.fail_swaps(input.below(20) as u32),
            40 => proxy.store.fail_group_swaps(input.below(20) as u32),
            41 => {
                // Everything it had is lost with it.
                let worker = input.below(proxy.workers.len());
                proxy.streams.retain(|_, stream| stream.worker != worker);
                proxy.workers[worker] = proxy.started_worker();
            }
            42 => {
                if let Some(mut bytes) = proxy.store.bytes() {
                    let at = input.wide() as usize % bytes.len().max(1);
                    bytes[at] ^= input.below(256) as u8;
                    proxy.store.overwrite(bytes);
                }
            }
            43 => match input.below(3) {
                0 => proxy.store.clear(),
                1 => proxy.store.overwrite_groups(None),
                _ => proxy.store.overwrite_groups(Some(input.bytes().to_vec())),
            },
            44 => {
                let step = input.wide();
                proxy.wall_ms = proxy.wall_ms + step - 32_768;
            }
            45 => {
                let worker = input.below(proxy.workers.len());
                proxy.probe(worker, [0, 200, 404, 503][input.below(4)]);
            }
            _ => {
                let worker = input.below(proxy.workers.len());
                proxy.with(worker, |engine, now, verdicts| {
                    engine.stop_receiving(now, verdicts)
                });
            }
        }
        proxy.check();
    }
    proxy.finish();
}
