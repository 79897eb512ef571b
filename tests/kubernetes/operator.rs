//! Tests of complete planners on Kubernetes: resources, watches, the Lease, resizes and statuses, with the
//! real `kube` client against an emulated API server with kubelets. They have only the rights of
//! `k8s/base/rbac.yaml`. The proxy is a stand-in that counts requests.

mod bed;
mod deletion;
mod elect;
mod follow;
mod memory;
mod profile;
mod refusal;
mod replace;
mod resizes;
mod servers;
mod shared_budget;
mod watches;
