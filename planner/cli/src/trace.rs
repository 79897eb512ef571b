//! Arguments of the commands that read a trace.

pub(crate) mod progress;

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use serde_json::Value;
use weir_forecast::gap::{Gaps, Trace, TraceError};
use weir_planner::spec::RawDuration;
use weir_sim::load::{UnnamedTrace, read_trace};

/// Arguments that name a trace.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArguments {
    /// Trace: requests in each second, one number a line, or CSV or JSON; may end in .gz.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: PathBuf,
    /// Column of a CSV file, or key of a JSON object.
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
    /// Treatment of gaps, which are runs of zeros within a load: an error, left out, or seconds without requests.
    #[arg(long, value_name = "GAPS", value_enum, default_value = "refuse")]
    gaps: GapsArgument,
    /// Time from a forecast to the end of what it forecasts: whole seconds, 1s to 2m.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration)]
    horizon: RawDuration,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum GapsArgument {
    Refuse,
    Skip,
    Zero,
}

/// Reads a duration as service files have it.
pub(crate) fn duration(text: &str) -> Result<RawDuration, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|error| error.to_string())
}

/// Whole seconds of a duration.
pub(crate) fn seconds(name: &str, duration: RawDuration) -> anyhow::Result<usize> {
    let whole = duration.0.subsec_nanos() == 0;
    anyhow::ensure!(whole, "{name}: {duration}; it must be whole seconds");
    Ok(usize::try_from(duration.0.as_secs())?)
}

impl TraceArguments {
    /// Horizon in seconds.
    pub(crate) fn horizon(&self) -> anyhow::Result<usize> {
        seconds("--horizon", self.horizon)
    }

    /// Reads the trace, which must have `seconds_min`.
    pub(crate) fn read(&self, seconds_min: usize) -> anyhow::Result<Trace> {
        let rates = read_trace(&self.trace, self.column.as_deref()).context("--trace");
        let rates = rates.map_err(|error| match error.is::<UnnamedTrace>() {
            true => anyhow!("{error:#} with --column"),
            false => error,
        })?;
        let gaps = match self.gaps {
            GapsArgument::Refuse => Gaps::Refuse,
            GapsArgument::Skip => Gaps::Skip,
            GapsArgument::Zero => Gaps::Zero,
        };
        Trace::new(rates, gaps, seconds_min).map_err(|error| {
            let by = match error {
                TraceError::Gap { .. } => " with --gaps",
                _ => "",
            };
            anyhow!("--trace {}: {error}{by}", self.trace.display())
        })
    }
}
