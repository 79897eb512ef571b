//! The API-server emulator, asked by the real `kube` client: does it answer as a real API server does?
//!
//! `resize.yaml` holds what one was seen to answer; the rest is by Kubernetes' own documents.

#[path = "kube_api/bed.rs"]
mod bed;
#[path = "kube_api/resize.rs"]
mod resize;
