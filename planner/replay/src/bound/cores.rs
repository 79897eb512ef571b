//! Lower bound on the core-seconds that a given number of on-time answers costs.
//!
//! The argument, from conservation of work. A request that is on time occupies cores for its least work at least
//! ([`super::work`]). The minimum over the variants with sufficient accuracy is the request's minimum cost. The sum of
//! the cheapest requests is the minimum for that many requests, and actual cores are never fewer than busy cores.
//!
//! A clairvoyant planner requests changes of cores early, so resize delays cost nothing, except at the
//! start: the initial cores stay for one resize delay, used or not. Requests released after it are
//! served by cores paid for after it. The bound is the greater of the two.
//!
//! A request of a pipeline costs the sum over its stages.
//!
//! The same holds for what the cores cost, with each variant's price of a core.
//!
//! Work beyond what the limited replicas of a variant can do is the other variants' ([`super::limited`]).
//!
//! The bound ignores idle cores between requests, whole cores where a fraction would do, and load
//! times, so it may be too low but never too high. One assumption is needed: a core is paid for until
//! its execution has ended. (A simulated server that shrinks finishes running executions for free.)

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::Window;
use super::limited::Limited;
use super::work::{Machine, ROUNDING, Worker, by_stage, machines};
use crate::request::{Play, Request};
use crate::scenario::Scenario;

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

/// Returns the bound for `on_time` requests of a scenario, from the initial cores of a play; `None` if no number of
/// cores suffices.
#[must_use]
pub fn min_core_seconds(
    scenario: &Scenario,
    requests: &[Request],
    play: &Play,
    on_time: u64,
) -> Option<MinCoreSeconds> {
    let core_seconds = min_of_scenario(scenario, requests, play, on_time, |_| 1.0)?;
    let noisy = scenario
        .variants
        .iter()
        .any(|server| server.noise_sigma > 0.0);
    Some(MinCoreSeconds {
        on_time,
        core_seconds,
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

/// Returns the minimum of price × core-seconds for `on_time` requests of a scenario, from the initial cores of a play;
/// `None` if no number of cores suffices.
#[must_use]
pub fn min_cost(
    scenario: &Scenario,
    requests: &[Request],
    play: &Play,
    on_time: u64,
) -> Option<f64> {
    min_of_scenario(scenario, requests, play, on_time, |machine| machine.price)
}

fn min_of_scenario(
    scenario: &Scenario,
    requests: &[Request],
    play: &Play,
    on_time: u64,
    price: fn(&Machine) -> f64,
) -> Option<f64> {
    let machines = machines(scenario, play);
    let stages = by_stage(scenario, &machines);
    let windows: Vec<Window> = requests.iter().map(Window::of).collect();
    min_of_stages(&windows, on_time, &stages, scenario.length, price)
}

/// Returns the minimum core-seconds until `end` for `on_time` requests; `None` if no number of cores suffices.
#[must_use]
pub fn min(windows: &[Window], on_time: u64, machines: &[Machine], end: Duration) -> Option<f64> {
    min_of_stages(windows, on_time, &[machines], end, |_| 1.0)
}

/// Returns the minimum of price × core-seconds until `end` for `on_time` requests that pass all stages. Each stage is
/// given the whole window, which is more than the others leave it: so the sum is still a lower bound.
fn min_of_stages(
    windows: &[Window],
    on_time: u64,
    stages: &[&[Machine]],
    end: Duration,
    price: fn(&Machine) -> f64,
) -> Option<f64> {
    let machines = || stages.iter().copied().flatten();
    let settled = machines().map(|machine| machine.resize_delay).max()?;
    let start: f64 = machines()
        .map(|machine| price(machine) * machine.cores * machine.resize_delay.as_secs_f64())
        .sum();
    let workers = |machines: &&[Machine]| machines.iter().map(Worker::new).collect();
    let stages: Vec<Vec<Worker>> = stages.iter().map(workers).collect();
    let of_stage = |window: &Window, workers: &[Worker]| -> Option<f64> {
        let cost =
            |worker: &Worker| Some(price(&worker.machine) * worker.core_seconds(window, end)?);
        workers.iter().filter_map(cost).min_by(f64::total_cmp)
    };
    let all_stages = |window: &Window| {
        let each = stages.iter().map(|workers| of_stage(window, workers));
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
    let any = match stages.as_slice() {
        [workers] => any.max(with_limits(windows, on_time, workers, end, price)),
        _ => any,
    };
    let later: Vec<f64> = all
        .iter()
        .filter(|(release, _)| *release >= settled)
        .map(|(_, cost)| *cost)
        .collect();
    let must = on_time.saturating_sub(all.len() - later.len());
    let from_then_on: f64 = later.iter().take(must).sum();
    Some(any.max(start + from_then_on) * (1.0 - ROUNDING))
}

/// The same for one stage, with the limits of its variants' replicas.
fn with_limits(
    windows: &[Window],
    on_time: usize,
    workers: &[Worker],
    end: Duration,
    price: fn(&Machine) -> f64,
) -> f64 {
    let machines = || workers.iter().map(|worker| &worker.machine);
    if machines().all(|machine| machine.cores_max.is_infinite()) {
        return 0.0;
    }
    let works = windows.iter().map(|window| {
        let work = |worker: &Worker| worker.core_seconds(window, end);
        let works = workers.iter().map(|one| work(one).unwrap_or(f64::INFINITY));
        works.collect::<Vec<f64>>()
    });
    let works = works.filter(|works| works.iter().any(|work| work.is_finite()));
    let limits = machines().map(|machine| machine.cores_max * end.as_secs_f64());
    let limited = Limited {
        works: &works.collect::<Vec<Vec<f64>>>(),
        prices: &machines().map(price).collect::<Vec<f64>>(),
        limits: &limits.collect::<Vec<f64>>(),
        on_time,
    };
    limited.min()
}
