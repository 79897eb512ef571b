//! Wrong documents are refused, each with the field and the definition's own message.

use serde::Deserialize;
use serde_json::{Value, json};

use super::manifests::Definitions;

/// A valid document, and wrong values for it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wrong {
    api_version: String,
    kind: String,
    spec: Value,
    /// JSON pointer, value, release that refuses it, and part of the refusal.
    rows: Vec<(String, Value, String, String)>,
}

impl Wrong {
    fn document(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind,
            "metadata": { "name": "weir", "namespace": "models" }, "spec": self.spec,
        })
    }
}

fn table() -> Vec<Wrong> {
    serde_saphyr::from_str(include_str!("wrong.yaml")).unwrap()
}

/// Puts a value at a JSON pointer; `null` removes what is there.
fn put(document: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent);
    match parent.unwrap_or_else(|| panic!("nothing above {pointer}")) {
        Value::Object(map) if value.is_null() => drop(map.remove(key)),
        Value::Object(map) => drop(map.insert(key.to_owned(), value)),
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        other => panic!("{pointer}: {other}"),
    }
}

#[test]
fn wrong_document_is_refused_with_field_and_message() {
    let mut definitions = Definitions::new();
    let mut missed = Vec::new();
    for wrong in table() {
        let good = wrong.document();
        definitions.accept("wrong.yaml", &good);
        for (pointer, value, release, expected) in wrong.rows {
            let mut document = good.clone();
            put(&mut document, &pointer, value.clone());
            let found = definitions.refusals(&document);
            let hit = |(name, refusal): &(String, String)| {
                *name == release && refusal.contains(&expected)
            };
            if !found.iter().any(hit) {
                let kind = &wrong.kind;
                missed.push(format!(
                    "{kind} {pointer} = {value}: not '{expected}' of {release} but {found:?}"
                ));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// A value that a later release allows is refused before.
#[test]
fn value_is_refused_before_the_release_that_has_it() {
    let table = table();
    let wrong = table.iter().find(|wrong| wrong.kind == "EnvoyFilter");
    let mut document = wrong.unwrap().document();
    let at = "/spec/configPatches/0/match/context";
    put(&mut document, at, json!("WAYPOINT"));
    let found = Definitions::new().refusals(&document);
    let refusing = |release: &str, what: &str| {
        let mut found = found.iter();
        found.any(|(name, refusal)| name == release && refusal.contains(what))
    };
    let unsupported = "Unsupported value";
    assert!(refusing("istio 1.28", unsupported), "{found:#?}");
    assert!(!refusing("istio 1.29", unsupported), "{found:#?}");
    // The later release has a rule for the value instead.
    let rule = "only support waypointMatch when context is WAYPOINT";
    assert!(refusing("istio 1.29", rule), "{found:#?}");
    assert!(!refusing("istio 1.28", rule), "{found:#?}");
}
