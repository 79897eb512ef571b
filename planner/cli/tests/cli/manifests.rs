//! The files in `istio/` and `k8s/` equal the command's output for `k8s/service.example.yaml`, to the byte. The files
//! in `envoy/` equal its output for `planner/service.example.yaml`, except comments, addresses and the static plan.

mod planner_tls;
mod shared;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

/// Files in the folders of manifests that are not generated.
const OTHERS: [&str; 1] = ["k8s/service.example.yaml"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the command in the repository's root.
fn manifests(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("manifests")
        .args(arguments)
        .current_dir(root())
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

fn made(target: &str, service: &str) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    made_in(folder.path(), &[target, service]);
    files(folder.path())
}

/// Writes manifests below the folder, and returns what the command reports.
fn made_in(folder: &Path, arguments: &[&str]) -> String {
    let out = folder.to_str().unwrap();
    let output = manifests(&[arguments, &["--out", out]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    stderr
}

/// Returns every file below a folder, by relative path.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
                files.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn shipped_manifests_equal_command_output() {
    let service = "k8s/service.example.yaml";
    let mut made = made("--istio", service);
    for target in ["--kubernetes", "--gateway"] {
        made.extend(self::made(target, service));
    }
    if std::env::var_os("WEIR_GOLDEN").is_some_and(|value| value == "renew") {
        for (path, text) in &made {
            let path = root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
    for (path, text) in &made {
        let shipped = fs::read_to_string(root().join(path)).unwrap_or_default();
        assert!(
            shipped == *text,
            "{path} is not what the command makes. If the command is meant to make something else now, renew the \
             files and look at what has changed:\nWEIR_GOLDEN=renew cargo xtask test --test cli manifests"
        );
    }
    for folder in ["istio", "k8s"] {
        for path in files(&root().join(folder)).keys() {
            let path = format!("{folder}/{path}");
            let known = made.contains_key(&path) || OTHERS.contains(&path.as_str());
            assert!(known, "{path}: the command does not make it");
        }
    }
}

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

/// Removes the filter's configuration, and the values that differ by site, from a bootstrap.
fn taken(config: &mut Value) -> Value {
    let plugin = format!("{MANAGER}/http_filters/0/typed_config/config/configuration/value");
    let plugin = config.pointer_mut(&plugin).unwrap().take();
    for cluster in config["static_resources"]["clusters"]
        .as_array_mut()
        .unwrap()
    {
        cluster["load_assignment"].take();
        if cluster["name"] == "websocket" {
            // Half of the slots.
            cluster["circuit_breakers"].take();
        }
    }
    serde_json::from_str(plugin.as_str().unwrap()).unwrap()
}

/// Name and cluster of each variant of a static plan; the rest depends on the cores.
fn variants(plugin: &Value) -> Vec<(Value, Value)> {
    let variants = plugin["plan"]["variants"].as_array().unwrap();
    variants
        .iter()
        .map(|it| (it["name"].clone(), it["cluster"].clone()))
        .collect()
}

#[test]
fn envoy_manifests_equal_shipped_bootstraps() {
    let made = made("--envoy", "planner/service.example.yaml");
    let read = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
    let shipped = |name: &str| read(&fs::read_to_string(root().join(name)).unwrap());
    let mut ours = read(&made["envoy/weir.yaml"]);
    let mut theirs = shipped("envoy/weir.yaml");
    // Fallback variants are a choice of the user.
    let clusters = theirs.pointer_mut("/static_resources/clusters").unwrap();
    let clusters = clusters.as_array_mut().unwrap();
    clusters.retain(|cluster| cluster.get("cluster_type").is_none());
    let (plugin, other) = (taken(&mut ours), taken(&mut theirs));
    assert_eq!(ours, theirs);
    assert_eq!(variants(&plugin), variants(&other));
    for key in ["service", "deadline", "planner"] {
        assert_eq!(plugin[key], other[key], "{key}");
    }

    let mut ours = read(&made["envoy/gate-resnet18.yaml"]);
    let mut theirs = shipped("envoy/gate.yaml");
    let route = format!("{MANAGER}/route_config/virtual_hosts/0/routes/0/route/cluster");
    for config in [&mut ours, &mut theirs] {
        // Names that differ: of the node, and of the one server's cluster.
        config["node"]["id"].take();
        config.pointer_mut(&route).unwrap().take();
        config["static_resources"]["clusters"][0]["name"].take();
    }
    let (plugin, mut other) = (taken(&mut ours), taken(&mut theirs));
    assert_eq!(ours, theirs);
    other["plan"]["variants"][0]["cluster"] = json!("resnet18");
    assert_eq!(variants(&plugin), variants(&other));
    for key in ["service", "role", "variant", "deadline", "planner"] {
        assert_eq!(plugin[key], other[key], "{key}");
    }

    let alone = read(&made["envoy/static.yaml"]);
    let clusters = alone["static_resources"]["clusters"].as_array().unwrap();
    assert!(clusters.iter().all(|cluster| cluster["name"] != "planner"));
    let mut alone = alone.clone();
    assert!(taken(&mut alone).get("planner").is_none());
}

/// Standard output gets one YAML stream of many documents, each below a comment with its path.
#[test]
fn without_folder_manifests_go_to_standard_output() {
    let output = manifests(&["--istio", "k8s/service.example.yaml"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let files = made("--istio", "k8s/service.example.yaml");
    let count = |text: &String| serde_saphyr::from_multiple::<Value>(text).unwrap().len();
    assert_eq!(documents.len(), files.values().map(count).sum::<usize>());
    for path in files.keys() {
        assert!(text.contains(&format!("# {path}\n")), "{path}");
    }
    // The default target is Kubernetes.
    let output = manifests(&["k8s/service.example.yaml", "--namespace", "other"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("kind: Deployment") && text.contains("namespace: other"));
    assert!(
        text.contains("`weir manifests --kubernetes k8s/service.example.yaml --namespace other`")
    );
}

const TARGETS: [&str; 3] = ["--istio", "--gateway", "--kubernetes"];

/// A second service adds to the first: all of the first's files stay byte for byte, except the lists.
#[test]
fn second_service_adds_to_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join("k8s/service.example.yaml")).unwrap();
    let other = folder.path().join("detect.yaml");
    let text = text
        .replace("service: resnet", "service: detect")
        .replace(".models.svc", ".vision.svc");
    fs::write(&other, text).unwrap();
    let (other, out) = (other.to_str().unwrap(), folder.path().join("out"));
    let first = ["k8s/service.example.yaml", "--host", "a.example.com"];
    let second = [other, "--host", "b.example.com", "--path", "/v2/*"];
    for target in TARGETS {
        made_in(&out, &[&[target], &first[..]].concat());
    }
    let before = files(&out);
    for target in TARGETS {
        let report = made_in(&out, &[&[target], &second[..]].concat());
        assert!(
            report.contains("kustomization.yaml: keeps resnet"),
            "{report}"
        );
    }
    let after = files(&out);
    let mut lists = 0;
    for (path, text) in &before {
        let new = &after[path];
        if text == new {
            continue;
        }
        lists += 1;
        let read = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
        let parts = |list: &Value| -> Vec<String> {
            let lists = [&list["resources"], &list["components"]];
            let parts = lists.into_iter().filter_map(Value::as_array).flatten();
            parts
                .map(|part| part.as_str().unwrap().to_owned())
                .collect()
        };
        let (old, new) = (parts(&read(text)), parts(&read(new)));
        assert!(old.iter().all(|part| new.contains(part)), "{path}: {new:?}");
        assert!(new.is_sorted(), "{path}: {new:?}");
        let folder = out.join(path).parent().unwrap().to_owned();
        for part in &new {
            assert!(folder.join(part).exists(), "{path}: {part}");
        }
        assert_eq!(new.len(), old.len() + 1, "{path}");
    }
    assert_eq!(
        lists, 5,
        "istio/gateway, istio/sidecar, k8s/envoy-gateway, k8s/services, k8s/acts"
    );
    assert!(after.len() > before.len() + 20);

    // Either one again, in any order, changes nothing.
    for arguments in [&first[..], &second[..]] {
        for target in TARGETS {
            made_in(&out, &[&[target], arguments].concat());
        }
    }
    assert_eq!(files(&out), after);
}

/// Files of all services change only if that is requested.
#[test]
fn files_of_all_services_stay_without_replace() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let service = "k8s/service.example.yaml";
    made_in(out, &["--kubernetes", service, "--image", "mine/weir:1"]);
    let before = files(out);
    assert!(
        before["k8s/base/deployment.yaml"]
            .contains("`weir manifests --kubernetes --image mine/weir:1`")
    );
    let arguments = ["--kubernetes", service, "--out", out.to_str().unwrap()];
    let output = manifests(&arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        stderr.contains("--image mine/weir:1") && stderr.contains("--replace"),
        "{stderr}"
    );
    assert_eq!(files(out), before, "nothing is written");
    made_in(out, &["--kubernetes", service, "--replace"]);
    assert!(!files(out)["k8s/base/deployment.yaml"].contains("mine/weir"));
}

/// Checks that the command fails with a message that contains all of `expected`.
fn refuses(arguments: &[&str], expected: &[&str]) {
    let output = manifests(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{arguments:?}");
    for part in expected {
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}

#[test]
fn invalid_service_is_refused_with_field() {
    for (arguments, expected) in [
        (
            &["--istio", "planner/service.example.yaml"][..],
            "variants[0].cluster: resnet18; it must be outbound|PORT|SUBSET|",
        ),
        (
            &["--istio", "--gateway", "k8s/service.example.yaml"],
            "cannot be used with",
        ),
        (
            &["k8s/service.example.yaml", "--image", "oci://x"],
            "--image: oci://x; it must be an image without a scheme",
        ),
        (
            &["k8s/service.example.yaml", "--gateway-label", "ingress"],
            "--gateway-label: ingress; it must be KEY=VALUE",
        ),
        (
            &["k8s/service.example.yaml", "--host", "A.example.com"],
            "--host: A.example.com; it must be a lower-case name or *.suffix",
        ),
        (&["k8s/service.example.yaml", "--replace"], "--out <DIR>"),
        (&["k8s/none.yaml"], "service file k8s/none.yaml"),
    ] {
        let output = manifests(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}
