//! Failure tests on a real Envoy: servers, planners and modules fail and recover.

mod failing;
mod failure;
mod mass;
mod replicas;
mod restart;
mod traps;
