//! An emulator of a Kubernetes API server with kubelets, a scheduler and a deployment controller.
//!
//! In process, over real HTTP on a free port of 127.0.0.1. The real `kube` client and its watchers use it, and get
//! the responses recorded from a real API server (`tests/kube_api/resize.yaml`). It knows nothing of Weir.
//!
//! Real here: objects with versions, generations and uids; lists, pages, watches with bookmarks and 410; JSON, merge
//! and strategic patches, server-side apply; custom resources with schemas and CEL rules; RBAC; `pods/resize`,
//! `/status`, `/scale`, `/eviction`, `/token`; tables; discovery; deletion of namespaces. Emulated by [`Kubelets`]: pods that start, become
//! ready, are resized and end. Simplified, as the files say: field managers of the controllers' writes, pages of a
//! list, conversion between versions, rollouts, and admission. Missing: quotas, priorities, taints, services'
//! addresses, autoscalers' controllers.
//!
//! `serve` shows the path of a request, `write` the steps of a change, `controllers` the autonomous parts. [`Faults`]
//! injects faults; the [`Journal`] records requests and resizes.

mod actuate;
mod admit;
mod apply;
mod change;
mod changes;
mod clock;
mod cluster;
mod controllers;
mod definition;
mod discovery;
mod eviction;
mod faults;
mod fields;
mod handle;
mod journal;
mod kinds;
mod kubelet;
mod ledger;
mod namespaces;
mod object;
mod patch;
mod pods;
mod quantity;
mod rbac;
mod read;
mod request;
mod resize;
mod rules;
mod scale;
mod scheduler;
mod schema;
mod select;
mod serve;
mod stateful;
mod status;
mod status_of;
mod store;
mod strategic;
mod table;
mod token;
mod views;
mod watch;
mod workloads;
mod write;

use std::time::Duration;

pub use actuate::ACTUATED_AFTER;
pub use changes::{Change, Happening, PodNow};
pub use definition::Definition;
pub use faults::{Fault, Faults, Rule};
pub use handle::{ApiServer, Kubelets, Objects};
pub use journal::{Actuation, ENTRIES_MAX, Entry, Journal, Request, What};
pub use kubelet::Resizing;
pub use object::Key;
pub use pods::{Amount, Resources};
pub use request::Verb;

/// The subject with all rights.
pub const ADMIN: &str = "admin";

/// Pod changes kept for a lagging receiver.
pub const CHANGES_MAX: usize = 16_384;

/// Kubernetes version to emulate, where versions differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// A resize beyond the node's capacity is accepted, and its condition becomes `Infeasible`.
    V1_35,
    /// Such a resize is rejected: 403, with cause `NodeCapacity`.
    V1_36,
}

impl Version {
    fn refuses_beyond_node(self) -> bool {
        self >= Version::V1_36
    }

    fn minor(self) -> u32 {
        match self {
            Version::V1_35 => 35,
            Version::V1_36 => 36,
        }
    }
}

/// Configuration of an emulator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Seed of names, uids and faults.
    pub seed: u64,
    /// Emulated Kubernetes version.
    pub version: Version,
    /// Whether pods start, become ready, are resized and end automatically.
    pub kubelet: bool,
    /// Whether pods are assigned to nodes.
    pub scheduler: bool,
    /// Whether Deployments, ReplicaSets and StatefulSets create pods.
    pub workloads: bool,
    /// The address of all pods, so that a test can answer for them; `None`: each has its own, at which nothing
    /// answers.
    pub pods_at: Option<std::net::IpAddr>,
    /// Time from a pod's assignment to a node until its containers run.
    pub starts_after: Duration,
    /// Time from then, or from a restart, until it is ready.
    pub ready_after: Duration,
    /// Time a pod takes to terminate, limited by its grace period; `None`: the whole grace period.
    pub exits_after: Option<Duration>,
    /// Interval of bookmarks on a quiet watch that requested them.
    pub bookmarks_every: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 1,
            version: Version::V1_36,
            kubelet: true,
            scheduler: true,
            workloads: true,
            pods_at: None,
            starts_after: Duration::from_millis(50),
            ready_after: Duration::from_millis(50),
            exits_after: None,
            bookmarks_every: Duration::from_secs(5),
        }
    }
}
