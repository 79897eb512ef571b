//! The command line of `weir-planner`. It reads arguments, the service file, the key and signals,
//! and leaves the rest to the library. The only place with `anyhow`, together with [`command`].

mod command;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;
use weir_planner::config::{ServiceFile, ServiceSpec};
use weir_planner::serve::serve;

/// Plans which model variants serve, with how many cores and what share of the traffic.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Plan for a service until interrupted.
    Serve(Serve),
    /// Plan for the SloServices of a Kubernetes cluster until interrupted.
    Operate(command::Operate),
    /// Play a scenario in virtual time.
    Replay(command::Replay),
    /// Solve a problem of one of the papers.
    Solve(command::Solve),
    /// Write what attaches a service to Envoy, Istio, Envoy Gateway or Kubernetes.
    Manifests(command::Manifests),
}

#[derive(Debug, clap::Args)]
struct Serve {
    /// The service file (YAML).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Where to answer, instead of the file's `listen`; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Write the address that is answered on into this file, once it is.
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let command = Arguments::parse().command;
    // A replayed planner's every plan would drown what the replay itself has to say.
    let level = match command {
        Command::Serve(_) | Command::Operate(_) => "info",
        Command::Replay(_) | Command::Solve(_) | Command::Manifests(_) => "warn",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match command {
        Command::Serve(arguments) => run(arguments)?,
        Command::Operate(arguments) => operate(arguments)?,
        Command::Replay(arguments) => arguments.run()?,
        Command::Solve(arguments) => return arguments.run(),
        Command::Manifests(arguments) => arguments.run()?,
    }
    Ok(ExitCode::SUCCESS)
}

#[tokio::main]
async fn operate(arguments: command::Operate) -> anyhow::Result<()> {
    arguments.run(stop_on_signal()?).await
}

#[tokio::main]
async fn run(arguments: Serve) -> anyhow::Result<()> {
    let path = &arguments.config;
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("service file {}", path.display()))?;
    let file = ServiceSpec::of_file(path, &text).and_then(ServiceFile::try_from);
    let file = file.with_context(|| format!("service file {}", path.display()))?;
    let key = file
        .key
        .read()
        .with_context(|| format!("service file {}", path.display()))?;
    let stop = stop_on_signal()?;
    let address = arguments.listen.unwrap_or(file.listen);
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| {
        format!("listen: {address} cannot be had; name a free one with --listen")
    })?;
    let address = listener.local_addr()?;
    if let Some(file) = &arguments.address_file {
        write_whole(file, &format!("{address}\n"))
            .with_context(|| format!("--address-file {}", file.display()))?;
    }
    tracing::info!(
        "planning for {} on http://{address}, mode {:?}",
        file.service.name,
        file.service.mode
    );
    serve(file.service, key, listener, stop).await?;
    tracing::info!("ended");
    Ok(())
}

/// Readers see the whole text or no file.
fn write_whole(file: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, file)
}

fn stop_on_signal() -> anyhow::Result<watch::Receiver<bool>> {
    let (sender, stop) = watch::channel(false);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        // Nobody is left to tell where the planner ended by itself.
        let _ = sender.send(true);
    });
    Ok(stop)
}
