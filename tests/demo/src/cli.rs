//! Command line arguments. Everything else is fixed in `scenario`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use weir_bed::load::SECONDS_MAX;

use crate::scenario::{Field, Policy};

/// Compare Weir with two setups without it: the same load through three listeners of the same Envoys.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the load and compare.
    Demo(DemoArgs),
    /// Start the same system without load, until interrupted.
    Up(UpArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Policy of the planner; each has its own service and load.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) policy: Policy,
    /// Duration of the load, in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(10..=SECONDS_MAX as i64))]
    pub(crate) seconds: u32,
    /// Seed of arrivals, synthetic network and service times.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) field: Field,
    /// A measured 4G log instead of the synthetic network: lines of six columns, or JSON
    /// [{duration_ms, bandwidth_kbps, latency_ms}].
    #[arg(long, value_name = "FILE")]
    pub(crate) network: Option<PathBuf>,
    /// Requests/s for each second instead of the synthetic swell: one number per line, or JSON; FILE#key selects one
    /// of several in a JSON object.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// File for the figures, as JSON.
    #[arg(long, value_name = "FILE", default_value = "target/demo.json")]
    pub(crate) report: PathBuf,
    /// File for the picture, as SVG.
    #[arg(long, value_name = "FILE", default_value = "target/demo.svg")]
    pub(crate) picture: PathBuf,
    /// Leave everything running afterwards, until interrupted, and print commands to try.
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Policy of the planner.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) policy: Policy,
    #[command(flatten)]
    pub(crate) field: Field,
    /// File for the addresses, as JSON, written once everything is ready.
    #[arg(long, value_name = "FILE")]
    pub(crate) addresses: PathBuf,
}
