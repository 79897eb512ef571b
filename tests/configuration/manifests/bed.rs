//! The repository's manifests, and lookups for the tests.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Rules for Prometheus itself: no resource.
pub(crate) const RULES: &str = "k8s/monitoring/rules.yaml";

/// A document and its file's path from the root of the repository.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) file: String,
    pub(crate) body: Value,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns all documents below `istio/` and `k8s/` except the service file that they are generated from.
pub(crate) fn all() -> Vec<Document> {
    let mut found = below("istio");
    found.extend(below("k8s"));
    assert!(found.len() > 40, "{} documents", found.len());
    found
}

/// Returns all documents below a folder.
pub(crate) fn below(folder: &str) -> Vec<Document> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.ends_with(".yaml") && path != "k8s/service.example.yaml" {
                found.extend(documents(&path));
            }
        }
    }
    found.sort_by(|a, b| a.file.cmp(&b.file));
    found
}

/// Returns the documents of one file.
pub(crate) fn documents(file: &str) -> Vec<Document> {
    let text =
        fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let bodies: Vec<Value> =
        serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let each = bodies.into_iter();
    each.map(|body| Document {
        file: file.to_owned(),
        body,
    })
    .collect()
}

/// Returns the only document of a file.
pub(crate) fn document(file: &str) -> Value {
    let mut documents = documents(file);
    assert_eq!(documents.len(), 1, "{file}");
    documents.remove(0).body
}

impl Document {
    pub(crate) fn kind(&self) -> &str {
        self.body["kind"].as_str().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.body["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.body["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
    }
}

/// Returns all documents of a kind.
pub(crate) fn of<'a>(all: &'a [Document], kind: &str) -> Vec<&'a Document> {
    let found: Vec<_> = all.iter().filter(|it| it.kind() == kind).collect();
    assert!(!found.is_empty(), "no {kind}");
    found
}

/// Returns the only document of that kind and name.
pub(crate) fn one<'a>(all: &'a [Document], kind: &str, name: &str) -> &'a Document {
    let mut found = all
        .iter()
        .filter(|it| it.kind() == kind && it.name() == name);
    let first = found.next().unwrap_or_else(|| panic!("no {kind} {name}"));
    assert!(found.next().is_none(), "two {kind} {name}");
    first
}

/// Whether `whole` contains all keys of `part` with the same values.
pub(crate) fn within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|other| within(value, other))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(a, b)| within(a, b))
        }
        _ => part == whole,
    }
}
