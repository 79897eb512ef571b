//! Replays that planner and filter must pass, in simulated time; no test depends on wall-clock time.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod accuracies;
mod autoscalers;
mod balancing;
mod batches;
mod core_seconds;
mod interference;
mod ipa;
mod lanes;
mod no_model;
mod objective;
mod pipeline;
mod replicas;
mod scenarios;
mod shared;
mod stability;
mod transitions;
mod unplanned;
mod without_profile;
