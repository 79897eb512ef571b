//! Coordination of a proxy's workers: one queue and one set of slots for all.
//!
//! Envoy runs one VM per worker thread. Their engines share one **slot table** in Envoy's shared data: the
//! live workers, the slots of each variant that each has taken, and the earliest deadline that each holds.
//! Every change is a compare-and-swap (CAS) of the whole table.
//!
//! A free slot belongs to the worker with the earliest deadline. A worker that frees a slot *notifies* that
//! worker, which then acquires it. A notification is a hint and may be lost; an acquisition is a CAS and
//! cannot happen twice. `docs/explanation/slot-table.md` describes the protocol, its assumptions, and how it is checked.
//!
//! Pure: the table is a value, its bytes come from and go to a [`Store`], and time is an argument.

use crate::time::Span;

mod acquire;
mod acquire_request;
mod batch;
mod checksum;
mod codec;
pub mod curve;
mod group_table;
mod in_place;
mod lane_scan;
mod lanes;
pub mod lead;
pub mod limit;
mod memory;
mod rows;
mod runs;
mod slot_share;
mod store;
mod table;
mod worker;

pub use acquire_request::{AcquireRequest, AcquireResult, FullTime, OtherWorkers};
pub use codec::{LAYOUT, Unreadable};
pub use group_table::{GROUP_LAYOUT, GroupTable, RECORDS_MAX};
pub use in_place::InPlace;
pub use lanes::{CompletedExecution, EndedExecutions, LaneBacklog, LaneReport, LaneRequest};
pub use memory::Memory;
pub use runs::{RUNS_MAX, Run, Runs};
pub use store::{ByteStore, Notification, Store, Tables};
pub use table::{SlotTable, Usage, VariantColumn, WorkerRow};
pub use worker::{Membership, Publication, Scope, SyncResult, TRIES_MAX, Worker};

/// Maximum number of workers in a table. A further one works with a single slot of each variant and is
/// never notified.
pub const ROWS_MAX: usize = 256;
/// Maximum number of variants in a table, including those gone from the plan but still executing.
pub const COLUMNS_MAX: usize = 128;

/// Timeouts of the protocol. [`TIMEOUTS`] apply in Envoy; the model checks others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timeouts {
    /// Time for which a worker counts as alive after its last write.
    pub lease: Span,
    /// Age at which a worker renews its lease if it has nothing else to write.
    pub renewal: Span,
    /// Time for which a free slot is reserved for a notified worker with the earliest deadline. After that any
    /// worker may acquire it.
    pub grace: Span,
    /// Time after a reset in which no worker takes more slots than it had. By its end every worker has
    /// published its usage again.
    pub quarantine: Span,
    /// Longest time for which a slot of a dead worker counts as taken.
    pub orphan_max: Span,
    /// Time for which a worker remains the poller of the planner without a renewal.
    pub poller_lease: Span,
    /// Time for which a variant keeps its column without being used.
    pub column_idle: Span,
}

/// Timeouts that apply in Envoy. The lease is short because a VM that has trapped keeps its slots from
/// others for that long. A worker that only stalls is taken for dead without harm until it writes again:
/// its slots count until their predicted end.
pub const TIMEOUTS: Timeouts = Timeouts {
    lease: Span::from_millis(250),
    renewal: Span::from_millis(50),
    grace: Span::from_millis(5),
    quarantine: Span::from_millis(500),
    orphan_max: crate::priority::ORPHAN_MAX,
    poller_lease: Span::from_millis(500),
    column_idle: Span::from_secs(60),
};

const _: () = assert!(TIMEOUTS.lease.as_millis() >= 3 * TIMEOUTS.renewal.as_millis());
const _: () = assert!(TIMEOUTS.quarantine.as_millis() >= TIMEOUTS.lease.as_millis());

// It checks the code in here, which is private, and is no part of it.
#[cfg(test)]
#[path = "../tests/slot_table/model.rs"]
mod model;
#[cfg(test)]
mod tests;
