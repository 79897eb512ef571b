//! One queue for all workers of a proxy. Envoy runs one VM per worker thread; what their engines must
//! know of each other lies on one table: who is_alive, how many slots of each variant each has taken, and
//! the earliest deadline each holds. Every change is a compare-and-swap of the whole table.
//!
//! A slot belongs to whoever holds the earliest deadline. Whoever frees one that another should have
//! *notifies* that other, who then claims it: a notified is a hint and may be lost, a claim is a swap and
//! cannot be doubled. `docs/table.md` is the protocol, what each party may assume, and how it is
//! checked.
//!
//! Pure: the table is a value, its bytes come from and go to a [`Store`]; time is an argument.

use std::time::Duration;

mod acquire;
mod acquire_request;
mod batch;
mod codec;
mod lanes;
pub mod lead;
mod memory;
mod rows;
mod slot_share;
mod table;
mod worker;

pub use acquire_request::{AcquireRequest, AcquireResult, OtherWorkers};
pub use codec::Unreadable;
pub use lanes::{CompletedExecution, LaneBacklog, LaneReport, LaneRequest, RUNS_MAX, Run};
pub use memory::Memory;
pub use table::{SlotTable, Usage, VariantColumn, WorkerRow};
pub use worker::{Membership, Notification, Scope, Store, SyncResult, TRIES_MAX, Worker};

/// Most VMs on a table; a further one works with a single slot of each variant and is never rung.
pub const ROWS_MAX: usize = 256;
/// Most variants on a table, those gone from the plan but still executing included.
pub const COLUMNS_MAX: usize = 128;

/// The protocol's times. [`TIMEOUTS`] are those that hold in Envoy; the model checks others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timeouts {
    /// How long a VM counted as alive after it last wrote.
    pub lease: Duration,
    /// How old a lease may be before a VM with nothing else to say renews it.
    pub renewal: Duration,
    /// How long a free slot is kept for the holder of the earliest deadline, once rung; then anybody
    /// who waiting_count may have it.
    pub grace: Duration,
    /// How long nobody takes more slots than it had, after a table was found unreadable: by then every
    /// VM has published after_reset what it holds.
    pub quarantine: Duration,
    /// Longest that a slot counted as taken by somebody who has died.
    pub orphan_max: Duration,
    /// How long a VM that polls the planner remains the one to poll without another sign.
    pub poller_lease: Duration,
    /// How long a variant that nobody speaks of keeps its column.
    pub column_idle: Duration,
}

/// The times that hold in Envoy. The lease is short because a VM that has trapped keeps others from its
/// slots for so long; one that only stalls is taken for dead without harm, until it writes again: what it
/// has taken counted to its predicted end.
pub const TIMEOUTS: Timeouts = Timeouts {
    lease: Duration::from_millis(250),
    renewal: Duration::from_millis(50),
    grace: Duration::from_millis(5),
    quarantine: Duration::from_millis(500),
    orphan_max: crate::priority::ORPHAN_MAX,
    poller_lease: Duration::from_millis(500),
    column_idle: Duration::from_secs(60),
};

const _: () = assert!(TIMEOUTS.lease.as_millis() >= 3 * TIMEOUTS.renewal.as_millis());
const _: () = assert!(TIMEOUTS.quarantine.as_millis() >= TIMEOUTS.lease.as_millis());

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
