//! The manifests in `istio/` and `k8s/`: each is what its kind can be, they refer to each other by the right names,
//! and what they make of an Envoy is one that works, with the real filter in it. No cluster is needed: istiod and
//! Envoy Gateway are emulated, as far as these manifests need them.

mod bed;
mod envoy_gateway;
mod istiod;
mod references;
mod rights;
mod shapes;
mod traffic;
mod typed;
mod valid;
