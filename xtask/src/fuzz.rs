//! `cargo xtask fuzz`: libFuzzer on the targets of `filter/fuzz`, each for a time, beginning with its committed corpus.
//!
//! Stable Rust: the compiler's own pass counts what an input covers, and libFuzzer is compiled by the C++ compiler.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use xshell::Shell;

use crate::compile;
use crate::layout::Layout;

/// Compiler flags: coverage of branches, and comparisons, for libFuzzer; and all checks.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";
/// Longest input, in bytes: some hundred events.
const INPUT_MAX: usize = 1024;
/// Longest time of one input, in seconds; a loop without an end is a finding.
const INPUT_TIMEOUT_S: u32 = 10;

/// Maximum number of inputs in a committed corpus.
const KEPT_MAX: usize = 130;

/// Arguments of `fuzz`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The only target to run.
    target: Option<Target>,
    /// Time for each target.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Write the smallest corpora with the same coverage, new inputs included, into filter/fuzz/corpus.
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Target {
    Bytes,
    Engine,
    Shell,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Bytes => "bytes",
            Target::Engine => "engine",
            Target::Shell => "shell",
        }
    }
}

/// Builds the program, and runs the targets one after the other.
pub(crate) fn run(layout: &Layout, arguments: &Arguments) -> Result<()> {
    let sh = Shell::new().context("which folder is this?")?;
    sh.change_dir(&layout.root);
    let build = layout.fuzz();
    let program = compile::fuzzer(&sh, &build, FLAGS)?;
    let targets = match arguments.target {
        Some(only) => vec![only],
        None => Target::value_variants().to_vec(),
    };
    for target in targets {
        let name = target.name();
        let committed = layout.root.join("filter/fuzz/corpus").join(name);
        let found = build.join("corpus").join(name);
        std::fs::create_dir_all(&found)
            .with_context(|| format!("cannot create {}", found.display()))?;
        let begin = || {
            let mut command = Command::new(&program);
            command.env("WEIR_FUZZ", name).current_dir(&layout.root);
            command.arg(format!("-max_len={INPUT_MAX}"));
            command
        };
        let mut search = begin();
        search
            .arg(format!("-max_total_time={}", arguments.seconds))
            .arg(format!("-timeout={INPUT_TIMEOUT_S}"))
            .arg(format!("-artifact_prefix={}/{name}-", build.display()))
            .args(["-print_final_stats=1", "-reload=0"])
            .args([&found, &committed]);
        let status = search.status().context("cannot run the fuzzer")?;
        ensure!(
            status.success(),
            "{name}: a promise is broken, see above; the input is in {}/{name}-*. Play it with: WEIR_FUZZ={name} {} FILE",
            build.display(),
            program.display()
        );
        if arguments.keep {
            keep(begin(), &found, &committed)?;
        }
    }
    Ok(())
}

/// Replaces the committed corpus by the smallest one with its coverage and that of what was found, up to [`KEPT_MAX`].
fn keep(mut merge: Command, found: &Path, committed: &Path) -> Result<()> {
    let fresh = found.with_extension("kept");
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh)?;
    }
    std::fs::create_dir_all(&fresh)?;
    // By branches alone: with their counts there would be thousands.
    let merge = merge.args(["-set_cover_merge=1", "-use_counters=0"]);
    let status = merge.args([fresh.as_path(), found, committed]).status()?;
    ensure!(status.success(), "the corpora cannot be merged");
    for old in std::fs::read_dir(committed)? {
        std::fs::remove_file(old?.path())?;
    }
    let mut inputs = Vec::new();
    for new in std::fs::read_dir(&fresh)? {
        let new = new?;
        inputs.push((new.metadata()?.len(), new.file_name()));
    }
    // The longest cover most; the rest is soon found again.
    inputs.sort_unstable();
    for (_, name) in inputs.iter().rev().take(KEPT_MAX) {
        std::fs::copy(fresh.join(name), committed.join(name))?;
    }
    Ok(())
}
