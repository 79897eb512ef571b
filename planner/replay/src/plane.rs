//! Data planes: what stands between clients and servers. One is the filter's engine in as many
//! workers as there are (`worker`), in three other circumstances too; the others forward at once
//! (`fifo`). Neither knows the world around it.

mod fifo;
mod tally;
mod wire;
mod worker;

use serde_json::{Value, json};
use weir_api::plan::{FORMAT, HOUR_MS};
use weir_api::{Cores, Plan, VariantPlan};
use weir_filter::config::Config;
use weir_filter::coordination::{Memory, Scope};

pub(super) use fifo::Fifo;
pub(super) use tally::Tally;
pub(super) use wire::Headers;
pub(super) use worker::Worker;

use super::scenario::{Plane, Scenario};
use super::world::PlayError;
use weir_planner::actuate::Allocation;
use weir_planner::plan::draft;
use weir_planner::sharing::{Role, TooFew, divide};

/// A data plane.
pub(super) enum DataPlane {
    /// Engines.
    Weir(Vec<Worker>),
    /// Queues at the servers.
    Fifo(Box<Fifo>),
}

impl DataPlane {
    pub(super) fn new(
        plane: Plane,
        scenario: &Scenario,
        cores: &[Cores],
        seed: u64,
    ) -> Result<DataPlane, PlayError> {
        let forwards = matches!(
            plane,
            Plane::FifoRoundRobin | Plane::FifoWeights | Plane::FifoTimeout
        );
        if forwards {
            let cores: Vec<f64> = cores.iter().map(|cores| cores.as_f64()).collect();
            return Ok(DataPlane::Fifo(Box::new(Fifo::new(
                plane,
                &scenario.service,
                &cores,
                seed,
            ))));
        }
        let mut config = config(plane, scenario, cores)?;
        match plane {
            Plane::EdfPerWorker => config.scope = Scope::Worker,
            // It would find out for itself how long service takes.
            Plane::EdfWithoutFeasibility => config.correct = false,
            _ => {}
        }
        let (proxies, workers) = match plane {
            Plane::WeirGlobal => (1, 1),
            _ => (
                scenario.proxies.count.max(1),
                scenario.proxies.workers.max(1),
            ),
        };
        let mut plane = Vec::new();
        for (proxy, part) in (0..).zip(parts(config.static_plan.take(), proxies)?) {
            let board = Memory::default();
            let config = Config {
                static_plan: part,
                ..config.clone()
            };
            let worker = |index| Worker::new(proxy, config.clone(), board.clone(), index);
            plane.extend((0..workers).map(worker));
        }
        // Twice: whoever comes first learns of the others the second time.
        plane.iter_mut().for_each(Worker::meet);
        plane.iter_mut().for_each(Worker::meet);
        Ok(DataPlane::Weir(plane))
    }
}

/// Each proxy's part of the plan they begin with.
fn parts(plan: Option<Plan>, proxies: u32) -> Result<Vec<Option<Plan>>, TooFew> {
    match plan {
        Some(plan) if proxies > 1 => {
            let parts = divide(&plan, &vec![Role::Both; proxies as usize]);
            parts.into_iter().map(|part| part.map(Some)).collect()
        }
        whole => Ok(vec![whole; proxies as usize]),
    }
}

/// What a plan comes to in that plane's circumstances.
pub(super) fn circumstances(plane: Plane, variants: &mut [VariantPlan]) {
    if plane == Plane::EdfWithoutFeasibility {
        for variant in variants {
            variant.service_ms = 0.0;
        }
    }
}

/// The plugin's configuration with a static plan for the starting cores, unless it has its own.
fn config(plane: Plane, scenario: &Scenario, cores: &[Cores]) -> Result<Config, PlayError> {
    let mut plugin = scenario.proxies.plugin.clone();
    let keys = plugin.as_object_mut().ok_or(PlayError::PluginShape)?;
    let ours = || json!(scenario.service.name);
    keys.entry("service").or_insert_with(ours);
    if keys.get("plan").is_none_or(Value::is_null) {
        let there = Allocation::ones(cores);
        let draft = draft(&scenario.service, &there, None).ok_or(PlayError::NoCores)?;
        let plan = json!({
            "format": FORMAT, "service": scenario.service.name, "revision": 1,
            "max_age_ms": HOUR_MS, "rest_ms": draft.rest_ms, "variants": draft.variants,
        });
        keys.insert("plan".to_owned(), plan);
    }
    let mut config = Config::parse(plugin.to_string().as_bytes())?;
    if let Some(plan) = &mut config.static_plan {
        circumstances(plane, &mut plan.variants);
    }
    Ok(config)
}
