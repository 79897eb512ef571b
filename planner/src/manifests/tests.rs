//! Tests of refusals, and of properties that all targets share.

use super::*;

mod filter;
mod network;
mod planner_tls;
mod servers;
mod services;
mod shared;

fn example() -> String {
    include_str!("../../../k8s/service.example.yaml").to_owned()
}

fn render(text: &str, options: &Options, target: Target) -> Result<Vec<File>, ManifestError> {
    let spec = ServiceSpec::from_yaml(text).unwrap();
    super::render(&service(&spec).unwrap(), &spec, options, target)
}

const ALL: [Target; 4] = [
    Target::Envoy,
    Target::Istio,
    Target::Gateway,
    Target::Kubernetes,
];

/// Checks that rendering fails with a message that contains all of `expected`.
fn refuses(text: &str, options: &Options, target: Target, expected: &[&str]) {
    let error = render(text, options, target).unwrap_err().to_string();
    for part in expected {
        assert!(error.contains(part), "'{error}' does not say '{part}'");
    }
}

#[test]
fn unattachable_service_is_refused_with_field_and_allowed_values() {
    let (defaults, text) = (Options::default(), example());
    let cluster = "outbound|8000||resnet50.models.svc.cluster.local";
    for (other, targets) in [
        (
            "resnet50",
            &[Target::Istio, Target::Gateway, Target::Kubernetes][..],
        ),
        (
            "outbound|0||resnet50.models.svc.cluster.local",
            &[Target::Istio],
        ),
        (
            "outbound|80000||resnet50.models.svc.cluster.local",
            &[Target::Istio],
        ),
        (
            "inbound|8000||resnet50.models.svc.cluster.local",
            &[Target::Istio],
        ),
        ("outbound|8000||resnet50.models", &[Target::Istio]),
        (
            "outbound|8000|Up|resnet50.models.svc.cluster.local",
            &[Target::Istio],
        ),
        (
            "outbound|8000||resnet50.models.svc.cluster.local|x",
            &[Target::Istio],
        ),
    ] {
        for target in targets {
            let expected = ["variants[1].cluster", other, "outbound|PORT|SUBSET|SERVICE"];
            refuses(&text.replace(cluster, other), &defaults, *target, &expected);
        }
    }
    let elsewhere = text.replace(cluster, "outbound|8000||resnet50.other.svc.cluster.local");
    let expected = ["variants[1].cluster", "namespace of the first (models)"];
    refuses(&elsewhere, &defaults, Target::Istio, &expected);
    let subset = text.replace(
        cluster,
        "outbound|8000|v50|resnet50.models.svc.cluster.local",
    );
    let expected = ["variants[1].cluster", "without a subset"];
    refuses(&subset, &defaults, Target::Gateway, &expected);
    let none = text.replace("initial: 6", "initial: 0, min: 0");
    refuses(
        &none,
        &defaults,
        Target::Istio,
        &["cores.initial", "1 or more in all"],
    );

    for (change, expected) in [
        (
            (|options| options.namespace = "Weir".to_owned()) as fn(&mut Options),
            ["--namespace", "Weir", "a-z"],
        ),
        (
            |options| options.image = "oci://a/b".to_owned(),
            ["--image", "oci://a/b", "without a scheme"],
        ),
        (
            |options| options.filter_image = "a/b@sha256:12".to_owned(),
            ["--filter-image", "a/b@sha256:12", "64 hex"],
        ),
        (
            |options| options.filter_image = "a b".to_owned(),
            ["--filter-image", "a b", "image"],
        ),
        (
            |options| options.cluster_domain = "Cluster".to_owned(),
            ["--cluster-domain", "Cluster", "cluster.local"],
        ),
        (
            |options| options.api_ports.clear(),
            ["--api-port", "0 of them", "1 to 8"],
        ),
        (
            |options| options.api_ports = vec![0],
            ["--api-port", "0", "1 to 65535"],
        ),
        (
            |options| options.hosts = vec!["a.b:80".to_owned()],
            ["--host", "a.b:80", "without a port"],
        ),
        (
            |options| options.hosts = vec!["a".to_owned(); HOSTS_MAX + 1],
            ["--host", "17 of them", "0 to 16"],
        ),
        (
            |options| options.paths = vec!["/a*b".to_owned()],
            ["--path", "/a*b", "may end in *"],
        ),
        (
            |options| options.paths = vec!["/a".to_owned(); PATHS_MAX + 1],
            ["--path", "17 of them", "0 to 16"],
        ),
        (
            |options| options.gateway.namespace = Some("a.b".to_owned()),
            ["--gateway-namespace", "a.b", "a-z"],
        ),
        (
            |options| {
                let labels = (0..=LABELS_MAX).map(|at| (format!("l{at}"), "x".to_owned()));
                options.gateway.labels = labels.collect();
            },
            ["--gateway-label", "9 of them", "0 to 8"],
        ),
        (
            |options| options.gateway.labels = [("a b".to_owned(), "c".to_owned())].into(),
            ["--gateway-label", "a b=c", "KEY=VALUE"],
        ),
        (
            |options| options.gateway.parent = Some("weir".to_owned()),
            ["--parent", "weir", "NAMESPACE/NAME"],
        ),
        (
            |options| {
                options.gateway.parent = Some("a/b".to_owned());
                options.gateway.delegate = true;
            },
            ["--parent", "a/b", "left out with --delegate"],
        ),
        (
            |options| options.gateway.tls_secret = Some("A".to_owned()),
            ["--tls-secret", "A", "Secret"],
        ),
        (
            |options| options.gateway.stats_port = Some(0),
            ["--stats-port", "0", "1 to 65535"],
        ),
    ] {
        let mut options = Options::default();
        change(&mut options);
        for target in ALL {
            refuses(&text, &options, target, &expected);
        }
    }
}

