//! What tests are told of pods as it happens, so that a model server can follow each of them.
//!
//! Told from the store's changes: whoever wrote a status, it is what the pod has.

use std::collections::BTreeMap;

use serde_json::Value;

use super::object::{Key, at, holds, list, number, text, texts};
use super::pods::{self, Amount, Resources};
use super::store::{Event, Happened};
use super::world::World;

/// What happened to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// It was made.
    Made,
    /// It asks for other resources, or has been allotted others.
    Asked,
    /// Its containers run.
    Started,
    /// It is ready.
    Ready,
    /// It is no longer ready.
    NotReady,
    /// Its containers have other resources.
    Resized,
    /// A container was restarted.
    Restarted,
    /// It has been told to end.
    Ending,
    /// It is gone.
    Deleted,
}

/// A pod as it is at a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodNow {
    /// Namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: String,
    /// Its node, or empty.
    pub node: String,
    /// Its address, or empty.
    pub ip: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// What each container really has, by name.
    pub containers: BTreeMap<String, Resources>,
    /// What its spec requests.
    pub wanted: Amount,
    /// What its node keeps for it.
    pub allotted: Amount,
}

impl PodNow {
    /// Reads a pod.
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
            wanted: pods::requests(pod),
            allotted: pods::allocated(pod),
        }
    }

    /// Cores that it may hold, whatever becomes of a resize under way.
    pub fn cores_at_most(&self) -> f64 {
        let asked = self.wanted.most(self.allotted).cpu_m as f64 / 1e3;
        self.cores().max(asked)
    }

    /// Cores its containers may use together.
    pub fn cores(&self) -> f64 {
        self.containers.values().map(Resources::cores).sum()
    }
}

/// One change of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub happening: Happening,
    /// The pod as it is now; as it was last, where it is gone.
    pub pod: PodNow,
}

/// Tells whoever listens.
pub(super) fn tell(world: &World, event: &Event) {
    if world.changes.receiver_count() == 0 {
        return;
    }
    let pod = &*event.object;
    for happening in happenings(event.before.as_deref(), pod, event.happened) {
        // Nobody listens any more: nobody is to be told.
        let _ = world.changes.send(Change {
            happening,
            pod: PodNow::of(pod),
        });
    }
}

fn happenings(before: Option<&Value>, pod: &Value, happened: Happened) -> Vec<Happening> {
    let nothing = Value::Null;
    let before = match happened {
        Happened::Deleted => return vec![Happening::Deleted],
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
    let asked = |pod: &Value| (pods::requests(pod), pods::allocated(pod));
    let all = [
        (happened == Happened::Added, Happening::Made),
        (
            happened != Happened::Added && asked(pod) != asked(before),
            Happening::Asked,
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
