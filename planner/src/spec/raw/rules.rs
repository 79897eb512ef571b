//! Rules of the resource definition that an API server evaluates (CEL), for `x-kubernetes-validations` of a schema.

use serde_json::{Value, json};

/// Rules with the message of each refusal.
pub(super) fn rules(rules: &[(&str, &str)]) -> Value {
    let rule = |(rule, message): &(&str, &str)| json!({ "rule": rule, "message": message });
    rules.iter().map(rule).collect()
}

/// A rule that a duration lies in a range.
pub(super) fn in_range(min: &str, max: &str) -> Value {
    let rule =
        format!("duration(self) >= duration('{min}') && duration(self) <= duration('{max}')");
    rules(&[(&rule, &format!("must be {min} to {max}"))])
}
