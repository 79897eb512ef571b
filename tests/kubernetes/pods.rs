//! Tests of pods as backends: resized in place and scaled with the real `kube` client, against an emulated
//! API server with kubelets. The actual state is the one that the kubelets have actuated, whatever fails on
//! the way.

mod failed_requests;
mod in_place;
mod replacement;
mod scaling;
mod stage;
mod stateful;
mod transition;

use super::emulator::bed;
