//! A real Envoy under a steady load, measured: one test at a time, for all of them need the whole machine.

mod closed_loop;
mod memory;
mod mesh_resize;
mod overlap;
mod proxies;
mod replay;
mod soak;
mod workers;

use tokio::sync::{Mutex, MutexGuard};

/// Held by the test that runs.
static MACHINE: Mutex<()> = Mutex::const_new(());

/// Waits until no other test of this program runs.
async fn alone() -> MutexGuard<'static, ()> {
    MACHINE.lock().await
}
