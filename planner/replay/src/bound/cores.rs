//! Lower bound on the core-seconds that a given number of on-time answers costs.
//!
//! The argument, from conservation of work. A request that is on time in a batch of b on x cores
//! occupies them for l(b, x). Its part of that is x·l(b, x)/b core-seconds, and l(b, x) must fit between
//! its release and its due time, less the hops. The minimum over the variants with sufficient accuracy,
//! the batch sizes and the cores is the request's minimum cost. The sum of the cheapest requests is the
//! minimum for that many requests, and actual cores are never fewer than busy cores.
//!
//! Most latency models are l(b, x) = s(b)/x + f(b): Sponge's (EuroMLSys '24, Eq. 2) with s(b) = γ·b + ε and
//! f(b) = δ·b + η. Then x·l(b, x) = s(b) + f(b)·x, so the fewest cores that are quick enough cost least.
//! Measured latency is linear in x between the numbers of cores measured, so x·l(b, x) is concave there,
//! and least at an end (`options`).
//!
//! A clairvoyant planner requests changes of cores early, so resize delays cost nothing, except at the
//! start: the initial cores stay for one resize delay, used or not. Requests released after it are
//! served by cores paid for after it. The bound is the greater of the two.
//!
//! Cores are counted until the end of the load, as those of the contenders are. A request that may be
//! executed after it therefore costs nothing.
//!
//! Whole cores are assumed where the service's step and the initial cores are whole: then every control
//! gives whole cores. So the bound of a contender does not depend on the others.
//!
//! A request of a pipeline costs the sum over its stages.
//!
//! The bound ignores idle cores between requests, whole cores where a fraction would do, and load
//! times, so it may be too low but never too high. One assumption is needed: a core is paid for until
//! its execution has ended. (A simulated server that shrinks finishes running executions for free.)

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use weir_api::Cores;
use weir_sim::server::{Latency, Parallelism};

use super::Window;
use super::options::Options;
use crate::request::{Play, Request};
use crate::scenario::Scenario;

/// Relative error of floating-point sums; subtracted from the bound.
pub(super) const ROUNDING: f64 = 1e-9;

/// Lower bound on the core-seconds for a number of on-time requests.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MinCoreSeconds {
    /// Number of on-time requests.
    pub on_time: u64,
    /// Minimum core-seconds.
    pub core_seconds: f64,
    /// Meaning of the number.
    pub kind: MinKind,
    /// Name of the algorithm.
    pub method: &'static str,
    /// Costs that the number ignores.
    pub why: &'static str,
}

/// Meaning of a bound on core-seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MinKind {
    /// Proven never to be above the optimum.
    Lower,
    /// Lower bound for mean service times; random times may beat it slightly.
    Estimate,
}

/// Cores and latency model of a variant.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Accuracy, percent.
    pub accuracy: f64,
    /// Latency model of a batch.
    pub latency: Latency,
    /// Number of batches executed at once.
    pub parallelism: Parallelism,
    /// Maximum batch size.
    pub batch_max: u32,
    /// Initial cores.
    pub cores: f64,
    /// Time until a requested change of the initial cores takes effect.
    pub resize_delay: Duration,
    /// One-way latency between the proxy and the server.
    pub hop: Duration,
    /// Whether cores are only given whole.
    pub whole: bool,
}

/// Returns the bound for `on_time` requests of a scenario, from the initial cores of a play; `None` if no number of
/// cores suffices.
#[must_use]
pub fn min_core_seconds(
    scenario: &Scenario,
    requests: &[Request],
    play: &Play,
    on_time: u64,
) -> Option<MinCoreSeconds> {
    let mut initial = scenario.variants.iter();
    let whole = scenario.service.step.is_multiple(Cores::whole(1))
        && initial.all(|server| server.cores.fract() == 0.0);
    let accuracies = scenario.service.variants.iter().map(|known| known.accuracy);
    let machines: Vec<Machine> = scenario
        .variants
        .iter()
        .zip(accuracies)
        .enumerate()
        .map(|(index, (server, accuracy))| Machine {
            accuracy,
            latency: server.latency.clone(),
            parallelism: server.parallelism,
            batch_max: server.batch_max.max(1),
            cores: play.initial.get(index).unwrap_or(&server.cores) * f64::from(server.count()),
            hop: server.hop(),
            resize_delay: server.resize_delay.min(scenario.length),
            whole,
        })
        .collect();
    let stages: Vec<&[Machine]> = scenario
        .stages()
        .map(|variants| machines.get(variants).unwrap_or_default())
        .collect();
    let windows: Vec<Window> = requests.iter().map(Window::of).collect();
    let noisy = scenario
        .variants
        .iter()
        .any(|server| server.noise_sigma > 0.0);
    Some(MinCoreSeconds {
        on_time,
        core_seconds: min_of_stages(&windows, on_time, &stages, scenario.length)?,
        kind: if noisy {
            MinKind::Estimate
        } else {
            MinKind::Lower
        },
        method: "conservation of work",
        why: "the cheapest requests, each at its least work on the cheapest variant that may answer it; \
              cores that idle are not counted, nor is work that could be done after the end of the load, and each \
              core is paid for until its execution has ended",
    })
}

