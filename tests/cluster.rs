//! The stories of Kubernetes on any cluster: that of `WEIR_KUBECONFIG` (`cargo xtask test --kubeconfig PATH`), else
//! on the emulator, once whole and once as an API server alone. Planners, resources, rights and the ends of
//! namespaces through the `kube` client, and by nothing else.
//!
//! What a cluster has nobody for (Deployments, pods, ends of namespaces), this program plays over the API in its
//! own namespace, and says so.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "cluster/asked.rs"]
mod asked;
#[path = "cluster/definition.rs"]
mod definition;
#[path = "cluster/elect.rs"]
mod elect;
#[path = "cluster/end.rs"]
mod end;
#[path = "cluster/follow.rs"]
mod follow;
#[path = "cluster/full.rs"]
mod full;
#[path = "cluster/ground.rs"]
mod ground;
#[path = "cluster/leave.rs"]
mod leave;
#[path = "cluster/look.rs"]
mod look;
#[path = "cluster/parts.rs"]
mod parts;
#[path = "cluster/place.rs"]
mod place;
#[path = "cluster/planned.rs"]
mod planned;
#[path = "cluster/play.rs"]
mod play;
#[path = "cluster/refuse.rs"]
mod refuse;
#[path = "cluster/rights.rs"]
mod rights;
#[path = "cluster/scale.rs"]
mod scale;
#[path = "cluster/stage.rs"]
mod stage;
