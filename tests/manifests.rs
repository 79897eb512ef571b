//! The manifests in `istio/` and `k8s/`: each is what its kind can be, they refer to each other by the right names,
//! and what they make of an Envoy is one that works, with the real filter in it. No cluster is needed: istiod and
//! Envoy Gateway are emulated, as far as these manifests need them.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "manifests/bed.rs"]
mod bed;
#[path = "manifests/envoy_gateway.rs"]
mod envoy_gateway;
#[path = "manifests/istiod.rs"]
mod istiod;
#[path = "manifests/references.rs"]
mod references;
#[path = "manifests/rights.rs"]
mod rights;
#[path = "manifests/shapes.rs"]
mod shapes;
#[path = "manifests/traffic.rs"]
mod traffic;
#[path = "manifests/typed.rs"]
mod typed;
#[path = "manifests/valid.rs"]
mod valid;
