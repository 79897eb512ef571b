//! Settings of the filters that a service states itself, in the keys of the plugin configuration. The planner does not
//! use them: `weir manifests` passes them on, and the filter's own parser validates them here.

use serde_json::{Map, Value, json};
use weir_filter::config::{Config, ConfigError as PluginError};

use crate::service::rule::refusal;
use crate::service::{Classes, ConfigError, FilterSettings};

/// Keys of the plugin configuration that follow from other keys of the service, and those.
const DERIVED: [(&str, &str); 9] = [
    ("service", "service"),
    ("plan", "variants"),
    ("planner", "the options of `weir manifests`"),
    ("match", "the options of `weir manifests`"),
    ("role", "the place of the filter"),
    ("variant", "the place of the filter"),
    ("classes", "classes"),
    ("default_class", "defaultClass"),
    ("max_skips", "maxSkips"),
];

/// Checks the settings beside the service's classes, which may need a header more.
///
/// # Errors
/// A key that follows from another one, or what the filter would refuse.
pub(super) fn filter(
    keys: Map<String, Value>,
    classes: &Classes,
) -> Result<FilterSettings, ConfigError> {
    let derived = |source: &str| format!("left out: it follows from {source}");
    for (key, source) in DERIVED {
        if let Some(value) = keys.get(key) {
            return Err(refusal(format!("filter.{key}"), value, &derived(source)));
        }
    }
    if let Some(value) = keys.get("deadline").and_then(|it| it.get("default_ms")) {
        return Err(refusal(
            "filter.deadline.default_ms",
            value,
            &derived("slo"),
        ));
    }
    let variant = json!({"name": "a", "cluster": "a", "share": 1, "slots": 1, "service_ms": 1, "accuracy": 1});
    let mut config = json!({"service": "a", "plan": {"variants": [variant]}});
    if let Some(config) = config.as_object_mut() {
        config.extend(classes.plugin());
        config.extend(keys.clone());
    }
    match Config::parse(config.to_string().as_bytes()) {
        Ok(_) => Ok(FilterSettings(keys)),
        Err(PluginError::Value { path, value, right }) => {
            Err(refusal(format!("filter.{path}"), value, &right))
        }
        Err(PluginError::Shape(misread)) => Err(ConfigError::Form {
            path: format!("filter.{}", misread.path),
            message: misread.what,
        }),
        Err(other) => Err(ConfigError::Form {
            path: "filter".to_owned(),
            message: other.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::service::{FilterSettings, Service};
    use crate::spec::tests::small;

    fn read(filter: &str) -> Result<FilterSettings, String> {
        let text = format!("{}filter: {filter}\n", small());
        let service = Service::from_yaml(&text).map_err(|error| error.to_string());
        service.map(|service| service.filter)
    }

    #[test]
    fn settings_become_filter_configuration() {
        let text = "{deadline: {max_ms: 90000, reserve_ms: 5}, on_stale: refuse, max_retries: 1, \
            streams: {answers: [/chat], requests: [/up*]}, bypass: {get_paths: [/docs]}, \
            health: {path: /health}, skew: {source_header: x-client}, queue: {overlap: false}, \
            body: {request_max_bytes: 1000}, failover: -failover}";
        let filter = read(text).unwrap();
        assert_eq!(filter.keys()["queue"]["overlap"], false);
        assert_eq!(filter.deadline_max(), Some(Duration::from_secs(90)));
        assert_eq!(filter.request_max_bytes(), Some(1000));
        assert_eq!(filter.failover(), Some("-failover"));
        assert_eq!(filter.streaming_requests(), ["/up*"]);
        assert_eq!(read("{}").unwrap(), FilterSettings::default());
        assert_eq!(
            Service::from_yaml(&small()).unwrap().filter,
            FilterSettings::default()
        );
    }

    #[test]
    fn settings_invalid_for_the_filter_are_refused_with_their_path() {
        for (text, expected) in [
            (
                "{plan: {}}",
                "filter.plan: {}; it must be left out: it follows from variants",
            ),
            (
                "{deadline: {default_ms: 9}}",
                "filter.deadline.default_ms: 9; it must be left out",
            ),
            (
                "{streams: {answers: [/*]}}",
                "filter.streams.answers[0]: '/*'; it must be",
            ),
            (
                "{max_retries: 9}",
                "filter.max_retries: 9; it must be 0 to 3",
            ),
            ("{stream: {}}", "filter."),
            ("{queue: {overlap: 1}}", "filter.queue.overlap"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
