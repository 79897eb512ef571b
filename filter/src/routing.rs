//! Choice of a variant: quotas, accuracy, and the time that each variant is predicted to take.

pub mod router;
pub mod service_time;
