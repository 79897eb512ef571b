//! Telemetry of the planner: metrics, the status of its services, and the traces of their cycles.

#[cfg(feature = "serve")]
pub mod cycle_trace;
#[cfg(feature = "serve")]
pub mod heartbeat;
#[cfg(feature = "serve")]
pub mod metrics;
pub mod requests;
pub mod status;
