//! Measurements of Weir for tests and people: [`validate`] compares replay with a real Envoy, [`workers`] measures
//! the queue shared by an Envoy's workers, [`real`] puts Weir before real model servers.

pub mod real;
pub mod validate;
pub mod workers;
