//! Tests of the latency and throughput models, and of their input checks.

mod batch;
mod choice;
mod fit;
mod table;
mod throughput;
