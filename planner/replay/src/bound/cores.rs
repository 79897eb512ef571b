//! The least core-seconds that a given number of on-time answers costs: a lower bound.
//!
//! The argument, from conservation of work. A request that is on time in a batch of b on x cores
//! occupies those for l(b, x), of which its part is x·l(b, x)/b = (γ·b + ε + (δ·b + η)·x)/b core-seconds
//! (Sponge's law, EuroMLSys '24, Eq. 2): the less the fewer cores, but then l(b, x) must still fit
//! between its release and its due time, less the hops. The least of that over the variants accurate enough, the
//! batches and the cores is what the request costs at best; the cheapest requests together are what so
//! many of them cost at best, and cores in force are never less than cores at work.
//!
//! Delays of actuation do not hold up someone who knows the future and asks ahead, but for the start:
//! cores in force at the beginning stay for a resize delay, used or not. Requests that come after that
//! are served by cores paid for after that. The greater of the two bounds is taken.
//!
//! Left out, so that the bound may be too low but never too high: cores that idle between requests,
//! whole cores where a fraction would do, load times. One thing must be granted: a core is paid for
//! until the execution on it has ended. (A modelled server that shrinks ends what it began for free.)

use std::time::Duration;

use serde::Serialize;
use weir_sim::server::{Law, Parallelism};

use super::Window;
use crate::request::Request;
use crate::scenario::{Control, Scenario};

/// Relative error that sums in floating point may have; taken off the bound.
const ROUNDING: f64 = 1e-9;

/// The least core-seconds for so many requests on time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Least {
    /// Requests that are to be on time.
    pub on_time: u64,
    /// No fewer core-seconds than this.
    pub core_seconds: f64,
    /// What the number is.
    pub kind: LeastKind,
    /// The algorithm.
    pub method: &'static str,
    /// What the number leaves out.
    pub why: &'static str,
}

/// What a bound on core-seconds is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeastKind {
    /// Proven never to be above the optimum.
    Lower,
    /// The same for mean service times: luck may beat it by a little.
    Estimate,
}

/// What a variant's cores can do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Percent.
    pub accuracy: f64,
    /// Time of one batch.
    pub law: Law,
    /// Batches at once.
    pub parallelism: Parallelism,
    /// Largest batch.
    pub batch_max: u32,
    /// Cores at the start.
    pub cores: f64,
    /// How long those stay whatever is asked.
    pub resize_delay: Duration,
    /// From the proxy to it, and from it to the proxy.
    pub hop: Duration,
    /// Whether cores are only given whole.
    pub whole: bool,
}

/// So many requests are that share of them, rounded up but for the noise of floating point.
#[must_use]
pub fn of_share(requests: usize, share: f64) -> u64 {
    let exactly = share.clamp(0.0, 1.0) * requests as f64;
    (exactly * (1.0 - ROUNDING)).ceil() as u64
}

/// The bound for `on_time` of the requests on time in a scenario; `None` where no cores suffice.
#[must_use]
pub fn least_core_seconds(
    scenario: &Scenario,
    requests: &[Request],
    on_time: u64,
) -> Option<Least> {
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
            law: server.law,
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
    Some(Least {
        on_time,
        core_seconds: least(&windows, on_time, &machines)?,
        kind: if noisy {
            LeastKind::Estimate
        } else {
            LeastKind::Lower
        },
        method: "conservation of work",
        why: "the cheapest requests, each at its least work on the cheapest variant that may answer it; \
              cores that idle are not counted, and each core is paid for until its execution has ended",
    })
}

/// No fewer core-seconds give `on_time` answers on time; `None` where no cores suffice.
#[must_use]
pub fn least(windows: &[Window], on_time: u64, machines: &[Machine]) -> Option<f64> {
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

/// Core-seconds that a request costs at least; `None` where nobody can answer it in time.
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
    /// Core-ms of one request in a batch of so many that ends within `length_ms`.
    fn core_ms(&self, batch: u32, length_ms: f64) -> Option<f64> {
        let requests = f64::from(batch);
        let shrinking = self.law.gamma_ms * requests + self.law.epsilon_ms;
        let fixed = self.law.delta_ms * requests + self.law.eta_ms;
        let left = length_ms - fixed;
        if left < 0.0 || (left == 0.0 && shrinking > 0.0) {
            return None;
        }
        // A hair fewer than needed: never too many.
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
