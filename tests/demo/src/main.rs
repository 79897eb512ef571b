//! `weir-demo demo | up`: the whole system in one command, under a load that rises above its
//! capacity and falls again.
//!
//! Reading order: [`cli`] the arguments, [`scenario`] the fixed parameters, [`system`] the running
//! system (with [`planner`]), [`drive`] the run, [`report`] and [`picture`] its results. Nothing is
//! tuned after a run, and no child process outlives this one, however it ends.

mod cli;
mod drive;
mod picture;
mod report;
mod scenario;
mod system;
mod visible;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;

use cli::{Cli, Command, DemoArgs, UpArgs};
use report::{Report, RunOptions};
use scenario::{MODEL, Scenario};
use system::System;
use weir_bed::interrupt::{INTERRUPTED, Interrupt};

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

/// The result of a command: its exit code, and optionally a system that runs until interrupted.
struct CommandResult {
    code: ExitCode,
    keep: Option<System>,
}

async fn run(cli: Cli) -> Result<ExitCode> {
    let mut interrupt = Interrupt::new()?;
    let work = async {
        match cli.command {
            Command::Demo(args) => demo(args).await,
            Command::Up(args) => up(args).await,
        }
    };
    // Dropping the unfinished work ends its processes.
    let done = tokio::select! {
        done = work => done?,
        () = interrupt.wait() => {
            eprintln!("interrupted");
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    if done.keep.is_some() {
        interrupt.wait().await;
    }
    Ok(done.code)
}

async fn demo(args: DemoArgs) -> Result<CommandResult> {
    let scenario = Scenario::shipped(args.policy)?;
    let seconds = args.seconds as usize;
    let load = scenario.load();
    let rates = load.rates(seconds, args.trace.as_deref())?;
    let network = Arc::new(scenario::network(
        args.network.as_deref(),
        args.seed,
        seconds,
    )?);
    eprintln!("starting: three sets of emulated servers, Envoy, the planner");
    let system = System::start(&scenario, args.field, args.seed).await?;
    let results = drive::drive(&scenario, &system, &rates, Arc::clone(&network), args.seed).await?;
    let named = |file: &Option<std::path::PathBuf>, default: String| {
        file.as_ref()
            .map_or(default, |file| file.display().to_string())
    };
    let chosen = RunOptions {
        seconds,
        seed: args.seed,
        load: named(&args.trace, load.to_string()),
        network: named(&args.network, "synthetic 4G".to_owned()),
        field: args.field,
    };
    let report = Report::new(&scenario, chosen, &results)?;
    write(
        &args.report,
        &format!("{}\n", serde_json::to_string_pretty(&report)?),
    )?;
    parent(&args.picture)?;
    picture::draw(&args.picture, &scenario, rates.rps(), &network, &results)
        .with_context(|| format!("{}", args.picture.display()))?;
    println!("{}\n{}", report.table(), report.notes());
    println!(
        "report: {}   picture: {}",
        args.report.display(),
        args.picture.display()
    );
    let problems = report.problems();
    for problem in &problems {
        eprintln!("invalid run: {problem}");
    }
    let code = if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    if args.keep {
        println!("{}", example_commands(&scenario, &system)?);
    }
    Ok(CommandResult {
        code,
        keep: args.keep.then_some(system),
    })
}

async fn up(args: UpArgs) -> Result<CommandResult> {
    let scenario = Scenario::shipped(args.policy)?;
    // A script that waits for the file must not find an old one.
    match fs::remove_file(&args.addresses) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("{}", args.addresses.display()));
        }
        _ => {}
    }
    let system = System::start(&scenario, args.field, 1).await?;
    let addresses = serde_json::to_string_pretty(&system.addresses()?)?;
    // Written under another name and then renamed, so that nobody reads half of it.
    let part = args.addresses.with_extension("part");
    write(&part, &format!("{addresses}\n"))?;
    fs::rename(&part, &args.addresses).with_context(|| format!("{}", args.addresses.display()))?;
    println!("{addresses}\n{}", example_commands(&scenario, &system)?);
    Ok(CommandResult {
        code: ExitCode::SUCCESS,
        keep: Some(system),
    })
}

/// Commands to paste.
fn example_commands(scenario: &Scenario, system: &System) -> Result<String> {
    let addresses = system.addresses()?;
    let at = |pointer: &str| {
        let found = addresses
            .pointer(pointer)
            .and_then(serde_json::Value::as_str);
        found.with_context(|| format!("no address at {pointer}"))
    };
    let variant = scenario.variants().next().context("no variants")?;
    let server = at(&format!("/backends/{}", variant.name))?;
    let (weir, planner, admin) = (at("/weir")?, at("/planner")?, at("/envoy_admin")?);
    let (service, key) = (&scenario.service, at("/key")?);
    Ok(format!(
        "running until Ctrl-C; try:\n  \
         curl -i {weir}/v2/models/{MODEL}/infer -H 'content-type: application/json' \
         -H 'x-slo-ms: {}' -H \"x-slo-start: $(date +%s%3N)\" -d '{{\"inputs\": []}}'\n  \
         curl -i {weir}/v2/models/{MODEL}/infer -H 'x-slo-ms: 20' -d '{{}}'      # cannot be met: 504\n  \
         curl -s '{planner}/v1/services/{service}?cycles=1' -H 'authorization: Bearer {key}'\n  \
         curl -s '{admin}/stats/prometheus?filter=weir_'\n  \
         curl -s {server}",
        scenario.slo_ms,
    ))
}

fn write(path: &Path, text: &str) -> Result<()> {
    parent(path)?;
    fs::write(path, text).with_context(|| format!("{}", path.display()))
}

fn parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) => fs::create_dir_all(folder).with_context(|| format!("{}", folder.display())),
        None => Ok(()),
    }
}
