//! Failure tests on a real Envoy: servers, planners and modules fail and recover.

mod failing;
mod failure;
mod mass;
mod oversized;
mod replicas;
mod restart;
mod traps;
