//! Compiles the filter module and the programs for the demo and the tests.
//!
//! The planner of demo, tests and images has the console's module, which is compiled before it.
//!
//! The demo compiles only its own programs, without HiGHS, Kubernetes and replay. Tests compile the whole workspace in
//! one command, with HiGHS: another selection of packages would unify other features, and compile their dependencies
//! again.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use xshell::Shell;

use crate::console;
use crate::layout::{BROWSER_TARGET, Layout, WASM_TARGET};
use crate::trim::trim;

/// Cargo arguments for the filter module.
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
/// Cargo arguments for the console's module.
const CONSOLE: [&str; 8] = [
    "build",
    "--package",
    "weir-console",
    "--lib",
    "--target",
    BROWSER_TARGET,
    "--profile",
    "console",
];
/// Cargo arguments for the demo's programs.
const DEMO: [&str; 6] = [
    "build",
    "--package",
    "weir",
    "--package",
    "weir-demo",
    "--no-default-features",
];
/// Cargo arguments for the measurement programs.
const MEASURE: [&str; 5] = ["build", "--package", "weir", "--package", "weir-measure"];
/// Cargo arguments for all tests.
pub(crate) const TESTED: [&str; 3] = ["--workspace", "--features", "weir/highs"];

/// Compiles the filter module first (fast, and most likely to fail), then planner and demo.
pub(crate) fn demo(sh: &Shell, layout: &Layout) -> Result<()> {
    filter(sh, layout)?;
    console::build(sh, layout)?;
    run(sh, &DEMO).context("the demo does not compile")
}

/// Compiles the filter module, then the measurement programs.
pub(crate) fn measure(sh: &Shell, layout: &Layout) -> Result<()> {
    filter(sh, layout)?;
    run(sh, &MEASURE).context("weir-measure does not compile")
}

/// Compiles the planner's command line alone.
pub(crate) fn command_line(sh: &Shell) -> Result<()> {
    run(sh, &["build", "--package", "weir"]).context("weir does not compile")
}

/// Compiles both filter modules, then the programs and all tests.
pub(crate) fn all_tests(sh: &Shell, layout: &Layout) -> Result<()> {
    filter(sh, layout)?;
    trapping_filter(sh, layout)?;
    console::build(sh, layout)?;
    console::into_book(layout, &layout.console_book())?;
    run(sh, &[["test"].as_slice(), &TESTED, &["--no-run"]].concat())
        .context("the workspace does not compile")
}

/// Compiles the filter module alone.
pub(crate) fn filter(sh: &Shell, layout: &Layout) -> Result<()> {
    run(sh, &FILTER).context("the filter does not compile")?;
    trim(&layout.filter_untrimmed(), &layout.filter())
}

/// Compiles the filter module that traps on demand, used only by tests.
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

/// Compiles the planner for release, without debug assertions.
pub(crate) fn planner_for_release(sh: &Shell, layout: &Layout) -> Result<()> {
    console::build(sh, layout)?;
    let build = [
        "build",
        "--release",
        "--package",
        "weir",
        "--no-default-features",
        "--features",
        "kubernetes,traces",
    ];
    run(sh, &build).context("the planner does not compile")
}

/// Compiles the planner's command line for release; `compiler` compiles the crates of the workspace, all of them anew,
/// because cargo does not see that its flags have changed.
pub(crate) fn released_command_line(sh: &Shell, compiler: &Path) -> Result<()> {
    run(sh, &["clean", "--release", "--workspace"]).context("old files stay")?;
    sh.set_var("RUSTC_WORKSPACE_WRAPPER", compiler);
    run(sh, &["build", "--release", "--package", "weir"]).context("weir does not compile")
}

/// Compiles the program of the fuzz targets into `folder`, and returns its path. With a target named, the flags are for
/// it alone, and not for build scripts.
pub(crate) fn fuzzer(sh: &Shell, folder: &Path, flags: &str) -> Result<PathBuf> {
    let version = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("cannot run rustc")?;
    let version = String::from_utf8(version.stdout).context("rustc -vV is no text")?;
    let mut lines = version.lines();
    let host = lines
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc names no host")?;
    let folder_name = folder.to_str().context("the build folder is not UTF-8")?;
    sh.set_var("RUSTFLAGS", flags);
    let build = [
        "build",
        "--release",
        "--package",
        "weir-fuzz",
        "--features",
        "libfuzzer",
    ];
    let place = ["--target", host, "--target-dir", folder_name];
    run(sh, &[build.as_slice(), &place].concat()).context("the fuzz targets do not compile")?;
    Ok(folder.join(host).join("release/weir-fuzz"))
}

/// Compiles the console's module.
pub(crate) fn console(sh: &Shell) -> Result<()> {
    run(sh, &CONSOLE).context("the console's module does not compile")
}

/// Compiles the solvers and a replay for browsers: without HiGHS, files, sockets and a clock.
pub(crate) fn for_browsers(sh: &Shell) -> Result<()> {
    let target = ["--target", BROWSER_TARGET];
    let check = ["check", "--package", "weir-solve", "--lib"];
    run(sh, &[check.as_slice(), &target].concat())
        .context("the solvers do not compile for a browser")?;
    let build = ["build", "--package", "weir-browser"];
    run(sh, &[build.as_slice(), &target].concat())
        .context("the replay does not compile for a browser")
}

/// Cargo with these arguments, printed. Uses the cargo that runs this program, so that both have the same
/// toolchain. Removes the variables about this program's package: they are not set in a shell, and build
/// scripts and their dependents run again if they differ.
pub(crate) fn cargo(sh: &Shell, args: &[&str]) -> Command {
    eprintln!("$ cargo {}", args.join(" "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::from(sh.cmd(cargo).args(args));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_a_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Whether cargo sets that variable for a package of the workspace.
fn is_of_a_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

fn run(sh: &Shell, args: &[&str]) -> Result<()> {
    let status = cargo(sh, args).status().context("cannot run cargo")?;
    anyhow::ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}
