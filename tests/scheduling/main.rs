//! Tests of requests that wait for a slot, on a real Envoy: order, classes, batches, refusals, overload.

mod batching;
mod classes;
mod fallback;
mod feasible;
mod overload;
mod replicas;
mod slot_table;
