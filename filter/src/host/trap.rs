//! Traps on demand, for tests of a VM's death: a request's header `x-weir-trap` names the place. For tests
//! of the slot table it shows or corrupts the table. Only with the feature `trap`, which the shipped module
//! never has.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::call;
use super::shared::{Queue, Shared, group_table_key, slot_table_key};
use crate::config::{Config, Role};
use crate::coordination::{AcquireRequest, EndedExecutions, Scope, Worker};
use crate::priority::Urgency;
use crate::time::{Mono, Span};
use crate::variant::VariantKey;

/// `request`, `response` (this request's), `tick` (the next), `memory` (until it is exhausted): traps.
/// `spoil`: overwrites the slot table. `show`: answers with the table's bytes. `cost`: answers with the
/// time of an acquisition and a release together, in ns; `cost-among-others`: the same while other VMs
/// serve too.
const HEADER: &str = "x-weir-trap";
/// Size of each allocation by `memory`.
const CHUNK_BYTES: usize = 1 << 20;

/// Stream whose response is to trap; no stream has id 0.
static ANSWER_OF: AtomicU32 = AtomicU32::new(0);
/// Whether the next tick is to trap.
static TICK: AtomicBool = AtomicBool::new(false);

/// Bytes that another program might write.
const CORRUPTED: &[u8] = b"weirslt\x03 and then something else";

/// Handles the headers of a request; returns whether it is answered here.
pub(super) fn on_request(stream: u32, config: &Config) -> bool {
    let headers = call::request_headers();
    // Kept as a string in the module, where a test looks for it, instead of folded into the comparison.
    let header_name = std::hint::black_box(HEADER);
    let incoming = headers.iter().find(|(name, _)| name == header_name);
    match incoming.map(|(_, value)| value.as_slice()) {
        Some(b"request") => trap(),
        Some(b"response") => ANSWER_OF.store(stream, Ordering::Relaxed),
        Some(b"tick") => TICK.store(true, Ordering::Relaxed),
        Some(b"memory") => take_all_memory(),
        Some(b"spoil") => {
            call::set_shared(
                &slot_table_key(&config.service, config.role),
                CORRUPTED,
                None,
            );
        }
        Some(b"show") => {
            let slot_table = call::shared(&slot_table_key(&config.service, config.role))
                .0
                .unwrap_or_default();
            call::answer(200, &[], &slot_table);
            return true;
        }
        Some(cost @ (b"cost" | b"cost-among-others")) => {
            let ns = cost_ns(cost != b"cost");
            call::answer(200, &[], ns.to_string().as_bytes());
            return true;
        }
        _ => {}
    }
    false
}

/// Handles the headers of a response.
pub(super) fn on_response(stream: u32) {
    if ANSWER_OF.load(Ordering::Relaxed) == stream {
        trap();
    }
}

/// Handles a tick.
pub(super) fn on_tick() {
    if TICK.load(Ordering::Relaxed) {
        trap();
    }
}

/// Measures on a table of its own, with a realistic number of VMs and variants.
fn cost_ns(others_serve: bool) -> u64 {
    const VARIANTS: u64 = 3;
    const ROUNDS: u64 = 20_000;
    let store = || {
        Box::new(Shared::new(
            slot_table_key("cost", Role::Both),
            group_table_key("cost", Role::Both),
            Queue::default(),
        ))
    };
    let mut worker = Worker::new(store(), 1, Scope::Proxy);
    let now = call::now().mono;
    let request = |variant: u64, taken: u32, waiting: Option<Mono>| AcquireRequest {
        uploads: 0,
        uploads_max: None,
        start: 1,
        explores: false,
        executions: EndedExecutions::default(),
        jumps: false,
        variant: VariantKey(variant),
        slots: 8,
        taken,
        reported: taken,
        until: now,
        service: Span::from_millis(50),
        waiting: waiting.map(|deadline| Urgency::of(0, deadline)).into_iter(),
        waiting_count: u32::from(waiting.is_some()),
        limit: 1,
        batch: 1,
        due: None,
        tick: false,
        lanes: None,
    };
    for variant in 1..=VARIANTS {
        worker.acquire(request(variant, 1, None), now);
        worker.acquire(request(variant, 0, None), now);
    }
    for other in 2..=4 {
        let mut other = Worker::new(store(), other, Scope::Proxy);
        if others_serve {
            other.mark_serving();
        }
        other.renew(false, now);
    }
    let begun = call::now().mono;
    for round in 0..ROUNDS {
        let variant = round % VARIANTS + 1;
        // A request's two writes: a slot acquired, and the slot released.
        let granted = worker.acquire(request(variant, 0, Some(now)), now).granted;
        if granted != 1 {
            trap();
        }
        worker.acquire(request(variant, 0, None), now);
    }
    let both = call::now().mono.since(begun);
    both.as_nanos() / ROUNDS
}

fn trap() -> ! {
    core::arch::wasm32::unreachable()
}

/// At the limit the allocator traps by itself.
fn take_all_memory() -> ! {
    let mut taken = Vec::new();
    loop {
        taken.push(vec![1_u8; CHUNK_BYTES]);
        std::hint::black_box(&taken);
    }
}
