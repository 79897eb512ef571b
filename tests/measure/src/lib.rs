//! Measurements of Weir that tests and people ask for: [`validate`] holds replay against a real Envoy, [`workers`]
//! measures the queue that an Envoy's workers share.

pub mod validate;
pub mod workers;
