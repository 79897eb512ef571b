//! `cargo xtask test --real-server`: Weir before three real model servers, its table and its targets.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use weir_measure::real::{LOADS, Part, Settings, measure};

/// Maximum length of a turn, and number of seeds.
const SECONDS_MAX: i64 = 600;
const SEEDS_MAX: i64 = 100;

/// Arguments of the measurement with real servers.
#[derive(Debug, Args)]
pub(crate) struct RealArgs {
    /// Seconds of each run.
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u16).range(5..=SECONDS_MAX))]
    seconds: u16,
    /// Number of seeds: runs of each load and way.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=SEEDS_MAX))]
    seeds: u16,
    /// Parts to measure, separated by commas.
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',', default_values_t = Part::ALL)]
    parts: Vec<Part>,
    /// Loads of the part `loads`, as multiples of the servers' throughput by their profiles: those that have targets.
    #[arg(long, value_name = "FACTOR", value_delimiter = ',', default_values_t = LOADS, value_parser = load)]
    loads: Vec<f64>,
    /// Number of seeds with which the servers' CPU quotas follow the load.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=SEEDS_MAX))]
    active_seeds: u16,
    /// Folder of the trained models and of the results.
    #[arg(long, value_name = "DIR", default_value = "target/real")]
    folder: PathBuf,
    /// Folder for the filter's counters and the servers' CPU time in each second of each run.
    #[arg(long, value_name = "DIR")]
    counters: Option<PathBuf>,
}

/// Reads a load; the targets know no others.
fn load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load| LOADS.contains(load));
    load.ok_or_else(|| format!("it must be one of {LOADS:?}"))
}

/// Measures, prints the table and writes the results; the exit code shows whether all targets are reached.
pub(crate) async fn measured(args: RealArgs) -> Result<ExitCode> {
    let settings = Settings {
        seconds: usize::from(args.seconds),
        seeds: u64::from(args.seeds),
        parts: args.parts,
        loads: args.loads,
        active_seeds: u64::from(args.active_seeds),
        counters: args.counters,
    };
    let folder = std::path::absolute(&args.folder).context("--folder")?;
    let report = measure(&folder, &settings).await?;
    println!("{report}");
    let file = folder.join("report.json");
    fs::write(&file, serde_json::to_vec_pretty(&report)?)
        .with_context(|| format!("cannot write {}", file.display()))?;
    let missed = report.missed();
    for target in &missed {
        eprintln!("missed: {target}");
    }
    Ok(match missed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
