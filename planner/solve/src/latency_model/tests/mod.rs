//! Tests of the latency and throughput models, and of their input checks.

mod batch;
mod choice;
mod fit;
mod table;
mod throughput;

/// Batches and cores of measurements.
const GRID: [(u32, f64); 12] = [
    (1, 1.0),
    (1, 2.0),
    (1, 8.0),
    (2, 1.0),
    (2, 4.0),
    (4, 1.0),
    (4, 2.0),
    (4, 8.0),
    (8, 2.0),
    (8, 4.0),
    (16, 1.0),
    (16, 8.0),
];
