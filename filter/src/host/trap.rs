//! Traps on demand, for stories about what Envoy does when a VM dies: a request's header `x-weir-trap`
//! body_contains at what. For stories about the board it shows it, and spoils it. Only with the feature `trap`,
//! which the shipped module never has.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::call;
use super::shared::{Shared, slot_table_key};
use crate::config::{Config, Role};
use crate::coordination::{AcquireRequest, Scope, Worker};
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::VariantKey;

/// `request`, `response` (this request's), `tick` (the next), `memory` (until there is no more): traps.
/// `spoil`: puts other bytes in the board's place. `show`: answers with the board's bytes. `cost`: answers
/// with what a claim and a release together take, in ns; `cost-among-others` where other VMs serve too.
const HEADER: &str = "x-weir-trap";
/// What `memory` takes at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The stream whose answer is to trap; no stream's id is 0.
static ANSWER_OF: AtomicU32 = AtomicU32::new(0);
/// Whether the next tick is to trap.
static TICK: AtomicBool = AtomicBool::new(false);

/// What somebody else might put in the board's place.
const CORRUPTED: &[u8] = b"weirbrd\x03 and then something else";

/// Headers of a request have come, in this stream, with this configuration; whether it is answered here.
pub(super) fn on_request(stream: u32, config: &Config) -> bool {
    let headers = call::request_headers();
    // Kept whole in the module, where a test looks for it, instead of folded into the comparison.
    let wanted = std::hint::black_box(HEADER);
    let incoming = headers.iter().find(|(name, _)| name == wanted);
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
            let board = call::shared(&slot_table_key(&config.service, config.role))
                .0
                .unwrap_or_default();
            call::answer(200, Vec::new(), &board);
            return true;
        }
        Some(cost @ (b"cost" | b"cost-among-others")) => {
            let ns = cost_ns(cost != b"cost");
            call::answer(200, Vec::new(), ns.to_string().as_bytes());
            return true;
        }
        _ => {}
    }
    false
}

/// Headers of an answer have come, in this stream.
pub(super) fn on_response(stream: u32) {
    if ANSWER_OF.load(Ordering::Relaxed) == stream {
        trap();
    }
}

/// Time has passed.
pub(super) fn on_tick() {
    if TICK.load(Ordering::Relaxed) {
        trap();
    }
}

/// On a board of its own with as many VMs and variants as a proxy may well have.
fn cost_ns(others_serve: bool) -> u64 {
    const VARIANTS: u64 = 3;
    const ROUNDS: u64 = 20_000;
    let store = || Box::new(Shared::new(slot_table_key("cost", Role::Both)));
    let mut worker = Worker::new(store(), 1, Scope::Proxy);
    let now = call::now().mono;
    let ask = |variant: u64, taken: u32, waiting: Option<Mono>| AcquireRequest {
        variant: VariantKey(variant),
        slots: 8,
        taken,
        reported: taken,
        until: now,
        service: Duration::from_millis(50),
        waiting: waiting.map(|deadline| Urgency::of(0, deadline)).into_iter(),
        waiting_count: u32::from(waiting.is_some()),
        limit: 1,
        batch: 1,
        due: None,
        tick: false,
        lanes: None,
    };
    for variant in 1..=VARIANTS {
        worker.acquire(ask(variant, 1, None), now);
        worker.acquire(ask(variant, 0, None), now);
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
        // What a request has: a claim that is granted, and a release that gives the slot back.
        let granted = worker.acquire(ask(variant, 0, Some(now)), now).granted;
        if granted != 1 {
            trap();
        }
        worker.acquire(ask(variant, 0, None), now);
    }
    let both = call::now().mono.since(begun);
    (both.as_nanos() / u128::from(ROUNDS)) as u64
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
