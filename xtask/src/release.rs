//! `cargo xtask release`: the command `weir` for long replays, by profile-guided optimization of the compiler.
//!
//! The fetch of its own instructions slows a replay most, and the compiler places them better if it knows which of
//! them run. So the crates of the workspace are compiled with counters, some scenarios are played, and the
//! crates are compiled again with the counts. Dependencies are compiled once, without counters.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use xshell::{Shell, cmd};

use crate::compile;
use crate::layout::Layout;

/// Scenarios that are played for the counts, each with a load as a multiple of its servers' capacity where it is not
/// its own. `speed.yaml` is none of them: a figure should not come from what the compiler was shown.
const PLAYED: [(&str, Option<&str>); 8] = [
    ("capacity.yaml", Some("0.7")),
    ("capacity.yaml", Some("1.5")),
    ("capacity.yaml", Some("3")),
    ("burst.yaml", None),
    ("pipeline.yaml", None),
    ("replicas.yaml", None),
    ("sponge.yaml", None),
    ("two-services.yaml", None),
];

/// Compiles `weir` twice, with the played scenarios in between, and prints its path.
pub(crate) fn build(layout: &Layout) -> Result<()> {
    let merge = merge_program(layout)?;
    let sh = Shell::new()?;
    sh.change_dir(&layout.root);
    let folder = layout.counts();
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;

    let raw = folder.join("raw");
    let compiler = folder.join("compiler");
    write_compiler(&compiler, "-Cprofile-generate", &raw)?;
    compile::released_command_line(&sh, &compiler)?;
    // Out of the way: nobody should take the slow program for the released one.
    let slow = folder.join("weir");
    std::fs::rename(layout.released_planner(), &slow).context("cannot move the slow program")?;
    for (at, (scenario, of_capacity)) in PLAYED.iter().enumerate() {
        eprintln!(
            "release: playing {scenario} ({} of {})",
            at + 1,
            PLAYED.len()
        );
        play(layout, &slow, scenario, *of_capacity)?;
    }

    let counts = folder.join("counts.profdata");
    eprintln!("release: adding up the counts");
    cmd!(sh, "{merge} merge --output {counts} {raw}")
        .quiet()
        .run()
        .context("the counts cannot be added up")?;
    write_compiler(&compiler, "-Cprofile-use", &counts)?;
    compile::released_command_line(&sh, &compiler)?;
    println!("{}", layout.released_planner().display());
    Ok(())
}

/// Writes a program that runs the compiler with `flag=path` beside its other arguments. Cargo runs it for the crates of
/// the workspace alone. Both times it has the same path: functions get their names by it, and counts are found by name.
fn write_compiler(program: &Path, flag: &str, path: &Path) -> Result<()> {
    let about = || format!("cannot write {}", program.display());
    let path = path.to_str().context("the build folder is not UTF-8")?;
    ensure!(
        !path.contains('\''),
        "{path}: the build folder's path must have no quotation mark"
    );
    let text = format!("#!/bin/sh\nexec \"$@\" '{flag}={path}'\n");
    std::fs::write(program, text).with_context(about)?;
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(program, executable).with_context(about)
}

/// Plays a scenario with all of its contenders. The program writes its counts as it ends.
fn play(layout: &Layout, program: &Path, scenario: &str, of_capacity: Option<&str>) -> Result<()> {
    let mut command = Command::new(program);
    command.arg("replay").arg(layout.scenarios().join(scenario));
    if let Some(of_capacity) = of_capacity {
        command.args(["--of-capacity", of_capacity]);
    }
    let status = command.stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot play {scenario}"))?;
    if !status.success() {
        bail!("{scenario} cannot be played ({status})");
    }
    Ok(())
}

/// Path of the program that adds up counts, which must be of the compiler's version. Adds the toolchain's component
/// with it if it is missing.
fn merge_program(layout: &Layout) -> Result<PathBuf> {
    let sh = Shell::new()?;
    sh.change_dir(&layout.root);
    let libraries = cmd!(sh, "rustc --print target-libdir").quiet().read();
    let libraries = PathBuf::from(libraries.context("cannot run rustc")?);
    let program = libraries.with_file_name("bin").join("llvm-profdata");
    if !program.is_file() {
        eprintln!("release: adding the toolchain's llvm-tools");
        cmd!(sh, "rustup component add llvm-tools")
            .quiet()
            .run()
            .context("the toolchain has no llvm-tools; with rustup and a network, `rustup component add llvm-tools` adds them")?;
    }
    ensure!(
        program.is_file(),
        "{}: not there after `rustup component add llvm-tools`; the compiler must be rustup's",
        program.display()
    );
    Ok(program)
}
