//! Kubernetes tests that run on any cluster: the one named by `WEIR_KUBECONFIG` (`cargo xtask test
//! --kubeconfig PATH`), otherwise the emulator, once with all its parts and once as an API server alone.
//! Planners, resources, rights and namespaces are driven through the `kube` client only.
//!
//! Parts that a cluster lacks (Deployment controller, kubelet, namespace controller) are emulated by this
//! program over the API, in the test's own namespace, and reported.

mod clusters;
mod definition;
mod deletion;
mod elect;
mod fixture;
mod follow;
mod full;
mod leave;
mod observe;
mod parts;
mod planned;
mod pod_server;
mod refuse;
mod request_log;
mod rights;
mod sandbox;
mod scale;
mod stand_ins;
mod wrong;
