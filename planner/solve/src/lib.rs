//! Exact solvers for the optimisation problems of five papers. Each formulation is a module with typed
//! inputs, an exact algorithm, and a check in plain arithmetic that every plan passes before it is
//! returned.
//!
//! [`latency_model`] holds the latency and throughput models of servers; [`infadapter`], [`sponge`], [`ipa`],
//! [`infaas`] and [`themis`] are the formulations; [`problem`] reads a problem of any of them from a
//! document and answers in the same form. The result is an [`Outcome`]; the time limit is a
//! [`TimeLimit`].
//!
//! Pure: no clock, no unseeded randomness, no I/O. It builds for `wasm32-unknown-unknown`, where HiGHS
//! (feature `highs`) is not available and good_lp uses microlp instead.

pub mod latency_model;

pub mod infaas;
pub mod infadapter;
pub mod ipa;
pub mod sponge;
pub mod themis;

pub mod problem;

mod input;
mod mip;
mod outcome;
#[cfg(feature = "highs")]
mod overdue;
mod time_limit;

pub use input::InputError;
pub use mip::Solver;
pub use outcome::{Check, Outcome};
pub use time_limit::TimeLimit;

/// Relative tolerance of sums: plans are checked with it, and objectives that differ by less are ties.
pub const TOLERANCE: f64 = 1e-9;
