//! Development commands: `cargo xtask setup | filter | console | image | release | demo | up | validate | experiments |
//! workers | kube | test | api | check-slot-table | fuzz | soak | bench | envoy | book`.
//!
//! Fetches and builds the requirements of a command, and sets its environment. The command then replaces
//! this process, so that signals and the exit code are its own.

mod api;
mod book;
mod browser;
mod chromium;
mod clients;
mod clock;
mod cluster;
mod compile;
mod console;
mod debian;
mod experiments;
mod fuzz;
mod image;
mod layout;
mod native;
mod node;
mod pinned;
mod promtool;
mod release;
mod setup;
mod slot_table;
mod trim;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use xshell::Shell;

use crate::layout::Layout;
use crate::setup::Tools;

/// First argument of `test` that selects the measurement with real model servers.
const REAL_SERVER: &str = "--real-server";

/// Development commands of Weir. Each fetches and builds its requirements first.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Fetch missing tools: the wasm target, Envoy, cmake and libclang, the clients and the browser of the tests. Needs no
    /// root.
    Setup {
        /// Print shell `export` lines instead, for calling cargo directly.
        #[arg(long)]
        print_env: bool,
    },
    /// Build the filter module and print its path.
    Filter,
    /// Build the console's module, and print its folder: a planner that is compiled with WEIR_CONSOLE set to it has the
    /// module.
    Console,
    /// Write the images of filter and planner into target/image, as OCI layouts, and print their digests.
    Image(image::Arguments),
    /// Build the command `weir` for long replays, and print its path: compiled twice, the second time with counts of the
    /// instructions that replays run.
    Release,
    /// Run the demo: plain, careful and weir under the same load (`demo --help` for its options).
    Demo(Passed),
    /// Start the demo's system without load, until interrupted.
    Up(Passed),
    /// Compare replay with a real Envoy at three loads.
    Validate(Passed),
    /// Play the experiments of the papers; a name plays that one alone, and other arguments go to `weir experiment`.
    Experiments(Passed),
    /// Measure the queue that workers share, on a real Envoy (`workers --help`).
    Workers(Passed),
    /// Measure the planner on an emulated Kubernetes (`kube --help`).
    Kube(Passed),
    /// Run all tests, including those with a real Envoy; arguments go to `cargo test`. With `--kubeconfig PATH`, run
    /// only the Kubernetes tests, on that cluster, in their own namespaces. With `--real-server`, put Weir before
    /// real model servers (`--real-server --help`).
    Test(Passed),
    /// Test the planner's REST API by its OpenAPI document, with a pinned Schemathesis.
    Api(api::Arguments),
    /// Run the long model check of the protocol by which workers share a queue. Takes minutes and gigabytes of memory.
    CheckSlotTable,
    /// Look for inputs and orders of events with which the filter breaks a promise, by libFuzzer; needs a C++ compiler.
    Fuzz(fuzz::Arguments),
    /// Let VMs trap under load (`soak --minutes 10`), and check that no request or slot is leaked.
    Soak {
        /// Duration of the load, in minutes.
        #[arg(long, default_value_t = 10.0, value_parser = minutes)]
        minutes: f64,
    },
    /// Run the benchmarks; arguments go to `cargo bench`.
    Bench(Passed),
    /// Run the pinned Envoy with these arguments.
    Envoy(Passed),
    /// Build the book of `docs/` into target/book, with a pinned mdBook. Warnings are errors.
    Book,
}

/// Arguments passed unchanged to the command of a task.
#[derive(Args)]
#[command(disable_help_flag = true)]
struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        // Only the chain of causes: a location in this program does not help.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let layout = Layout::find()?;
    match task {
        Task::Setup { print_env } => {
            let tools = Tools::ensure_for_tests(&layout)?;
            if print_env {
                print!("{}", tools.exports(&layout)?);
            } else {
                eprintln!("ready: {}", tools.summary());
            }
            Ok(())
        }
        Task::Filter => {
            let tools = Tools::ensure(&layout)?;
            let sh = tools.shell(&layout)?;
            compile::filter(&sh, &layout)?;
            println!("{}", layout.filter().display());
            Ok(())
        }
        Task::Console => {
            let sh = setup::for_browsers(&layout)?;
            console::build(&sh, &layout)?;
            println!("{}", layout.console().display());
            Ok(())
        }
        Task::Image(arguments) => image::make(&layout, &arguments),
        Task::Release => release::build(&layout),
        Task::Demo(_) => demo("demo", &layout),
        Task::Up(_) => demo("up", &layout),
        Task::Validate(_) => measure("validate", &layout),
        Task::Experiments(_) => experiments::run(&layout, passed()),
        Task::Workers(_) => measure("workers", &layout),
        Task::Kube(_) => measure("kube", &layout),
        Task::Test(_) => test(&layout),
        Task::Api(arguments) => api::run(&layout, &arguments),
        Task::CheckSlotTable => slot_table::check(&layout),
        Task::Fuzz(arguments) => fuzz::run(&layout, &arguments),
        Task::Soak { minutes } => soak(&layout, minutes),
        Task::Bench(_) => bench(&layout),
        Task::Envoy(_) => {
            let mut envoy = Command::new(setup::envoy(&layout)?.path);
            Err(replace(envoy.args(passed())))
        }
        Task::Book => book::build(&layout),
    }
}

