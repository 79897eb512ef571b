//! Answers of an Envoy's admin interface.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;
use weir_api::metrics::Metric;
use weir_planner::http::ApiClient;

use crate::inspect::api::get;
use crate::inspect::view::StatusView;
use crate::inspect::{Failure, Samples};

/// Type of the filter's place in an Envoy's configuration.
const WASM: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";
/// Readings of the statistics until the proxy has the planner's plan, and the time between two: plans travel at once,
/// and gauges within 50 ms.
const READINGS: u32 = 5;
const READING_EVERY: Duration = Duration::from_millis(400);
/// Maximum number of refused configurations that are named.
const REFUSED_MAX: usize = 5;

/// Answers of one Envoy.
#[derive(Debug, Clone)]
pub(super) struct EnvoyAnswers {
    pub(super) stats: Result<String, Failure>,
    /// Node id; `None` if it is not known.
    pub(super) node: Option<String>,
    pub(super) clusters: Result<BTreeSet<String>, Failure>,
    pub(super) config: Result<Configuration, Failure>,
}

/// Configuration of an Envoy, as far as it is checked. It has the planner's key, of which nothing is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Configuration {
    /// Whether a module is configured as a filter of HTTP requests.
    pub(super) has_wasm: bool,
    /// Details of updates that were refused and not followed by a good one.
    pub(super) refused: Vec<String>,
}

/// Reads an Envoy. The statistics are read again until the plan is as new as the planner's, a few times at most.
pub(super) async fn read(client: &ApiClient, url: &str, services: &[StatusView]) -> EnvoyAnswers {
    let path = |path: &str| format!("{url}{path}");
    let stats_url = path("/stats/prometheus");
    let mut stats = get(client, &stats_url, None).await;
    for _ in 1..READINGS {
        match &stats {
            Ok(text) if is_behind(&Samples::new(text), services) => {}
            _ => break,
        }
        sleep(READING_EVERY).await;
        stats = get(client, &stats_url, None).await;
    }
    let info = get(client, &path("/server_info"), None).await;
    let clusters = get(client, &path("/clusters?format=json"), None).await;
    let config = get(client, &path("/config_dump"), None).await;
    EnvoyAnswers {
        stats,
        node: info.ok().and_then(|text| node(&text)),
        clusters: clusters.and_then(|text| self::clusters(&text).ok_or_else(unreadable)),
        config: config.and_then(|text| configuration(&text).ok_or_else(unreadable)),
    }
}

fn unreadable() -> Failure {
    Failure::Refused(200, "not the JSON of an Envoy's admin interface".to_owned())
}

/// Whether a filter has an earlier plan than the planner published.
fn is_behind(stats: &Samples<'_>, services: &[StatusView]) -> bool {
    let polled = services.iter().flat_map(StatusView::polled);
    let filtered = stats.filtered_services();
    let mut here = polled.filter(|(name, ..)| filtered.contains(*name));
    here.any(|(name, plan, _)| {
        let revision = stats.filter(Metric::PlanRevision, name);
        plan.is_some_and(|plan| revision.is_none_or(|revision| revision < plan.revision as f64))
    })
}

fn node(text: &str) -> Option<String> {
    let info: Value = serde_json::from_str(text).ok()?;
    let id = info.pointer("/node/id")?.as_str()?;
    Some(id.to_owned())
}

fn clusters(text: &str) -> Option<BTreeSet<String>> {
    let answer: Value = serde_json::from_str(text).ok()?;
    // Envoy leaves out a list that is empty.
    let Some(statuses) = answer.as_object()?.get("cluster_statuses") else {
        return Some(BTreeSet::new());
    };
    let names = statuses.as_array()?.iter();
    let names = names.filter_map(|status| status.get("name")?.as_str().map(str::to_owned));
    Some(names.collect())
}

fn configuration(text: &str) -> Option<Configuration> {
    let dump: Value = serde_json::from_str(text).ok()?;
    let mut configuration = Configuration::default();
    search(dump.as_object()?.get("configs")?, &mut configuration);
    Some(configuration)
}

fn search(value: &Value, found: &mut Configuration) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| search(value, found)),
        Value::Object(fields) => {
            found.has_wasm |= fields.get("@type").is_some_and(|name| name == WASM);
            for (key, value) in fields {
                if key != "error_state" {
                    search(value, found);
                } else if found.refused.len() < REFUSED_MAX
                    && let Some(details) = value.get("details").and_then(Value::as_str)
                {
                    found.refused.push(details.to_owned());
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::inspect::screen::tests::{example, view};

    #[test]
    fn answers_of_an_envoy_are_read() {
        let info = json!({ "version": "1.40.0", "node": { "id": "weir-1" } }).to_string();
        assert_eq!(node(&info).as_deref(), Some("weir-1"));
        assert_eq!(node("{}"), None);
        let text = json!({ "cluster_statuses": [{ "name": "a" }, { "name": "b" }] }).to_string();
        assert_eq!(clusters(&text).unwrap().len(), 2);
        assert_eq!(clusters("{}"), Some(BTreeSet::new()));
        assert_eq!(clusters("no JSON"), None);
    }

    #[test]
    fn filter_and_refused_updates_are_found_in_a_configuration() {
        let dump = |filter: &str, error: Value| {
            let listener =
                json!({ "name": "weir", "filters": [{ "typed_config": { "@type": filter } }] });
            json!({ "configs": [{ "dynamic_listeners": [
                { "active_state": { "listener": listener }, "error_state": error },
            ] }] })
            .to_string()
        };
        let read = |filter, error| configuration(&dump(filter, error)).unwrap();
        let good = read(WASM, Value::Null);
        assert_eq!((good.has_wasm, good.refused.len()), (true, 0));
        let failed = json!({ "@type": WASM, "planner": { "key": "secret" } });
        let error = json!({ "details": "Unable to create plugin", "failed_configuration": failed });
        let refused = read("another", error);
        assert!(!refused.has_wasm, "what was refused is not in use");
        assert_eq!(refused.refused, ["Unable to create plugin"]);
        assert_eq!(configuration("{}"), None);
    }

    #[test]
    fn proxy_is_behind_until_it_has_the_plan() {
        let services = [view(example())];
        for (text, behind) in [
            ("weir_slots{service=\"demo\",variant=\"a\"} 1\n", true),
            ("weir_plan_revision{service=\"demo\"} 6\n", true),
            ("weir_plan_revision{service=\"demo\"} 7\n", false),
            ("weir_plan_revision{service=\"demo\"} 8\n", false),
            ("weir_plan_revision{service=\"other\"} 1\n", false),
        ] {
            assert_eq!(is_behind(&Samples::new(text), &services), behind, "{text}");
        }
    }
}
