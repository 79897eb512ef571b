//! What the laws say, and what they refuse.

mod batch;
mod fit;
mod table;
mod throughput;
