//! Tests of the planner's RBAC rules: they cover what it does, and no more.

use serde_json::Value;
use weir_planner::operator::leader;

use super::bed::{Document, below, document, of, one};

/// Returns the documents of the planner with these components.
fn planner(components: &[&str]) -> Vec<Document> {
    let mut all = below("k8s/base");
    for component in components {
        all.extend(below(&format!("k8s/{component}")));
    }
    all
}

/// Returns (group, resource, verb) of every rule that these bindings grant to the planner.
fn granted(all: &[Document]) -> Vec<(String, String, String)> {
    let mut rights = Vec::new();
    for kind in ["RoleBinding", "ClusterRoleBinding"] {
        for binding in of(all, kind) {
            let subject = &binding.body["subjects"][0];
            let account = one(all, "ServiceAccount", subject["name"].as_str().unwrap());
            assert_eq!(subject["kind"], "ServiceAccount");
            assert_eq!(subject["namespace"], account.namespace());
            let role = &binding.body["roleRef"];
            let role = one(
                all,
                role["kind"].as_str().unwrap(),
                role["name"].as_str().unwrap(),
            );
            if role.kind() == "Role" {
                assert_eq!(role.namespace(), binding.namespace());
            }
            for rule in role.body["rules"].as_array().unwrap() {
                for group in strings(&rule["apiGroups"]) {
                    for resource in strings(&rule["resources"]) {
                        for verb in strings(&rule["verbs"]) {
                            rights.push((group.clone(), resource.clone(), verb));
                        }
                    }
                }
            }
        }
    }
    rights
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap().to_owned())
        .collect()
}

fn has(rights: &[(String, String, String)], group: &str, resource: &str, verb: &str) -> bool {
    rights
        .iter()
        .any(|(g, r, v)| (g.as_str(), r.as_str(), v.as_str()) == (group, resource, verb))
}

const ACTS: [(&str, &str, &str); 3] = [
    ("", "pods/resize", "patch"),
    ("apps", "deployments/scale", "patch"),
    ("apps", "statefulsets/scale", "patch"),
];

#[test]
fn planner_is_granted_all_rights_it_uses() {
    let rights = granted(&planner(&["services", "acts"]));
    for (group, resource, verb) in ACTS {
        assert!(has(&rights, group, resource, verb), "{verb} {resource}");
    }
    for (group, resource, verbs) in [
        ("", "pods", "get list watch"),
        ("", "configmaps", "get"),
        ("", "nodes", "get list watch"),
        ("apps", "deployments", "list watch"),
        ("apps", "statefulsets", "list watch"),
        ("apps", "deployments/scale", "get"),
        ("apps", "statefulsets/scale", "get"),
        ("policy", "poddisruptionbudgets", "list watch"),
        ("autoscaling", "horizontalpodautoscalers", "list watch"),
        ("autoscaling.k8s.io", "verticalpodautoscalers", "list watch"),
        ("weir.dev", "sloservices", "get list watch"),
        ("weir.dev", "sloservices/status", "patch"),
        ("events.k8s.io", "events", "create patch"),
        ("coordination.k8s.io", "leases", "get create update patch"),
    ] {
        for verb in verbs.split(' ') {
            assert!(has(&rights, group, resource, verb), "{verb} {resource}");
        }
    }
}

#[test]
fn planner_is_granted_no_other_rights() {
    const VERBS: [&str; 6] = ["get", "list", "watch", "patch", "create", "update"];
    for (group, resource, verb) in granted(&planner(&["services", "acts"])) {
        let named =
            !group.contains('*') && !resource.contains('*') && VERBS.contains(&verb.as_str());
        assert!(named, "{verb} {resource} of '{group}'");
        assert_ne!(resource, "secrets");
        // ConfigMaps are read by name, for the profiles that resources refer to.
        assert!(resource != "configmaps" || verb == "get", "{verb}");
        let writes = ["patch", "create", "update"].contains(&verb.as_str());
        let may = ACTS.contains(&(group.as_str(), resource.as_str(), verb.as_str()))
            || ["weir.dev", "events.k8s.io", "coordination.k8s.io"].contains(&group.as_str());
        assert!(!writes || may, "{verb} {resource}");
    }
}

/// The advisory overlay grants no right to write to foreign objects; the others do.
#[test]
fn advisory_overlay_grants_no_write_rights() {
    for (overlay, writes) in [
        ("advisory", false),
        ("gateway", true),
        ("sidecar", true),
        ("envoy-gateway", true),
    ] {
        let list = document(&format!("k8s/overlays/{overlay}/kustomization.yaml"));
        let components = strings(&list["components"]);
        let components: Vec<&str> = components
            .iter()
            .map(|it| it.strip_prefix("../../").unwrap())
            .collect();
        let rights = granted(&planner(&components));
        assert!(has(&rights, "", "pods", "list"), "{overlay}");
        for (group, resource, verb) in ACTS {
            let may = has(&rights, group, resource, verb);
            assert_eq!(may, writes, "{overlay}: {verb} {resource}");
        }
    }
}

/// The planner may change its own Lease alone. A right to create cannot have a name.
#[test]
fn rights_to_leases_name_the_planners_own() {
    let all = below("k8s/base");
    let role = one(&all, "Role", "weir-planner-leads");
    for rule in role.body["rules"].as_array().unwrap() {
        let names = rule["resourceNames"].as_array().cloned();
        let own = names.is_some_and(|names| names == [leader::LEASE]);
        let creates = strings(&rule["verbs"]) == ["create"];
        assert!(own != creates, "{rule}");
    }
}

#[test]
fn planner_pod_is_not_root_and_read_only() {
    let all = below("k8s/base");
    let deployment = one(&all, "Deployment", "weir-planner");
    let pod = &deployment.body["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_ne!(pod["securityContext"]["runAsUser"], 0);
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(
        container["securityContext"]["allowPrivilegeEscalation"],
        false
    );
    assert_eq!(
        container["securityContext"]["capabilities"]["drop"][0],
        "ALL"
    );
    assert!(deployment.body["spec"]["replicas"].as_u64().unwrap() >= 2);
    let budget = one(&all, "PodDisruptionBudget", "weir-planner");
    assert_eq!(budget.body["spec"]["minAvailable"], 1);
}
