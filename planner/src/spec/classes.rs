//! Request classes of a service. The planner does not use them: it passes them on to the filters'
//! configuration (`weir manifests`), and the filter's own parser validates them.

use serde_json::{Map, Value, json};
use weir_filter::config::{Config, ConfigError as PluginError};

use super::raw::RawClass;
use crate::service::rule::refusal;
use crate::service::{Classes, ConfigError};

/// Checks the classes, and returns them as keys of the plugin configuration.
///
/// # Errors
/// The filter would refuse them.
pub(super) fn classes(
    list: &[RawClass],
    default_class: Option<&str>,
    max_skips: Option<u32>,
) -> Result<Classes, ConfigError> {
    let mut keys = Map::new();
    if !list.is_empty() {
        let list: Vec<Value> = list.iter().map(plugin).collect();
        keys.insert("classes".to_owned(), json!(list));
    }
    if let Some(name) = default_class {
        keys.insert("default_class".to_owned(), json!(name));
    }
    if let Some(max_skips) = max_skips {
        keys.insert("max_skips".to_owned(), json!(max_skips));
    }
    let variant = json!({"name": "a", "cluster": "a", "share": 1, "slots": 1, "service_ms": 1, "accuracy": 1});
    let mut config = json!({"service": "a", "plan": {"variants": [variant]}});
    if let Some(config) = config.as_object_mut() {
        config.extend(keys.clone());
    }
    match Config::parse(config.to_string().as_bytes()) {
        Ok(_) => Ok(Classes(keys)),
        Err(PluginError::Value { path, value, right }) => {
            Err(refusal(service_keys(&path), value, &service_keys(&right)))
        }
        Err(other) => Err(ConfigError::Form {
            path: "classes".to_owned(),
            message: other.to_string(),
        }),
    }
}

/// Keys of the plugin configuration that the service file names otherwise.
const PLUGIN_KEYS: [(&str, &str); 3] = [
    ("default_class", "defaultClass"),
    ("max_skips", "maxSkips"),
    ("max_requests", "maxRequests"),
];

/// Returns a class with the keys of the plugin configuration.
fn plugin(class: &RawClass) -> Value {
    let mut class = json!(class);
    if let Some(keys) = class.as_object_mut() {
        for (plugin, service) in PLUGIN_KEYS {
            if let Some(value) = keys.remove(service) {
                keys.insert(plugin.to_owned(), value);
            }
        }
    }
    class
}

/// Returns a text of the filter with the keys of the service file.
fn service_keys(text: &str) -> String {
    PLUGIN_KEYS
        .iter()
        .fold(text.to_owned(), |text, (plugin, service)| {
            text.replace(plugin, service)
        })
}

#[cfg(test)]
mod tests {
    use crate::service::Service;
    use crate::spec::tests::small;

    fn read(classes: &str) -> Result<Service, String> {
        let text = small() + classes;
        Service::from_yaml(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn classes_become_filter_configuration() {
        let text = "classes:\n\
            - {name: gold, share: 0.7, priority: 1, maxRequests: 50, claim: {header: x-team, values: [a, b*]}}\n\
            - {name: low, share: 0.3}\n\
            defaultClass: low\nmaxSkips: 8\n";
        let service = read(text).unwrap();
        let expected = serde_json::json!({
            "classes": [
                {"name": "gold", "share": 0.7, "priority": 1, "max_requests": 50,
                    "claim": {"header": "x-team", "values": ["a", "b*"]}},
                {"name": "low", "share": 0.3, "priority": 0}],
            "default_class": "low", "max_skips": 8,
        });
        assert_eq!(
            serde_json::Value::Object(service.classes.plugin()),
            expected
        );
        assert!(read("").unwrap().classes.plugin().is_empty());
    }

    #[test]
    fn classes_invalid_for_filter_are_refused() {
        let check = |text: &str, expected: &str| {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        };
        let low = "{name: low, share: 0.6}";
        check(&format!("classes: [{low}]\n"), "defaultClass: (missing)");
        check("defaultClass: low\n", "defaultClass: 'low'");
        check("maxSkips: 3\n", "maxSkips: 3");
        check(
            "classes: [{name: a, share: 1, maxRequests: 0}]\ndefaultClass: a\n",
            "classes[0].maxRequests: 0",
        );
        check(
            &format!("classes: [{low}, {low}]\ndefaultClass: low\n"),
            "classes[1].name: 'low'",
        );
        let more = "{name: more, share: 0.6}";
        check(
            &format!("classes: [{low}, {more}]\ndefaultClass: low\n"),
            "classes[].share: class shares over 100 %: low + more",
        );
        check(
            "classes: [{name: low, share: 0.6, maxRequests: 0}]\ndefaultClass: low\n",
            "classes[0].maxRequests: 0",
        );
        check("classes: [{name: low, part: 1}]\n", "classes[0]");
    }
}
