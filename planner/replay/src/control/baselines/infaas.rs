//! INFaaS (ATC '21) and SM+, its baseline, once a second. The load is the arrivals of the last second; among several
//! variants it divides as their capacities do.
//!
//! - SM+ as INFaaS' program has it (`IndividualScaler` and `checkModvar` of `autoscaler.cc`): the user has chosen the
//!   variants, and each that runs is a group of replicas of its own. With the load w and n replicas that sustain L
//!   each, ⌈(w − 0.95·n·L) / L⌉ replicas are added on CPUs, and ⌈(w − n·L·(1 − 0.0002·T_load)) / L⌉ on accelerators,
//!   T_load in ms. Where that is none and w ≤ (n − 1)·L, a removal is requested. The program removes one replica at
//!   more than 10 requests on CPUs, 20 on GPUs and 15 on other accelerators; only a change forgets the requests, so
//!   they need not follow each other.
//! - INFaaS as its paper has it (§4.2.2, [`weir_solve::infaas::greedy`]): replicate, upgrade, downgrade or remove, by
//!   cost, within the resources. Its reserve and its delays are the program's: 0.95 of the capacity, and as many
//!   seconds as above of low load in a row, the longest of the variants that run.
//!
//! While replicas load or end nothing else is decided, as the program's lock has it. An upgraded variant ends when its
//! successor is ready. The last replica of a group stays: the program unloads it too, and loads it for the next
//! request.

use std::collections::BTreeMap;

use weir_api::Cores;
use weir_solve::infaas::greedy::{LowCycles, scale};
use weir_solve::infaas::{Architecture, Input, Problem, Resource, Variant};

use super::decision::State;
use weir_planner::service::Service;

/// `cpuHueristic`: part of the capacity that is reserve.
const RESERVE: f64 = 0.05;
/// `loadHeuristic`: part of the capacity that is reserve for each ms of loading.
const RESERVE_PER_LOADING_MS: f64 = 0.0002;
/// λ of the paper's objective: cost of a second of loading, as a fraction of the replica's; as policy infaas has it.
const LOADING_WEIGHT_PER_S: f64 = 0.01;
/// Load of an application without requests: its last replica stays.
const LOAD_MIN_RPS: f64 = 1e-3;
/// Resource type that every replica uses.
const CORES: &str = "cores";

/// Hardware that a variant runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hardware {
    Cpu,
    Gpu,
    /// Any other resource of Kubernetes with a domain, such as `aws.amazon.com/neuron`.
    Accelerator,
}

impl Hardware {
    fn of(service: &Service, variant: usize) -> Hardware {
        let limits = service.limits.0.iter();
        let uses = limits.filter(|limit| limit.each.get(variant).is_some_and(|each| *each > 0));
        let mut devices = uses.filter(|limit| limit.name.contains('/'));
        match devices.next() {
            None => Hardware::Cpu,
            Some(device) if device.name.contains("gpu") => Hardware::Gpu,
            Some(_) => Hardware::Accelerator,
        }
    }

    /// Requests for a removal that are not enough for one (`…_SCALE_DOWN_DELAY`).
    fn delay(self) -> u32 {
        match self {
            Hardware::Cpu => 10,
            Hardware::Gpu => 20,
            Hardware::Accelerator => 15,
        }
    }
}

/// Replicas of one variant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) hardware: Hardware,
    /// Replicas that serve.
    pub(super) replicas: u32,
    /// Load, requests/s.
    pub(super) load_rps: f64,
    /// L: requests/s that a replica sustains.
    pub(super) sustains_rps: f64,
    /// T_load, in ms.
    pub(super) loading_ms: f64,
}

impl Group {
    /// Replicas to add.
    fn missing(&self) -> u32 {
        let capacity = f64::from(self.replicas) * self.sustains_rps;
        let reserve = match self.hardware {
            Hardware::Cpu => RESERVE,
            _ => RESERVE_PER_LOADING_MS * self.loading_ms,
        };
        let missing = (self.load_rps - capacity * (1.0 - reserve)) / self.sustains_rps;
        // Not for an error of the last digits.
        (missing - 1e-9).ceil().max(0.0) as u32
    }

    /// Whether one replica fewer carries the load.
    fn is_large(&self) -> bool {
        self.load_rps <= (f64::from(self.replicas) - 1.0).max(0.0) * self.sustains_rps
    }

    /// Replicas from now on, with the requests for a removal so far.
    pub(super) fn desired(&self, requests: &mut u32) -> u32 {
        let missing = self.missing();
        if missing > 0 {
            *requests = 0;
            return self.replicas + missing;
        }
        *requests += u32::from(self.is_large());
        if *requests > self.hardware.delay() {
            *requests = 0;
            return self.replicas.saturating_sub(1).max(1);
        }
        self.replicas
    }
}

/// State of SM+: requests for a removal of each variant.
pub(crate) type Removals = Vec<u32>;

/// Replicas of each variant by SM+; `None` leaves them.
pub(super) fn sm_plus(
    state: &State<'_>,
    removals: &mut Removals,
    load_rps: f64,
) -> Vec<Option<u32>> {
    removals.resize(state.units.len(), 0);
    let sustained = sustained(state);
    let joint: f64 = sustained
        .iter()
        .zip(ready(state))
        .map(|(l, n)| l * f64::from(n))
        .sum();
    let each = sustained.iter().zip(ready(state)).zip(target(state));
    let each = each.zip(removals).enumerate();
    let desired = each.map(|(index, (((sustains, ready), target), requests))| {
        if ready == 0 || ready != target {
            return None;
        }
        let group = Group {
            hardware: Hardware::of(state.service, index),
            replicas: ready,
            load_rps: load_rps * f64::from(ready) * sustains / joint,
            sustains_rps: *sustains,
            loading_ms: loading_s(state, index) * 1e3,
        };
        Some(group.desired(requests))
    });
    desired.collect()
}

