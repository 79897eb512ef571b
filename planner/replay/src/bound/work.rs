//! Least work of a request on a variant: core-seconds of its part of a batch.
//!
//! A request that is on time in a batch of b on x cores occupies them for l(b, x). Its part of that is x·l(b, x)/b
//! core-seconds, and l(b, x) must fit between its release and its due time, less the hops. The minimum over the batch
//! sizes and the cores is its least work.
//!
//! Most latency models are l(b, x) = s(b)/x + f(b): Sponge's (EuroMLSys '24, Eq. 2) with s(b) = γ·b + ε and
//! f(b) = δ·b + η. Then x·l(b, x) = s(b) + f(b)·x, so the fewest cores that are quick enough cost least.
//! Measured latency is linear in x between the numbers of cores measured, so x·l(b, x) is concave there,
//! and least at an end (`options`).
//!
//! Cores are counted until the end of the load, as those of the contenders are. A request that may be executed after it
//! therefore costs nothing.
//!
//! A replica has at least the cores that the service gives one, and an execution that has it alone occupies them all.

use std::time::Duration;

use weir_api::Cores;
use weir_planner::service::Variant;
use weir_sim::server::{Latency, Parallelism};

use super::Window;
use super::options::Options;
use crate::request::Play;
use crate::scenario::{Scenario, Server};

/// Relative error of floating-point sums; subtracted from lower bounds.
pub(super) const ROUNDING: f64 = 1e-9;

/// Cores and latency model of a variant.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Accuracy, percent.
    pub accuracy: f64,
    /// Price of a core.
    pub price: f64,
    /// Latency model of a batch.
    pub latency: Latency,
    /// Number of batches executed at once.
    pub parallelism: Parallelism,
    /// Maximum batch size.
    pub batch_max: u32,
    /// Initial cores.
    pub cores: f64,
    /// Fewest cores of a replica; 0 if any number will do.
    pub cores_min: f64,
    /// Most cores of all replicas together; infinite if only the budget limits them.
    pub cores_max: f64,
    /// Time until a requested change of the initial cores takes effect.
    pub resize_delay: Duration,
    /// One-way latency between the proxy and the server.
    pub hop: Duration,
    /// Whether cores are only given whole.
    pub whole: bool,
}

/// Returns the machines of each stage.
pub(super) fn by_stage<'a>(scenario: &Scenario, machines: &'a [Machine]) -> Vec<&'a [Machine]> {
    let stages = scenario.stages();
    let stages = stages.map(|variants| machines.get(variants).unwrap_or_default());
    stages.collect()
}

/// Returns the machines of a scenario at the start of a play, in the variants' order.
///
/// Whole cores are assumed where the service's step and the initial cores are whole: then every control gives whole
/// cores. So the bound of a contender does not depend on the others.
pub(super) fn machines(scenario: &Scenario, play: &Play) -> Vec<Machine> {
    let mut initial = scenario.variants.iter();
    let whole = scenario.service.step.is_multiple(Cores::whole(1))
        && initial.all(|server| server.cores.fract() == 0.0);
    let variants = scenario.service.variants.iter();
    let each = scenario.variants.iter().zip(variants).enumerate();
    each.map(|(index, (server, variant))| Machine {
        accuracy: variant.accuracy,
        price: variant.price,
        latency: server.latency.clone(),
        parallelism: server.parallelism,
        batch_max: server.batch_max.max(1),
        cores: play.initial.get(index).unwrap_or(&server.cores) * f64::from(server.count()),
        cores_min: cores_min(server, variant, index, play),
        cores_max: cores_max(scenario, server, index, play),
        hop: server.hop(),
        resize_delay: server.resize_delay.min(scenario.length),
        whole,
    })
    .collect()
}

/// Fewest cores of a replica by the service, or those that the contender gave one if they were fewer.
fn cores_min(server: &Server, variant: &Variant, index: usize, play: &Play) -> f64 {
    if server.replicas.is_none() {
        return 0.0;
    }
    let initial = play.initial.get(index).copied().unwrap_or(server.cores);
    let resizes = play.resizes.iter();
    let resizes = resizes.filter(|resize| usize::from(resize.variant) == index);
    let given = resizes.map(|resize| resize.each).chain([initial]);
    let given = given.filter(|cores| *cores > 0.0);
    given.fold(variant.cores(variant.min).as_f64(), f64::min)
}

