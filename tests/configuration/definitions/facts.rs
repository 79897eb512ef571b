//! Facts of definitions, and the schema of each release that follows from them.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use weir_apiserver::Definition;

use crate::manifests::root;

/// Folders of facts, one for each project.
const PROJECTS: [&str; 4] = [
    "envoy-gateway",
    "gateway-api",
    "istio",
    "prometheus-operator",
];
/// Keywords of a field with the name that a schema has for them. Any other keyword is refused.
const KEYWORDS: [(&str, &str); 23] = [
    ("allOf", "allOf"),
    ("anyOf", "anyOf"),
    ("default", "default"),
    ("enum", "enum"),
    ("format", "format"),
    ("intOrString", "x-kubernetes-int-or-string"),
    ("keepsUnknown", "x-kubernetes-preserve-unknown-fields"),
    ("listKeys", "x-kubernetes-list-map-keys"),
    ("listType", "x-kubernetes-list-type"),
    ("maxItems", "maxItems"),
    ("maxLength", "maxLength"),
    ("maxProperties", "maxProperties"),
    ("maximum", "maximum"),
    ("minItems", "minItems"),
    ("minLength", "minLength"),
    ("minProperties", "minProperties"),
    ("minimum", "minimum"),
    ("not", "not"),
    ("nullable", "nullable"),
    ("oneOf", "oneOf"),
    ("pattern", "pattern"),
    ("required", "required"),
    ("type", "type"),
];
/// Formats that the emulated API server checks.
const FORMATS: [&str; 3] = ["int32", "int64", "duration"];

/// Facts of one kind.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Facts {
    kind: String,
    api_version: String,
    /// Repository and path of the definition.
    source: String,
    /// Releases that have the kind, oldest first.
    releases: Vec<String>,
    /// Required fields of the object.
    #[serde(default)]
    required: Vec<String>,
    /// Fields by path: the facts of all releases, or a list of facts with the releases that they hold for.
    fields: BTreeMap<String, Value>,
}

/// Definitions of one release of a project.
#[derive(Debug)]
pub(crate) struct Release {
    /// Project and release, as in `istio 1.30`.
    pub(crate) name: String,
    definitions: BTreeMap<(String, String), Definition>,
}

impl Release {
    /// Returns the reasons to refuse a document, or `None` if the release does not have its kind.
    pub(crate) fn refusals(&mut self, document: &Value) -> Option<Vec<String>> {
        let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
        let definition = self
            .definitions
            .get_mut(&(text("apiVersion"), text("kind")))?;
        let refusals = definition.refusals(document);
        let unevaluated = definition.unevaluated_rules();
        assert!(unevaluated.is_empty(), "{}: {unevaluated:?}", self.name);
        Some(refusals)
    }
}

/// Returns the definitions of every release of every project, oldest release first.
pub(crate) fn releases() -> Vec<Release> {
    let mut found = Vec::new();
    for project in PROJECTS {
        let all = facts(project);
        let mut names: Vec<&str> = Vec::new();
        for name in all.iter().flat_map(|facts| &facts.releases) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names.sort_by_key(|name| number(name));
        for name in names {
            let having = all.iter().filter(|facts| facts.position(name).is_some());
            let definitions = having.map(|facts| {
                let key = (facts.api_version.clone(), facts.kind.clone());
                (key, Definition::new(facts.schema(name)))
            });
            found.push(Release {
                name: format!("{project} {name}"),
                definitions: definitions.collect(),
            });
        }
    }
    found
}

/// Returns a release's numbers, by which releases are ordered.
fn number(release: &str) -> Vec<u32> {
    release
        .split('.')
        .map(|part| part.parse().unwrap())
        .collect()
}

fn facts(project: &str) -> Vec<Facts> {
    let folder = root().join("tests/configuration/definitions").join(project);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let facts: Result<Facts, _> = serde_saphyr::from_str(&text);
        let facts = facts.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!facts.source.is_empty(), "{}", path.display());
        found.push(facts);
    }
    found
}

impl Facts {
    fn position(&self, release: &str) -> Option<usize> {
        self.releases.iter().position(|name| name == release)
    }

