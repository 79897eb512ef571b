//! Command line of Weir. Reads arguments, files, the key and signals, and leaves the rest to the libraries.

mod check;
mod completions;
mod doctor;
mod endpoint;
mod exit;
#[cfg(feature = "replay")]
mod experiment;
#[cfg(feature = "forecast")]
mod forecast;
#[cfg(feature = "profile")]
mod init;
mod input;
mod inspect;
#[cfg(feature = "kubernetes")]
mod manifests;
mod moved;
#[cfg(feature = "kubernetes")]
mod operate;
#[cfg_attr(
    not(all(feature = "forecast", feature = "profile", feature = "replay")),
    allow(dead_code, reason = "only their commands write files")
)]
mod output;
#[cfg(feature = "profile")]
mod profile;
#[cfg(feature = "replay")]
mod progress;
#[cfg(feature = "replay")]
mod record;
#[cfg(feature = "replay")]
mod replay;
mod sent_replay;
mod serve;
mod solve;
mod status;
mod top;
#[cfg(feature = "forecast")]
mod trace;
mod traces;
#[cfg(feature = "forecast")]
mod train;
mod why;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use exit::Exit;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

/// Plans which model variants serve, with how many cores and what share of the traffic.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = exit::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Plan for one or more services until interrupted.
    Serve(serve::Serve),
    #[cfg(feature = "kubernetes")]
    /// Plan for the SloServices of a Kubernetes cluster until interrupted.
    Operate(operate::Operate),
    /// Show the state of a planner's services: variants, limits, proxies.
    Status(status::Status),
    /// Show the state of a planner's services again each second, until q or Ctrl-C.
    Top(top::Top),
    /// Print the latest decisions of a planner, with their reasons and limits.
    Why(why::Why),
    /// Check a running planner, its services and proxies, and name a remedy for each failure.
    Doctor(doctor::Doctor),
    /// Back-test all forecasters on a trace.
    #[cfg(feature = "forecast")]
    Forecast(forecast::Forecast),
    /// Train the LSTM forecaster on a trace.
    #[cfg(feature = "forecast")]
    Train(train::Train),
    /// Write a first service file from the metadata of running model servers.
    #[cfg(feature = "profile")]
    Init(init::Init),
    /// Measure variants through their endpoints, and write their profiles.
    #[cfg(feature = "profile")]
    Profile(Box<profile::Profile>),
    /// Write the records of a replay from Envoy's access log, or from the filter's counters.
    #[cfg(feature = "replay")]
    Record(record::Record),
    /// Simulate a scenario with the real filter and planner.
    #[cfg(feature = "replay")]
    Replay(replay::Replay),
    /// Play the experiments of files, beside the papers' figures.
    #[cfg(feature = "replay")]
    Experiment(experiment::ExperimentArguments),
    /// Solve an optimization problem of one of the papers.
    Solve(solve::Solve),
    #[cfg(feature = "kubernetes")]
    /// Write the manifests of a service for Envoy, Istio, Envoy Gateway or Kubernetes.
    Manifests(manifests::Manifests),
    /// Report all errors of a file, with line and column.
    Check(check::Check),
    /// Print the completion script of a shell.
    Completions(completions::Completions),
}

/// Prints an error with its causes on one line. An error of a user's file has no use for a backtrace.
fn main() -> ExitCode {
    match run() {
        Ok(exit) => exit.into(),
        Err(error) => {
            // After a lost terminal nobody reads it.
            let _ = writeln!(std::io::stderr(), "error: {}", on_one_line(&error));
            Exit::Failed.into()
        }
    }
}

/// An error and its causes, but for a cause that the message before it ends with.
fn on_one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

fn run() -> anyhow::Result<Exit> {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| moved::tip(error).exit());
    let command = arguments.command;
    // A report says what a replayed planner did: its warnings are of simulated backends, with times of this machine.
    let level = match command {
        #[cfg(feature = "replay")]
        Command::Replay(_) | Command::Experiment(_) => "off",
        Command::Serve(_) => "info",
        #[cfg(feature = "kubernetes")]
        Command::Operate(_) => "info",
        _ => "warn",
    };
    // kube logs every request that fails, without saying which; the planner logs an outage once.
    let usual = || EnvFilter::new(format!("{level},kube_client::client::builder=off"));
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| usual());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match command {
        Command::Serve(arguments) => serve(arguments)?,
        #[cfg(feature = "kubernetes")]
        Command::Operate(arguments) => operate(arguments)?,
        #[cfg(feature = "forecast")]
        Command::Forecast(arguments) => arguments.run()?,
        #[cfg(feature = "forecast")]
        Command::Train(arguments) => arguments.run()?,
        #[cfg(feature = "profile")]
        Command::Init(arguments) => init(arguments)?,
        #[cfg(feature = "profile")]
        Command::Profile(arguments) => profile(*arguments)?,
        #[cfg(feature = "replay")]
        Command::Record(arguments) => record(arguments)?,
        #[cfg(feature = "replay")]
        Command::Replay(arguments) => arguments.run()?,
        #[cfg(feature = "replay")]
        Command::Experiment(arguments) => arguments.run()?,
        Command::Status(arguments) => block_on(arguments.run())?,
        Command::Top(arguments) => top(arguments)?,
        Command::Why(arguments) => block_on(arguments.run())?,
        Command::Doctor(arguments) => return block_on(arguments.run()),
        Command::Solve(arguments) => return arguments.run(),
        #[cfg(feature = "kubernetes")]
        Command::Manifests(arguments) => arguments.run()?,
        Command::Check(arguments) => return arguments.run(),
        Command::Completions(arguments) => arguments.run()?,
    }
    Ok(Exit::Done)
}

#[tokio::main]
async fn serve(arguments: serve::Serve) -> anyhow::Result<()> {
    arguments.run(stop_on_signal()?).await
}

#[cfg(feature = "kubernetes")]
#[tokio::main]
async fn operate(arguments: operate::Operate) -> anyhow::Result<()> {
    arguments.run(stop_on_signal()?).await
}

#[tokio::main(flavor = "current_thread")]
async fn block_on<T>(command: impl Future<Output = T>) -> T {
    command.await
}

#[tokio::main(flavor = "current_thread")]
async fn top(arguments: top::Top) -> anyhow::Result<()> {
    arguments.run(stop_on_signal()?).await
}

#[cfg(feature = "profile")]
#[tokio::main(flavor = "current_thread")]
async fn profile(arguments: profile::Profile) -> anyhow::Result<()> {
    arguments.run(stop_on_signal()?).await
}

#[cfg(feature = "replay")]
#[tokio::main(flavor = "current_thread")]
async fn record(arguments: record::Record) -> anyhow::Result<()> {
    arguments.run(stop_on_signal()?).await
}

#[cfg(feature = "profile")]
#[tokio::main(flavor = "current_thread")]
async fn init(arguments: init::Init) -> anyhow::Result<()> {
    arguments.run().await
}

fn stop_on_signal() -> anyhow::Result<watch::Receiver<bool>> {
    let (sender, stop) = watch::channel(false);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = (!ignores_hangup())
        .then(|| signal(SignalKind::hangup()))
        .transpose()?;
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            Some(_) = async { hangup.as_mut()?.recv().await } => {}
        }
        // Fails if the planner has ended by itself.
        let _ = sender.send(true);
    });
    Ok(stop)
}

/// Whether the process was started to outlive its terminal, as by `nohup`: SIGHUP, the first of the signals, is ignored.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}
