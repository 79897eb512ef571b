//! Pods as backends: resized in place and scaled through the real `kube` client, at an emulated API server
//! with kubelets. What is in force is what they have actuated, whatever goes wrong on the way.

mod refused;
mod replaced;
mod resized;
mod scaled;
mod stage;
mod stateful;
mod turns;

use super::kube_api::bed;
