//! Lower bound on the core-seconds that a given number of on-time answers costs.
//!
//! The argument, from conservation of work. A request that is on time in a batch of b on x cores
//! occupies them for l(b, x). Its part of that is x·l(b, x)/b = (γ·b + ε + (δ·b + η)·x)/b core-seconds
//! (Sponge's latency model, EuroMLSys '24, Eq. 2). Fewer cores cost less, but l(b, x) must still fit
//! between its release and its due time, less the hops. The minimum over the variants with sufficient
//! accuracy, the batch sizes and the cores is the request's minimum cost. The sum of the cheapest
//! requests is the minimum for that many requests, and actual cores are never fewer than busy cores.
//!
//! A clairvoyant planner requests changes of cores early, so resize delays cost nothing, except at the
//! start: the initial cores stay for one resize delay, used or not. Requests released after it are
//! served by cores paid for after it. The bound is the greater of the two.
//!
//! The bound ignores idle cores between requests, whole cores where a fraction would do, and load
//! times, so it may be too low but never too high. One assumption is needed: a core is paid for until
//! its execution has ended. (A simulated server that shrinks finishes running executions for free.)

use std::time::Duration;

use serde::Serialize;
use weir_sim::server::{LatencyModel, Parallelism};

use super::Window;
use crate::request::Request;
use crate::scenario::{Control, Scenario};

/// Relative error of floating-point sums; subtracted from the bound.
const ROUNDING: f64 = 1e-9;

/// Lower bound on the core-seconds for a number of on-time requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MinKind {
    /// Proven never to be above the optimum.
    Lower,
    /// Lower bound for mean service times; random times may beat it slightly.
    Estimate,
}

/// Cores and latency model of a variant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Accuracy, percent.
    pub accuracy: f64,
    /// Latency model of a batch.
    pub latency: LatencyModel,
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

/// That share of the requests, rounded up, with tolerance for floating-point error.
#[must_use]
pub fn of_share(requests: usize, share: f64) -> u64 {
    let exactly = share.clamp(0.0, 1.0) * requests as f64;
    (exactly * (1.0 - ROUNDING)).ceil() as u64
}

/// Returns the bound for `on_time` requests of a scenario; `None` if no number of cores suffices.
#[must_use]
pub fn min_core_seconds(
    scenario: &Scenario,
    requests: &[Request],
    on_time: u64,
) -> Option<MinCoreSeconds> {
    let whole_control = |control| matches!(control, Control::Planner | Control::Static);
    let whole = scenario
        .contenders
        .iter()
        .all(|contender| whole_control(contender.control))
        && scenario
            .variants
            .iter()
            .all(|server| server.cores.fract() == 0.0);
    let accuracies = scenario.service.variants.iter().map(|known| known.accuracy);
    let machines: Vec<Machine> = scenario
        .variants
        .iter()
        .zip(accuracies)
        .map(|(server, accuracy)| Machine {
            accuracy,
            latency: server.latency,
            parallelism: server.parallelism,
            batch_max: server.batch_max.max(1),
            cores: server.cores,
            hop: server.hop(),
            resize_delay: server.resize_delay.min(scenario.length),
            whole,
        })
        .collect();
    let windows: Vec<Window> = requests.iter().map(Window::of).collect();
    let noisy = scenario
        .variants
        .iter()
        .any(|server| server.noise_sigma > 0.0);
    Some(MinCoreSeconds {
        on_time,
        core_seconds: min(&windows, on_time, &machines)?,
        kind: if noisy {
            MinKind::Estimate
        } else {
            MinKind::Lower
        },
        method: "conservation of work",
        why: "the cheapest requests, each at its least work on the cheapest variant that may answer it; \
              cores that idle are not counted, and each core is paid for until its execution has ended",
    })
}

/// Returns the minimum core-seconds for `on_time` requests; `None` if no number of cores suffices.
#[must_use]
pub fn min(windows: &[Window], on_time: u64, machines: &[Machine]) -> Option<f64> {
    let settled = machines.iter().map(|machine| machine.resize_delay).max()?;
    let at_start = |machine: &Machine| machine.cores * machine.resize_delay.as_secs_f64();
    let start: f64 = machines.iter().map(at_start).sum();
    let costed = windows
        .iter()
        .filter_map(|window| Some((window.release, cost(window, machines)?)));
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

/// Minimum core-seconds of a request; `None` if no variant can answer it on time.
fn cost(window: &Window, machines: &[Machine]) -> Option<f64> {
    let able = machines
        .iter()
        .filter(|machine| machine.accuracy >= window.min_accuracy);
    able.flat_map(|machine| {
        let length = window.length().saturating_sub(machine.hop * 2);
        let length_ms = length.as_secs_f64() * 1e3;
        (1..=machine.batch_max).filter_map(move |batch| machine.core_ms(batch, length_ms))
    })
    .min_by(f64::total_cmp)
    .map(|core_ms| core_ms / 1e3)
}

impl Machine {
    /// Core-ms of one request in a batch of that size that ends within `length_ms`.
    fn core_ms(&self, batch: u32, length_ms: f64) -> Option<f64> {
        let requests = f64::from(batch);
        let shrinking = self.latency.gamma_ms * requests + self.latency.epsilon_ms;
        let fixed = self.latency.delta_ms * requests + self.latency.eta_ms;
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
        let cores = match (self.parallelism, self.whole) {
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
