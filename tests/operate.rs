//! Planners on Kubernetes, whole: resources, watches, the Lease, resizes and statuses through the real `kube`
//! client, at an emulated API server with kubelets, with no right but those of `k8s/base/rbac.yaml`. The proxy is a
//! stand-in that counts.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "operate/bed.rs"]
mod bed;
#[path = "operate/elect.rs"]
mod elect;
#[path = "operate/follow.rs"]
mod follow;
#[path = "operate/held.rs"]
mod held;
#[path = "operate/profile.rs"]
mod profile;
#[path = "operate/refuse.rs"]
mod refuse;
#[path = "operate/replace.rs"]
mod replace;
#[path = "operate/servers.rs"]
mod servers;
