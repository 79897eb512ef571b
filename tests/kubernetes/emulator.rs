//! Tests of the API-server emulator with the real `kube` client: it must answer as a real API server does.
//!
//! `resize.yaml` holds recorded answers of a real server; the rest follows Kubernetes' documentation.

mod apply;
pub(super) mod bed;
mod custom;
mod evict;
mod faults;
mod lists;
mod many_pods;
mod objects;
mod rbac;
mod recorded;
mod resize;
mod views;
mod watch;
mod workloads;
