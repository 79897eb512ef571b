//! Manifests against the definitions of their kinds: types, bounds, patterns and CEL rules of Istio, the Gateway API,
//! Envoy Gateway and Prometheus Operator, for each release.
//!
//! The definitions are carried as facts, one file for each kind in `definitions/`. A field that the facts do not name is
//! refused, and so is a rule that cannot be evaluated. docs/contributing/definitions.md says how the facts are renewed.

mod facts;
mod kustomize;
mod manifests;
mod rendered;
mod wrong;