fn demo(task: &str, layout: &Layout) -> Result<()> {
    let sh = Tools::ensure(layout)?.shell(layout)?;
    compile::demo(&sh, layout)?;
    become_program(&sh, &layout.binary("weir-demo"), task)
}

fn measure(task: &str, layout: &Layout) -> Result<()> {
    let sh = Tools::ensure(layout)?.shell(layout)?;
    compile::measure(&sh, layout)?;
    if task == "workers" {
        // The measurements include the cost of an acquire.
        compile::trapping_filter(&sh, layout)?;
    }
    become_program(&sh, &layout.binary("weir-measure"), task)
}

fn become_program(sh: &Shell, program: &Path, task: &str) -> Result<()> {
    // Paths in the arguments are relative to the caller's folder.
    let here = std::env::current_dir().context("where is this folder?")?;
    let mut command = Command::from(sh.cmd(program));
    Err(replace(command.arg(task).args(passed()).current_dir(here)))
}

fn test(layout: &Layout) -> Result<()> {
    if passed().next().is_some_and(|first| first == REAL_SERVER) {
        return real_server(layout);
    }
    let (kubeconfig, others) = cluster::kubeconfig(passed())?;
    if let Some(path) = kubeconfig {
        return cluster::test(layout, path, others);
    }
    let sh = ready_to_test(layout)?;
    promtool::test(layout)?;
    browser::test(&sh, layout)?;
    api::test(layout, api::CASES_OF_TESTS, 1)?;
    Err(replace(
        compile::cargo(&sh, &[["test"].as_slice(), &compile::TESTED].concat()).args(others),
    ))
}

/// Measures Weir before real model servers.
fn real_server(layout: &Layout) -> Result<()> {
    let sh = Tools::ensure(layout)?.shell(layout)?;
    let arguments: Vec<OsString> = passed().skip(1).collect();
    let texts: Vec<String> = arguments
        .iter()
        .map(|one| one.to_string_lossy().into_owned())
        .collect();
    let servers = clients::model_servers(layout, &texts)?;
    compile::measure(&sh, layout)?;
    let mut command = Command::from(sh.cmd(layout.binary("weir-measure")));
    for (name, python) in servers {
        command.env(format!("WEIR_{}", name.to_uppercase()), python);
    }
    Err(replace(command.arg("real-server").args(arguments)))
}

fn soak(layout: &Layout, minutes: f64) -> Result<()> {
    let sh = ready_to_test(layout)?;
    let selection = [
        "--test",
        "under_load",
        "--",
        "--nocapture",
        "--exact",
        "soak::it_lasts",
    ];
    Err(replace(
        compile::cargo(
            &sh,
            &[["test"].as_slice(), &compile::TESTED, &selection].concat(),
        )
        .env("WEIR_SOAK_SECONDS", (minutes * 60.0).to_string()),
    ))
}

fn ready_to_test(layout: &Layout) -> Result<Shell> {
    let tools = Tools::ensure_for_tests(layout)?;
    let sh = tools.shell(layout)?;
    compile::all_tests(&sh, layout)?;
    clock::library(layout)?;
    Ok(sh)
}

/// Parses a duration within the limit.
fn minutes(text: &str) -> Result<f64> {
    /// One day.
    const MINUTES_MAX: f64 = 24.0 * 60.0;
    let minutes: f64 = text.parse().context("that is no number of minutes")?;
    if !(minutes > 0.0 && minutes <= MINUTES_MAX) {
        bail!("{minutes} must be above 0 and at most {MINUTES_MAX}");
    }
    Ok(minutes)
}

fn bench(layout: &Layout) -> Result<()> {
    const BENCHED: [(&str, &str); 3] = [
        ("filter", "weir-filter"),
        ("planner", "weir-planner"),
        ("planner/solve", "weir-solve"),
    ];
    let tools = Tools::ensure_with_highs(layout)?;
    let sh = tools.shell(layout)?;
    let packages: Vec<_> = BENCHED
        .into_iter()
        .filter(|(folder, _)| layout.root.join(folder).join("benches").is_dir())
        .flat_map(|(_, package)| ["--package", package])
        .collect();
    if packages.is_empty() {
        eprintln!("no crate has benches yet");
        return Ok(());
    }
    let arguments = [
        &["bench", "--bench", "*", "--features", "weir-solve/highs"],
        packages.as_slice(),
    ]
    .concat();
    Err(replace(compile::cargo(&sh, &arguments).args(passed())))
}

/// Arguments after the task, from the process rather than the parser, which would remove a
/// `--`.
fn passed() -> impl Iterator<Item = OsString> {
    std::env::args_os().skip(2)
}

/// Replaces this process by `command`; returns only on failure.
fn replace(command: &mut Command) -> anyhow::Error {
    let program = Path::new(command.get_program()).display().to_string();
    let error = command.exec();
    anyhow::Error::new(error).context(format!("cannot run {program}"))
}

/// Returns the first line of a program's `--version`, or the error.
fn version_of(program: &Path) -> Result<String> {
    let shown = program.display();
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("{shown} does not start"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{shown} --version failed ({}): {}",
            output.status,
            stderr.trim()
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim()
        .to_owned())
}
