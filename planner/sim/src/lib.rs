//! Simulation models of the environment of Weir, on a clock that the caller provides: [`server`]s that
//! follow a latency model, [`network`]s with changing bandwidth, [`load`] fixed by a seed, the [`fate`]
//! of each request, and [`chance`], the source of random numbers that are identical on every machine.
//!
//! The test bed runs these models in real time around a real Envoy; replay runs them in virtual time
//! around the filter's core. This crate knows nothing of scheduling by deadlines and reads no clock. Its
//! only I/O is loading the files it is given.

pub mod chance;
pub mod fate;
pub mod load;
pub mod network;
pub mod server;
