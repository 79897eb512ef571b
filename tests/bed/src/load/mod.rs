//! The load generator: open loop, so that a slow system cannot slow its own load down.
//!
//! What is sent when is fixed before the run ([`Schedule`]); every request goes out at its own time in
//! a task of its own, whatever became of the others, and latency counts from the *planned* send time
//! (no coordinated omission). Connections are HTTP/1.1, opened as needed: nothing bounds them but the
//! process's file descriptors, and running out of those shows as *lost*. With HTTP/2 the other side's
//! limit of concurrent streams holds requests back inside the client: that shows as latency.
//!
//! A request goes as over a network: its head when it is sent, its body in pieces at the link's rate.
//! Where it is answered before its last piece, that is its fate, and the rest is not sent. Answers are
//! read as they come or at a rate, their way back is added.
//! How late the generator itself was is measured ([`Lag`]); a run in which it lagged proves nothing.

pub(crate) mod answer;
pub(crate) mod body;
mod client;
mod run;

pub use client::{Protocol, STAGES, Sender, Target};
pub use run::{Lag, Progress, Record, Run, start};
pub use weir_sim::load::{Planned, RATE_MAX_RPS, REQUESTS_MAX, Rates, SECONDS_MAX, Schedule};
