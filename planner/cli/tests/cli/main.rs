//! Tests of the commands of `weir` as separate processes.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod check;
mod console;
mod experiment;
mod forecast;
mod golden;
mod init;
mod keys;
mod line;
mod manifests;
mod no_harm;
mod profile;
mod profile_import;
mod profile_pod;
mod reach;
mod record;
mod record_counters;
mod replay;
mod serve;
mod solve;
mod without_profile;
