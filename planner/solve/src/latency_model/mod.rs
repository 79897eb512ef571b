//! Latency and throughput models of servers, as functions of cores and batch. The formulations accept
//! any of them; [`fit`] fits them to measurements.

mod batch;
pub mod fit;
mod keys;
mod server_curve;
mod sponge;
mod table;
mod throughput;

use schemars::JsonSchema;
use serde::Serialize;

use crate::InputError;
pub use batch::{Amdahl, Linear, Quadratic};
pub use keys::LatencyOrSponge;
pub use server_curve::{Batching, ServerCurve};
pub use sponge::{LatencyModel, Parallelism};
pub use table::{CELLS_MAX, Cell, NOISE_PERCENT_MAX, POINTS_MAX, Table};
pub use throughput::{Line, Point, RATES_MAX, RPS_MAX, Throughput};

/// Maximum latency of a model, in ms: one day.
pub const MS_MAX: f64 = 86_400_000.0;
/// Maximum batch of a measurement, in requests.
pub const BATCH_MAX: u32 = 65_536;
/// Maximum number of cores of a measurement.
pub const CORES_MAX: f64 = 65_536.0;

/// Latency model: the time of one batch of `b` requests on `c` cores, in ms. In a document, `model`
/// selects the kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "model", rename_all = "kebab-case")]
pub enum Latency {
    /// Sponge's Eq. 2: γ·b/c + ε/c + δ·b + η.
    Sponge(LatencyModel),
    /// Amdahl's law for each request of the batch: b·(serial + parallel/c).
    Amdahl(Amdahl),
    /// Linear in the batch, independent of the cores.
    Linear(Linear),
    /// Quadratic in the batch, independent of the cores: IPA's (JSys '24, §4.2) fit.
    Quadratic(Quadratic),
    /// Interpolated measurements.
    Table(Table),
}

impl Latency {
    /// l(b, c) in ms; infinite where the model is undefined (no cores, beyond a table).
    pub fn ms(&self, batch: u32, cores: f64) -> f64 {
        match self {
            Latency::Sponge(model) => model.service_ms(batch, cores),
            Latency::Amdahl(model) => model.ms(batch, cores),
            Latency::Linear(model) => model.ms(batch),
            Latency::Quadratic(model) => model.ms(batch),
            Latency::Table(table) => table.ms(batch, cores),
        }
    }

    /// h(b, c): requests/s of one instance that executes one batch after the other; 0 where the latency
    /// is infinite.
    pub fn throughput_rps(&self, batch: u32, cores: f64) -> f64 {
        f64::from(batch) * 1000.0 / self.ms(batch, cores)
    }

    /// Checks the coefficients; errors have the path of the field.
    ///
    /// # Errors
    /// The first coefficient or cell that is not a valid number of ms, or a model with zero latency
    /// everywhere.
    pub fn check(&self, path: &str) -> Result<(), InputError> {
        match self {
            Latency::Sponge(model) => {
                model.check(path)?;
                batch::takes_time(path, model.service_ms(1, 1.0))
            }
            Latency::Amdahl(model) => model.check(path),
            Latency::Linear(model) => model.check(path),
            Latency::Quadratic(model) => model.check(path),
            // [`Table::new`] has checked it.
            Latency::Table(_) => Ok(()),
        }
    }
}

impl From<LatencyModel> for Latency {
    fn from(model: LatencyModel) -> Latency {
        Latency::Sponge(model)
    }
}

#[cfg(test)]
mod tests;
