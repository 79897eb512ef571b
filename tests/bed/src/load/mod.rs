//! The load generator. It is open loop, so that a slow system cannot slow down its own load.
//!
//! All send times are fixed before the run ([`Schedule`]). Every request is sent at its own time in
//! a task of its own, whatever happened to the others. Latency counts from the *planned* send time
//! (no coordinated omission). Connections are HTTP/1.1, opened as needed. They are bounded only by
//! the process's file descriptors; running out of those shows as *lost*. With HTTP/2 the server's
//! limit of concurrent streams delays requests inside the client; that shows as latency.
//!
//! A request is sent as over a network: its head at the send time, its body in pieces at the link's
//! rate. A response before the last piece decides the fate, and the rest is not sent. Responses are
//! read as they arrive or at a limited rate; their return time is added. The generator's own delay
//! is measured ([`Lag`]); a run with too much of it proves nothing.

pub(crate) mod answer;
pub(crate) mod body;
mod client;
mod run;

pub use client::{Protocol, STAGES, Sender, Target};
pub use run::{Lag, Progress, Record, Run, start};
pub use weir_sim::load::{Planned, RATE_MAX_RPS, REQUESTS_MAX, Rates, SECONDS_MAX, Schedule};
