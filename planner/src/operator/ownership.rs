//! Ownership of names and workloads by resources: pure. Two resources that plan for one workload would work
//! against each other, and two plans with one name could not be told apart. A running service keeps what it
//! owns, whatever its resource says since. Of other resources, the older one gets what both claim.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::service::{Service, WorkloadKind};

/// Maximum number of resources that one planner plans for.
pub const SERVICES_MAX: usize = 256;

/// Namespace and name of a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// Namespace of the resource.
    pub namespace: String,
    /// Name of the resource.
    pub name: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Names and workloads that one resource claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Whether a service with this claim is running already.
    pub running: bool,
    /// Creation time of the resource, as set by the API server.
    pub created: i64,
    /// Name of the resource.
    pub name: Name,
    /// Names of its plans.
    pub stages: Vec<String>,
    /// Workloads whose pods it resizes.
    pub workloads: Vec<(WorkloadKind, String)>,
}

impl Claim {
    /// Builds the claim of a service.
    pub fn new(running: bool, created: i64, name: Name, service: &Service) -> Claim {
        // A pipeline is also requested by its own name.
        let stages = service.stages.iter().map(|stage| &stage.name);
        let stages = stages.chain([&service.name]).cloned();
        let workloads = service
            .variants
            .iter()
            .filter_map(|variant| variant.workload.as_ref());
        Claim {
            running,
            created,
            name,
            stages: stages.collect(),
            workloads: workloads
                .map(|workload| (workload.kind, workload.name.clone()))
                .collect(),
        }
    }
}

/// Reason why a claim is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum OwnershipConflict {
    #[error(
        "{kind} {workload} is planned for by SloService {by} already: take it out of one of the two"
    )]
    Workload {
        kind: &'static str,
        workload: String,
        by: Name,
    },
    #[error(
        "the plans' name '{stage}' is that of SloService {by} already: name one of the two otherwise"
    )]
    Stage { stage: String, by: Name },
    #[error(
        "this planner plans for {SERVICES_MAX} services already, no more: run another one for some of the namespaces"
    )]
    TooMany,
}

/// Returns the claims that are refused, with the reason. A resource may have two claims: that of its
/// running service and that of its current spec.
pub fn conflicts(mut claims: Vec<Claim>) -> BTreeMap<Name, OwnershipConflict> {
    claims.sort_by(|a, b| (!a.running, a.created, &a.name).cmp(&(!b.running, b.created, &b.name)));
    let mut stages: BTreeMap<String, Name> = BTreeMap::new();
    let mut workloads: BTreeMap<(String, &'static str, String), Name> = BTreeMap::new();
    let mut granted = BTreeSet::new();
    let mut conflicts = BTreeMap::new();
    for claim in claims {
        let own = |kind: WorkloadKind, name: &String| {
            (claim.name.namespace.clone(), kind.label(), name.clone())
        };
        let stage = claim.stages.iter().find_map(|stage| {
            let by = stages.get(stage).filter(|by| **by != claim.name)?.clone();
            let stage = stage.clone();
            Some(OwnershipConflict::Stage { stage, by })
        });
        let workload = claim.workloads.iter().find_map(|(kind, name)| {
            let by = workloads.get(&own(*kind, name));
            let by = by.filter(|by| **by != claim.name)?.clone();
            let (kind, workload) = (kind.label(), name.clone());
            Some(OwnershipConflict::Workload { kind, workload, by })
        });
        let full = granted.len() == SERVICES_MAX && !granted.contains(&claim.name);
        let full = full.then_some(OwnershipConflict::TooMany);
        if let Some(why) = workload.or(stage).or(full) {
            conflicts.insert(claim.name, why);
            continue;
        }
        granted.insert(claim.name.clone());
        for (kind, name) in &claim.workloads {
            workloads.insert(own(*kind, name), claim.name.clone());
        }
        for stage in claim.stages {
            stages.insert(stage, claim.name.clone());
        }
    }
    conflicts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(created: i64, name: &str, stages: &[&str], workloads: &[&str]) -> Claim {
        let (namespace, name) = name.split_once('/').unwrap();
        Claim {
            running: false,
            created,
            name: Name {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            stages: stages.iter().map(|stage| (*stage).to_owned()).collect(),
            workloads: workloads
                .iter()
                .map(|name| (WorkloadKind::Deployment, (*name).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn older_resource_owns_what_two_claim() {
        let claims = vec![
            claim(3, "a/young", &["young"], &["web"]),
            claim(1, "a/old", &["old"], &["web", "other"]),
            claim(2, "b/elsewhere", &["elsewhere"], &["web"]),
            claim(5, "b/same", &["old"], &["x"]),
            // A refused claim takes nothing.
            claim(4, "a/unlucky", &["unlucky"], &["other", "free"]),
            claim(6, "a/lucky", &["lucky"], &["free"]),
        ];
        let conflicts = conflicts(claims);
        let shown: Vec<String> = conflicts
            .iter()
            .map(|(name, why)| format!("{name}: {why}"))
            .collect();
        assert_eq!(
            shown,
            [
                "a/unlucky: Deployment other is planned for by SloService a/old already: take it out of one of the two",
                "a/young: Deployment web is planned for by SloService a/old already: take it out of one of the two",
                "b/same: the plans' name 'old' is that of SloService a/old already: name one of the two otherwise",
            ]
        );
    }

    #[test]
    fn running_service_keeps_what_it_owns() {
        let running = |claim: Claim| Claim {
            running: true,
            ..claim
        };
        // The young resource owns `web`; the old one has asked for it since, and for something of its own.
        let claims = vec![
            running(claim(9, "a/young", &["young"], &["web"])),
            claim(1, "a/old", &["old"], &["web"]),
            running(claim(1, "a/old", &["old"], &["own"])),
            // A name stays owned by a running service whose spec names another one.
            claim(2, "a/next", &["next"], &["own"]),
            // The new spec may claim what its running service owns.
            claim(9, "a/young", &["young"], &["web", "more"]),
        ];
        let conflicts = conflicts(claims);
        let names: Vec<&str> = conflicts.keys().map(|name| name.name.as_str()).collect();
        assert_eq!(names, ["next", "old"]);
    }

    #[test]
    fn resources_beyond_limit_are_refused() {
        let claims = (0..=SERVICES_MAX).rev().map(|index| {
            let name = format!("n{index}");
            claim(
                i64::try_from(index).unwrap(),
                &format!("a/{name}"),
                &[&name],
                &[],
            )
        });
        let conflicts = conflicts(claims.collect());
        let last = Name {
            namespace: "a".to_owned(),
            name: format!("n{SERVICES_MAX}"),
        };
        assert_eq!(
            conflicts,
            BTreeMap::from([(last, OwnershipConflict::TooMany)])
        );
    }
}
