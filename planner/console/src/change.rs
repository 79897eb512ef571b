//! Changes to a service file: what a person moves in the console, applied to the document as written.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::ConsoleError;

/// Policies whose weights have a section of their own; InfAdapter's are `objective`.
const SECTIONS: [&str; 4] = ["sponge", "ipa", "infaas", "themis"];

/// Changes to a service.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Changes {
    /// SLO, in ms.
    pub slo_ms: Option<f64>,
    /// Budget, in cores.
    pub budget_cores: Option<f64>,
    /// Settings of the policy, by their keys in the file.
    pub weights: BTreeMap<String, f64>,
    /// Variants that are left out.
    pub off: BTreeSet<String>,
    /// Limits on the cores of variants, by name.
    pub cores: BTreeMap<String, CoresRange>,
}

/// Limits on the cores of a variant.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CoresRange {
    /// Minimum.
    pub min: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
}

impl Changes {
    /// Applies the changes to a service file.
    ///
    /// # Errors
    /// A variant that the file does not have, or a stage without variants. Values are checked when the service is read.
    pub fn apply(&self, document: &mut Value) -> Result<(), ConsoleError> {
        let keys = keys_of(document)?;
        if let Some(slo_ms) = self.slo_ms {
            keys.insert("slo".to_owned(), json!(format!("{slo_ms}ms")));
        }
        if let Some(cores) = self.budget_cores {
            let budget = keys.entry("budget").or_insert_with(|| json!({}));
            if let Some(budget) = budget.as_object_mut() {
                budget.insert("cores".to_owned(), number(cores));
            }
        }
        let section = section(keys);
        for (key, value) in &self.weights {
            let section = keys.entry(section.clone()).or_insert_with(|| json!({}));
            if let Some(section) = section.as_object_mut() {
                section.insert(key.clone(), json!(value));
            }
        }
        self.check_names(keys)?;
        for list in lists(keys) {
            list.retain(|variant| name(variant).is_none_or(|name| !self.off.contains(name)));
            if list.is_empty() {
                let names: Vec<&str> = self.off.iter().map(String::as_str).collect();
                let right = "such that each stage keeps a variant";
                return Err(ConsoleError::value("off", names.join(", "), right));
            }
            for variant in list {
                let Some(range) = name(variant).and_then(|name| self.cores.get(name)) else {
                    continue;
                };
                let cores = variant.as_object_mut().map(|keys| {
                    let cores = keys.entry("cores").or_insert_with(|| json!({}));
                    cores.as_object_mut()
                });
                if let Some(cores) = cores.flatten() {
                    let given = [("min", range.min), ("max", range.max)];
                    for (key, value) in given {
                        if let Some(value) = value {
                            cores.insert(key.to_owned(), number(value));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn check_names(&self, keys: &mut Map<String, Value>) -> Result<(), ConsoleError> {
        let known: BTreeSet<String> = variants(keys)
            .filter_map(|variant| name(variant).map(str::to_owned))
            .collect();
        let names = [("off", self.off.iter().collect::<Vec<_>>())];
        let names = names
            .into_iter()
            .chain([("cores", self.cores.keys().collect())]);
        for (path, names) in names {
            if let Some(name) = names.into_iter().find(|name| !known.contains(*name)) {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let right = format!("a variant: {}", known.join(", "));
                return Err(ConsoleError::value(path, name, right));
            }
        }
        Ok(())
    }
}

/// Name of the section that has the policy's settings.
fn section(keys: &Map<String, Value>) -> String {
    let policy = keys.get("policy").and_then(Value::as_str);
    match policy.filter(|policy| SECTIONS.contains(policy)) {
        Some(policy) => policy.to_owned(),
        None => "objective".to_owned(),
    }
}

/// Adds the keys that a decision does not need, and lets it move freely: no tolerance, and the fewest initial cores.
pub(crate) fn fill_in(document: &mut Value) -> Result<(), ConsoleError> {
    let keys = keys_of(document)?;
    if !keys.contains_key("keyFile") {
        keys.entry("keyEnv").or_insert(json!("WEIR_KEY"));
    }
    keys.entry("listen").or_insert(json!("127.0.0.1:0"));
    keys.entry("proxies")
        .or_insert(json!({ "stats": ["http://127.0.0.1/stats"] }));
    let section = section(keys);
    if ["objective", "ipa", "themis"].contains(&section.as_str()) {
        let section = keys.entry(section).or_insert_with(|| json!({}));
        if let Some(section) = section.as_object_mut() {
            section.insert("tolerance".to_owned(), json!(0));
        }
    }
    for variant in variants(keys) {
        let Some(variant) = variant.as_object_mut() else {
            continue;
        };
        let placed = ["workload", "cgroup", "systemd"];
        if !placed.iter().any(|key| variant.contains_key(*key)) {
            variant
                .entry("resize")
                .or_insert(json!("http://127.0.0.1/resize"));
        }
        for key in ["cores", "replicas"] {
            if let Some(amount) = variant.get_mut(key).and_then(Value::as_object_mut) {
                let min = amount.get("min").cloned().unwrap_or(json!(1));
                let max = amount.get("initial").cloned();
                if let Some(max) = max.filter(|_| key == "replicas") {
                    amount.entry("max").or_insert(max);
                }
                amount.insert("initial".to_owned(), min);
            }
        }
    }
    Ok(())
}

/// Sets the initial cores and replicas of a variant.
pub(crate) fn set_initial(
    document: &mut Value,
    variant: &str,
    cores: f64,
    replicas: u32,
) -> Result<(), ConsoleError> {
    let keys = keys_of(document)?;
    for written in variants(keys).filter(|written| name(written) == Some(variant)) {
        let Some(written) = written.as_object_mut() else {
            continue;
        };
        let given = [("cores", number(cores)), ("replicas", json!(replicas))];
        for (key, value) in given {
            let Some(amount) = written.get_mut(key).and_then(Value::as_object_mut) else {
                continue;
            };
            // A replica that does not run has cores in the file all the same.
            if key == "cores" && replicas == 0 && amount.get("min") != Some(&json!(0)) {
                continue;
            }
            if let Some(before) = amount.get("initial").cloned().filter(|_| key == "replicas") {
                amount.entry("max").or_insert(before);
            }
            amount.insert("initial".to_owned(), value);
        }
    }
    Ok(())
}

/// Initial cores of a replica and replicas of each variant, as written.
pub(crate) fn initial(document: &mut Value) -> Result<BTreeMap<String, (f64, u32)>, ConsoleError> {
    let keys = keys_of(document)?;
    let each = variants(keys).filter_map(|variant| {
        let amount = |key: &str| variant.get(key)?.get("initial")?.as_f64();
        let replicas = amount("replicas").map_or(1, |replicas| replicas as u32);
        Some((name(variant)?.to_owned(), (amount("cores")?, replicas)))
    });
    Ok(each.collect())
}

fn keys_of(document: &mut Value) -> Result<&mut Map<String, Value>, ConsoleError> {
    let refused = || {
        let right = "a mapping: the keys of a service file";
        ConsoleError::value("service file", "no mapping", right)
    };
    document.as_object_mut().ok_or_else(refused)
}

fn name(variant: &Value) -> Option<&str> {
    variant.get("name")?.as_str()
}

/// Lists of variants: of the service, or of each stage.
fn lists(keys: &mut Map<String, Value>) -> Vec<&mut Vec<Value>> {
    let mut lists = Vec::new();
    for (key, value) in keys {
        match (key.as_str(), value) {
            ("variants", Value::Array(list)) => lists.push(list),
            ("stages", Value::Array(stages)) => lists.extend(
                stages
                    .iter_mut()
                    .filter_map(|stage| stage.get_mut("variants")?.as_array_mut()),
            ),
            _ => {}
        }
    }
    lists
}

fn variants(keys: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    lists(keys).into_iter().flatten()
}

/// A whole number as one: files have `cores: 4`.
fn number(value: f64) -> Value {
    if value >= 0.0 && value.fract() == 0.0 && value <= f64::from(u32::MAX) {
        return json!(value as u64);
    }
    json!(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        json!({
            "service": "demo", "slo": "1s", "budget": { "cores": 8 },
            "variants": [
                { "name": "a", "cores": { "initial": 3 } },
                { "name": "b", "cores": { "initial": 4, "min": 0 } },
            ],
        })
    }

    fn changed(changes: Value) -> Result<Value, String> {
        let changes: Changes = serde_json::from_value(changes).unwrap();
        let mut document = document();
        let applied = changes.apply(&mut document);
        applied
            .map(|()| document)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn changes_are_written_into_the_file() {
        for (changes, path, expected) in [
            (json!({ "slo_ms": 750 }), "/slo", json!("750ms")),
            (json!({ "budget_cores": 6 }), "/budget/cores", json!(6)),
            (json!({ "budget_cores": 2.5 }), "/budget/cores", json!(2.5)),
            (
                json!({ "weights": { "beta": 0.2 } }),
                "/objective/beta",
                json!(0.2),
            ),
            (json!({ "off": ["a"] }), "/variants/0/name", json!("b")),
            (
                json!({ "cores": { "b": { "max": 2 } } }),
                "/variants/1/cores/max",
                json!(2),
            ),
        ] {
            let got = changed(changes.clone()).unwrap();
            assert_eq!(got.pointer(path), Some(&expected), "{changes}");
        }
    }

    #[test]
    fn impossible_changes_are_refused() {
        for (changes, message) in [
            (
                json!({ "off": ["c"] }),
                "off: c; it must be a variant: a, b",
            ),
            (json!({ "cores": { "c": {} } }), "cores: c; it must be"),
            (
                json!({ "off": ["a", "b"] }),
                "off: a, b; it must be such that each stage",
            ),
        ] {
            assert!(changed(changes).unwrap_err().contains(message));
        }
    }

    #[test]
    fn weights_of_a_policy_go_to_its_section() {
        let mut document =
            json!({ "policy": "ipa", "stages": [{ "name": "s", "variants": [{ "name": "a" }] }] });
        let changes: Changes =
            serde_json::from_value(json!({ "weights": { "alpha": 3.0 } })).unwrap();
        changes.apply(&mut document).unwrap();
        assert_eq!(document["ipa"]["alpha"], json!(3.0));
        fill_in(&mut document).unwrap();
        assert_eq!(document["ipa"]["tolerance"], json!(0));
    }

    #[test]
    fn initial_state_is_read_and_written() {
        let mut document = document();
        let read = initial(&mut document).unwrap();
        assert_eq!((read["a"], read["b"]), ((3.0, 1), (4.0, 1)));
        set_initial(&mut document, "b", 0.0, 0).unwrap();
        set_initial(&mut document, "a", 5.0, 1).unwrap();
        let read = initial(&mut document).unwrap();
        assert_eq!((read["a"], read["b"]), ((5.0, 1), (0.0, 1)));
    }
}
