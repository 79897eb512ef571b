//! `cargo xtask test --real-server`: Weir before real model servers, its tables and its targets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use weir_measure::real::batching::{self, Kind, Ways};
use weir_measure::real::{LOADS, Part, Settings, measure};

/// Maximum length of a turn, and number of seeds.
const SECONDS_MAX: i64 = 600;
const SEEDS_MAX: i64 = 100;
/// Greatest multiple of a time.
const FACTOR_MAX: f64 = 100.0;

/// Arguments of the measurement with real servers.
#[derive(Debug, Args)]
pub(crate) struct RealArgs {
    /// Seconds of each run.
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u16).range(4..=SECONDS_MAX))]
    seconds: u16,
    /// Number of seeds: runs of each load and way.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=SEEDS_MAX))]
    seeds: u16,
    /// Parts to measure, separated by commas: by default those with the classifiers.
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',', default_values_t = Part::OF_CLASSIFIERS)]
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
    /// Folder for the filter's counters in each second of each run, and the classifiers' CPU time.
    #[arg(long, value_name = "DIR")]
    counters: Option<PathBuf>,
    #[command(flatten)]
    batching: BatchingArgs,
}

/// Arguments of the parts `batching` and `curves`.
#[derive(Debug, Args)]
struct BatchingArgs {
    /// Kinds of servers of these parts, separated by commas.
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',', default_values_t = Kind::ALL)]
    servers: Vec<Kind>,
    /// Loads of the part `batching`, as multiples of the measured capacity.
    #[arg(long, value_name = "FACTOR", value_delimiter = ',', default_values_t = batching::LOADS, value_parser = batching_load)]
    batching_loads: Vec<f64>,
    /// Objectives, as multiples of the time of a request that is alone.
    #[arg(long, value_name = "FACTOR", value_delimiter = ',', default_values_t = batching::OBJECTIVES, value_parser = factor)]
    objectives: Vec<f64>,
    /// Circuit breakers of careful, as parts of what the servers answer within the objective.
    #[arg(long, value_name = "FACTOR", value_delimiter = ',', default_values_t = batching::BREAKERS, value_parser = factor)]
    breakers: Vec<f64>,
    /// Ways to the servers, in the part `batching`.
    #[arg(long, value_enum, value_name = "WAY", value_delimiter = ',', default_values_t = [Ways::Weir, Ways::OneSlot, Ways::Plain, Ways::Careful])]
    ways: Vec<Ways>,
    /// Seconds of each number of requests in flight.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=SECONDS_MAX))]
    point_seconds: u16,
}

/// Reads a load; the targets know no others.
fn load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load| LOADS.contains(load));
    load.ok_or_else(|| format!("it must be one of {LOADS:?}"))
}

/// Reads a load of the part `batching`; its targets know no others.
fn batching_load(text: &str) -> Result<f64, String> {
    let load = text
        .parse()
        .ok()
        .filter(|load| batching::LOADS.contains(load));
    load.ok_or_else(|| format!("it must be one of {:?}", batching::LOADS))
}

/// Reads a factor.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text
        .parse()
        .ok()
        .filter(|factor| *factor > 0.0 && *factor <= FACTOR_MAX);
    factor.ok_or_else(|| format!("it must be above 0 and at most {FACTOR_MAX}"))
}

/// Measures, prints the tables and writes the results; the exit code shows whether all targets are reached.
pub(crate) async fn measured(args: RealArgs) -> Result<ExitCode> {
    let has = |part| args.parts.contains(&part);
    let with_batches = has(Part::Batching)
        .then_some(false)
        .or(has(Part::Curves).then_some(true));
    let seconds = usize::from(args.seconds);
    let of_batching = batching::Settings {
        kinds: args.batching.servers,
        seconds,
        seeds: u64::from(args.seeds),
        point_seconds: u64::from(args.batching.point_seconds),
        loads: args.batching.batching_loads,
        objectives: args.batching.objectives,
        breakers: args.batching.breakers,
        ways: args.batching.ways,
        counters: args.counters.clone(),
    };
    let settings = Settings {
        seconds,
        seeds: u64::from(args.seeds),
        parts: args.parts,
        loads: args.loads,
        active_seeds: u64::from(args.active_seeds),
        counters: args.counters,
    };
    let folder = std::path::absolute(&args.folder).context("--folder")?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut missed = Vec::new();
    if Part::OF_CLASSIFIERS
        .iter()
        .any(|part| settings.parts.contains(part))
    {
        let report = measure(&folder, &settings).await?;
        println!("{report}");
        write(&folder.join("report.json"), &report)?;
        missed.extend(report.missed());
    }
    if let Some(curves_only) = with_batches {
        let report = batching::measure(&of_batching, curves_only).await?;
        println!("{report}");
        write(&folder.join("batching.json"), &report)?;
        missed.extend(report.missed());
    }
    for target in &missed {
        eprintln!("missed: {target}");
    }
    Ok(match missed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn write(file: &Path, report: &impl Serialize) -> Result<()> {
    fs::write(file, serde_json::to_vec_pretty(report)?)
        .with_context(|| format!("cannot write {}", file.display()))
}
