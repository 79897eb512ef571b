//! Telemetry of the planner: metrics, the status of its services, and a log that reports each error once.

#[cfg(feature = "serve")]
pub mod heartbeat;
#[cfg(feature = "serve")]
pub mod metrics;
pub mod requests;
pub mod status;
