//! Measurements of Weir for tests and people: [`validate`] compares replay with a real Envoy, [`workers`] measures
//! the queue shared by an Envoy's workers.

pub mod validate;
pub mod workers;
