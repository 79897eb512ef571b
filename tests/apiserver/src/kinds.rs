//! The served resources: names, versions, subresources and body validation.
//!
//! The built-in ones are a table; a CustomResourceDefinition adds one while it exists. Bodies of built-in kinds are
//! converted to Kubernetes' own types (k8s-openapi), which drops unknown fields and rejects wrong types; custom ones
//! are checked by their schema. VerticalPodAutoscalers are stored unchecked.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Namespace, Node, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::object::{at, list, text};

/// Parses a body as its type and serializes it again.
type Typed = fn(Value) -> Result<Value, String>;

/// One served resource.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    /// `plural.group`, as in messages.
    pub(super) id: String,
    /// Shelf of the store; two kinds may show the same objects.
    pub(super) shelf: String,
    pub(super) group: String,
    /// Served versions, the stored one first.
    pub(super) versions: Vec<String>,
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) kind: String,
    pub(super) short: Vec<String>,
    pub(super) namespaced: bool,
    /// Whether `/status` is a subresource.
    pub(super) status: bool,
    /// Whether spec changes increment the generation.
    pub(super) generation: bool,
    /// Pointers to the fields that `/scale` shows and sets, if it has that subresource.
    pub(super) scale: Option<Scale>,
    /// Other subresources.
    pub(super) further: &'static [&'static str],
    pub(super) typed: Option<Typed>,
    /// Version → schema, for custom kinds.
    pub(super) schemas: Option<BTreeMap<String, Value>>,
    /// Version → columns of its table, for custom kinds.
    pub(super) columns: BTreeMap<String, Vec<Value>>,
}

/// JSON pointers to the fields that `/scale` shows.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    pub(super) replicas: String,
    pub(super) status: String,
    pub(super) selector: String,
}

impl Scale {
    fn usual() -> Scale {
        Scale {
            replicas: "/spec/replicas".to_owned(),
            status: "/status/replicas".to_owned(),
            selector: "/spec/selector".to_owned(),
        }
    }
}

impl Kind {
    fn built_in(group: &str, version: &str, names: (&str, &str), typed: Option<Typed>) -> Kind {
        let (plural, kind) = names;
        let id = match group {
            "" => plural.to_owned(),
            group => format!("{plural}.{group}"),
        };
        Kind {
            shelf: id.clone(),
            id,
            group: group.to_owned(),
            versions: vec![version.to_owned()],
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            kind: kind.to_owned(),
            short: Vec::new(),
            namespaced: true,
            status: false,
            generation: false,
            scale: None,
            further: &[],
            typed,
            schemas: None,
            columns: BTreeMap::new(),
        }
    }

    fn cluster_wide(mut self) -> Kind {
        self.namespaced = false;
        self
    }

    fn with_status(mut self) -> Kind {
        (self.status, self.generation) = (true, true);
        self
    }

    fn scaled(mut self) -> Kind {
        self.scale = Some(Scale::usual());
        self
    }

    /// `group/version` as in objects.
    pub(super) fn api_version(&self, version: &str) -> String {
        match self.group.as_str() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        }
    }

    /// The version objects are stored in.
    pub(super) fn stored_version(&self) -> &str {
        self.versions.first().map_or("v1", String::as_str)
    }

    /// Whether the kind is custom; strategic merge then does not apply.
    pub(super) fn is_custom(&self) -> bool {
        self.typed.is_none()
    }

    /// Its subresources.
    pub(super) fn subresources(&self) -> Vec<&str> {
        let mut all = Vec::new();
        all.extend(self.status.then_some("status"));
        all.extend(self.scale.is_some().then_some("scale"));
        all.extend(self.further.iter().copied());
        all
    }

    /// The kind declared by a CustomResourceDefinition.
    pub(super) fn custom(definition: &Value) -> Option<Kind> {
        let group = text(definition, "/spec/group");
        let plural = text(definition, "/spec/names/plural");
        let kind = text(definition, "/spec/names/kind");
        let mut versions: Vec<&Value> = list(definition, "/spec/versions")
            .iter()
            .filter(|version| at(version, "/served") == &Value::Bool(true))
            .collect();
        versions.sort_by_key(|version| at(version, "/storage") != &Value::Bool(true));
        let first = *versions.first()?;
        let mut made = Kind::built_in(group, text(first, "/name"), (plural, kind), None);
        made.versions = versions
            .iter()
            .map(|version| text(version, "/name").to_owned())
            .collect();
        made.namespaced = text(definition, "/spec/scope") != "Cluster";
        made.generation = true;
        made.status = first.pointer("/subresources/status").is_some();
        made.scale = first.pointer("/subresources/scale").map(|scale| Scale {
            replicas: text(scale, "/specReplicasPath").replace('.', "/"),
            status: text(scale, "/statusReplicasPath").replace('.', "/"),
            selector: text(scale, "/labelSelectorPath").replace('.', "/"),
        });
        made.short = list(definition, "/spec/names/shortNames")
            .iter()
            .filter_map(|name| Some(name.as_str()?.to_owned()))
            .collect();
        made.columns = versions
            .iter()
            .map(|version| {
                let columns = list(version, "/additionalPrinterColumns").to_vec();
                (text(version, "/name").to_owned(), columns)
            })
            .collect();
        made.schemas = Some(
            versions
                .iter()
                .map(|version| {
                    let schema = at(version, "/schema/openAPIV3Schema").clone();
                    (text(version, "/name").to_owned(), schema)
                })
                .collect(),
        );
        Some(made)
    }
}