/// Most cores of all replicas by the service, or those that the contender had if they were more.
fn cores_max(scenario: &Scenario, server: &Server, index: usize, play: &Play) -> f64 {
    let service = &scenario.service;
    let (Some(initial), Some(variant)) = (server.replicas, service.variants.get(index)) else {
        return f64::INFINITY;
    };
    let none = vec![0; service.variants.len()];
    let replicas = service.limits.max_replicas(index, &none);
    let replicas = replicas.min(variant.replicas.max);
    let most = f64::from(replicas) * variant.cores(variant.max).as_f64();
    let initial = server.cores * f64::from(initial);
    let resizes = play.resizes.iter();
    let resizes = resizes.filter(|resize| usize::from(resize.variant) == index);
    resizes
        .map(|resize| resize.cores)
        .fold(most.max(initial), f64::max)
}

/// Machine with the work of its batches, derived once.
pub(super) struct Worker {
    pub(super) machine: Machine,
    work: Work,
}

impl Worker {
    pub(super) fn new(machine: &Machine) -> Worker {
        Worker {
            machine: machine.clone(),
            work: Work::of(machine),
        }
    }

    /// Least core-seconds of a request until `end`; `None` if the machine cannot answer it on time.
    pub(super) fn core_seconds(&self, window: &Window, end: Duration) -> Option<f64> {
        let machine = &self.machine;
        if machine.accuracy < window.min_accuracy {
            return None;
        }
        let length = window.length().saturating_sub(machine.hop * 2);
        let length_ms = length.as_secs_f64() * 1e3;
        let core_ms = match &self.work {
            Work::Formula(batches) => batches
                .iter()
                .filter_map(|batch| batch.core_ms(machine, length_ms))
                .min_by(f64::total_cmp),
            Work::Measured(options) => options.core_ms(length_ms),
        }?;
        let may_end_later = window.due.saturating_sub(machine.hop) > end;
        Some(if may_end_later { 0.0 } else { core_ms / 1e3 })
    }
}

/// Work of a machine's batches.
enum Work {
    /// Formula of each batch size.
    Formula(Vec<BatchWork>),
    /// Bounds from measurements.
    Measured(Options),
}

/// Batch of a size, with the latency shrinking/x + fixed on x cores.
#[derive(Debug, Clone, Copy)]
struct BatchWork {
    requests: f64,
    shrinking: f64,
    fixed: f64,
}

impl Work {
    fn of(machine: &Machine) -> Work {
        let formula = |parts: &dyn Fn(f64) -> (f64, f64)| {
            let work = |batch| {
                let requests = f64::from(batch);
                let (shrinking, fixed) = parts(requests);
                BatchWork {
                    requests,
                    shrinking,
                    fixed,
                }
            };
            Work::Formula((1..=machine.batch_max).map(work).collect())
        };
        match &machine.latency {
            Latency::Sponge(model) => formula(&|b| {
                let shrinking = model.gamma_ms * b + model.epsilon_ms;
                (shrinking, model.delta_ms * b + model.eta_ms)
            }),
            Latency::Amdahl(model) => formula(&|b| (model.parallel_ms * b, model.serial_ms * b)),
            Latency::Linear(model) => formula(&|b| (0.0, model.item_ms * b + model.fixed_ms)),
            Latency::Quadratic(model) => formula(&|b| {
                let ms = model.square_ms * b * b + model.item_ms * b + model.fixed_ms;
                (0.0, ms.max(0.0))
            }),
            Latency::Table(table) => Work::Measured(Options::of(table, machine)),
        }
    }
}

impl BatchWork {
    /// Core-ms of one request in the batch if it ends within `length_ms`.
    fn core_ms(&self, machine: &Machine, length_ms: f64) -> Option<f64> {
        let BatchWork {
            requests,
            shrinking,
            fixed,
        } = *self;
        let left = length_ms - fixed;
        if left < 0.0 || (left == 0.0 && shrinking > 0.0) {
            return None;
        }
        // Slightly fewer than needed, so that rounding never makes it too many.
        let needed = if shrinking == 0.0 {
            0.0
        } else {
            shrinking / left
        } * (1.0 - ROUNDING);
        let cores = match (machine.parallelism, machine.whole) {
            (Parallelism::PerCore, _) if needed > 1.0 => return None,
            (Parallelism::PerCore, true) => 1.0,
            (Parallelism::Fixed(at_once), whole) => {
                let at_once = f64::from(at_once.get());
                let cores = (needed * at_once).max(machine.cores_min);
                (if whole { cores.ceil().max(1.0) } else { cores }) / at_once
            }
            (Parallelism::PerCore, false) => needed,
        };
        Some((shrinking + fixed * cores) / requests)
    }
}
