//! Measures a variant through its endpoint: throughput and latency by concurrency, batch and cores, and accuracy on
//! labelled requests. The result is a profile that the planner reads.
//!
//! [`estimate`], [`sweep`], [`execution`], [`design`], [`model`] and [`notes`] are pure. [`endpoint`] sends requests, [`resize`] sets cores,
//! [`point`] measures one combination of cores, batch and concurrency, and [`run`] all that a profile needs.
//!
//! Other sources are [`proxy`], a proxy's own histograms, and [`import`], measurements of other programs. [`fitted`]
//! fits models to them. [`plot`] draws them. These are pure; [`source`] reads files and addresses.

pub mod cgroup;
pub mod design;
pub mod endpoint;
pub mod estimate;
pub mod execution;
pub mod exposition;
pub mod fitted;
mod forwarded;
pub mod grpc;
pub mod histogram;
pub mod import;
pub mod labels;
pub mod measurement;
pub mod model;
pub mod notes;
pub mod plot;
pub mod point;
pub mod profile_file;
pub mod proxy;
pub mod resize;
pub mod run;
pub mod source;
pub mod sweep;

use std::fmt;

/// Error of a measurement, as a text for people: the thing, its value, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ProfileError(pub String);

impl fmt::Display for ProfileError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}
