//! Discovery of groups, versions and resources, which clients request first.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Options;
use super::kinds::{Kind, Kinds};

/// The verbs of every resource.
const VERBS: [&str; 7] = [
    "create", "delete", "get", "list", "patch", "update", "watch",
];

/// The response to a discovery path; `None` for other paths.
pub(super) fn answer(kinds: &Kinds, options: &Options, path: &str) -> Option<Value> {
    let steps: Vec<&str> = path.split('/').filter(|step| !step.is_empty()).collect();
    match steps.as_slice() {
        ["version"] => Some(version(options)),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": []})),
        ["apis"] => {
            let groups: Vec<Value> = groups(kinds)
                .iter()
                .map(|(name, all)| group(name, all))
                .collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", name] => {
            let groups = groups(kinds);
            let mut found = group(name, groups.get(*name)?);
            super::object::set(&mut found, "/kind", json!("APIGroup"));
            super::object::set(&mut found, "/apiVersion", json!("v1"));
            Some(found)
        }
        ["api", version] => resources(kinds, "", version),
        ["apis", group, version] => resources(kinds, group, version),
        _ => None,
    }
}

fn version(options: &Options) -> Value {
    let minor = options.version.minor();
    json!({"major": "1", "minor": minor.to_string(), "gitVersion": format!("v1.{minor}.0-emulated"),
        "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "",
        "platform": "emulated"})
}

fn groups(kinds: &Kinds) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in kinds.all().filter(|kind| !kind.group.is_empty()) {
        let versions = groups.entry(&kind.group).or_default();
        for version in &kind.versions {
            if !versions.contains(&version.as_str()) {
                versions.push(version);
            }
        }
    }
    groups
}

fn group(name: &str, versions: &[&str]) -> Value {
    let shown =
        |version: &str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let all: Vec<Value> = versions.iter().map(|version| shown(version)).collect();
    json!({"name": name, "versions": all, "preferredVersion": all.first()})
}

fn resources(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let mut found = Vec::new();
    let served = |kind: &&std::sync::Arc<Kind>| {
        kind.group == group && kind.versions.iter().any(|served| served == version)
    };
    for kind in kinds.all().filter(served) {
        found.push(json!({"name": kind.plural, "singularName": kind.singular,
            "namespaced": kind.namespaced, "kind": kind.kind, "verbs": VERBS,
            "shortNames": kind.short}));
        for subresource in kind.subresources() {
            found.push(part(kind, subresource));
        }
    }
    if found.is_empty() {
        return None;
    }
    let group_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
        "resources": found}),
    )
}

fn part(kind: &Kind, subresource: &str) -> Value {
    let mut part = json!({"name": format!("{}/{subresource}", kind.plural), "singularName": "",
        "namespaced": kind.namespaced, "kind": kind.kind, "verbs": ["get", "patch", "update"]});
    let other = match subresource {
        "scale" => ("autoscaling", "v1", "Scale", None),
        "eviction" => ("policy", "v1", "Eviction", Some(json!(["create"]))),
        "binding" => ("", "v1", "Binding", Some(json!(["create"]))),
        "token" => (
            "authentication.k8s.io",
            "v1",
            "TokenRequest",
            Some(json!(["create"])),
        ),
        _ => return part,
    };
    let (group, version, name, verbs) = other;
    for (field, value) in [("/group", group), ("/version", version), ("/kind", name)] {
        super::object::set(&mut part, field, json!(value));
    }
    if let Some(verbs) = verbs {
        super::object::set(&mut part, "/verbs", verbs);
    }
    part
}
