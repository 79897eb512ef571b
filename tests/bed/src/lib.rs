//! The test bed, and what the demo is made of: everything around filter and planner that a story needs.
//!
//! A run goes `load` → `network` → Envoy with the filter → `emulator`, and back into a `fate`:
//! the **load** generator sends what a schedule says when it says so (open loop, never waiting for
//! answers), the **network** says how long a payload takes over a link whose bandwidth changes, the
//! variant **emulator** is a model server without a model (a latency law, bounded parallelism, a FIFO
//! queue; it executes what clients have abandoned), and every request's **fate** is recorded as the
//! client saw it. **Slow** clients, who drip, fall silent or hardly read, come beside them. Nothing here decides anything about deadlines; that is what is being tested.

pub mod built;
pub mod clients;
pub mod emulator;
pub mod envoy;
pub mod interrupt;
pub mod load;
pub mod oip;
pub mod operate;
pub mod path;
pub mod planner;
pub mod process;
pub mod scene;
pub mod slow;
pub mod wait;

pub use weir_sim::{fate, network};