fn typed<T: DeserializeOwned + Serialize>(body: Value) -> Result<Value, String> {
    let read: T = serde_json::from_value(body).map_err(|error| error.to_string())?;
    serde_json::to_value(read).map_err(|error| error.to_string())
}

/// All built-in kinds.
fn built_in() -> Vec<Kind> {
    let core = |plural, kind, typed| Kind::built_in("", "v1", (plural, kind), Some(typed));
    let apps = |plural, kind, typed| {
        let made = Kind::built_in("apps", "v1", (plural, kind), Some(typed));
        made.with_status().scaled()
    };
    let rbac = |plural, kind, typed| {
        Kind::built_in(
            "rbac.authorization.k8s.io",
            "v1",
            (plural, kind),
            Some(typed),
        )
    };
    let mut pods = core("pods", "Pod", typed::<Pod>).with_status();
    pods.further = &["resize", "eviction", "binding"];
    let mut events = Kind::built_in(
        "events.k8s.io",
        "v1",
        ("events", "Event"),
        Some(typed::<Event>),
    );
    // Both kinds of events share a shelf: `views` converts between them.
    events.shelf = "events".to_owned();
    let mut nodes = core("nodes", "Node", typed::<Node>)
        .cluster_wide()
        .with_status();
    nodes.generation = false;
    let mut services = core("services", "Service", typed::<Service>).with_status();
    services.generation = false;
    let mut accounts = core("serviceaccounts", "ServiceAccount", typed::<ServiceAccount>);
    accounts.further = &["token"];
    let hpa = ("horizontalpodautoscalers", "HorizontalPodAutoscaler");
    let vpa = ("verticalpodautoscalers", "VerticalPodAutoscaler");
    let pdb = ("poddisruptionbudgets", "PodDisruptionBudget");
    let crd = ("customresourcedefinitions", "CustomResourceDefinition");
    vec![
        pods,
        nodes,
        core("events", "Event", typed::<Event>),
        events,
        services,
        core("configmaps", "ConfigMap", typed::<ConfigMap>),
        core("secrets", "Secret", typed::<Secret>),
        accounts,
        core("namespaces", "Namespace", typed::<Namespace>).cluster_wide(),
        apps("deployments", "Deployment", typed::<Deployment>),
        apps("statefulsets", "StatefulSet", typed::<StatefulSet>),
        apps("replicasets", "ReplicaSet", typed::<ReplicaSet>),
        Kind::built_in("policy", "v1", pdb, Some(typed::<PodDisruptionBudget>)).with_status(),
        Kind::built_in(
            "autoscaling",
            "v2",
            hpa,
            Some(typed::<HorizontalPodAutoscaler>),
        )
        .with_status(),
        Kind::built_in("autoscaling.k8s.io", "v1", vpa, None).with_status(),
        Kind::built_in(
            "coordination.k8s.io",
            "v1",
            ("leases", "Lease"),
            Some(typed::<Lease>),
        ),
        Kind::built_in(
            "apiextensions.k8s.io",
            "v1",
            crd,
            Some(typed::<CustomResourceDefinition>),
        )
        .cluster_wide()
        .with_status(),
        rbac("roles", "Role", typed::<Role>),
        rbac("rolebindings", "RoleBinding", typed::<RoleBinding>),
        rbac("clusterroles", "ClusterRole", typed::<ClusterRole>).cluster_wide(),
        rbac(
            "clusterrolebindings",
            "ClusterRoleBinding",
            typed::<ClusterRoleBinding>,
        )
        .cluster_wide(),
    ]
}

/// All kinds served now.
#[derive(Debug)]
pub(super) struct Kinds {
    by_id: BTreeMap<String, Arc<Kind>>,
}

impl Kinds {
    pub(super) fn new() -> Kinds {
        let by_id = built_in()
            .into_iter()
            .map(|kind| (kind.id.clone(), Arc::new(kind)))
            .collect();
        Kinds { by_id }
    }

    /// The kind served at a group, version and plural name.
    pub(super) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        let kind = match group {
            "" => self.by_id.get(plural),
            group => self.by_id.get(&format!("{plural}.{group}")),
        }?;
        let served = kind.versions.iter().any(|served| served == version);
        served.then(|| Arc::clone(kind))
    }

    /// The kind with this `plural.group`.
    pub(super) fn by_id(&self, id: &str) -> Option<Arc<Kind>> {
        self.by_id.get(id).cloned()
    }

    /// The kind of an object, by its `apiVersion` and `kind`.
    pub(super) fn of_object(&self, object: &Value) -> Option<Arc<Kind>> {
        let api_version = text(object, "/apiVersion");
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        self.by_id
            .values()
            .find(|kind| {
                kind.group == group
                    && kind.kind == text(object, "/kind")
                    && kind.versions.iter().any(|served| served == version)
            })
            .cloned()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.by_id.values()
    }

    /// Adds a custom kind, or replaces its definition.
    pub(super) fn serve(&mut self, kind: Kind) {
        self.by_id.insert(kind.id.clone(), Arc::new(kind));
    }

    /// Removes a kind.
    pub(super) fn withdraw(&mut self, id: &str) {
        self.by_id.remove(id);
    }
}
