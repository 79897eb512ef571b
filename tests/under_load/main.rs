//! Measurements of a real Envoy under a steady load. The tests run one at a time, because each needs the
//! whole machine.

mod closed_loop;
mod memory;
mod mesh_resize;
mod overlap;
mod profile;
mod proxies;
mod replay;
mod soak;
mod workers;

use tokio::sync::{Mutex, MutexGuard};

/// Held by the running test.
static MACHINE: Mutex<()> = Mutex::const_new(());

/// Waits until no other test of this program runs.
async fn alone() -> MutexGuard<'static, ()> {
    MACHINE.lock().await
}
