//! Parts shared by all targets: the filter's configuration, the related timeouts, and the histogram's
//! buckets. The filter's own parser validates the configuration.
//!
//! Static plans are built as the planner builds its own, from the variants' initial cores.

use std::time::Duration;

use serde_json::{Value, json};
use weir_api::VariantPlan;
use weir_api::metrics::{LABELS, stats_tag};
use weir_api::plan::HOUR_MS;
use weir_filter::config::{Config, Role};
use weir_filter::request::model;

use super::{ManifestError, refused};
use crate::plan;
use crate::service::{Service, Variant};

/// Placeholder of the key in rendered manifests.
pub const KEY: &str = "change-me";
/// Outlier detection among a variant's replicas, as in `envoy/weir.yaml`; `docs/how-to/replicas.md` has the reasons.
pub(super) mod outliers {
    use std::time::Duration;

    /// Errors of a replica in a row.
    pub(in super::super) const ERRORS: u32 = 5;
    /// The same of those that no server makes by what it is asked: 502, 503, 504, and timeouts.
    pub(in super::super) const GATEWAY_ERRORS: u32 = 3;
    /// Time between checks of ejected replicas.
    pub(in super::super) const INTERVAL: Duration = Duration::from_secs(1);
    /// Time for which a replica gets nothing, times the number of its ejections.
    pub(in super::super) const EJECTED: Duration = Duration::from_secs(90);
    /// Part of a variant's replicas that may be ejected. The only one never is.
    pub(in super::super) const EJECTED_PERCENT: u32 = 50;
}

/// Root id of the filter, which Istio calls `pluginName`.
pub(super) const ROOT_ID: &str = "weir";
/// Maximum number of requests in flight or held for one variant. Never reached, because slots limit first.
pub(super) const REQUESTS_MAX: u32 = 65_536;
/// Buffer limit of a connection, and window of a stream. The rest of a held request waits in its client.
pub(super) const BUFFER_BYTES: u32 = 65_536;
/// Default of the filter's `body.request_max_bytes`.
const BODY_BYTES: u64 = 1 << 23;
/// Name in Envoy of the metric whose percentile policy `sponge` uses.
pub(super) const SLACK: &str = "wasmcustom.weir_demand_slack_milliseconds";
/// Bucket bounds of that metric, in ms.
pub(super) const EDGES: &[u32] = &crate::observe::slack::EDGES_MS;

/// Name in Envoy of the metric of requests' latencies, whose percentiles the status shows.
pub(super) const LATENCY: &str = "wasmcustom.weir_latency_milliseconds";
/// Bucket bounds of that metric, in ms.
pub(super) const LATENCY_EDGES: &[u32] = &crate::observe::buckets::LATENCY_EDGES_MS;

/// Returns Envoy's `stats_config`: labels of metrics as labels, and the buckets of both histograms.
pub(super) fn stats_config() -> Value {
    let tag = |label: &&str| json!({ "tag_name": label, "regex": stats_tag(label) });
    let tags: Vec<Value> = LABELS.iter().map(tag).collect();
    json!({
        "stats_tags": tags,
        "histogram_bucket_settings": [
            { "match": { "prefix": SLACK }, "buckets": EDGES },
            { "match": { "prefix": LATENCY }, "buckets": LATENCY_EDGES },
        ],
    })
}

/// Cluster and authority at which the filter polls for plans.
#[derive(Debug, Clone)]
pub(super) struct PlannerAt {
    pub(super) cluster: String,
    pub(super) authority: String,
}

/// Related timeouts; the comments in `envoy/weir.yaml` explain them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// `deadline.default_ms`.
    pub(super) default_ms: u64,
    /// `deadline.max_ms`: ten times the SLO lets clients ask for longer deadlines, unless the service says otherwise.
    pub(super) max_ms: u64,
    /// Limit of a hold; the filter ends holds earlier.
    pub(super) hold: Duration,
    /// Limit of a response.
    pub(super) answer: Duration,
    /// Limit for receiving a request, whose body may wait in its client while it is held.
    pub(super) receive: Duration,
    /// The same as Envoy's limit for every request: none (zero) where requests stream.
    pub(super) request: Duration,
}

impl Times {
    pub(super) fn of(service: &Service) -> Times {
        let default_ms = service.slo.as_millis() as u64;
        let max = Duration::from_millis((10 * default_ms).min(HOUR_MS));
        let max = service.filter.deadline_max().unwrap_or(max);
        let max_ms = max.as_millis() as u64;
        Times {
            default_ms,
            max_ms,
            hold: max + Duration::from_secs(1),
            answer: max + max / 2,
            receive: 3 * max,
            request: match service.filter.streaming_requests().is_empty() {
                true => 3 * max,
                false => Duration::ZERO,
            },
        }
    }

    pub(super) fn max(&self) -> Duration {
        Duration::from_millis(self.max_ms)
    }
}

/// Maximum request body that Envoy's buffer filter waits for.
pub(super) fn body_bytes(service: &Service) -> u64 {
    service.filter.request_max_bytes().unwrap_or(BODY_BYTES)
}

/// Maximum number of websockets: half of the slots of the variant that serves them, as for all that clients hold.
pub(super) fn websockets_max(service: &Service) -> Result<u32, ManifestError> {
    let last = fallback(service)?;
    let found = plan(service)?;
    let slots = found.iter().find(|part| part.name == last.name);
    Ok((slots.map_or(1, |part| part.slots) / 2).max(1))
}

/// Formats a time as Envoy and Istio read it: with nine decimals at most, which a binary fraction of 5.56 s exceeds.
pub(super) fn seconds(time: Duration) -> String {
    let all = format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
    let short = all.trim_end_matches('0').trim_end_matches('.');
    format!("{short}s")
}

