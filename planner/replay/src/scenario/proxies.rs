//! Proxies and their filter configuration, which the filter itself checks.

use serde_json::{Value, json};
use weir_filter::config::{Config, ConfigError};
use weir_filter::coordination::ROWS_MAX;
use weir_planner::capacity::Allocation;

use super::Proxies;
use super::raw::RawProxies;
use super::refused::{ScenarioError, millis, within};
use weir_planner::plan::drafts;
use weir_planner::service::Service;

/// Maximum number of proxies.
pub(super) const PROXIES_MAX: u32 = 100;
/// Maximum delay of a plan, and of a notification between workers: a minute.
const PLAN_DELAY_MAX_MS: f64 = 60_000.0;

pub(super) fn proxies(service: &Service, raw: RawProxies) -> Result<Proxies, ScenarioError> {
    let workers_max = u32::try_from(ROWS_MAX).unwrap_or(u32::MAX);
    let (plugin, later_plugins) = plugins(service, raw.plugin)?;
    Ok(Proxies {
        count: within("proxies.count", raw.count, 1..=PROXIES_MAX, "proxies")?,
        workers: within("proxies.workers", raw.workers, 1..=workers_max, "workers")?,
        plugin,
        later_plugins,
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

/// Configurations of the first stage and of the later ones: that of the scenario with the stage's name and the plan for
/// the initial cores. Each stage after the first trusts the deadline that the one before has passed on.
fn plugins(service: &Service, written: Value) -> Result<(Value, Vec<Value>), ScenarioError> {
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
    let names: Vec<&str> = service.stages.iter().map(|stage| &*stage.name).collect();
    let (first, later) = names.split_first().unwrap_or((&"", &[]));
    let name = keys.get("service");
    if let Some(name) = name.filter(|name| !later.is_empty() || name.as_str() != Some(*first)) {
        let right = match later.is_empty() {
            true => format!("{first}, as service.service says, or left out"),
            false => "left out: each stage has it under its own name".to_owned(),
        };
        return Err(ScenarioError::value(format!("{AT}.service"), name, right));
    }
    let initial: Vec<Allocation> = service.variants.iter().map(|v| v.initial).collect();
    let Some(drafts) = drafts(service, &initial, None) else {
        let (at, right) = match later.is_empty() {
            true => ("service.variants", "1 or more for one variant at least"),
            false => (
                "service.stages",
                "1 or more for one variant of each stage at least",
            ),
        };
        return Err(ScenarioError::value(at, "no cores.initial", right));
    };
    let mut all = Vec::with_capacity(names.len());
    for (index, (name, draft)) in names.iter().zip(drafts).enumerate() {
        keys.insert("service".to_owned(), json!(name));
        if index > 0 {
            let deadline = keys.entry("deadline").or_insert_with(|| json!({}));
            if let Some(deadline) = deadline.as_object_mut() {
                deadline.insert("trust_deadline".to_owned(), json!(true));
            }
        }
        keys.insert(
            "plan".to_owned(),
            json!({ "variants": draft.variants, "downstream_ms": draft.downstream_ms }),
        );
        all.push(checked(AT, Value::Object(keys.clone()))?);
    }
    let mut all = all.into_iter();
    Ok((all.next().unwrap_or_default(), all.collect()))
}

/// Runs the filter's own check of its configuration.
fn checked(at: &str, plugin: Value) -> Result<Value, ScenarioError> {
    match Config::parse(plugin.to_string().as_bytes()) {
        Ok(_) => Ok(plugin),
        Err(ConfigError::Value { path, value, right }) => {
            Err(ScenarioError::value(format!("{at}.{path}"), value, right))
        }
        Err(ConfigError::Shape(misread)) => {
            Err(ScenarioError::form(at, &misread.path, &misread.what))
        }
        Err(error) => Err(ScenarioError::about(at, error)),
    }
}
