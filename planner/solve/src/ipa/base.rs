//! IPA's base allocation (JSys '24, Eq. 1a–c): the cores R of one replica, fixed before planning.
//!
//! Our reading of it: the smallest R of a list with h(1, R) ≥ threshold (Eq. 1b), the arrival rate
//! that one replica must carry with batches of one, and l(b_max, R) ≤ the stage's SLA (Eq. 1c). If no
//! R is enough, the variant is not used: × in the paper's Table 5.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::input::{BATCH_MAX, CORES_MAX, CORES_MIN, RATE_MAX, count};
use crate::input::{positive, rule, within};
use crate::latency_model::{Latency, MS_MAX};
use crate::{InputError, TOLERANCE};

/// Maximum number of core counts to choose from.
const ALLOCATIONS_MAX: usize = 256;

/// Latency model of a variant, with the requirements on one replica.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Latency model l(b, R).
    pub latency: Latency,
    /// Rate that one replica must carry with batches of one, in requests/s.
    pub threshold_rps: f64,
    /// The stage's share of the SLA.
    pub sla_ms: f64,
    /// Maximum batch that will be run; by default 8.
    #[serde(default = "batch")]
    pub batch_max: u32,
    /// Values to choose R from; by default 1, 2, 4, 8, 16 and 32.
    #[serde(default = "cores")]
    pub cores: Vec<f64>,
}

/// A checked [`Input`].
#[derive(Debug, Clone, PartialEq)]
pub struct Problem(Input);

fn batch() -> u32 {
    8
}

fn cores() -> Vec<f64> {
    vec![1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
}

impl TryFrom<Input> for Problem {
    type Error = InputError;

    fn try_from(mut input: Input) -> Result<Problem, InputError> {
        input.latency.check("latency")?;
        positive("threshold_rps", input.threshold_rps, RATE_MAX, "requests/s")?;
        positive("sla_ms", input.sla_ms, MS_MAX, "ms")?;
        within("batch_max", input.batch_max, 1, BATCH_MAX, "requests")?;
        count("cores", input.cores.len(), ALLOCATIONS_MAX)?;
        for (index, cores) in input.cores.iter().enumerate() {
            within(
                format!("cores[{index}]"),
                *cores,
                CORES_MIN,
                CORES_MAX,
                "cores",
            )?;
            for batch in [1, input.batch_max] {
                let ms = input.latency.ms(batch, *cores);
                let right = format!("above 0 for a batch of {batch} on {cores} cores");
                rule(ms > 0.0, "latency", format!("{ms} ms"), right)?;
            }
        }
        input.cores.sort_by(f64::total_cmp);
        Ok(Problem(input))
    }
}

/// Returns the smallest sufficient R; `None` if there is none.
pub fn allocation(problem: &Problem) -> Option<f64> {
    let input = &problem.0;
    let enough = |cores: &&f64| {
        let rate = input.latency.throughput_rps(1, **cores);
        rate >= input.threshold_rps * (1.0 - TOLERANCE)
            && input.latency.ms(input.batch_max, **cores) <= input.sla_ms * (1.0 + TOLERANCE)
    };
    input.cores.iter().find(enough).copied()
}
