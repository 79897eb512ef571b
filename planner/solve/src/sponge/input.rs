//! The problem as a document, and its validation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CHOICES_MAX, Problem, WAITING_MAX};
use crate::InputError;
use crate::input::{positive, rule, within};
use crate::latency_model::{Latency, MS_MAX};

/// Maximum rate, in requests/s.
pub const RATE_MAX: f64 = 1e9;
/// Maximum weight of a batch.
pub const DELTA_MAX: f64 = 1e6;

/// Cores and batch of one instance, for waiting and arriving requests (Sponge, Eq. 3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Latency model l(b, c).
    pub latency: Latency,
    /// Numbers of cores to choose from: a maximum (from 1 on), or a list.
    pub cores: Steps,
    /// Batches to choose from: a maximum (from 1 on), or a list.
    pub batches: Steps,
    /// δ: cost of one more request in the batch, in cores.
    #[serde(default = "small")]
    pub delta: f64,
    /// λ: requests/s to be sustained. 0 only if requests wait.
    #[serde(default)]
    pub rate_rps: f64,
    /// Rise above λ for a moment.
    #[serde(default)]
    pub peak: Option<Peak>,
    /// Requests that wait now.
    #[serde(default)]
    pub waiting: Vec<Waiting>,
    /// SLO and network latency of arriving requests; needs a rate.
    #[serde(default)]
    pub arriving: Option<Arriving>,
}

/// Values to choose from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Steps {
    /// 1 to this value.
    UpTo(u32),
    /// Exactly these values.
    Among(Vec<u32>),
}

/// Rise of the rate for a moment: requests that exceed the throughput wait meanwhile, for as long as arriving requests have
/// time left.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Peak {
    /// Requests/s.
    pub rate_rps: f64,
    /// Duration, in s. Above 0.
    pub seconds: f64,
}

/// Waiting request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// SLO, counted from the client's send, in ms.
    pub slo_ms: f64,
    /// Network latency from its client to the proxy, in ms.
    #[serde(default)]
    pub network_ms: f64,
    /// Time it has already waited here, in ms.
    #[serde(default)]
    pub waited_ms: f64,
}

/// Requests that will arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arriving {
    /// SLO, counted from the client's send, in ms.
    pub slo_ms: f64,
    /// Measured network latencies, in ms.
    pub network_ms: Vec<f64>,
    /// Percentile of the network latencies to plan for; 100 is the greatest.
    #[serde(default = "max")]
    pub percentile: f64,
}

const fn small() -> f64 {
    0.01
}

const fn max() -> f64 {
    100.0
}

impl Steps {
    fn checked(&self, path: &str) -> Result<Vec<u32>, InputError> {
        match self {
            Steps::UpTo(max) => {
                within(path, *max, 1, CHOICES_MAX, "")?;
                Ok((1..=*max).collect())
            }
            Steps::Among(list) => {
                let right = format!("a list of 1 to {CHOICES_MAX} numbers");
                let count = usize::try_from(CHOICES_MAX).unwrap_or(usize::MAX);
                rule(
                    (1..=count).contains(&list.len()),
                    path,
                    format!("{list:?}"),
                    right,
                )?;
                for (index, step) in list.iter().enumerate() {
                    within(format!("{path}[{index}]"), *step, 1, CHOICES_MAX, "")?;
                }
                let mut list = list.clone();
                list.sort_unstable();
                list.dedup();
                Ok(list)
            }
        }
    }
}

impl TryFrom<Input> for Problem {
    type Error = InputError;

    fn try_from(input: Input) -> Result<Problem, InputError> {
        input.latency.check("latency")?;
        let cores = input.cores.checked("cores")?;
        let batches = input.batches.checked("batches")?;
        for (batch, cores) in batches.iter().zip(cores.iter().rev().cycle()) {
            let ms = input.latency.ms(*batch, f64::from(*cores));
            let value = format!("{ms} ms for a batch of {batch} on {cores} cores");
            rule(ms > 0.0, "latency", value, "more than 0 for every choice")?;
        }
        let delta = within("delta", input.delta, 0.0, DELTA_MAX, "")?;
        let rate_rps = within("rate_rps", input.rate_rps, 0.0, RATE_MAX, "requests/s")?;
        let right = "above 0 where no request waits";
        rule(
            rate_rps > 0.0 || !input.waiting.is_empty(),
            "rate_rps",
            rate_rps,
            right,
        )?;
        if let Some(Peak { rate_rps, seconds }) = input.peak {
            within("peak.rate_rps", rate_rps, 0.0, RATE_MAX, "requests/s")?;
            positive("peak.seconds", seconds, MS_MAX / 1e3, "s")?;
        }
        let left_ms = time_left(&input.waiting)?;
        let mut arriving_ms = None;
        if let Some(arriving) = &input.arriving {
            let right = "above 0 where there is `arriving`";
            rule(rate_rps > 0.0, "rate_rps", rate_rps, right)?;
            arriving_ms = Some(arriving.left_ms()?);
        }
        Ok(Problem {
            latency: input.latency,
            cores,
            step: 1.0,
            batches,
            delta,
            rate_rps,
            peak: input.peak,
            left_ms,
            arriving_ms,
        })
    }
}

/// Returns the time left of each waiting request, least first.
fn time_left(waiting: &[Waiting]) -> Result<Vec<f64>, InputError> {
    let right = format!("at most {WAITING_MAX} requests");
    rule(
        waiting.len() <= WAITING_MAX,
        "waiting",
        waiting.len(),
        right,
    )?;
    for (index, request) in waiting.iter().enumerate() {
        let key = |name: &str| format!("waiting[{index}].{name}");
        positive(key("slo_ms"), request.slo_ms, MS_MAX, "ms")?;
        within(key("network_ms"), request.network_ms, 0.0, MS_MAX, "ms")?;
        within(key("waited_ms"), request.waited_ms, 0.0, MS_MAX, "ms")?;
    }
    let network_ms = waiting.iter().map(|request| request.network_ms);
    let slowest = network_ms.fold(0.0, f64::max);
    let each = waiting.iter();
    let mut left: Vec<f64> = each.map(|r| r.slo_ms - r.waited_ms - slowest).collect();
    left.sort_by(f64::total_cmp);
    Ok(left)
}

impl Arriving {
    /// Time left after the network latency at the percentile.
    fn left_ms(&self) -> Result<f64, InputError> {
        let slo_ms = positive("arriving.slo_ms", self.slo_ms, MS_MAX, "ms")?;
        within("arriving.percentile", self.percentile, 0.0, 100.0, "")?;
        let count = self.network_ms.len();
        let right = format!("1 to {WAITING_MAX} latencies");
        let path = "arriving.network_ms";
        rule((1..=WAITING_MAX).contains(&count), path, count, right)?;
        for (index, ms) in self.network_ms.iter().enumerate() {
            within(format!("{path}[{index}]"), *ms, 0.0, MS_MAX, "ms")?;
        }
        let mut sorted = self.network_ms.clone();
        sorted.sort_by(f64::total_cmp);
        // Nearest rank: the smallest value that at least `percentile` percent of the values do not exceed.
        let rank = (self.percentile / 100.0 * count as f64).ceil().max(1.0);
        let at = sorted.get((rank as usize).min(count) - 1);
        Ok(slo_ms - at.copied().unwrap_or(0.0))
    }
}
