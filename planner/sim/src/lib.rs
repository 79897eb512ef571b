//! A model of the world around Weir, on a clock that the caller brings: [`server`]s that follow a latency
//! law, [`network`]s whose bandwidth changes, [`load`] fixed by a seed, and the [`fate`] of each request;
//! and the [`chance`] they draw from, the same on every machine.
//!
//! The test bed runs it in real time around a real Envoy, replay in virtual time around the filter's
//! core. Nothing here knows a deadline's meaning for scheduling, reads a clock, or does I/O but for
//! loading the files it is given.

pub mod chance;
pub mod fate;
pub mod load;
pub mod network;
pub mod server;