#[test]
fn pipeline_stages_have_separate_files() {
    let text = example().replace("initial: 6", "initial: 2, min: 0");
    let (head, variants) = text.split_once("variants:\n").unwrap();
    let variants: String = variants
        .lines()
        .map(|line| format!("    {line}\n"))
        .collect();
    let other = variants.replace("name: resnet", "name: other");
    let text = format!(
        "{head}policy: ipa\nstages:\n  - name: first\n    variants:\n{variants}  - name: second\n    \
         variants:\n{other}"
    );
    let expected = ["stages: 2", "one file for each stage"];
    refuses(&text, &Options::default(), Target::Istio, &expected);
}

#[test]
fn files_have_distinct_paths_and_parse_back_unchanged() {
    let text = example();
    for target in ALL {
        let files = render(&text, &Options::default(), target).unwrap();
        let mut paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        paths.sort_unstable();
        let count = paths.len();
        paths.dedup();
        assert_eq!(paths.len(), count, "{target:?}: a path twice");
        for file in &files {
            let text = file.text("the command").unwrap();
            let begin = match file.path.ends_with(".json") {
                true => "{",
                false => "# Made by `the command`.",
            };
            assert!(text.starts_with(begin), "{text}");
            let read: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
            let bodies: Vec<_> = file.documents.iter().map(|it| it.body.clone()).collect();
            assert_eq!(read, bodies, "{}", file.path);
            for line in text.lines().filter(|line| line.starts_with('#')) {
                assert!(line.chars().count() <= 160, "{line}");
            }
        }
    }
}

#[test]
fn statistics_equal_shipped_files() {
    for text in [
        include_str!("../../../envoy/weir.yaml"),
        include_str!("../../../envoy/gate.yaml"),
    ] {
        let shipped: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(shipped["stats_config"], plugin::stats_config());
    }
}

