//! Tests of the manifests in `istio/` and `k8s/`: each matches its kind's schema, references between them
//! resolve, and the resulting Envoy configuration works with the real filter. No cluster is needed: istiod
//! and Envoy Gateway are emulated as far as these manifests need them.

mod bed;
mod envoy_gateway;
mod grpc_port;
mod istiod;
mod planner_tls;
mod references;
mod rights;
mod services;
mod shapes;
mod together;
mod traffic;
mod typed;
mod valid;

pub(crate) use bed::{Document, all, root};
pub(crate) use typed::check;
