//! Comparison of a replay in a browser's engine with the same replay on this machine: the reports are equal to the
//! byte. Needs node; without it only the compilation is checked, and that is printed.

use std::io::ErrorKind;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use xshell::Shell;

use crate::compile;
use crate::layout::Layout;

/// Folder of the program that replays, its scenario and the comparison.
const FOLDER: &str = "tests/browser";

/// Compiles solvers and replay for browsers, and runs the replay in node. `weir` is compiled already.
pub(crate) fn test(sh: &Shell, layout: &Layout) -> Result<()> {
    compile::for_browsers(sh)?;
    match Command::new("node").arg("--version").output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("node is not installed: the replay for browsers is compiled, and not run");
            return Ok(());
        }
        other => other.context("cannot run node")?,
    };
    let folder = layout.root.join(FOLDER);
    let replayed = Command::new(layout.binary("weir"))
        .arg("replay")
        .arg(folder.join("scenario.yaml"))
        .arg("--json")
        .output()
        .context("cannot run weir replay")?;
    let errors = String::from_utf8_lossy(&replayed.stderr);
    ensure!(replayed.status.success(), "weir replay failed: {errors}");
    let expected = layout.browser_report();
    std::fs::write(&expected, &replayed.stdout)
        .with_context(|| format!("cannot write {}", expected.display()))?;
    let status = Command::new("node")
        .arg(folder.join("run.mjs"))
        .arg(layout.browser_module())
        .arg(&expected)
        .status()
        .context("cannot run node")?;
    ensure!(
        status.success(),
        "the replay for browsers differs from weir replay"
    );
    Ok(())
}
