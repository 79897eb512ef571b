//! `weir-measure validate | workers | kube | real-server`: measurements of Weir that take minutes, each with its target.

mod lane;
mod pods;
mod real;
mod workers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use weir_bed::interrupt::{INTERRUPTED, Interrupt};
use weir_measure::validate::{LOADS, compare};

use pods::KubeArgs;
use real::RealArgs;
use workers::WorkersArgs;

/// Measures Weir.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare replay with a real Envoy at three loads: light, near capacity, 1.5 × overload.
    Validate(ValidateArgs),
    /// Measure the queue shared by the workers: order, hand-over, many queued requests, processor time.
    Workers(WorkersArgs),
    /// Measure the planner on an emulated Kubernetes: the time until pods follow the demand, and the cost of 500
    /// pods.
    Kube(KubeArgs),
    /// Put Weir before real model servers, beside weighted and careful. Needs root, for control groups and namespaces.
    RealServer(RealArgs),
}

#[derive(Debug, Args)]
struct ValidateArgs {
    /// The scenario, instead of the three of planner/scenarios: one server for each variant, replicas, a pipeline. Its load
    /// is set to three multiples of its servers' capacity.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
}

/// Folder of the scenarios.
const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../planner/scenarios");
/// Scenarios of `validate`.
const VALIDATED: [&str; 3] = [
    "validate.yaml",
    "validate-replicas.yaml",
    "validate-pipeline.yaml",
];

#[tokio::main]
async fn main() -> ExitCode {
    // All sockets of clients and servers are in this process: more than the usual 1,024.
    let _ = rlimit::increase_nofile_limit(rlimit::INFINITY);
    match run(Cli::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<ExitCode> {
    let mut interrupt = Interrupt::new()?;
    let work = async {
        match cli.command {
            Command::Validate(args) => validated(args).await,
            Command::Workers(args) => workers::measured(args).await,
            Command::Kube(args) => pods::measured(args).await,
            Command::RealServer(args) => real::measured(args).await,
        }
    };
    // Dropping the unfinished work ends its processes.
    tokio::select! {
        code = work => code,
        () = interrupt.wait() => {
            eprintln!("interrupted");
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

/// Compares replay with a real Envoy at each load; the exit code shows whether they agree.
async fn validated(args: ValidateArgs) -> Result<ExitCode> {
    let shipped = VALIDATED.map(|name| Path::new(SCENARIOS).join(name));
    let scenarios = match args.scenario {
        Some(given) => vec![given],
        None => shipped.into(),
    };
    let mut code = ExitCode::SUCCESS;
    for scenario in scenarios {
        let name = scenario.file_stem().unwrap_or_default().to_string_lossy();
        for of_capacity in LOADS {
            let comparison = compare(&scenario, of_capacity).await?;
            println!("{name}: {comparison}");
            if let Err(apart) = comparison.check() {
                eprintln!("{name}: {apart:#}");
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}
