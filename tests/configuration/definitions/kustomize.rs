//! The part of kustomize that the overlays use: resources, components, patches of maps, deletions, JSON patches of
//! operation `replace`, and replacements of one value. Anything else fails the test.

use std::collections::BTreeMap;

use serde_json::Value;

/// Documents by their file's path.
pub(crate) type Files = BTreeMap<String, Vec<Value>>;

/// Returns the documents that kustomize would make of a folder.
pub(crate) fn build(files: &Files, folder: &str) -> Vec<Value> {
    let mut documents = Vec::new();
    let list = kustomization(files, folder);
    for (key, value) in list.as_object().unwrap() {
        let known = [
            "apiVersion",
            "components",
            "kind",
            "patches",
            "replacements",
            "resources",
        ];
        assert!(known.contains(&key.as_str()), "{folder}: {key}: {value}");
    }
    for resource in strings(&list["resources"]) {
        let path = join(folder, &resource);
        match files.get(&path) {
            Some(found) => documents.extend(found.iter().cloned()),
            None => documents.extend(build(files, &path)),
        }
    }
    apply(&list, &mut documents, folder);
    for component in strings(&list["components"]) {
        let folder = join(folder, &component);
        add_component(files, &folder, &mut documents);
    }
    documents
}

/// Applies a component to documents.
pub(crate) fn add_component(files: &Files, folder: &str, documents: &mut Vec<Value>) {
    let list = kustomization(files, folder);
    assert_eq!(list["kind"], "Component", "{folder}");
    for resource in strings(&list["resources"]) {
        documents.extend(files[&join(folder, &resource)].iter().cloned());
    }
    apply(&list, documents, folder);
}

fn kustomization(files: &Files, folder: &str) -> Value {
    let path = format!("{folder}/kustomization.yaml");
    let found = files.get(&path).unwrap_or_else(|| panic!("no {path}"));
    found[0].clone()
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// Joins a folder and a relative path.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn apply(list: &Value, documents: &mut Vec<Value>, folder: &str) {
    for patch in list["patches"].as_array().into_iter().flatten() {
        let body: Value = serde_saphyr::from_str(patch["patch"].as_str().unwrap()).unwrap();
        let of = patch.get("target").unwrap_or(&body).clone();
        let fits = |document: &Value| is_selected(document, &of);
        assert!(documents.iter().any(fits), "{folder}: nothing for {patch}");
        if body["$patch"] == "delete" {
            documents.retain(|document| !fits(document));
            continue;
        }
        for document in documents.iter_mut().filter(|document| fits(document)) {
            match &body {
                Value::Array(operations) => operations.iter().for_each(|it| replace(document, it)),
                body => merge(document, body),
            }
        }
    }
    for replacement in list["replacements"].as_array().into_iter().flatten() {
        let source = &replacement["source"];
        let from = documents.iter().find(|it| is_selected(it, source)).unwrap();
        let path = pointer(source["fieldPath"].as_str().unwrap());
        let value = part(from.pointer(&path).unwrap(), source.get("options"));
        for target in replacement["targets"].as_array().unwrap() {
            for path in strings(&target["fieldPaths"]) {
                let selected = documents.iter_mut();
                let selected = selected.filter(|it| is_selected(it, &target["select"]));
                for document in selected {
                    *document.pointer_mut(&pointer(&path)).unwrap() = value.clone();
                }
            }
        }
    }
}

/// Returns the part of a source's value that its options select, or all of it without options.
fn part(value: &Value, options: Option<&Value>) -> Value {
    let Some(options) = options else {
        return value.clone();
    };
    for (key, value) in options.as_object().unwrap() {
        let known = ["delimiter", "index"].contains(&key.as_str());
        assert!(known, "{key}: {value}");
    }
    let delimiter = options["delimiter"].as_str().unwrap();
    let index = options["index"].as_u64().unwrap() as usize;
    Value::from(value.as_str().unwrap().split(delimiter).nth(index).unwrap())
}

/// Converts kustomize's `a.b.0` to a JSON pointer.
fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// Whether a document has the kind, name, namespace and label of a selection; a patch names them in its metadata.
fn is_selected(document: &Value, of: &Value) -> bool {
    let same = |key: &str, actual: &Value| {
        let expected = of.get(key).or_else(|| of["metadata"].get(key));
        expected.is_none_or(|expected| expected == actual)
    };
    let metadata = &document["metadata"];
    let has_label = |selector: &str| {
        let (label, value) = selector.split_once('=').unwrap();
        metadata["labels"][label] == value
    };
    let labels = of.get("labelSelector").and_then(Value::as_str);
    labels.is_none_or(has_label)
        && same("kind", &document["kind"])
        && same("name", &metadata["name"])
        && same("namespace", &metadata["namespace"])
}

fn replace(document: &mut Value, operation: &Value) {
    assert_eq!(operation["op"], "replace", "{operation}");
    let at = operation["path"].as_str().unwrap();
    let place = document.pointer_mut(at);
    *place.unwrap_or_else(|| panic!("nothing at {at}")) = operation["value"].clone();
}

fn merge(document: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        assert!(!patch.is_array(), "lists are merged by kind: {patch}");
        *document = patch.clone();
        return;
    };
    for (key, value) in patch {
        merge(&mut document[key], value);
    }
}
