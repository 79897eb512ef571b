//! Traps on demand, for stories about what Envoy does when a VM dies: a request's header `x-weir-trap`
//! says at what. For stories about the board it shows it, and spoils it. Only with the feature `trap`,
//! which the shipped module never has.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::call;
use super::shared::board_key;

/// `request`, `response` (this request's), `tick` (the next), `memory` (until there is no more): traps.
/// `spoil`: puts other bytes in the board's place. `show`: answers with the board's bytes.
const HEADER: &str = "x-weir-trap";
/// What `memory` takes at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The stream whose answer is to trap; no stream's id is 0.
static ANSWER_OF: AtomicU32 = AtomicU32::new(0);
/// Whether the next tick is to trap.
static TICK: AtomicBool = AtomicBool::new(false);

/// What somebody else might put in the board's place.
const SPOILT: &[u8] = b"weirbrd\x01 and then something else";

/// Headers of a request have come, in this stream, for this service; whether it is answered here.
pub(super) fn on_request(stream: u32, service: &str) -> bool {
    let headers = call::request_headers();
    // Kept whole in the module, where a test looks for it, instead of folded into the comparison.
    let wanted = std::hint::black_box(HEADER);
    let asked = headers.iter().find(|(name, _)| name == wanted);
    match asked.map(|(_, value)| value.as_slice()) {
        Some(b"request") => trap(),
        Some(b"response") => ANSWER_OF.store(stream, Ordering::Relaxed),
        Some(b"tick") => TICK.store(true, Ordering::Relaxed),
        Some(b"memory") => take_all_memory(),
        Some(b"spoil") => {
            call::set_shared(&board_key(service), SPOILT, None);
        }
        Some(b"show") => {
            let board = call::shared(&board_key(service)).0.unwrap_or_default();
            call::answer(200, Vec::new(), &board);
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
