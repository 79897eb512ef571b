//! Builds the book in `docs/` with a pinned mdBook, and the console without a planner into it.
//!
//! Decides the version, and that a warning is an error. Never uses another mdBook that may be installed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use xshell::Shell;

use crate::layout::Layout;
use crate::pinned::remove;
use crate::{compile, console, setup, version_of};

/// Version of mdBook. The lock file of its package pins everything it is made of.
const VERSION: &str = "0.5.4";

/// Builds the book and prints its first page.
pub(crate) fn build(layout: &Layout) -> Result<()> {
    let program = mdbook(layout)?;
    let book = layout.book();
    remove(&book)?;
    let output = std::process::Command::new(&program)
        .arg("build")
        .arg(layout.root.join("docs"))
        .arg("--dest-dir")
        .arg(&book)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let log = String::from_utf8_lossy(&output.stderr);
    eprint!("{log}");
    if !output.status.success() || has_warnings(&log) {
        bail!("mdBook found something to mend in docs/");
    }
    console::build(&setup::for_browsers(layout)?, layout)?;
    console::into_book(layout, &book)?;
    println!("{}", book.join("index.html").display());
    Ok(())
}

/// Returns the pinned mdBook, after installing it where it is missing.
fn mdbook(layout: &Layout) -> Result<PathBuf> {
    let tools = layout.tools();
    let folder = tools.join("mdbook");
    let program = folder.join("bin/mdbook");
    if is_pinned(&program) {
        return Ok(program);
    }
    fs::create_dir_all(&tools).with_context(|| format!("cannot create {}", tools.display()))?;
    let lock = File::create(tools.join(".lock")).context("cannot create the tools' lock")?;
    lock.lock().context("cannot lock the tools")?;
    if is_pinned(&program) {
        return Ok(program);
    }
    eprintln!(
        "setup: installing mdBook {VERSION} into {}",
        folder.display()
    );
    let aside = tools.join(".mdbook.partial");
    remove(&aside)?;
    install(layout, &aside).with_context(|| format!("mdBook {VERSION} could not be installed"))?;
    remove(&folder)?;
    fs::rename(&aside, &folder)
        .with_context(|| format!("cannot move {} into its place", aside.display()))?;
    Ok(program)
}

fn install(layout: &Layout, into: &Path) -> Result<()> {
    let sh = Shell::new()?;
    sh.change_dir(&layout.root);
    let into = into.to_str().context("the build folder is not UTF-8")?;
    let version = format!("={VERSION}");
    let arguments = [
        "install",
        "mdbook",
        "--version",
        &version,
        "--locked",
        "--no-default-features",
        "--features",
        "search",
        "--root",
        into,
    ];
    let status = compile::cargo(&sh, &arguments)
        .status()
        .context("cannot run cargo")?;
    anyhow::ensure!(status.success(), "cargo install failed");
    anyhow::ensure!(
        is_pinned(&Path::new(into).join("bin/mdbook")),
        "the installed mdBook is not {VERSION}"
    );
    Ok(())
}

fn is_pinned(program: &Path) -> bool {
    version_of(program).is_ok_and(|version| version == format!("mdbook v{VERSION}"))
}

/// Whether a log of mdBook has a line of level `WARN` or `ERROR`.
fn has_warnings(log: &str) -> bool {
    log.split_whitespace()
        .any(|word| matches!(word.trim_matches(['[', ']']), "WARN" | "ERROR"))
}

#[cfg(test)]
mod tests {
    use super::has_warnings;

    #[test]
    fn warnings_and_errors_are_found_in_logs() {
        for (log, found) in [
            (" INFO Book building has started\n", false),
            (" WARN unclosed HTML tag `<b>`\n", true),
            ("2026-11-25 12:00:00 [ERROR] (mdbook): no such file\n", true),
            ("", false),
        ] {
            assert_eq!(has_warnings(log), found, "{log}");
        }
    }
}
