//! Tests of the planner's RBAC rules: they cover what it does, and no more.

use serde_json::Value;

use super::bed::{Document, below, document, of, one};

/// Returns (group, resource, verb) of every rule that these bindings grant to the planner.
fn granted(all: &[Document], except: &[&str]) -> Vec<(String, String, String)> {
    let mut rights = Vec::new();
    for kind in ["RoleBinding", "ClusterRoleBinding"] {
        for binding in of(all, kind)
            .iter()
            .filter(|it| !except.contains(&it.name()))
        {
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
    let rights = granted(&below("k8s/base"), &[]);
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
    for (group, resource, verb) in granted(&below("k8s/base"), &[]) {
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

/// The advisory overlay removes every right to write to foreign objects.
#[test]
fn advisory_overlay_grants_no_write_rights() {
    let base = below("k8s/base");
    let list = document("k8s/overlays/advisory/kustomization.yaml");
    let mut removed = Vec::new();
    for patch in list["patches"].as_array().unwrap() {
        let text: Value = serde_saphyr::from_str(patch["patch"].as_str().unwrap()).unwrap();
        assert_eq!(text["$patch"], "delete");
        let (kind, name) = (
            text["kind"].as_str().unwrap().to_owned(),
            text["metadata"]["name"].as_str().unwrap().to_owned(),
        );
        one(&base, &kind, &name);
        removed.push((kind, name));
    }
    let bindings: Vec<&str> = removed
        .iter()
        .filter(|(kind, _)| kind == "RoleBinding")
        .map(|(_, name)| name.as_str())
        .collect();
    let rights = granted(&base, &bindings);
    assert!(!rights.is_empty());
    for (group, resource, verb) in ACTS {
        assert!(!has(&rights, group, resource, verb), "{verb} {resource}");
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
