//! Pods as backends: resized in place and scaled through the real `kube` client, at an emulated API server
//! with kubelets. What is in force is what they have actuated, whatever goes wrong on the way.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[allow(dead_code, reason = "shared with the API server's own stories")]
#[path = "kube_api/bed.rs"]
mod bed;
#[path = "kube_resize/refused.rs"]
mod refused;
#[path = "kube_resize/replaced.rs"]
mod replaced;
#[path = "kube_resize/resized.rs"]
mod resized;
#[path = "kube_resize/scaled.rs"]
mod scaled;
#[path = "kube_resize/stage.rs"]
mod stage;
#[path = "kube_resize/stateful.rs"]
mod stateful;
#[path = "kube_resize/turns.rs"]
mod turns;
