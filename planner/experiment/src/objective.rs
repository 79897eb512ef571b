//! Changes of a scenario that give its requests another latency objective.

use std::path::Path;

use serde_json::Value;
use weir_planner::spec::{RawDuration, from_yaml};
use weir_replay::scenario::SCENARIO_BYTES_MAX;
use weir_sim::load::read_bounded;

/// Parts of a scenario with objectives.
const PARTS: [&str; 3] = ["service", "clients", "classes"];

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
            [.., "service", "slo"] | [.., "slo_ms"] => true,
            [.., part] if PARTS.contains(part) => other(part),
            [.., part @ "classes", _] => other(part),
            ["services"] | ["services", _] | ["services", _, "scenario"] => {
                PARTS.into_iter().any(other)
            }
            _ => false,
        }
    };
    keys.map(String::as_str).find(|key| is_objective(key))
}

/// Objectives in a part of a scenario, or of the scenario of each of its services.
fn part_of(scenario: &Value, part: &str, folder: &Path) -> Vec<Vec<(String, Value)>> {
    let services = scenario.get("services").and_then(Value::as_array);
    let Some(services) = services else {
        return vec![part_of_one(scenario, part, folder)];
    };
    let each = services.iter().map(|service| service.get("scenario"));
    each.map(|one| part_of_one(one.unwrap_or(&Value::Null), part, folder))
        .collect()
}

/// Objectives in a part of one service's scenario, with the names of their classes.
fn part_of_one(scenario: &Value, part: &str, folder: &Path) -> Vec<(String, Value)> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objective_of_one_of_several_services_is_one() {
        let with = |slo: &str| {
            let scenario = json!({ "service": { "slo": slo }, "load": { "rps": 5 } });
            let other = json!({ "service": { "slo": "1s" } });
            json!({ "services": [{ "name": "a", "scenario": scenario }, { "name": "b", "scenario": other }] })
        };
        for (key, slo, expected) in [
            ("services.*.scenario.service.slo", "2s", true),
            ("services.a.scenario.classes.0.slo_ms", "1s", true),
            ("services.a.scenario.service", "2s", true),
            ("services.a.scenario.service", "1000ms", false),
            ("services.a.scenario", "2s", true),
            ("services.a", "1s", false),
            ("services", "2s", true),
            ("services.a.scenario.load.rps", "2s", false),
        ] {
            let key = key.to_owned();
            let found = changed([&key].into_iter(), (&with("1s"), &with(slo)), Path::new(""));
            assert_eq!(found.is_some(), expected, "{key} {slo}");
        }
    }
}
