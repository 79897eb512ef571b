//! The planner on Kubernetes: an emulated API server, or the cluster that `--kubeconfig` names.

mod kube_api;
mod kube_resize;
mod operate;
