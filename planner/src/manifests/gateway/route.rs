//! The service's HTTPRoute: a rule for each variant by its public name, and the fallback. Where servers have another
//! port for gRPC, a rule more leads there: it matches what the filter takes for gRPC.

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
/// Content types of gRPC, as the filter knows them ([`weir_filter::request::protocol::is_grpc`]); not those of gRPC-Web.
const GRPC: &str = "(?i)application/grpc([ ;+].*)?";

pub(super) const WHY: &str = "The filter names the variant in x-slo-variant and lets Envoy choose the route anew. The last rule, without \
    headers, is for what nothing has chosen: bypassed requests, and all of them where the filter failed open. It leads \
    to what can bear all traffic, the quickest variant. There are no retries: each would be an execution that no \
    slot counts.";
pub(super) const PORTS_WHY: &str = "\n\
    Rules with `content-type` lead to a port for gRPC. A rule that matches more headers comes first. Envoy speaks HTTP/2 to that port \
    only if the Service says so: `appProtocol: kubernetes.io/h2c`.";

pub(super) fn spec(frame: &Frame, backends: &[Backend]) -> Result<Value, ManifestError> {
    let quickest = fallback(frame.service)?;
    let last = backends.iter().find(|backend| backend.variant == quickest);
    let last = last.ok_or_else(|| refused("variants", 0, "1 or more"))?;
    let count = |backend: &Backend| 1 + usize::from(backend.grpc.is_some());
    let ports_count: usize = backends.iter().map(count).sum();
    let rules_count = ports_count + count(last);
    if rules_count > RULES_MAX {
        let right = format!(
            "at most {} (a gRPC port counts as one more): an HTTPRoute has {RULES_MAX} rules",
            RULES_MAX - count(last)
        );
        return Err(refused("variants", ports_count, right));
    }
    let paths = &frame.options.paths;
    let renamed = backends
        .iter()
        .map(|it| count(it) * paths_after_choice(paths, &[it.variant]).len());
    let matches_count = count(last) * paths.len() + renamed.sum::<usize>();
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
            json!({ "type": "Exact", "name": "x-slo-variant", "value": backend.variant.name });
        let paths = paths_after_choice(paths, &[backend.variant]);
        of_ports(&paths, backend, &[header], times.answer)
    };
    let mut rules: Vec<Value> = backends.iter().flat_map(chosen).collect();
    rules.extend(of_ports(paths, last, &[], times.max()));
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

/// Returns the rules of a backend's ports: that of the one for gRPC first.
fn of_ports(
    paths: &[String],
    backend: &Backend,
    headers: &[Value],
    timeout: Duration,
) -> Vec<Value> {
    let grpc = backend.grpc.map(|port| {
        let value = json!({ "type": "RegularExpression", "name": "content-type", "value": GRPC });
        let headers = [headers, &[value]].concat();
        rule(paths, (backend.name, port), &headers, timeout)
    });
    let rest = rule(paths, (backend.name, backend.port), headers, timeout);
    grpc.into_iter().chain([rest]).collect()
}

fn rule(
    paths: &[String],
    (name, port): (&str, u16),
    headers: &[Value],
    timeout: Duration,
) -> Value {
    let mut paths: Vec<Value> = paths.iter().map(|it| path(it)).collect();
    if paths.is_empty() {
        paths.push(path("/*"));
    }
    let matched = |path: Value| match headers {
        [] => json!({ "path": path }),
        headers => json!({ "path": path, "headers": headers }),
    };
    json!({
        "matches": paths.into_iter().map(matched).collect::<Vec<Value>>(),
        "filters": [{
            "type": "RequestHeaderModifier", "requestHeaderModifier": { "remove": ["x-slo-cluster"] },
        }],
        "backendRefs": [{ "name": name, "port": port }],
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
