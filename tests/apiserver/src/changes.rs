//! Notifications of pod changes, so that a test's model servers can follow their pods.
//!
//! Derived from the store's changes: the status counts, whoever wrote it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cluster::Cluster;
use super::object::{Key, at, holds, list, number, text, texts};
use super::pods::{self, Amount, Resources};
use super::store::{Event, EventKind};

/// The kind of a pod change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// It was created.
    Made,
    /// Its requested or allocated resources have changed.
    TargetChanged,
    /// Its containers run.
    Started,
    /// It is ready.
    Ready,
    /// It is no longer ready.
    NotReady,
    /// Its containers' actual resources have changed.
    Resized,
    /// A container was restarted.
    Restarted,
    /// It is terminating.
    Ending,
    /// It was deleted.
    Deleted,
}

/// A pod at the time of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodNow {
    /// Namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: String,
    /// Its node, or "".
    pub node: String,
    /// Its address, or "".
    pub ip: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Actual resources of each container, by name.
    pub containers: BTreeMap<String, Resources>,
    /// Requests of its spec.
    pub requests: Amount,
    /// Resources allocated to it on its node.
    pub allotted: Amount,
}

impl PodNow {
    /// Reads a pod object.
    pub(super) fn of(pod: &Value) -> PodNow {
        PodNow {
            key: Key::of(pod),
            uid: text(pod, "/metadata/uid").to_owned(),
            node: text(pod, "/spec/nodeName").to_owned(),
            ip: text(pod, "/status/podIP").to_owned(),
            labels: texts(pod, "/metadata/labels"),
            annotations: texts(pod, "/metadata/annotations"),
            containers: list(pod, "/status/containerStatuses")
                .iter()
                .map(|status| {
                    let resources = Resources::of(at(status, "/resources"));
                    (text(status, "/name").to_owned(), resources)
                })
                .collect(),
            requests: pods::requests(pod),
            allotted: pods::allocated(pod),
        }
    }

    /// Upper bound of its cores while a resize is in progress.
    pub fn cores_at_most(&self) -> f64 {
        let reserved = self.requests.most(self.allotted).cpu_m as f64 / 1e3;
        self.cores().max(reserved)
    }

    /// Total cores that its containers may use.
    pub fn cores(&self) -> f64 {
        self.containers.values().map(Resources::cores).sum()
    }
}

/// One change of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The kind of change.
    pub happening: Happening,
    /// The pod after the change; a deleted pod as it was last.
    pub pod: PodNow,
}

/// Notifies the subscribers.
pub(super) fn notify(cluster: &Cluster, event: &Event) {
    if cluster.changes.receiver_count() == 0 {
        return;
    }
    let pod = &*event.object;
    for happening in happenings(event.before.as_deref(), pod, event.happened) {
        // Fails only if the last receiver has been dropped.
        let _ = cluster.changes.send(Change {
            happening,
            pod: PodNow::of(pod),
        });
    }
}

fn happenings(before: Option<&Value>, pod: &Value, happened: EventKind) -> Vec<Happening> {
    let nothing = Value::Null;
    let before = match happened {
        EventKind::Deleted => return vec![Happening::Deleted],
        _ => before.unwrap_or(&nothing),
    };
    let actual = |pod: &Value| Resources::of_status(pod);
    let restarts = |pod: &Value| -> i64 {
        let statuses = list(pod, "/status/containerStatuses").iter();
        statuses
            .filter_map(|status| number(status, "/restartCount"))
            .sum()
    };
    let runs = |pod: &Value| text(pod, "/status/phase") == "Running";
    let ends = |pod: &Value| !text(pod, "/metadata/deletionTimestamp").is_empty();
    let ready = |pod: &Value| holds(pod, "Ready");
    let requested = |pod: &Value| (pods::requests(pod), pods::allocated(pod));
    let all = [
        (happened == EventKind::Added, Happening::Made),
        (
            happened != EventKind::Added && requested(pod) != requested(before),
            Happening::TargetChanged,
        ),
        (runs(pod) && !runs(before), Happening::Started),
        (
            runs(before) && actual(pod) != actual(before),
            Happening::Resized,
        ),
        (restarts(pod) > restarts(before), Happening::Restarted),
        (ready(pod) && !ready(before), Happening::Ready),
        (!ready(pod) && ready(before), Happening::NotReady),
        (ends(pod) && !ends(before), Happening::Ending),
    ];
    all.into_iter()
        .filter(|(is, _)| *is)
        .map(|(_, happening)| happening)
        .collect()
}
