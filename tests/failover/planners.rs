//! Planners with distinct service accounts, so that a single one can be cut off.

use serde_json::json;
use weir_apiserver::{Fault, Key, Rule};
use weir_bed::operate::Planner;

use super::bed::{Cluster, MODELS, WEIR};

/// Maximum number of planners in a schedule, including later ones.
const PLANNERS_MAX: usize = 5;

/// One planner.
pub(crate) struct PlannerProcess {
    pub(crate) name: String,
    pub(crate) subject: String,
    /// `None` once it has been killed.
    pub(crate) planner: Option<Planner>,
    /// Fault of all its requests, if it is cut off.
    pub(crate) cut: Option<Fault>,
}

/// All planners, including killed ones.
pub(crate) struct PlannerGroup<'a> {
    cluster: &'a Cluster,
    pub(crate) processes: Vec<PlannerProcess>,
}

fn subject(index: usize) -> String {
    format!("system:serviceaccount:{WEIR}:weir-planner-{index}")
}

impl PlannerGroup<'_> {
    /// Creates an empty group, and binds all accounts to the roles of the manifests.
    pub(crate) fn of(cluster: &Cluster) -> PlannerGroup<'_> {
        let of_roles = "rolebindings.rbac.authorization.k8s.io";
        let of_all = "clusterrolebindings.rbac.authorization.k8s.io";
        for (kind, namespace, name) in [
            (of_roles, MODELS, "weir-planner.resnet"),
            (of_roles, MODELS, "weir-planner-acts.resnet"),
            (of_roles, WEIR, "weir-planner-leads"),
            (of_all, "", "weir-planner-nodes"),
        ] {
            let key = Key::new(namespace, name);
            let store = cluster.server.store();
            assert!(store.get(kind, &key).is_some(), "{kind} {key}");
            store.amend(kind, &key, |binding| {
                let all = (0..PLANNERS_MAX).map(|index| {
                    let name = format!("weir-planner-{index}");
                    json!({"kind": "ServiceAccount", "name": name, "namespace": WEIR})
                });
                binding["subjects"] = all.collect();
            });
        }
        cluster.may_evict();
        PlannerGroup {
            cluster,
            processes: Vec::new(),
        }
    }

    /// Starts another planner with that name.
    pub(crate) async fn start(&mut self, name: &str) {
        let subject = subject(self.processes.len());
        let planner = self.cluster.planner_as(name, &subject).await;
        self.processes.push(PlannerProcess {
            name: name.to_owned(),
            subject,
            planner: Some(planner),
            cut: None,
        });
    }

    /// Index of the living planner that holds the Lease.
    pub(crate) fn leader(&self) -> Option<usize> {
        let key = Key::new(WEIR, "weir-planner");
        let store = self.cluster.server.store();
        let lease = store.get("leases.coordination.k8s.io", &key)?;
        let holder = lease["spec"]["holderIdentity"].as_str()?;
        let alive = |process: &PlannerProcess| process.planner.is_some() && process.name == holder;
        self.processes.iter().position(alive)
    }

    /// Kills a planner. Its remaining tasks, which would end with a real process, can reach nothing.
    pub(crate) async fn kill(&mut self, index: usize) {
        self.processes[index].cut = Some(Fault::HangUp);
        let planner = self.processes[index].planner.take();
        planner.unwrap().kill().await;
    }

    /// Replaces the faults: those of `rules`, and all requests of planners that are cut off.
    pub(crate) fn faults(&self, rules: impl IntoIterator<Item = Rule>) {
        let faults = self.cluster.server.faults();
        faults.clear();
        let cut = self.processes.iter().filter_map(|process| {
            let fault = process.cut.clone()?;
            Some(Rule::always(fault).subject(&process.subject))
        });
        cut.chain(rules).for_each(|rule| faults.add(rule));
    }
}
