//! The API-server emulator, asked by the real `kube` client: does it answer as a real API server does?
//!
//! `resize.yaml` holds what one was seen to answer; the rest is by Kubernetes' own documents.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "kube_api/apply.rs"]
mod apply;
#[path = "kube_api/bed.rs"]
mod bed;
#[path = "kube_api/crowd.rs"]
mod crowd;
#[path = "kube_api/custom.rs"]
mod custom;
#[path = "kube_api/evict.rs"]
mod evict;
#[path = "kube_api/faults.rs"]
mod faults;
#[path = "kube_api/lists.rs"]
mod lists;
#[path = "kube_api/objects.rs"]
mod objects;
#[path = "kube_api/rbac.rs"]
mod rbac;
#[path = "kube_api/recorded.rs"]
mod recorded;
#[path = "kube_api/resize.rs"]
mod resize;
#[path = "kube_api/views.rs"]
mod views;
#[path = "kube_api/watch.rs"]
mod watch;
#[path = "kube_api/workloads.rs"]
mod workloads;
