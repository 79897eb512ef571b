//! Common parts of the tests of the planner on Kubernetes, independent of the cluster: planners in this process, a
//! fake proxy with a counter, and access to a resource's conditions.
//!
//! It knows no API server: a planner receives its client.

mod planner;
mod proxy;

use serde_json::Value;

pub use planner::{KEY, Planner};
pub use proxy::Proxy;

/// `status reason: message` of a resource's condition; empty if it has none of that type.
pub fn condition(resource: &Value, about: &str) -> String {
    let all = resource.pointer("/status/conditions");
    let all = all.and_then(Value::as_array).into_iter().flatten();
    let text = |condition: &Value, key: &str| {
        let text = condition.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    all.filter(|condition| text(condition, "type") == about)
        .map(|condition| {
            let status = text(condition, "status");
            let (reason, message) = (text(condition, "reason"), text(condition, "message"));
            format!("{status} {reason}: {message}")
        })
        .collect()
}
