//! Changes of a scenario that give its requests another latency objective.

use std::path::Path;

use serde_json::Value;
use weir_planner::spec::{RawDuration, from_yaml};
use weir_replay::scenario::SCENARIO_BYTES_MAX;
use weir_sim::load::read_bounded;

/// Returns the first of the changed keys that is an objective, or a whole mapping with another one than in `base`.
pub(crate) fn changed<'a>(
    keys: impl Iterator<Item = &'a String>,
    (base, scenario): (&Value, &Value),
    folder: &Path,
) -> Option<&'a str> {
    let is_objective = |key: &str| {
        let parts: Vec<&str> = key.split('.').collect();
        let other = |part: &str| part_of(base, part, folder) != part_of(scenario, part, folder);
        match parts.as_slice() {
            ["service", "slo"] | [.., "slo_ms"] => true,
            [part @ ("service" | "clients" | "classes")] | [part @ "classes", _] => other(part),
            _ => false,
        }
    };
    keys.map(String::as_str).find(|key| is_objective(key))
}

/// Objectives in a part of a scenario, with the names of their classes.
fn part_of(scenario: &Value, part: &str, folder: &Path) -> Vec<(String, Value)> {
    let part = scenario.get(part).unwrap_or(&Value::Null);
    match part {
        Value::Array(classes) => {
            let slo = |class: &Value| {
                let slo = class.get("slo_ms")?.clone();
                Some((class.get("name")?.as_str()?.to_owned(), slo))
            };
            classes.iter().filter_map(slo).collect()
        }
        Value::String(file) => {
            let text = read_bounded(&folder.join(file), SCENARIO_BYTES_MAX).unwrap_or_default();
            let service: Value = from_yaml(&text, "service file").unwrap_or_default();
            one(&service)
        }
        mapping => one(mapping),
    }
}

fn one(mapping: &Value) -> Vec<(String, Value)> {
    let slo = mapping.get("slo").or_else(|| mapping.get("slo_ms"));
    let slo = slo.map(|slo| {
        // 1s is 1000ms.
        let duration: Result<RawDuration, _> = serde_json::from_value(slo.clone());
        duration.map_or_else(|_| slo.clone(), |duration| duration.0.as_secs_f64().into())
    });
    slo.map(|slo| (String::new(), slo)).into_iter().collect()
}
