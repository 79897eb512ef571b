//! Where the programs under test are: what `cargo xtask` names in the environment, or else what lies in
//! cargo's build folder. What is not there is an error that says how to make it, never a skip.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// The Envoy to run.
///
/// # Errors
/// There is none.
pub fn envoy() -> Result<PathBuf> {
    artefact("WEIR_ENVOY_BIN", "tools/envoy/envoy/_bin/envoy", "Envoy")
}

/// The filter module.
///
/// # Errors
/// There is none.
pub fn filter() -> Result<PathBuf> {
    let built = "filter/weir_filter.wasm";
    artefact("WEIR_FILTER_WASM", built, "filter module")
}

/// The filter module that traps where a request asks for it; never shipped.
///
/// # Errors
/// There is none.
pub fn trapping_filter() -> Result<PathBuf> {
    let built = "trap/filter/weir_filter.wasm";
    artefact("WEIR_FILTER_TRAP_WASM", built, "trapping filter module")
}

/// The wall clock that jumps, to be preloaded.
///
/// # Errors
/// There is none.
pub fn clock() -> Result<PathBuf> {
    artefact("WEIR_CLOCK_LIB", "tools/clock/libclock.so", "clock")
}

/// The planner.
///
/// # Errors
/// There is none.
pub fn planner() -> Result<PathBuf> {
    artefact("WEIR_BIN", "weir", "planner")
}

/// A Python that finds tritonclient.
///
/// # Errors
/// There is none.
pub fn tritonclient() -> Result<PathBuf> {
    let fetched = "tools/tritonclient/python";
    artefact("WEIR_TRITONCLIENT", fetched, "tritonclient")
}

/// nghttp2's load generator.
///
/// # Errors
/// There is none.
pub fn h2load() -> Result<PathBuf> {
    artefact("WEIR_H2LOAD", "tools/h2load/h2load", "h2load")
}

/// What the variable names, else what lies at `built` in a folder above this program.
fn artefact(variable: &str, built: &str, what: &str) -> Result<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let program = std::env::current_exe().context("where is this program?")?;
    let mut above = program.ancestors().map(|folder| folder.join(built));
    named
        .or_else(|| above.find(|path| path.is_file()))
        .filter(|path| path.is_file())
        .with_context(|| format!("there is no {what} ({variable}): run `cargo xtask test`"))
}
