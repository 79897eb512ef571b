//! A scenario in virtual time: the *real* filter engine and the *real* planner cycle between modelled
//! clients, networks and servers, beside baselines on the same event core and the clairvoyant bound.
//!
//! [`scenario`] says what happens (a file, checked); [`input`] turns it into requests with all their
//! times; [`world`] plays them, event by event, through one `contender` after the other: a data plane
//! (`plane`) and a control plane (`control`), disturbed by `fault`s; [`bound`] says what nobody
//! could have beaten; [`report`] tells it. Everything follows from scenario and seed: the same two give
//! the same report to the byte. No clock is read, nothing is slept.

pub mod request;
pub mod scenario;

pub mod bound;
pub mod input;

mod control;
mod fault;
mod plane;
pub mod world;

pub mod report;

/// The Unix time at which every replay begins, ms: what clients write and plans are dated by.
pub(crate) const EPOCH_MS: u64 = 1_790_000_000_000;