/// Returns the variants of the plan that the planner would publish for the initial cores.
pub(super) fn plan(service: &Service) -> Result<Vec<VariantPlan>, ManifestError> {
    let initial: Vec<_> = service.variants.iter().map(|v| v.initial).collect();
    let draft = plan::draft(service, &initial, None);
    let right = "1 or more in all: the static plan is made of what variants start with";
    let draft = draft.ok_or_else(|| refused("variants[].cores.initial", 0, right))?;
    Ok(draft.variants)
}

/// Returns the variant that gets unrouted traffic: the fastest of those with a slot.
pub(super) fn fallback(service: &Service) -> Result<&Variant, ManifestError> {
    let plan = plan(service)?;
    let able = service.variants.iter().zip(&plan);
    let able = able.filter(|(_, part)| part.slots > 0);
    let quickest = able.min_by(|(_, a), (_, b)| a.service_ms.total_cmp(&b.service_ms));
    let right = "1 or more with a slot at the start";
    quickest
        .map(|(variant, _)| variant)
        .ok_or_else(|| refused("variants", 0, right))
}

/// Returns the paths of requests that the filter has sent to one of these variants: where a variant has a name of its
/// own for the model, or a path of its own, the path has changed before Envoy chooses the route again.
pub(super) fn paths_after_choice(paths: &[String], variants: &[&Variant]) -> Vec<String> {
    let mut after = paths.to_vec();
    for model in variants
        .iter()
        .filter_map(|variant| variant.model.as_deref())
    {
        let renamed = paths.iter().filter_map(|path| {
            let renamed = model::rename(path.as_bytes(), model)?;
            let cut = path.ends_with('*') && !renamed.ends_with('*');
            Some(if cut { renamed + "*" } else { renamed })
        });
        for path in renamed {
            if !after.contains(&path) {
                after.push(path);
            }
        }
    }
    let own = variants.iter().filter_map(|variant| variant.path.clone());
    for path in own.filter(|_| !paths.is_empty()) {
        if !after.contains(&path) {
            after.push(path);
        }
    }
    after
}

/// Builds the filter's configuration for that role; a gate's has one variant. `matched` selects the service's
/// requests where others share the proxy.
pub(super) fn plugin(
    service: &Service,
    role: Role,
    gated: Option<&Variant>,
    planner: Option<&PlannerAt>,
    matched: Option<Value>,
) -> Result<Value, ManifestError> {
    let times = Times::of(service);
    let mut parts = plan(service)?;
    if let Some(gated) = gated {
        parts.retain(|part| part.name == gated.name);
        for part in &mut parts {
            part.share.0 = 1.0;
        }
    }
    let variants: Vec<Value> = parts.iter().map(variant).collect();
    let mut config = json!({
        "service": service.name,
        "role": role.label(),
        "deadline": { "default_ms": times.default_ms, "max_ms": times.max_ms },
        "plan": { "variants": variants },
    });
    merge(&mut config, service.filter.keys(), role);
    let mut set = |pointer: &str, key: &str, value: Value| {
        if let Some(object) = config.pointer_mut(pointer).and_then(Value::as_object_mut) {
            object.insert(key.to_owned(), value);
        }
    };
    if let Some(matched) = matched {
        set("", "match", matched);
    }
    if let Some(gated) = gated {
        set("", "variant", json!(gated.name));
    }
    if role == Role::Gate {
        set("/deadline", "trust_deadline", json!(true));
    }
    if service.downstream_ms > 0.0 {
        set("/plan", "downstream_ms", json!(service.downstream_ms));
    }
    for (key, value) in service.classes.plugin() {
        set("", &key, value);
    }
    if let Some(PlannerAt { cluster, authority }) = planner {
        let planner = json!({ "cluster": cluster, "authority": authority, "key": KEY });
        set("", "planner", planner);
    }
    Config::parse(config.to_string().as_bytes())?;
    Ok(config)
}

/// Adds the service's own settings, but for those of other variants at a gate, which has one.
fn merge(config: &mut Value, keys: &serde_json::Map<String, Value>, role: Role) {
    let Some(config) = config.as_object_mut() else {
        return;
    };
    let of_others = ["health", "failover"];
    for (key, value) in keys {
        if role == Role::Gate && of_others.contains(&key.as_str()) {
            continue;
        }
        match (config.get_mut(key).and_then(Value::as_object_mut), value) {
            (Some(section), Value::Object(value)) => section.extend(value.clone()),
            _ => {
                config.insert(key.clone(), value.clone());
            }
        }
    }
}

fn variant(part: &VariantPlan) -> Value {
    let mut variant = json!({
        "name": part.name, "cluster": part.cluster, "share": part.share.0, "slots": part.slots,
        "service_ms": (part.service_ms * 10.0).round() / 10.0, "accuracy": part.accuracy,
    });
    if let Some(variant) = variant.as_object_mut() {
        for (key, name) in [
            ("grpc_cluster", &part.grpc_cluster),
            ("model", &part.model),
            ("path", &part.path),
        ] {
            if let Some(name) = name {
                variant.insert(key.to_owned(), json!(name));
            }
        }
        if part.batch > 1 {
            variant.insert("batch".to_owned(), json!(part.batch));
        }
        if part.replicas > 1 {
            variant.insert("replicas".to_owned(), json!(part.replicas));
        }
        if part.cancels {
            variant.insert("cancels".to_owned(), json!(true));
        }
    }
    variant
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_no_more_decimals_than_envoy_reads() {
        let of_ms = |ms| seconds(Duration::from_millis(ms));
        let texts = [5560, 6560, 300_000, 250, 0].map(of_ms);
        assert_eq!(texts, ["5.56s", "6.56s", "300s", "0.25s", "0s"]);
    }
}
