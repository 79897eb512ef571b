//! Planners on Kubernetes, whole: resources, watches, the Lease, resizes and statuses through the real `kube`
//! client, at an emulated API server with kubelets, with no right but those of `k8s/base/rbac.yaml`. The proxy is a
//! stand-in that counts.

mod bed;
mod elect;
mod follow;
mod held;
mod profile;
mod refuse;
mod replace;
mod servers;
