//! Compiles the wall clock that jumps (`tests/bed/src/envoy/clock.c`), which one test preloads into Envoy.
//!
//! Compiles only if the source has changed: a stamp file has its text, and is written last. Used only by
//! tests.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::layout::Layout;

const SOURCE: &str = "tests/bed/src/envoy/clock.c";

/// Returns the library to preload, compiled if necessary.
pub(crate) fn library(layout: &Layout) -> Result<PathBuf> {
    let source = layout.root.join(SOURCE);
    let expected = fs::read_to_string(&source).with_context(|| format!("cannot read {SOURCE}"))?;
    let folder = layout.tools().join("clock");
    let (library, stamp) = (layout.clock(), folder.join("stamp"));
    if library.is_file() && fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == expected) {
        return Ok(library);
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Compiled elsewhere and renamed, because another command may be using the old one.
    let aside = folder.join(format!(".{}.partial", std::process::id()));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler)
        .args([
            "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o",
        ])
        .arg(&aside)
        .arg(&source)
        .output()
        .context("cannot run the C compiler: install one (Debian: gcc) or name it in CC")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "{SOURCE} does not compile: {stderr}"
    );
    fs::rename(&aside, &library)
        .with_context(|| format!("cannot move {} into its place", aside.display()))?;
    fs::write(stamp, expected).context("cannot write the stamp")?;
    Ok(library)
}
