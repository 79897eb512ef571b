//! Planners that can be told apart by the API server, so that one of them can be cut off.

use serde_json::json;
use weir_apiserver::{Fault, Key, Rule};
use weir_bed::operate::Planner;

use super::bed::{Cluster, MODELS, WEIR};

/// Most planners of a schedule, those that come later included.
const MOST: usize = 5;

/// One planner.
pub(crate) struct Actor {
    pub(crate) name: String,
    pub(crate) subject: String,
    /// None once it has been killed.
    pub(crate) planner: Option<Planner>,
    /// What befalls all its requests.
    pub(crate) cut: Option<Fault>,
}

/// All planners, those that were killed too.
pub(crate) struct Troupe<'a> {
    cluster: &'a Cluster,
    pub(crate) actors: Vec<Actor>,
}

fn subject(index: usize) -> String {
    format!("system:serviceaccount:{WEIR}:weir-planner-{index}")
}

impl Troupe<'_> {
    /// Nobody yet; all who will come are bound to the roles of `k8s/base/rbac.yaml`.
    pub(crate) fn of(cluster: &Cluster) -> Troupe<'_> {
        let of_roles = "rolebindings.rbac.authorization.k8s.io";
        let of_all = "clusterrolebindings.rbac.authorization.k8s.io";
        for (kind, namespace, name) in [
            (of_roles, MODELS, "weir-planner"),
            (of_roles, MODELS, "weir-planner-acts"),
            (of_roles, WEIR, "weir-planner-leads"),
            (of_all, "", "weir-planner-nodes"),
        ] {
            let key = Key::new(namespace, name);
            let store = cluster.server.store();
            assert!(store.get(kind, &key).is_some(), "{kind} {key}");
            store.amend(kind, &key, |binding| {
                let all = (0..MOST).map(|index| {
                    let name = format!("weir-planner-{index}");
                    json!({"kind": "ServiceAccount", "name": name, "namespace": WEIR})
                });
                binding["subjects"] = all.collect();
            });
        }
        cluster.may_evict();
        Troupe {
            cluster,
            actors: Vec::new(),
        }
    }

    /// One more, under that name.
    pub(crate) async fn enter(&mut self, name: &str) {
        let subject = subject(self.actors.len());
        let planner = self.cluster.planner_as(name, &subject).await;
        self.actors.push(Actor {
            name: name.to_owned(),
            subject,
            planner: Some(planner),
            cut: None,
        });
    }

    /// The one that holds the Lease, if it lives.
    pub(crate) fn leader(&self) -> Option<usize> {
        let key = Key::new(WEIR, "weir-planner");
        let store = self.cluster.server.store();
        let lease = store.get("leases.coordination.k8s.io", &key)?;
        let holder = lease["spec"]["holderIdentity"].as_str()?;
        let alive = |actor: &Actor| actor.planner.is_some() && actor.name == holder;
        self.actors.iter().position(alive)
    }

    /// It does nothing any more. What its tasks would still do, which a process does not leave behind, reaches nobody.
    pub(crate) async fn kill(&mut self, index: usize) {
        self.actors[index].cut = Some(Fault::HangUp);
        let planner = self.actors[index].planner.take();
        planner.unwrap().kill().await;
    }

    /// From now on these requests fail, and all of those who are cut off.
    pub(crate) fn faults(&self, rules: impl IntoIterator<Item = Rule>) {
        let faults = self.cluster.server.faults();
        faults.clear();
        let cut = self.actors.iter().filter_map(|actor| {
            let fault = actor.cut.clone()?;
            Some(Rule::always(fault).subject(&actor.subject))
        });
        cut.chain(rules).for_each(|rule| faults.add(rule));
    }
}
