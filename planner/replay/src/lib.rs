//! Discrete-event simulation of a scenario. The *real* filter engine and the *real* planner cycle run
//! between simulated clients, networks and servers. Baselines run on the same event core.
//!
//! [`scenario`] reads and checks the scenario file. [`input`] turns it into requests with all their
//! times. [`simulation`] simulates them, event by event, once for each `contender`: a data plane (`plane`)
//! with a control plane (`control`), disturbed by `fault`s. [`bound`] computes the clairvoyant upper
//! bound, and [`report`] writes the report. [`sent`] does all of it for a scenario that somebody sent, within bounds. Scenario and seed determine everything: equal inputs give
//! byte-identical reports. The simulation never reads a clock and never sleeps.

use std::time::Duration;

use weir_filter::time::Span;

pub mod file_error;
pub mod request;
pub mod scenario;

pub mod bound;
pub mod input;

mod control;
mod fault;
mod plane;
pub mod simulation;

pub mod report;
pub mod sent;

/// Unix time at the start of every replay, ms. Client timestamps and plan dates count from it.
pub(crate) const EPOCH_MS: u64 = 1_790_000_000_000;

/// Time in ns.
#[inline]
pub(crate) fn nanos(time: Duration) -> u64 {
    Span::from(time).as_nanos()
}
