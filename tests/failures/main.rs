//! Failure tests on a real Envoy: servers, planners and modules fail and recover.

mod failing;
mod failure;
mod mass;
mod oversized;
mod replicas;
mod restart;
mod traps;

use weir_bed::envoy::Envoy;
use weir_bed::scene::Variant;

/// A variant that serves.
const GOOD: Variant = Variant {
    name: "good",
    share: 0.5,
    slots: 10,
    service_ms: 1.0,
};
/// The same, to be made to fail.
const BAD: Variant = Variant {
    name: "bad",
    ..GOOD
};

/// Asserts that no VM has been replaced: none has trapped.
async fn assert_no_reload(envoy: &Envoy) {
    for outcome in ["success", "backoff"] {
        let name = format!("envoy_wasm_weir_vm_reload_{outcome}");
        assert_eq!(envoy.counter(&name).await.unwrap_or(0), 0, "{name}");
    }
}
