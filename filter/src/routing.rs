//! Choice of a variant: quotas, ordered fallback, accuracy, and the time that each variant is predicted to take.

pub mod class_times;
pub mod fallback;
pub mod group_prior;
pub mod group_report;
pub mod group_sums;
pub mod group_times;
pub mod router;
pub mod service_time;
pub mod size_times;
