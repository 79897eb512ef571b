//! Settings of a service's filters that the planner hands on: classes, and those beyond what follows from the service.

use std::time::Duration;

use serde_json::{Map, Value};

/// Classes of requests. The planner does nothing with them but hand them to the filters' configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Classes(pub(crate) Map<String, Value>);

impl Classes {
    /// Keys of the plugin configuration.
    pub fn plugin(&self) -> Map<String, Value> {
        self.0.clone()
    }
}

/// Keys of the plugin configuration that a service states itself. The planner does nothing with them but hand them to the
/// filters' configuration, and set in Envoy what belongs to them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FilterSettings(pub(crate) Map<String, Value>);

impl FilterSettings {
    /// Keys of the plugin configuration.
    pub fn keys(&self) -> &Map<String, Value> {
        &self.0
    }

    fn at(&self, section: &str, key: &str) -> Option<&Value> {
        self.0.get(section)?.get(key)
    }

    /// `deadline.max_ms`.
    pub fn deadline_max(&self) -> Option<Duration> {
        let ms = self.at("deadline", "max_ms")?.as_u64()?;
        Some(Duration::from_millis(ms))
    }

    /// `body.request_max_bytes`.
    pub fn request_max_bytes(&self) -> Option<u64> {
        self.at("body", "request_max_bytes")?.as_u64()
    }

    /// `failover`: suffix of the clusters that move on.
    pub fn failover(&self) -> Option<&str> {
        self.0.get("failover")?.as_str()
    }

    /// `streams.requests`: paths of requests whose bodies are not waited for.
    pub fn streaming_requests(&self) -> Vec<&str> {
        let paths = self.at("streams", "requests").and_then(Value::as_array);
        paths
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }
}
