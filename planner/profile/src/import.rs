//! Import of measurements that other programs have made: CSV, Triton's statistics, perf_analyzer's reports, and the
//! metrics of MLServer and TensorFlow Serving. Pure; each parser takes a text.

mod perf_analyzer;
mod prometheus;
mod table;
mod triton;

use weir_solve::latency_model::Parallelism;

use crate::ProfileError;
use crate::measurement::Measurement;
pub use prometheus::Program;
pub use table::{Columns, ROWS_MAX};

/// Minimum number of executions that a mean comes from; fewer are left out, with a note.
pub const EXECUTIONS_MIN: u64 = 30;

/// Form of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Table with a header: cores, batch, `mean_ms`, rps and percentiles.
    Csv,
    /// Answer of Triton's `/v2/models/NAME/stats`.
    Triton,
    /// CSV report of Triton's `perf_analyzer -f FILE`.
    PerfAnalyzer,
    /// MLServer's `/metrics`.
    Mlserver,
    /// TensorFlow Serving's `/monitoring/prometheus/metrics`.
    TfServing,
}

impl Format {
    /// Whether it has counters, so that the increase between two readings can be taken.
    pub fn has_counters(self) -> bool {
        match self {
            Format::Triton | Format::Mlserver | Format::TfServing => true,
            Format::Csv | Format::PerfAnalyzer => false,
        }
    }
}

/// Facts that a source does not have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Given {
    /// Cores of the server.
    pub cores: f64,
    /// Requests in one batch.
    pub batch: u32,
    /// Name of the model, where the source has several.
    pub model: Option<String>,
    /// Columns of a CSV, and the rows that count.
    pub columns: Columns,
}

/// Measurements of a source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// Measurements, at least one.
    pub measurements: Vec<Measurement>,
    /// Batches executed at once, where the source shows it.
    pub parallelism: Option<Parallelism>,
    /// Facts that reduce the value of the measurements, for people.
    pub notes: Vec<String>,
}

/// Imports a text; `earlier` is the same source's some time before, for counters.
///
/// # Errors
/// The first value that cannot be read, or too few executions.
pub fn import(
    format: Format,
    text: &str,
    earlier: Option<&str>,
    given: &Given,
) -> Result<Imported, ProfileError> {
    let imported = match format {
        Format::Csv => table::import(text, given)?,
        Format::Triton => triton::import(text, earlier, given)?,
        Format::PerfAnalyzer => perf_analyzer::import(text, given)?,
        Format::Mlserver => prometheus::import(Program::Mlserver, text, earlier, given)?,
        Format::TfServing => prometheus::import(Program::TfServing, text, earlier, given)?,
    };
    for (index, measurement) in imported.measurements.iter().enumerate() {
        measurement.check(&format!("measurement {}", index + 1))?;
    }
    Ok(imported)
}

/// Finds the only model, or the one of the given name.
fn only<'a, T>(
    models: &'a [(String, T)],
    given: &Given,
    thing: &str,
) -> Result<&'a (String, T), ProfileError> {
    let names = || {
        let names: Vec<&str> = models.iter().map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    };
    let found = match &given.model {
        Some(model) => models.iter().filter(|(name, _)| name == model).collect(),
        None => models.iter().collect::<Vec<_>>(),
    };
    match (found.as_slice(), &given.model) {
        ([one], _) => Ok(one),
        ([], _) if models.is_empty() => Err(ProfileError(format!(
            "no {thing}; is it the right --format?"
        ))),
        ([], Some(model)) => Err(ProfileError(format!(
            "--model {model}: no such model; it must be one of: {}",
            names()
        ))),
        _ => Err(ProfileError(format!(
            "{} models; --model must name one of: {}",
            models.len(),
            names()
        ))),
    }
}
