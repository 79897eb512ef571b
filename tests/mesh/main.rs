//! Tests of the filter's configuration and its place in a mesh, on a real Envoy: plans, roles, pipelines,
//! clocks.

mod clocks;
mod envoy;
mod pipeline;
mod plan;
mod roles;
