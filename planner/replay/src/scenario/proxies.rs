//! Proxies and their filter configuration, which the filter itself checks.

use serde_json::{Value, json};
use weir_filter::config::{Config, ConfigError};
use weir_filter::coordination::ROWS_MAX;
use weir_planner::capacity::Allocation;

use super::Proxies;
use super::raw::RawProxies;
use super::refused::{ScenarioError, millis, within};
use weir_planner::plan::draft;
use weir_planner::service::Service;

/// Maximum number of proxies.
pub(super) const PROXIES_MAX: u32 = 100;
/// Maximum delay of a plan, and of a notification between workers: a minute.
const PLAN_DELAY_MAX_MS: f64 = 60_000.0;

pub(super) fn proxies(service: &Service, raw: RawProxies) -> Result<Proxies, ScenarioError> {
    let workers_max = u32::try_from(ROWS_MAX).unwrap_or(u32::MAX);
    Ok(Proxies {
        count: within("proxies.count", raw.count, 1..=PROXIES_MAX, "proxies")?,
        workers: within("proxies.workers", raw.workers, 1..=workers_max, "workers")?,
        plugin: plugin(service, raw.plugin)?,
        plan_delay: millis(
            "proxies.plan_delay_ms",
            raw.plan_delay_ms,
            PLAN_DELAY_MAX_MS,
        )?,
        notify_delay: millis(
            "proxies.notify_delay_ms",
            raw.notify_delay_ms,
            PLAN_DELAY_MAX_MS,
        )?,
        load_balancing: raw.load_balancing,
    })
}

/// Completes the configuration with the service's name and the plan for the initial cores.
fn plugin(service: &Service, written: Value) -> Result<Value, ScenarioError> {
    const AT: &str = "proxies.plugin";
    let Value::Object(mut keys) = written else {
        return Err(ScenarioError::value(
            AT,
            written,
            "a mapping of the filter's keys",
        ));
    };
    if keys.contains_key("plan") {
        let right = "left out: the plan for cores.initial is filled in";
        return Err(ScenarioError::value(format!("{AT}.plan"), "given", right));
    }
    let name = keys.entry("service").or_insert_with(|| json!(service.name));
    if name.as_str() != Some(&service.name) {
        let right = format!("{}, as service.service says, or left out", service.name);
        return Err(ScenarioError::value(format!("{AT}.service"), name, right));
    }
    let initial: Vec<Allocation> = service.variants.iter().map(|v| v.initial).collect();
    let Some(plan) = draft(service, &initial, None) else {
        let right = "1 or more for one variant at least";
        return Err(ScenarioError::value(
            "service.variants",
            "no cores.initial",
            right,
        ));
    };
    keys.insert(
        "plan".to_owned(),
        json!({ "variants": plan.variants, "downstream_ms": plan.downstream_ms }),
    );
    let plugin = Value::Object(keys);
    match Config::parse(plugin.to_string().as_bytes()) {
        Ok(_) => Ok(plugin),
        Err(ConfigError::Value { path, value, right }) => {
            Err(ScenarioError::value(format!("{AT}.{path}"), value, right))
        }
        Err(ConfigError::Shape(misread)) => {
            Err(ScenarioError::form(AT, &misread.path, &misread.what))
        }
        Err(error) => Err(ScenarioError::about(AT, error)),
    }
}