#[test]
fn image_digest_is_passed_as_checksum() {
    let digest = "0123456789abcdef".repeat(4);
    let options = Options {
        filter_image: format!("registry.example/f@sha256:{digest}"),
        ..Options::default()
    };
    let text = example();
    for (target, pointer) in [
        (Target::Istio, "/spec/sha256"),
        (Target::Gateway, "/spec/wasm/0/code/image/sha256"),
    ] {
        let files = render(&text, &options, target).unwrap();
        let mut bodies = files.iter().flat_map(|file| &file.documents);
        let found = bodies.find_map(|document| document.body.pointer(pointer));
        assert_eq!(found, Some(&serde_json::json!(digest)), "{target:?}");
    }
}

/// Variants that are subsets of one Service: one DestinationRule has all of them, and routes name them.
#[test]
fn subsets_of_one_host_share_destination_rule() {
    let text = ["resnet18", "resnet50", "resnet152"]
        .iter()
        .fold(example(), |text, name| {
            let service = format!("outbound|8000||{name}.models");
            text.replace(&service, &format!("outbound|8000|{name}|resnet.models"))
        });
    let files = render(&text, &Options::default(), Target::Istio).unwrap();
    let documents = |path: &str| {
        let file = files.iter().find(|file| file.path == path).unwrap();
        file.documents.clone()
    };
    let rules = documents("istio/gateway/resnet/destinationrules.yaml");
    assert_eq!(rules.len(), 1);
    let rule = &rules[0].body["spec"];
    assert_eq!(rule["host"], "resnet.models.svc.cluster.local");
    let subsets = rule["subsets"].as_array().unwrap();
    let labels = serde_json::json!({ "weir.dev/variant": "resnet18" });
    // One more is for websockets, which the quickest variant serves.
    assert_eq!((subsets.len(), &subsets[0]["labels"]), (4, &labels));
    assert_eq!(subsets[3]["labels"], labels);
    let routes = documents("istio/header-routing/resnet/virtualservice.yaml");
    for (index, name) in ["resnet18", "resnet50", "resnet152"].iter().enumerate() {
        let to = &routes[0].body["spec"]["http"][index]["route"][0]["destination"];
        assert_eq!(to["subset"], *name);
    }
}

/// Half seconds are written as each API reads them; a hold ends after the longest deadline.
#[test]
fn timeouts_follow_from_slo() {
    let text = example().replace("slo: 1s", "slo: 1500ms");
    for (target, path, pointer, time) in [
        (
            Target::Istio,
            "istio/gateway/resnet/virtualservice.yaml",
            "/spec/http/0/timeout",
            "22.5s",
        ),
        (
            Target::Gateway,
            "k8s/envoy-gateway/resnet/httproute.yaml",
            "/spec/rules/0/timeouts/request",
            "22s500ms",
        ),
        (
            Target::Istio,
            "istio/gateway/resnet/envoyfilter.yaml",
            "/spec/configPatches/5/patch/value/route/idle_timeout",
            "16s",
        ),
    ] {
        let files = render(&text, &Options::default(), target).unwrap();
        let file = files.iter().find(|file| file.path == path).unwrap();
        let found = file.documents[0].body.pointer(pointer);
        assert_eq!(found, Some(&serde_json::json!(time)), "{path}");
    }
}

#[test]
fn classes_are_part_of_filter_configuration() {
    let classes =
        "\nclasses: [{name: gold, share: 0.7}, {name: low, share: 0.3}]\ndefaultClass: low\n";
    let text = example() + classes;
    for (target, path, pointer) in [
        (
            Target::Istio,
            "istio/gateway/resnet/wasmplugin.yaml",
            "/spec/pluginConfig",
        ),
        (
            Target::Istio,
            "istio/sidecar/resnet/wasmplugins.yaml",
            "/spec/pluginConfig",
        ),
    ] {
        let files = render(&text, &Options::default(), target).unwrap();
        let file = files.iter().find(|file| file.path == path);
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let file = file.unwrap_or_else(|| panic!("{path} of {paths:?}"));
        let config = file.documents[0].body.pointer(pointer).unwrap();
        assert_eq!(config["default_class"], "low", "{path}");
        assert_eq!(config["classes"][0]["name"], "gold", "{path}");
    }
}
