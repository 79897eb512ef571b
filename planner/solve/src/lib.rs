//! The papers' problems, solved: each formulation is a module of its own with typed inputs, an exact
//! algorithm and a check in plain arithmetic that every plan passes before it leaves.
//!
//! [`law`] is what servers do with cores and batches; [`infadapter`], [`sponge`], [`ipa`], [`infaas`]
//! and [`themis`] are the formulations; [`problem`] reads a problem of any of them from a document and
//! answers in the same form. What comes out is an [`Outcome`]; how long it may take is a [`Patience`].
//!
//! Pure: no clock, no chance that is not seeded, no I/O; it builds for `wasm32-unknown-unknown`, where
//! HiGHS (feature `highs`) cannot go and good_lp drives microlp instead.

pub mod law;

pub mod infaas;
pub mod infadapter;
pub mod ipa;
pub mod sponge;
pub mod themis;

pub mod problem;

mod input;
mod mip;
mod outcome;
mod patience;

pub use input::Refused;
pub use mip::Solver;
pub use outcome::{Check, Outcome};
pub use patience::Patience;

/// How far sums may be off, relative to their size, and still count as equal: by this much plans are
/// checked, and objectives that differ by less are ties.
pub const TOLERANCE: f64 = 1e-9;
