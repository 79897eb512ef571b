//! Data planes: the proxies between clients and servers. `worker` runs the filter's engine, one for
//! each worker, also with features disabled as baselines. `fifo` forwards at once. Neither depends on
//! the rest of the simulation.

mod fifo;
mod tally;
mod wire;
mod worker;

use std::ops::Range;

use serde_json::{Value, json};
use weir_api::plan::{FORMAT, HOUR_MS};
use weir_api::{Plan, VariantPlan};
use weir_filter::config::Config;
use weir_filter::coordination::{InPlace, Scope};

pub(super) use fifo::Fifo;
pub(super) use tally::Tally;
pub(super) use wire::Headers;
pub(super) use worker::Worker;

use super::control::unplanned_drafts;
use super::scenario::{Contender, Plane, Scenario};
use super::simulation::PlayError;
use weir_planner::capacity::Allocation;
use weir_planner::distribution::slot_allocation::{Role, TooFew, divide};
use weir_planner::plan::drafts;

/// A data plane.
pub(super) enum DataPlane {
    /// Filter engines, one for each worker of each proxy.
    Weir(Vec<Worker>),
    /// Proxies without the filter, by stage: requests queue at the servers.
    Fifo(Vec<Fifo>),
}

impl DataPlane {
    pub(super) fn new(
        contender: Contender,
        scenario: &Scenario,
        initial: &[Allocation],
        seed: u64,
    ) -> Result<DataPlane, PlayError> {
        let plane = contender.plane;
        let forwards = matches!(
            plane,
            Plane::FifoRoundRobin | Plane::FifoWeights | Plane::FifoQuotas | Plane::FifoTimeout
        );
        if forwards {
            let stages = (0..).zip(scenario.stages());
            let fifo = |(stage, variants): (u64, Range<usize>)| {
                Fifo::new(
                    contender,
                    &scenario.service,
                    variants,
                    initial,
                    seed + stage,
                )
            };
            return Ok(DataPlane::Fifo(stages.map(fifo).collect()));
        }
        let (proxies, workers) = match plane {
            Plane::WeirGlobal => (1, 1),
            _ => (
                scenario.proxies.count.max(1),
                scenario.proxies.workers.max(1),
            ),
        };
        let mut all = Vec::new();
        for stage in 0..scenario.service.stages.len() as u16 {
            let mut config = config(contender, scenario, stage, initial)?;
            match plane {
                Plane::EdfPerWorker => config.scope = Scope::Worker,
                // Otherwise it would estimate the service time from its own measurements.
                Plane::EdfWithoutFeasibility => config.correct = false,
                _ => {}
            }
            let first = u32::from(stage) * proxies;
            for (proxy, part) in (first..).zip(parts(config.static_plan.take(), proxies)?) {
                let store = InPlace::default();
                let config = Config {
                    static_plan: part,
                    ..config.clone()
                };
                let place = (stage, proxy);
                let worker = |index| Worker::new(place, config.clone(), store.clone(), index);
                all.extend((0..workers).map(worker));
            }
        }
        // Twice: the first worker sees the others only on the second pass.
        all.iter_mut().for_each(Worker::meet);
        all.iter_mut().for_each(Worker::meet);
        Ok(DataPlane::Weir(all))
    }
}

/// Initial plan of each proxy, with its allocation of the slots.
fn parts(plan: Option<Plan>, proxies: u32) -> Result<Vec<Option<Plan>>, TooFew> {
    match plan {
        Some(plan) if proxies > 1 => {
            let parts = divide(&plan, &vec![Role::Both; proxies as usize]);
            parts.into_iter().map(|part| part.map(Some)).collect()
        }
        whole => Ok(vec![whole; proxies as usize]),
    }
}

/// Adapts the variants of a plan to the data plane: without feasibility, service times are 0.
pub(super) fn circumstances(plane: Plane, variants: &mut [VariantPlan]) {
    if plane == Plane::EdfWithoutFeasibility {
        for variant in variants {
            variant.service_ms = 0.0;
        }
    }
}

/// Returns the plugin's configuration at a stage. Adds a static plan for the contender's starting cores, unless the
/// configuration has one that fits them: that of the scenario is for its own cores, before the policy knows the demand.
fn config(
    Contender { plane, control, .. }: Contender,
    scenario: &Scenario,
    stage: u16,
    initial: &[Allocation],
) -> Result<Config, PlayError> {
    let mut plugin = scenario.proxies.plugin_of(usize::from(stage)).clone();
    let keys = plugin.as_object_mut().ok_or(PlayError::PluginShape)?;
    let known = scenario.service.stages.get(usize::from(stage));
    let name = known.map_or("", |known| &known.name);
    keys.entry("service").or_insert_with(|| json!(name));
    let is_unplanned = !control.plans_batches() && scenario.service.policy.chooses_batches();
    let has_other_cores = control.variant().is_some();
    if is_unplanned || has_other_cores || keys.get("plan").is_none_or(Value::is_null) {
        let drafts = match control.plans_batches() {
            true => drafts(&scenario.service, initial, None),
            false => unplanned_drafts(&scenario.service, initial),
        };
        let drafts = drafts.ok_or(PlayError::NoCores)?;
        let draft = drafts.get(usize::from(stage)).ok_or(PlayError::NoCores)?;
        let plan = json!({
            "format": FORMAT, "service": name, "revision": 1,
            "max_age_ms": HOUR_MS, "downstream_ms": draft.downstream_ms, "variants": draft.variants,
        });
        keys.insert("plan".to_owned(), plan);
    }
    let mut config = Config::parse(plugin.to_string().as_bytes())?;
    if let Some(plan) = &mut config.static_plan {
        circumstances(plane, &mut plan.variants);
    }
    Ok(config)
}
