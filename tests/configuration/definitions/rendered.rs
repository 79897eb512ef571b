//! Manifests of many services and options are accepted by every release.

use std::fmt::Write as _;

use weir_planner::manifests::{Options, PlannerTls, Target, render};
use weir_planner::service::Service;
use weir_planner::spec::ServiceSpec;

use super::kustomize::Files;
use super::manifests::Definitions;
use crate::manifests::{self, Document};

/// Variants that Envoy Gateway takes at most: an HTTPRoute has 16 rules.
const ROUTES_MAX: usize = 15;
/// Variants of a service at most.
const VARIANTS_MAX: usize = 64;

fn example() -> String {
    include_str!("../../../k8s/service.example.yaml").to_owned()
}

/// Returns the example with that many variants, each with a core.
fn with_variants(count: usize) -> String {
    let example = example();
    let (head, _) = example.split_once("variants:\n").unwrap();
    let mut text = head.replace("cores: 20", "cores: 200") + "variants:\n";
    for index in 0..count {
        let name = format!("v{index}");
        write!(
            text,
            "  - name: {name}\n    cluster: outbound|8000||{name}.models.svc.cluster.local\n    accuracy: 70\n    \
             cores: {{initial: 1, max: 4}}\n    capacity: {{slopeRps: 20, interceptRps: 0}}\n    \
             latency: {{gammaMs: 1, epsilonMs: 1, deltaMs: 1, etaMs: 1, parallelism: per-core}}\n"
        )
        .unwrap();
    }
    text
}

/// Returns the example as two stages, and each stage as a service of its own.
fn stages() -> [String; 2] {
    let first = example().replace("service: resnet", "service: detect");
    let first = first.replace("slo: 1s", "slo: 1s\ndownstreamTime: 300ms\npolicy: ipa");
    let second = example().replace("slo: 1s", "slo: 1s\npolicy: ipa");
    [first, second]
}

/// Returns the files of these targets, overlays included.
fn rendered(text: &str, options: &Options, targets: &[Target]) -> Files {
    let service = Service::from_yaml(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let spec = ServiceSpec::from_yaml(text).unwrap();
    let mut files = Files::new();
    for target in targets {
        for file in render(&service, &spec, options, *target).unwrap() {
            let bodies = file.documents.into_iter().map(|document| document.body);
            files.insert(file.path, bodies.collect());
        }
    }
    files
}

const ALL: [Target; 3] = [Target::Kubernetes, Target::Istio, Target::Gateway];

#[test]
fn every_release_accepts_manifests_of_every_service() {
    let long = "s".repeat(63);
    let classes = "\nclasses: [{name: gold, share: 0.7, priority: 1, claim: {header: x-team, values: [a, 'b*']}}, \
        {name: low, share: 0.3}]\ndefaultClass: low\nmaxSkips: 20\n";
    let slo = |slo: &str| example().replace("slo: 1s", &format!("slo: {slo}"));
    let [first, second] = stages();
    let mut definitions = Definitions::new();
    for (what, text) in [
        ("example", example()),
        ("classes", example() + classes),
        ("stage detect", first),
        ("stage classify", second),
        ("one variant", with_variants(1)),
        ("most variants", with_variants(ROUTES_MAX)),
        (
            "long name",
            example().replace("service: resnet", &format!("service: {long}")),
        ),
        ("fast", slo("300ms")),
        ("1,500 ms", slo("1500ms")),
        ("seconds and milliseconds", slo("12s345ms")),
        ("one hour", slo("1h")),
        ("almost one hour", slo("59m59s999ms")),
    ] {
        let files = rendered(&text, &Options::default(), &ALL);
        definitions.accept_all(&format!("{what}: "), &files);
    }
}

/// Istio's files without Envoy Gateway's: it has no subsets, and fewer variants.
#[test]
fn every_release_of_istio_accepts_subsets_and_many_variants() {
    let subsets = ["resnet18", "resnet50", "resnet152"]
        .iter()
        .fold(example(), |text, name| {
            let service = format!("outbound|8000||{name}.models");
            text.replace(&service, &format!("outbound|8000|{name}|resnet.models"))
        });
    let mut definitions = Definitions::new();
    for (what, text) in [
        ("subsets", subsets),
        ("most variants", with_variants(VARIANTS_MAX)),
    ] {
        let mut files = rendered(&text, &Options::default(), &ALL[..2]);
        files.retain(|path, _| !path.starts_with("k8s/overlays/envoy-gateway/"));
        definitions.accept_all(&format!("{what}: "), &files);
    }
}

#[test]
fn every_release_accepts_other_images_and_namespaces() {
    let mut definitions = Definitions::new();
    for image in [
        format!("registry.example/f@sha256:{}", "0123456789abcdef".repeat(4)),
        "registry.example:5000/team/f:1.0".to_owned(),
        "localhost/f".to_owned(),
    ] {
        let options = Options {
            namespace: "n".repeat(63),
            filter_image: image.clone(),
            ..Options::default()
        };
        definitions.accept_all(&format!("{image}: "), &rendered(&example(), &options, &ALL));
    }
}

/// A planner with TLS: of the same Secret's `ca.crt`, and of other Secrets and another name.
#[test]
fn every_release_accepts_tls_of_the_planner() {
    let mut definitions = Definitions::new();
    let other = PlannerTls {
        secret: "planner.cert".to_owned(),
        ca_secret: Some("planner-ca".to_owned()),
        name: Some("planner.example.com".to_owned()),
    };
    let same = PlannerTls {
        secret: "weir-planner-tls".to_owned(),
        ..PlannerTls::default()
    };
    for (what, tls) in [("the same Secret", same), ("others", other)] {
        let options = Options {
            planner_tls: Some(tls),
            ..Options::default()
        };
        let files = rendered(&example(), &options, &ALL);
        definitions.accept_all(&format!("{what}: "), &files);
        let typed = files.iter().flat_map(|(file, bodies)| {
            let document = |body: &serde_json::Value| Document {
                file: file.clone(),
                body: body.clone(),
            };
            bodies.iter().map(document)
        });
        for document in typed.filter(|it| it.kind() == "DestinationRule") {
            manifests::check(&document)
                .unwrap_or_else(|error| panic!("{}: {error}", document.file));
        }
    }
}
