//! The service's HTTPRoute: a rule for each variant by its public name, and the fallback.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::backend::Backend;
use super::super::plugin::{Times, fallback, paths_after_choice};
use super::super::{ManifestError, refused};
use super::{Frame, format_time};

/// Maximum number of rules of an HTTPRoute; one is the fallback.
const RULES_MAX: usize = 16;
/// Maximum number of matches of all rules of an HTTPRoute.
const MATCHES_MAX: usize = 128;

pub(super) const WHY: &str = "The filter names the variant in x-slo-variant and lets Envoy choose the route anew. The last rule, without \
    headers, is for what nothing has chosen: bypassed requests, and all of them where the filter failed open. It leads \
    to what can bear all traffic, the quickest variant. There are no retries: each would be an execution that no \
    slot counts.";

pub(super) fn spec(frame: &Frame, backends: &[Backend]) -> Result<Value, ManifestError> {
    if backends.len() >= RULES_MAX {
        let right = format!(
            "at most {}: an HTTPRoute has {RULES_MAX} rules",
            RULES_MAX - 1
        );
        return Err(refused("variants", backends.len(), right));
    }
    let paths = &frame.options.paths;
    let rules_count = backends.len() + 1;
    let renamed = backends
        .iter()
        .map(|it| paths_after_choice(paths, &[it.variant]));
    let matches_count = paths.len() + renamed.map(|paths| paths.len()).sum::<usize>();
    if matches_count > MATCHES_MAX {
        let right = format!(
            "at most {}: an HTTPRoute has {MATCHES_MAX} matches, and {rules_count} rules need each path",
            MATCHES_MAX / rules_count
        );
        return Err(refused("--path", format!("{} of them", paths.len()), right));
    }
    let times = Times::of(frame.service);
    let chosen = |backend: &Backend| {
        let header =
            json!([{ "type": "Exact", "name": "x-slo-variant", "value": backend.variant.name }]);
        let paths = paths_after_choice(paths, &[backend.variant]);
        rule(&paths, backend, Some(&header), times.answer)
    };
    let mut rules: Vec<Value> = backends.iter().map(chosen).collect();
    let quickest = fallback(frame.service)?;
    let last = backends.iter().find(|backend| backend.variant == quickest);
    let last = last.ok_or_else(|| refused("variants", 0, "1 or more"))?;
    rules.push(rule(paths, last, None, times.max()));
    let (namespace, name) = frame.options.envoy_gateway(&frame.ingress);
    let mut spec = json!({
        "parentRefs": [{ "name": name, "namespace": namespace }], "rules": rules,
    });
    let hosts = &frame.options.hosts;
    if let Some(spec) = spec.as_object_mut().filter(|_| !hosts.is_empty()) {
        spec.insert("hostnames".to_owned(), json!(hosts));
    }
    Ok(spec)
}

fn rule(paths: &[String], backend: &Backend, headers: Option<&Value>, timeout: Duration) -> Value {
    let mut paths: Vec<Value> = paths.iter().map(|it| path(it)).collect();
    if paths.is_empty() {
        paths.push(path("/*"));
    }
    let matched = |path: Value| match headers {
        Some(headers) => json!({ "path": path, "headers": headers }),
        None => json!({ "path": path }),
    };
    json!({
        "matches": paths.into_iter().map(matched).collect::<Vec<Value>>(),
        "filters": [{
            "type": "RequestHeaderModifier", "requestHeaderModifier": { "remove": ["x-slo-cluster"] },
        }],
        "backendRefs": [{ "name": backend.name, "port": backend.port }],
        "timeouts": { "request": format_time(timeout) },
    })
}

/// Returns a path's match. PathPrefix matches whole elements only, so that a prefix within one is a regular
/// expression.
fn path(pattern: &str) -> Value {
    match pattern.strip_suffix('*') {
        None => json!({ "type": "Exact", "value": pattern }),
        Some("/") => json!({ "type": "PathPrefix", "value": "/" }),
        Some(prefix) => {
            let mut expression = String::new();
            for c in prefix.chars() {
                if !c.is_ascii_alphanumeric() && !"/-_~%:@!,;='&".contains(c) {
                    expression.push('\\');
                }
                expression.push(c);
            }
            json!({ "type": "RegularExpression", "value": expression + ".*" })
        }
    }
}
