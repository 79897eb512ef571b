//! Telemetry of the planner: metrics, the status of its services, and a log that reports each error once.

pub mod heartbeat;
pub mod metrics;
pub mod status;
