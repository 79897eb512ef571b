//! Tests of the planner on Kubernetes, against an emulated API server.

mod kube_api;
mod kube_resize;
mod operate;
