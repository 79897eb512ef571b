//! An emulator of a Kubernetes API server with kubelets, a scheduler and a deployment controller.
//!
//! In process, over real HTTP on a free port of 127.0.0.1: the real `kube` client and its watchers speak
//! to it, and get the answers a real API server was seen to give (`tests/kube_api/resize.yaml`). It knows
//! nothing of Weir.
//!
//! Real here: objects with versions, generations and uids; lists, pages, watches with bookmarks and 410;
//! JSON, merge and strategic patches, server-side apply; custom resources with schemas and CEL rules; RBAC;
//! `pods/resize`, `/status`, `/scale`, `/eviction`, `/token`; tables; discovery. Emulated by [`Kubelets`]: pods that start,
//! become ready, are resized, end. Simplified where a file says so: what managers own of the controllers'
//! writes, pages of a list, conversion between versions, rollouts, and no admission but what is named.
//! Not there: quotas, priorities, taints, services' addresses, autoscalers' controllers.
//!
//! Read `serve` for a request's way, `write` for what a change passes, `controllers` for what works by
//! itself; [`Faults`] break things, the [`Journal`] says what happened.

mod actuate;
mod admit;
mod apply;
mod change;
mod changes;
mod clock;
mod controllers;
mod discovery;
mod eviction;
mod faults;
mod fields;
mod handle;
mod journal;
mod kinds;
mod kubelet;
mod ledger;
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
mod world;
mod write;

use std::time::Duration;

pub use actuate::ACTUATED_AFTER;
pub use changes::{Change, Happening, PodNow};
pub use faults::{Fault, Faults, Rule};
pub use handle::{ApiServer, Kubelets, Objects};
pub use journal::{Actuation, ENTRIES_MAX, Entry, Journal, Request, What};
pub use kubelet::Resizing;
pub use object::Key;
pub use pods::{Amount, Resources};
pub use request::Verb;

/// The subject that may do everything.
pub const ADMIN: &str = "admin";

/// Changes of pods kept for a listener that lags.
pub const CHANGES_MAX: usize = 16_384;

/// Which Kubernetes it is like, where they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// A resize beyond what the node has is taken, and `Infeasible` by its condition.
    V1_35,
    /// Such a resize is refused: 403, with cause `NodeCapacity`.
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

/// How an emulator is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Names, uids and faults come of it.
    pub seed: u64,
    /// Which Kubernetes it is like.
    pub version: Version,
    /// Whether pods start, become ready, are resized and end by themselves.
    pub kubelet: bool,
    /// Whether pods are given nodes.
    pub scheduler: bool,
    /// Whether Deployments, ReplicaSets and StatefulSets make pods.
    pub workloads: bool,
    /// The address of all pods, so that a test can answer for them; `None`: each has its own, where nobody answers.
    pub pods_at: Option<std::net::IpAddr>,
    /// From a pod's having a node until its containers run.
    pub starts_after: Duration,
    /// From then, or a restart, until it is ready.
    pub ready_after: Duration,
    /// From the order to end until a pod has; `None`, or longer: all of its grace period.
    pub exits_after: Option<Duration>,
    /// How often a quiet watch is told the version, where it asked for that.
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
