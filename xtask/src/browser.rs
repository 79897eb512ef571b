//! Comparison of a replay in a browser's engine with the same replay on this machine: the reports are equal to the
//! byte. The console's module answers problems there as `weir solve` does.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use xshell::Shell;

use crate::compile;
use crate::layout::Layout;
use crate::node::Node;

/// Folder of the program that replays, its scenario and the comparison.
const FOLDER: &str = "tests/browser";

/// Compiles solvers and replay for browsers, and runs the replay in node. `weir` is compiled already.
pub(crate) fn test(sh: &Shell, layout: &Layout) -> Result<()> {
    compile::for_browsers(sh)?;
    let node = Node::ensure(layout)?.program;
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
    let status = Command::new(&node)
        .arg(folder.join("run.mjs"))
        .arg(layout.browser_module())
        .arg(&expected)
        .status()
        .context("cannot run node")?;
    ensure!(
        status.success(),
        "the replay for browsers differs from weir replay"
    );
    test_console(layout, &node, &folder)
}

/// Runs the console's module in node, and compares its answers with those of `weir solve`.
fn test_console(layout: &Layout, node: &Path, folder: &Path) -> Result<()> {
    let problems = folder.join("problems.jsonl");
    let text = std::fs::read_to_string(&problems)
        .with_context(|| format!("cannot read {}", problems.display()))?;
    let mut answers = String::new();
    let problem = layout.console().join("problem.json");
    for line in text.lines() {
        std::fs::write(&problem, line)?;
        let solved = Command::new(layout.binary("weir"))
            .args(["solve", "--json"])
            .arg(&problem)
            .output()
            .context("cannot run weir solve")?;
        // The text as it is: numbers may change in their last digit when they are read and written again.
        let answer = String::from_utf8(solved.stdout).context("weir solve")?;
        answers += &answer.replace('\n', " ");
        answers.push('\n');
    }
    let expected = layout.console().join("answers.jsonl");
    std::fs::write(&expected, answers)?;
    let status = Command::new(node)
        .arg(folder.join("console.mjs"))
        .arg(layout.console())
        .arg(&problems)
        .arg(&expected)
        .arg(folder.join("three-stages.yaml"))
        .arg(folder.join("scenario.yaml"))
        .status()
        .context("cannot run node")?;
    ensure!(status.success(), "the console's module fails in node");
    Ok(())
}