/// Returns the minimum core-seconds until `end` for `on_time` requests; `None` if no number of cores suffices.
#[must_use]
pub fn min(windows: &[Window], on_time: u64, machines: &[Machine], end: Duration) -> Option<f64> {
    min_of_stages(windows, on_time, &[machines], end)
}

/// Returns the minimum core-seconds until `end` for `on_time` requests that pass all stages. Each stage is given the
/// whole window, which is more than the others leave it: so the sum is still a lower bound.
fn min_of_stages(
    windows: &[Window],
    on_time: u64,
    stages: &[&[Machine]],
    end: Duration,
) -> Option<f64> {
    let machines = || stages.iter().copied().flatten();
    let settled = machines().map(|machine| machine.resize_delay).max()?;
    let at_start = |machine: &Machine| machine.cores * machine.resize_delay.as_secs_f64();
    let start: f64 = machines().map(at_start).sum();
    let work = |machines: &&'_ [Machine]| -> Vec<(Machine, Work)> {
        let each = machines.iter();
        each.map(|machine| (machine.clone(), Work::of(machine)))
            .collect()
    };
    let stages: Vec<Vec<(Machine, Work)>> = stages.iter().map(work).collect();
    let all_stages = |window: &Window| {
        let each = stages.iter().map(|machines| cost(window, machines, end));
        each.sum::<Option<f64>>()
    };
    let costed = windows
        .iter()
        .filter_map(|window| Some((window.release, all_stages(window)?)));
    let mut all: Vec<(Duration, f64)> = costed.collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    let on_time = usize::try_from(on_time)
        .ok()
        .filter(|on_time| *on_time <= all.len())?;
    let any: f64 = all.iter().take(on_time).map(|(_, cost)| cost).sum();
    let later: Vec<f64> = all
        .iter()
        .filter(|(release, _)| *release >= settled)
        .map(|(_, cost)| *cost)
        .collect();
    let must = on_time.saturating_sub(all.len() - later.len());
    let from_then_on: f64 = later.iter().take(must).sum();
    Some(any.max(start + from_then_on) * (1.0 - ROUNDING))
}

/// Minimum core-seconds of a request until `end`; `None` if no variant can answer it on time.
fn cost(window: &Window, machines: &[(Machine, Work)], end: Duration) -> Option<f64> {
    let able = machines
        .iter()
        .filter(|(machine, _)| machine.accuracy >= window.min_accuracy);
    able.filter_map(|(machine, work)| {
        let length = window.length().saturating_sub(machine.hop * 2);
        let length_ms = length.as_secs_f64() * 1e3;
        let core_ms = match work {
            Work::Formula(batches) => batches
                .iter()
                .filter_map(|batch| batch.core_ms(machine, length_ms))
                .min_by(f64::total_cmp),
            Work::Measured(options) => options.core_ms(length_ms),
        }?;
        let may_end_later = window.due.saturating_sub(machine.hop) > end;
        Some(if may_end_later { 0.0 } else { core_ms })
    })
    .min_by(f64::total_cmp)
    .map(|core_ms| core_ms / 1e3)
}

/// Work of a machine's batches, derived once.
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
            (Parallelism::Fixed(at_once), true) => {
                let at_once = f64::from(at_once.get());
                (needed * at_once).ceil().max(1.0) / at_once
            }
            (_, false) => needed,
        };
        Some((shrinking + fixed * cores) / requests)
    }
}