    /// Whether facts with these bounds (`from`, `to`) hold for a release.
    fn holds(&self, bounds: &Map<String, Value>, release: &str) -> bool {
        let bound = |key: &str, otherwise: usize| {
            let name = bounds.get(key);
            name.map_or(otherwise, |name| {
                let name = name
                    .as_str()
                    .unwrap_or_else(|| panic!("{}: {bounds:?}", self.kind));
                self.position(name)
                    .unwrap_or_else(|| panic!("{}: no release {name}", self.kind))
            })
        };
        let range = bound("from", 0)..=bound("to", self.releases.len());
        range.contains(&self.position(release).unwrap())
    }

    /// Returns the schema of a release, in the form of a definition's `openAPIV3Schema`.
    fn schema(&self, release: &str) -> Value {
        let mut schema = json!({ "type": "object", "required": self.required });
        for (path, facts) in &self.fields {
            let each = match facts {
                Value::Array(list) => list.as_slice(),
                single => std::slice::from_ref(single),
            };
            let each = each.iter().map(|facts| facts.as_object().unwrap());
            let mut held = each.filter(|facts| self.holds(facts, release));
            let Some(facts) = held.next() else { continue };
            assert!(
                held.next().is_none(),
                "{}: {path}: twice in {release}",
                self.kind
            );
            let field = field(&mut schema, path);
            for (key, value) in facts {
                if key == "from" || key == "to" {
                    continue;
                }
                let (name, value) = match key.as_str() {
                    "rules" => ("x-kubernetes-validations", self.rules(value, release)),
                    key => (keyword(key), checked(key, value)),
                };
                field
                    .as_object_mut()
                    .unwrap()
                    .insert(name.to_owned(), value);
            }
        }
        schema
    }

    fn rules(&self, rules: &Value, release: &str) -> Value {
        let rules = rules.as_array().unwrap().iter();
        let rules = rules.map(|rule| rule.as_object().unwrap());
        let held = rules.filter(|rule| self.holds(rule, release));
        held.map(|rule| {
            let known = |key: &&String| ["rule", "message", "from", "to"].contains(&key.as_str());
            assert!(
                rule.keys().all(|key| known(&key)),
                "{}: {rule:?}",
                self.kind
            );
            json!({ "rule": rule["rule"], "message": rule["message"] })
        })
        .collect()
    }
}

/// Returns the schema of the field at a path, and makes those above it: `a.b` is a key of an object, `a[]` an item of a
/// list, `a{}` a value of a map.
fn field<'a>(schema: &'a mut Value, path: &str) -> &'a mut Value {
    let mut schema = schema;
    for part in path.split('.') {
        let name = part.trim_end_matches(['[', ']', '{', '}']);
        schema["type"] = json!("object");
        schema = &mut schema["properties"][name];
        let mut rest = &part[name.len()..];
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(2);
            let (of, below) = match head {
                "[]" => ("array", "items"),
                "{}" => ("object", "additionalProperties"),
                other => panic!("{path}: {other}"),
            };
            schema["type"] = json!(of);
            schema = &mut schema[below];
            rest = tail;
        }
        if schema.is_null() {
            *schema = json!({});
        }
    }
    schema
}

fn keyword(key: &str) -> &'static str {
    let found = KEYWORDS.iter().find(|(ours, _)| *ours == key);
    found.unwrap_or_else(|| panic!("unknown keyword {key}")).1
}

/// Returns a keyword's value, with the keywords inside it checked.
fn checked(key: &str, value: &Value) -> Value {
    let parts = match (key, value) {
        ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => parts.as_slice(),
        ("not", part) => std::slice::from_ref(part),
        ("format", Value::String(format)) => {
            assert!(
                FORMATS.contains(&format.as_str()),
                "unknown format {format}"
            );
            &[]
        }
        _ => &[],
    };
    for part in parts {
        for (key, value) in part.as_object().unwrap() {
            assert_eq!(keyword(key), key, "{part}");
            checked(key, value);
        }
    }
    value.clone()
}