/// State of INFaaS.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heuristic {
    low: LowCycles,
    /// Replicas of each variant when those that load are ready.
    then: Option<Vec<u32>>,
}

impl Heuristic {
    /// Replicas of each variant by the paper's heuristic; `None` leaves them all.
    pub(super) fn decide(&mut self, state: &State<'_>, load_rps: f64) -> Option<Vec<Option<u32>>> {
        if ready(state).ne(target(state)) {
            return None;
        }
        let now: Vec<u32> = target(state).collect();
        if let Some(then) = self.then.take() {
            return Some(then.into_iter().map(Some).collect());
        }
        let problem = problem(state, &now, load_rps.max(LOAD_MIN_RPS))?;
        let running = now
            .iter()
            .enumerate()
            .filter(|(_, replicas)| **replicas > 0);
        let delays = running.map(|(index, _)| Hardware::of(state.service, index).delay());
        let step = scale(&problem, &self.low, delays.max().unwrap_or(1));
        self.low = step.low;
        let actions = step.plan.architectures.iter().flat_map(|one| &one.variants);
        let actions: BTreeMap<&str, u32> = actions.map(|one| (&*one.name, one.replicas)).collect();
        let each = state.service.variants.iter().zip(state.units);
        let desired = each.map(|(variant, unit)| {
            let replicas = actions.get(&*variant.name).copied().unwrap_or(0);
            replicas.min(unit.max)
        });
        let desired: Vec<u32> = desired.collect();
        let grows = desired.iter().zip(&now).any(|(desired, now)| desired > now);
        let first = desired
            .iter()
            .zip(&now)
            .map(|(desired, now)| Some(*desired.max(now)));
        let first = first.collect();
        self.then = Some(desired.clone()).filter(|_| grows);
        Some(match grows {
            true => first,
            false => desired.into_iter().map(Some).collect(),
        })
    }
}

/// The paper's problem: the service is the architecture. Variants below its minimum accuracy are none of it.
fn problem(state: &State<'_>, now: &[u32], load_rps: f64) -> Option<Problem> {
    let service = state.service;
    let limits = &service.limits.0;
    let part = |amount: u64, most: u64| amount as f64 / most.max(1) as f64;
    let of = |index: usize| {
        let (known, unit) = (service.variants.get(index)?, state.units.get(index)?);
        let sustains = *sustained(state).get(index)?;
        let devices = limits.iter().map(|limit| {
            let each = limit.each.get(index).copied().unwrap_or(0);
            (limit.name.clone(), part(each, limit.most))
        });
        let cores = (CORES.to_owned(), unit.cores.as_f64());
        Some(Variant {
            name: known.name.clone(),
            resource: CORES.to_owned(),
            takes: Some(devices.chain([cores]).collect()),
            cost: unit.cores.as_f64() * known.price,
            sustains_qps: sustains.max(f64::MIN_POSITIVE),
            latency_ms: known.profile.mean_ms(unit.cores),
            accuracy_percent: Some(known.accuracy),
            loading_s: loading_s(state, index),
            replicas: *now.get(index)?,
        })
    };
    let accurate = service.variants.iter().enumerate();
    let accurate = accurate.filter(|(_, one)| one.accuracy >= service.policy.accuracy_min());
    let variants: Vec<Variant> = accurate.filter_map(|(index, _)| of(index)).collect();
    let resource = |name: &str, available: f64| Resource {
        name: name.to_owned(),
        available,
    };
    let cores = resource(CORES, service.budget_cores().as_f64());
    let devices = limits
        .iter()
        .map(|limit| resource(&limit.name, part(limit.most, limit.most)));
    let input = Input {
        resources: [cores].into_iter().chain(devices).collect(),
        architectures: vec![Architecture {
            name: service.name.clone(),
            load_qps: load_rps,
            slack_qps: load_rps / (1.0 - RESERVE) - load_rps,
            slo_ms: Some(service.slo.as_secs_f64() * 1e3),
            accuracies: Vec::new(),
            variants,
        }],
        loading_weight_per_s: LOADING_WEIGHT_PER_S,
        gap: 0.0,
    };
    input.try_into().ok()
}

fn ready<'a>(state: &'a State<'_>) -> impl Iterator<Item = u32> + 'a {
    count(state, state.confirmed)
}

fn target<'a>(state: &'a State<'_>) -> impl Iterator<Item = u32> + 'a {
    count(state, state.target)
}

fn count<'a>(state: &'a State<'_>, cores: &'a [Cores]) -> impl Iterator<Item = u32> + 'a {
    let each = cores.iter().zip(state.units);
    each.map(|(cores, unit)| cores.count(unit.cores))
}

/// L of each variant: requests/s that a replica sustains.
fn sustained(state: &State<'_>) -> Vec<f64> {
    let each = state.service.variants.iter().zip(state.units);
    let sustained =
        each.map(|(variant, unit)| variant.profile.capacity(unit.cores, f64::INFINITY).0);
    sustained.collect()
}

fn loading_s(state: &State<'_>, index: usize) -> f64 {
    let variant = state.service.variants.get(index);
    variant.map_or(0.0, |variant| variant.readiness.as_secs_f64())
}

#[cfg(test)]
mod tests;
