//! Faults on a real Envoy: servers, planners and modules that fail, and come back.

mod failing;
mod failure;
mod restart;
mod traps;
