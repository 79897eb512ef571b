//! Measured throughput of a whole server, converted to the latency of its executions.
//!
//! A server on c cores that executes n batches of b at once and answers r requests/s takes n·b/r seconds for
//! each batch. Each execution has c/n cores, or one if there is an execution per core: then the rate is
//! proportional to the cores.

use weir_sim::server::{CORES_MAX, Parallelism, SERVICE_MAX};
use weir_solve::latency_model::{BATCH_MAX, Cell, NOISE_PERCENT_MAX, POINTS_MAX, RPS_MAX, Table};

use super::raw::RawRate;
use super::refused::{ScenarioError, within};

/// One measurement.
struct Measurement {
    /// Latency of an execution.
    cell: Cell,
    /// Cores of the server.
    cores: f64,
    /// Rate of the server, requests/s.
    rps: f64,
}

/// Returns the latencies of a server with those measured rates, at `path`.
pub(super) fn table(
    path: &str,
    rates: &[RawRate],
    parallelism: Parallelism,
    initial_cores: f64,
) -> Result<Table, ScenarioError> {
    within(path, rates.len(), 1..=POINTS_MAX, "points")?;
    let mut all: Vec<Measurement> = Vec::with_capacity(rates.len());
    for (index, rate) in rates.iter().enumerate() {
        let at = format!("{path}[{index}]");
        let new = Measurement::new(&at, rate, parallelism, initial_cores)?;
        let same = |old: &Measurement| {
            (old.cell.batch, old.cell.cores) == (new.cell.batch, new.cell.cores)
        };
        if let Some(old) = all.iter().position(same) {
            let why = match parallelism {
                Parallelism::PerCore => ", as each execution has one core on any number of them",
                Parallelism::Fixed(_) => "",
            };
            let right = format!("measured once: throughput[{old}] is the same{why}");
            return Err(ScenarioError::value(at, new.place(), right));
        }
        all.push(new);
    }
    for (index, quick) in all.iter().enumerate() {
        if let Some(slow) = all.iter().position(|slow| slow.contradicts(quick)) {
            let at = format!("{path}[{index}].rps");
            return Err(quick.refused(at, slow, all.get(slow)));
        }
    }
    let cells = all.iter().map(|measurement| measurement.cell).collect();
    Table::new(cells).map_err(|refused| ScenarioError::value(path, refused.value, refused.right))
}

impl Measurement {
    fn new(
        path: &str,
        rate: &RawRate,
        parallelism: Parallelism,
        initial_cores: f64,
    ) -> Result<Measurement, ScenarioError> {
        let at = |key: &str| format!("{path}.{key}");
        let batch = within(at("batch"), rate.batch, 1..=BATCH_MAX, "requests")?;
        let rps = above_zero(at("rps"), rate.rps, RPS_MAX, "requests/s")?;
        let cores = match rate.cores {
            Some(cores) => above_zero(at("cores"), cores, CORES_MAX, "cores")?,
            None if initial_cores > 0.0 => initial_cores,
            None => {
                let complaint =
                    "missing; the server starts without cores, so say on how many it was measured";
                return Err(ScenarioError::about(at("cores"), complaint));
            }
        };
        let latency_ms = parallelism.batch_ms(cores, rps / f64::from(batch));
        let limit_s = SERVICE_MAX.as_secs_f64();
        if latency_ms > limit_s * 1e3 {
            let requests = f64::from(parallelism.at_once(cores)) * f64::from(batch);
            let right = format!(
                "{} or more: an execution takes at most {limit_s} s",
                requests / limit_s
            );
            return Err(ScenarioError::value(at("rps"), rps, right));
        }
        Ok(Measurement {
            cell: Cell {
                batch,
                cores: parallelism.cores_each(cores),
                latency_ms,
            },
            cores,
            rps,
        })
    }

    /// Whether this execution has no more requests on no fewer cores than `quick`, and yet takes longer by more
    /// than noise.
    fn contradicts(&self, quick: &Measurement) -> bool {
        self.cell.batch <= quick.cell.batch
            && self.cell.cores >= quick.cell.cores
            && self.cell.latency_ms > quick.cell.latency_ms * (1.0 + NOISE_PERCENT_MAX / 100.0)
    }

    fn refused(&self, path: String, index: usize, slow: Option<&Measurement>) -> ScenarioError {
        let slow_ms = slow.map_or(f64::INFINITY, |slow| slow.cell.latency_ms);
        let factor = (1.0 + NOISE_PERCENT_MAX / 100.0) * self.cell.latency_ms / slow_ms;
        let most_rps = self.rps * factor;
        let right = format!(
            "at most {most_rps}, with {NOISE_PERCENT_MAX} % of noise: {} would be quicker than {} (throughput[{index}])",
            self.place(),
            slow.map(Measurement::place).unwrap_or_default()
        );
        ScenarioError::value(path, self.rps, right)
    }

    /// Batch and cores, for messages.
    fn place(&self) -> String {
        format!("a batch of {} on {} cores", self.cell.batch, self.cores)
    }
}

fn above_zero(path: String, value: f64, max: f64, unit: &str) -> Result<f64, ScenarioError> {
    if value > 0.0 && value <= max {
        return Ok(value);
    }
    let right = format!("above 0 and at most {max} {unit}");
    Err(ScenarioError::value(path, value, right))
}
