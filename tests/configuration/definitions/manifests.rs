//! The files in `istio/` and `k8s/`, and the overlays built from them, are accepted by every release.

use std::collections::BTreeSet;

use serde_json::Value;
use weir_apiserver::Definition;
use weir_planner::spec::resource::definition;

use super::facts::{Release, releases};
use super::kustomize::{Files, add_component, build};
use crate::manifests::all;

/// Groups whose kinds Kubernetes' own types check.
const KUBERNETES: [&str; 8] = [
    "",
    "apps",
    "apiextensions.k8s.io",
    "autoscaling",
    "kustomize.config.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
];
/// Component for releases whose WasmPlugin does not have `FAIL_RELOAD`.
const BEFORE_RELOAD: &str = "istio/before-1.27";

/// The definitions of all releases, and our own.
pub(super) struct Definitions {
    releases: Vec<Release>,
    own: Definition,
}

impl Definitions {
    pub(super) fn new() -> Definitions {
        let schema = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        Definitions {
            releases: releases(),
            own: Definition::new(schema),
        }
    }

    /// Returns the reasons of each release to refuse a document, each with the release's name.
    pub(super) fn refusals(&mut self, document: &Value) -> BTreeSet<(String, String)> {
        let api = document["apiVersion"].as_str().unwrap_or_default();
        let group = api.rsplit_once('/').map_or("", |(group, _)| group);
        if KUBERNETES.contains(&group) {
            return BTreeSet::new();
        }
        let named = |name: &str, refusals: Vec<String>| {
            let each = refusals.into_iter();
            each.map(|refusal| (name.to_owned(), refusal))
                .collect::<Vec<_>>()
        };
        if group == "weir.dev" {
            let refusals = self.own.refusals(document);
            assert_eq!(self.own.unevaluated_rules(), []);
            return named("weir", refusals).into_iter().collect();
        }
        let mut found = BTreeSet::new();
        let mut known = false;
        for release in &mut self.releases {
            if let Some(refusals) = release.refusals(document) {
                known = true;
                found.extend(named(&release.name, refusals));
            }
        }
        assert!(known, "no facts of {api} {}", document["kind"]);
        found
    }

    /// Asserts that every release accepts a document.
    pub(super) fn accept(&mut self, of: &str, document: &Value) {
        let found = self.refusals(document);
        let (kind, name) = (&document["kind"], &document["metadata"]["name"]);
        assert!(found.is_empty(), "{of}: {kind} {name}: {found:#?}");
    }

    /// Asserts that files and the overlays among them are accepted; a WasmPlugin of releases before 1.27 with the
    /// component for them.
    pub(super) fn accept_all(&mut self, of: &str, files: &Files) {
        for (path, documents) in files {
            // Patches of pods are no complete objects.
            if path.starts_with("istio/pods/") {
                continue;
            }
            self.accept_with_component(&format!("{of}{path}"), files, documents.clone());
        }
        for overlay in overlays(files) {
            let documents = build(files, overlay);
            assert!(
                documents.len() > 10,
                "{overlay}: {} documents",
                documents.len()
            );
            self.accept_with_component(&format!("{of}{overlay}"), files, documents);
        }
    }

    fn accept_with_component(&mut self, of: &str, files: &Files, documents: Vec<Value>) {
        let is_plugin = |document: &Value| document["kind"] == "WasmPlugin";
        for document in documents {
            if !is_plugin(&document) {
                self.accept(of, &document);
                continue;
            }
            let old: BTreeSet<_> = self.refusals(&document);
            for (release, refusal) in &old {
                let expected = r#"spec.failStrategy: Unsupported value: "FAIL_RELOAD": supported values: "FAIL_CLOSE", "FAIL_OPEN""#;
                let releases = ["istio 1.23", "istio 1.24", "istio 1.25", "istio 1.26"];
                assert!(
                    releases.contains(&release.as_str()),
                    "{of}: {release}: {refusal}"
                );
                assert_eq!(refusal, expected, "{of}: {release}");
            }
            let mut patched = vec![document];
            add_component(files, BEFORE_RELOAD, &mut patched);
            self.accept(&format!("{of} with {BEFORE_RELOAD}"), &patched[0]);
        }
    }
}

/// Returns the folders of the overlays.
fn overlays(files: &Files) -> impl Iterator<Item = &str> {
    let list = files
        .keys()
        .filter_map(|path| path.strip_suffix("/kustomization.yaml"));
    list.filter(|folder| folder.starts_with("k8s/overlays/"))
}

/// Returns the files in `istio/` and `k8s/`.
pub(super) fn shipped() -> Files {
    let mut files = Files::new();
    for document in all() {
        files.entry(document.file).or_default().push(document.body);
    }
    files
}

#[test]
fn every_release_accepts_the_shipped_files_and_overlays() {
    let files = shipped();
    assert!(overlays(&files).count() >= 4);
    Definitions::new().accept_all("", &files);
}

/// Every kind of the shipped files has facts, and each release accepts what it can.
#[test]
fn facts_cover_eight_releases_of_istio() {
    let names: Vec<String> = releases().into_iter().map(|release| release.name).collect();
    for minor in 23..=30 {
        assert!(names.contains(&format!("istio 1.{minor}")), "{names:?}");
    }
    for other in ["gateway-api 1.6", "envoy-gateway 1.8"] {
        assert!(names.iter().any(|name| name == other), "{names:?}");
    }
}

/// The planner's key file may have several lines, as in a rotation; a filter sends one key.
#[test]
fn overlays_give_filters_the_key_of_the_first_line() {
    let mut files = shipped();
    let secret = &mut files.get_mut("k8s/base/key.yaml").unwrap()[0];
    secret["stringData"]["key"] =
        Value::from("the-first-key poll\nanother-key poll\nresnet its-own-key\n");
    let mut count = 0;
    for overlay in overlays(&files) {
        for document in build(&files, overlay) {
            let key = match document["kind"].as_str().unwrap() {
                "WasmPlugin" => &document["spec"]["pluginConfig"]["planner"]["key"],
                "EnvoyExtensionPolicy" => &document["spec"]["wasm"][0]["config"]["planner"]["key"],
                _ => continue,
            };
            assert_eq!(*key, "the-first-key", "{overlay}");
            count += 1;
        }
    }
    assert!(count >= 7, "{count}");
}
