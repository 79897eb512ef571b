//! The stories of Kubernetes on any cluster: that of `WEIR_KUBECONFIG` (`cargo xtask test --kubeconfig PATH`), else
//! on the emulator, once whole and once as an API server alone. Planners, resources, rights and the ends of
//! namespaces through the `kube` client, and by nothing else.
//!
//! What a cluster has nobody for (Deployments, pods, ends of namespaces), this program plays over the API in its
//! own namespace, and says so.

mod asked;
mod definition;
mod elect;
mod end;
mod follow;
mod full;
mod ground;
mod leave;
mod look;
mod parts;
mod place;
mod planned;
mod play;
mod refuse;
mod rights;
mod scale;
mod stage;
