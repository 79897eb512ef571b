//! The test bed, also used by the demo: everything that a test needs around the filter and the planner.
//!
//! A request goes `load` → `network` → Envoy with the filter → `emulator`, and its result is a `fate`. The **load**
//! generator sends a schedule on time (open loop, never waiting for responses). The **network** computes the transfer
//! time of a payload over a link whose bandwidth changes. The variant **emulator** is a model server without a model:
//! a latency model, bounded parallelism and a FIFO queue. It executes abandoned requests too. The **fate** of every
//! request is recorded as the client saw it. **Slow** clients, which drip, stall or hardly read, can be added.
//! Nothing here makes decisions about deadlines; that is the filter's job, which is under test.

pub mod built;
pub mod clients;
pub mod emulator;
pub mod envoy;
pub mod interrupt;
pub mod load;
pub mod oip;
#[cfg(feature = "kubernetes")]
pub mod operate;
pub mod path;
pub mod planner;
pub mod process;
pub mod scene;
pub mod slow;
pub mod wait;

pub use weir_sim::{fate, network};
