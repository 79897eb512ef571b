//! What the planner says of itself: metrics, the status of its services, and errors said once.

pub mod error_log;
pub mod metrics;
pub mod status;
