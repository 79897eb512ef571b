//! Tests of the filter's configuration and its place in a mesh, on a real Envoy: plans, roles, pipelines,
//! clocks, metrics.

mod clocks;
mod envoy;
mod labels;
mod pipeline;
mod plan;
mod roles;
mod services;
