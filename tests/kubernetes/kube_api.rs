//! The API-server emulator, asked by the real `kube` client: does it answer as a real API server does?
//!
//! `resize.yaml` holds what one was seen to answer; the rest is by Kubernetes' own documents.

mod apply;
pub(super) mod bed;
mod crowd;
mod custom;
mod evict;
mod faults;
mod lists;
mod objects;
mod rbac;
mod recorded;
mod resize;
mod views;
mod watch;
mod workloads;
