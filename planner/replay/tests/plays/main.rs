//! Replays that the planner and the filter have to come through, in virtual time; nothing here is a timing.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod batches;
mod lanes;
mod stability;
mod transitions;
