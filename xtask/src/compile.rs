//! Compiles what the demo and the tests run: the filter module and the programs.
//!
//! The demo compiles its own programs alone, without HiGHS. Tests compile the whole workspace in one go, with HiGHS:
//! another selection of packages would unify other features, and compile again what they are made of.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::{Context, Result};
use xshell::Shell;

use crate::layout::{BROWSER_TARGET, Layout, WASM_TARGET};
use crate::trim::trim;

/// Cargo's arguments for what the tests and the demo are made of.
const FILTER: [&str; 8] = [
    "build",
    "--package",
    "weir-filter",
    "--lib",
    "--target",
    WASM_TARGET,
    "--profile",
    "wasm",
];
/// The programs that the demo runs.
const DEMO: [&str; 5] = ["build", "--package", "weir", "--package", "weir-demo"];
/// The programs that measure.
const MEASURE: [&str; 5] = ["build", "--package", "weir", "--package", "weir-measure"];
/// All that is tested, and all that tests it.
pub(crate) const TESTED: [&str; 3] = ["--workspace", "--features", "weir/highs"];

/// The filter module first (short, and what most often fails), then planner and demo.
pub(crate) fn demo(sh: &Shell, layout: &Layout) -> Result<()> {
    filter(sh, layout)?;
    run(sh, &DEMO).context("the demo does not compile")
}

/// The same, for the program that measures.
pub(crate) fn measure(sh: &Shell, layout: &Layout) -> Result<()> {
    filter(sh, layout)?;
    run(sh, &MEASURE).context("weir-measure does not compile")
}

/// Both filter modules, then the programs and all that tests them.
pub(crate) fn all_tests(sh: &Shell, layout: &Layout) -> Result<()> {
    filter(sh, layout)?;
    trapping_filter(sh, layout)?;
    run(sh, &[["test"].as_slice(), &TESTED, &["--no-run"]].concat())
        .context("the workspace does not compile")
}

/// The filter module alone.
pub(crate) fn filter(sh: &Shell, layout: &Layout) -> Result<()> {
    run(sh, &FILTER).context("the filter does not compile")?;
    trim(&layout.filter_untrimmed(), &layout.filter())
}

/// The filter module that traps on demand, for the tests alone.
pub(crate) fn trapping_filter(sh: &Shell, layout: &Layout) -> Result<()> {
    let folder = layout.trap();
    let folder = folder.to_str().context("the build folder is not UTF-8")?;
    let apart = ["--features", "trap", "--target-dir", folder];
    run(sh, &[FILTER.as_slice(), &apart].concat())
        .context("the trapping filter does not compile")?;
    trim(
        &layout.trapping_filter_untrimmed(),
        &layout.trapping_filter(),
    )
}

/// The planner without debug assertions: what is shipped.
pub(crate) fn planner_for_release(sh: &Shell) -> Result<()> {
    let build = [
        "build",
        "--release",
        "--package",
        "weir",
        "--no-default-features",
    ];
    run(sh, &build).context("the planner does not compile")
}

/// That the solvers compile where there is neither HiGHS nor a clock.
pub(crate) fn solvers_for_browsers(sh: &Shell) -> Result<()> {
    let check = ["check", "--package", "weir-solve", "--lib"];
    run(
        sh,
        &[check.as_slice(), &["--target", BROWSER_TARGET]].concat(),
    )
    .context("the solvers do not compile for a browser")
}

/// Cargo with these arguments, announced; the one that runs this program, so that both are of one
/// toolchain. It knows nothing of this program's package, as it would not from a shell: build scripts run again,
/// and all that follows from them, where such a variable differs.
pub(crate) fn cargo(sh: &Shell, args: &[&str]) -> Command {
    eprintln!("$ cargo {}", args.join(" "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::from(sh.cmd(cargo).args(args));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_a_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Whether cargo gives a program of its workspace that variable about its package.
fn is_of_a_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

fn run(sh: &Shell, args: &[&str]) -> Result<()> {
    let status = cargo(sh, args).status().context("cannot run cargo")?;
    anyhow::ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}
